"""A lock of ten lines, as many services have it: SET NX with a TTL, and DEL."""
import os
import sys

import redis

server = redis.Redis.from_url(os.environ["REDIS_URL"])
key, ttl = os.environ["PICKLOCK_KEY"], int(os.environ["PICKLOCK_TTL_MS"])

print("ready", flush=True)
for line in sys.stdin:
    try:
        match line.strip():
            case "acquire":
                answer = "ok" if server.set(key, "1", nx=True, px=ttl) else "no"
            case "check":
                answer = "ok"
            case "release":
                server.delete(key)
                answer = "ok"
    except Exception as error:
        answer = f"unknown {error!r}"
    print(answer, flush=True)
