"""python-redis-lock, with its automatic renewal."""
import math

import redis
import redis_lock

from worker import KEY, TTL_MS, URL, serve

server = redis.Redis.from_url(URL)
# It counts in whole seconds.
expire = math.ceil(TTL_MS / 1000)
lock = None


def acquire():
    global lock
    lock = redis_lock.Lock(server, KEY, expire=expire, auto_renewal=True)
    return lock.acquire(blocking=False)


def release():
    try:
        lock.release()
    except redis_lock.NotAcquired:
        return False
    return True


serve(acquire, lambda: lock.locked() and lock.get_owner_id() == lock.id, release, "renews checks")
