"""pottery's Redlock, on one server or several."""
from pottery import ReleaseUnlockedLock, Redlock

from worker import KEY, TTL_MS, connect_all, serve

masters = set(connect_all())
lock = None


def acquire():
    global lock
    # A new one for each acquisition is safest, says its documentation.
    lock = Redlock(key=KEY, masters=masters, auto_release_time=TTL_MS / 1000)
    return lock.acquire(blocking=False)


def release():
    try:
        lock.release()
    except ReleaseUnlockedLock as error:
        if error.redis_errors:
            # Nobody knows whether it was released.
            raise
        return False
    return True


serve(acquire, lambda: lock.locked() > 0, release, "checks")
