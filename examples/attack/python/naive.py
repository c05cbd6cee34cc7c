"""A lock of a few lines, as many services have it: SET NX with a TTL, and DEL."""
from worker import KEY, TTL_MS, connect, serve

server = connect()

serve(
    acquire=lambda: server.set(KEY, "1", nx=True, px=TTL_MS),
    check=lambda: True,
    release=lambda: server.delete(KEY),
)
