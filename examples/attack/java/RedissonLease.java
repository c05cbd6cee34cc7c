import static java.util.concurrent.TimeUnit.MILLISECONDS;

/** Redisson's RLock with a lease time, after which it expires. */
final class RedissonLease {
    public static void main(String[] args) throws Exception {
        var lock = RedissonWorker.lock();
        Worker.serve(
                "checks",
                () -> lock.tryLock(0, Worker.TTL_MS, MILLISECONDS),
                lock::isHeldByCurrentThread,
                () -> RedissonWorker.release(lock));
    }
}
