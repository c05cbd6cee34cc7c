import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.Callable;

/** The protocol of a worker: reads orders, answers them. See docs/attack.md. */
final class Worker {
    static final String URL = System.getenv("REDIS_URL");
    static final String KEY = System.getenv("PICKLOCK_KEY");
    static final long TTL_MS = Long.parseLong(System.getenv("PICKLOCK_TTL_MS"));

    private Worker() {}

    /** Each of the three returns whether it is so, or throws. All are called by the thread that calls this. */
    static void serve(
            String promises,
            Callable<Boolean> acquire,
            Callable<Boolean> check,
            Callable<Boolean> release)
            throws IOException {
        var orders = Map.of("acquire", acquire, "check", check, "release", release);
        var input = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready " + promises);
        for (String line; (line = input.readLine()) != null; ) {
            System.out.println(answer(orders.get(line)));
        }
        // Libraries have threads of their own, which would keep the process alive.
        System.exit(0);
    }

    private static String answer(Callable<Boolean> order) {
        try {
            return order.call() ? "ok" : "no";
        } catch (Exception error) {
            return "unknown " + error.toString().replace('\n', ' ');
        }
    }
}
