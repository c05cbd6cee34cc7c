"""The protocol of a worker, and its Redis client. See docs/attack.md."""
import os
import sys

import redis
from redis.connection import parse_url

KEY = os.environ["PICKLOCK_KEY"]
TTL_MS = int(os.environ["PICKLOCK_TTL_MS"])


def connect(url=os.environ["REDIS_URL"]):
    """redis-py with its defaults, except that a time-out of 5 s suits no short TTL.

    A renewal that is lost at 2/3 of the TTL must be tried again before its end. `Redis.from_url` has other defaults: it
    never tries again.
    """
    return redis.Redis(**parse_url(url), socket_timeout=TTL_MS / 5000)


def connect_all():
    """A client for each server, where the lock is on several."""
    return [connect(url) for url in os.environ.get("REDIS_URLS", os.environ["REDIS_URL"]).split(",")]


def serve(acquire, check, release, promises=""):
    """Answers orders: each of the three functions returns whether it is so, or raises."""
    orders = {"acquire": acquire, "check": check, "release": release}
    print("ready", promises, flush=True)
    for line in sys.stdin:
        try:
            answer = "ok" if orders[line.strip()]() else "no"
        except Exception as error:
            # One line, whatever the exception says.
            answer = " ".join(f"unknown {type(error).__name__}: {error}".split())
        print(answer, flush=True)
