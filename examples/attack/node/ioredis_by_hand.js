// A lock by hand, as Redis documents it: SET NX PX with a token, and a script that deletes only the token's own key.
"use strict";

const { randomUUID } = require("node:crypto");
const Redis = require("ioredis");

const { KEY, TTL_MS, URL, serve } = require("./worker");

const redis = new Redis(URL);
redis.defineCommand("unlock", {
  numberOfKeys: 1,
  lua: `
    if redis.call("get", KEYS[1]) == ARGV[1] then
      return redis.call("del", KEYS[1])
    end
    return 0`,
});
let token;

serve(
  {
    async acquire() {
      token = randomUUID();
      return (await redis.set(KEY, token, "PX", TTL_MS, "NX")) === "OK";
    },
    check: async () => (await redis.get(KEY)) === token,
    release: () => redis.unlock(KEY, token),
  },
  "checks",
);
