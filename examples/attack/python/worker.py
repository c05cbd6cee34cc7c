"""The protocol of a worker, and its Redis client. See docs/attack.md."""
import os
import sys

import redis

KEY = os.environ["PICKLOCK_KEY"]
TTL_MS = int(os.environ["PICKLOCK_TTL_MS"])


def connect():
    """redis-py with its defaults, except that a time-out of 5 s suits no short TTL.

    A renewal that is lost at 2/3 of the TTL must be tried again before its end.
    """
    return redis.Redis(
        host=os.environ["REDIS_HOST"],
        port=int(os.environ["REDIS_PORT"]),
        password=os.environ["REDIS_PASSWORD"],
        socket_timeout=TTL_MS / 5000,
    )


def serve(acquire, check, release, promises=""):
    """Answers orders: each of the three functions returns whether it is so, or raises."""
    orders = {"acquire": acquire, "check": check, "release": release}
    print("ready", promises, flush=True)
    for line in sys.stdin:
        try:
            answer = "ok" if orders[line.strip()]() else "no"
        except Exception as error:
            # One line, whatever the exception says.
            answer = " ".join(f"unknown {error!r}".split())
        print(answer, flush=True)
