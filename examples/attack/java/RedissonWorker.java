import static java.time.Duration.ofMillis;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.config.Config;
import org.redisson.config.EqualJitterDelay;

/** What the workers with Redisson share. */
final class RedissonWorker {
    private RedissonWorker() {}

    /**
     * A lock. Redisson's default time-outs are made for locks of 30 s; with a shorter TTL all of them are shorter in
     * the same proportion, so that retries have as much room within the TTL as they have by default. A TTL of less
     * than some seconds leaves time-outs that a busy machine misses.
     */
    static RLock lock() {
        long ttl = Worker.TTL_MS;
        var config = new Config();
        config.setLockWatchdogTimeout(ttl);
        config.useSingleServer()
                .setAddress(Worker.URL)
                .setTimeout((int) ttl / 10)
                .setRetryDelay(new EqualJitterDelay(ofMillis(ttl / 30), ofMillis(ttl / 15)))
                .setReconnectionDelay(new EqualJitterDelay(ofMillis(ttl / 300), ofMillis(ttl / 3)))
                .setPingConnectionInterval((int) ttl);
        return Redisson.create(config).getLock(Worker.KEY);
    }

    static boolean release(RLock lock) {
        try {
            lock.unlock();
            return true;
        } catch (IllegalMonitorStateException notHeld) {
            return false;
        }
    }
}
