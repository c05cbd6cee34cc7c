// Package worker is the protocol of a worker: it reads orders and answers them. See docs/attack.md.
package worker

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Key is the name of the lock.
func Key() string {
	return os.Getenv("PICKLOCK_KEY")
}

// TTL is the time for which to take the lock.
func TTL() time.Duration {
	ms, err := strconv.Atoi(os.Getenv("PICKLOCK_TTL_MS"))
	if err != nil {
		panic(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// Client is a client of the server, with the defaults of go-redis.
func Client() *redis.Client {
	return client(os.Getenv("REDIS_URL"))
}

// Clients is a client for each server, where the lock is on several.
func Clients() []*redis.Client {
	urls := cmp.Or(os.Getenv("REDIS_URLS"), os.Getenv("REDIS_URL"))
	var clients []*redis.Client
	for _, url := range strings.Split(urls, ",") {
		clients = append(clients, client(url))
	}
	return clients
}

func client(url string) *redis.Client {
	options, err := redis.ParseURL(url)
	if err != nil {
		panic(err)
	}
	return redis.NewClient(options)
}

// Held is the answer to `acquire` of a lock that tells how long it may be relied on.
func Held(validity time.Duration) string {
	return fmt.Sprintf("ok valid_ms=%d", validity.Milliseconds())
}

// Whether is the answer to an order that has a plain one.
func Whether(so bool) string {
	if so {
		return "ok"
	}
	return "no"
}

// Serve carries out orders until there are no more. An error is an unknown outcome.
func Serve(promises string, acquire, check, release func() (string, error)) {
	fmt.Println("ready " + promises)
	orders := map[string]func() (string, error){"acquire": acquire, "check": check, "release": release}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := orders[lines.Text()]()
		if err != nil {
			answer = "unknown " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
}
