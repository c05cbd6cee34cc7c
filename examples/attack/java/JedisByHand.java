import java.util.List;
import java.util.UUID;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.params.SetParams;

/**
 * A lock by hand, as Redis documents it: SET NX PX with a token, and a script that deletes only the token's own key.
 */
final class JedisByHand {
    private static final String UNLOCK =
            """
            if redis.call("get", KEYS[1]) == ARGV[1] then
                return redis.call("del", KEYS[1])
            end
            return 0
            """;

    private static final RedisClient redis = RedisClient.create(Worker.URL);
    private static String token;

    public static void main(String[] args) throws Exception {
        Worker.serve("checks", JedisByHand::acquire, JedisByHand::check, JedisByHand::release);
    }

    private static boolean acquire() {
        token = UUID.randomUUID().toString();
        return redis.set(Worker.KEY, token, SetParams.setParams().nx().px(Worker.TTL_MS)) != null;
    }

    private static boolean check() {
        return token.equals(redis.get(Worker.KEY));
    }

    private static boolean release() {
        return redis.eval(UNLOCK, List.of(Worker.KEY), List.of(token)).equals(1L);
    }
}
