// node-redlock's `acquire` and `release`, on one server.
"use strict";

const Redis = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const { KEY, TTL_MS, URL, serve } = require("./worker");

const redlock = new Redlock([new Redis(URL)]);
let lock;

serve(
  {
    async acquire() {
      try {
        lock = await redlock.acquire([KEY], TTL_MS, { retryCount: 0 });
        return true;
      } catch (error) {
        if (error instanceof ExecutionError) return false;
        throw error;
      }
    },
    check: () => lock.expiration > Date.now(),
    async release() {
      await lock.release();
      return true;
    },
  },
  "checks",
);
