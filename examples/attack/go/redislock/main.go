// bsm/redislock.
package main

import (
	"context"
	"errors"

	"github.com/bsm/redislock"

	"picklock/attack/worker"
)

func main() {
	locker := redislock.New(worker.Client())
	ctx := context.Background()
	var lock *redislock.Lock

	acquire := func() (string, error) {
		var err error
		lock, err = locker.Obtain(ctx, worker.Key(), worker.TTL(), nil)
		if errors.Is(err, redislock.ErrNotObtained) {
			return "no", nil
		}
		return "ok", err
	}
	check := func() (string, error) {
		left, err := lock.TTL(ctx)
		return worker.Whether(left > 0), err
	}
	release := func() (string, error) {
		err := lock.Release(ctx)
		if errors.Is(err, redislock.ErrLockNotHeld) {
			return "no", nil
		}
		return "ok", err
	}
	worker.Serve("checks", acquire, check, release)
}
