"""pottery's Redlock, on one server."""
from pottery import Redlock
from pottery.exceptions import ReleaseUnlockedLock
import redis

from worker import KEY, TTL_MS, URL, serve

server = redis.Redis.from_url(URL)
lock = Redlock(key=KEY, masters={server}, auto_release_time=TTL_MS / 1000)


def release():
    try:
        lock.release()
    except ReleaseUnlockedLock:
        return False
    return True


serve(lambda: lock.acquire(blocking=False), lambda: lock.locked() > 0, release, "checks")
