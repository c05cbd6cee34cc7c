import org.redisson.Redisson;
import org.redisson.config.Config;

/** Redisson's RLock without a lease time: its watchdog renews it until it is released. */
final class RedissonWatchdog {
    public static void main(String[] args) throws Exception {
        var config = new Config();
        config.setLockWatchdogTimeout(Worker.TTL_MS);
        config.useSingleServer().setAddress(Worker.URL);
        var lock = Redisson.create(config).getLock(Worker.KEY);
        Worker.serve(
                "renews checks",
                lock::tryLock,
                lock::isHeldByCurrentThread,
                () -> {
                    try {
                        lock.unlock();
                        return true;
                    } catch (IllegalMonitorStateException notHeld) {
                        return false;
                    }
                });
    }
}
