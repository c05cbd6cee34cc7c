"""python-redis-lock, with its automatic renewal."""
import math

import redis_lock

from worker import KEY, TTL_MS, connect, serve

server = connect()
lock = None


def acquire():
    global lock
    # It counts in whole seconds. A new one for each acquisition, as its documentation has it.
    lock = redis_lock.Lock(server, KEY, expire=math.ceil(TTL_MS / 1000), auto_renewal=True)
    return lock.acquire(blocking=False)


def release():
    try:
        lock.release()
    except redis_lock.NotAcquired:
        return False
    return True


# locked() is true for another's lock, too.
serve(acquire, lambda: lock.get_owner_id() == lock.id, release, "renews checks")
