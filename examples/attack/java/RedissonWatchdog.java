/** Redisson's RLock without a lease time: its watchdog renews it until it is released. */
final class RedissonWatchdog {
    public static void main(String[] args) throws Exception {
        var lock = RedissonWorker.lock();
        Worker.serve(
                "renews checks",
                lock::tryLock,
                lock::isHeldByCurrentThread,
                () -> RedissonWorker.release(lock));
    }
}
