"""redis-py's own lock: redis.lock.Lock."""
import redis
from redis.exceptions import LockNotOwnedError

from worker import KEY, TTL_MS, URL, serve

lock = redis.Redis.from_url(URL).lock(KEY, timeout=TTL_MS / 1000, thread_local=False)


def release():
    try:
        lock.release()
    except LockNotOwnedError:
        return False
    return True


serve(lambda: lock.acquire(blocking=False), lock.owned, release, "checks")
