"""The protocol of a worker: reads orders, answers them. See docs/attack.md."""
import os
import sys

URL = os.environ["REDIS_URL"]
KEY = os.environ["PICKLOCK_KEY"]
TTL_MS = int(os.environ["PICKLOCK_TTL_MS"])


def say(answer):
    # One write for a line: another thread may say `lost` at any time.
    sys.stdout.write(answer + "\n")
    sys.stdout.flush()


def serve(acquire, check, release, promises=""):
    """Each of the three returns whether it is so, or throws."""
    say(f"ready {promises}")
    orders = {"acquire": acquire, "check": check, "release": release}
    for line in sys.stdin:
        try:
            say("ok" if orders[line.strip()]() else "no")
        except Exception as error:
            say(f"unknown {error!r}".replace("\n", " "))
