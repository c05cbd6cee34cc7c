// node-redlock's `acquire` and `release`, on one server or several.
"use strict";

const Redis = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const { KEY, TTL_MS, URLS, serve } = require("./worker");

const redlock = new Redlock(URLS.map((url) => new Redis(url)));
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
