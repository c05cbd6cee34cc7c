import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.Redisson;
import org.redisson.config.Config;

/** Redisson's RLock with a lease time, after which it expires. */
final class RedissonLease {
    public static void main(String[] args) throws Exception {
        var config = new Config();
        config.useSingleServer().setAddress(Worker.URL);
        var lock = Redisson.create(config).getLock(Worker.KEY);
        Worker.serve(
                "checks",
                () -> lock.tryLock(0, Worker.TTL_MS, MILLISECONDS),
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
