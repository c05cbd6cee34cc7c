// redsync, on one server or several.
package main

import (
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"picklock/attack/worker"
)

func main() {
	var pools []redis.Pool
	for _, client := range worker.Clients() {
		pools = append(pools, goredis.NewPool(client))
	}
	mutex := redsync.New(pools...).NewMutex(worker.Key(), redsync.WithExpiry(worker.TTL()))

	acquire := func() (string, error) {
		err := mutex.TryLock()
		var taken *redsync.ErrTaken
		switch {
		case err == nil:
			return worker.Held(time.Until(mutex.Until())), nil
		case errors.As(err, &taken), errors.Is(err, redsync.ErrFailed):
			return "no", nil
		}
		return "", err
	}
	check := func() (string, error) {
		return worker.Whether(time.Now().Before(mutex.Until())), nil
	}
	release := func() (string, error) {
		released, err := mutex.Unlock()
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
			return "no", nil
		}
		return worker.Whether(released), err
	}
	worker.Serve("checks", acquire, check, release)
}
