"""redis-py's own lock: redis.lock.Lock."""
from redis.exceptions import LockNotOwnedError

from worker import KEY, TTL_MS, connect, serve

lock = connect().lock(KEY, timeout=TTL_MS / 1000)


def release():
    try:
        lock.release()
    except LockNotOwnedError:
        return False
    return True


serve(lambda: lock.acquire(blocking=False), lock.owned, release, "checks")
