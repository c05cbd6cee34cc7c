// redis-semaphore's Mutex, with its automatic refresh.
"use strict";

const Redis = require("ioredis");
const { Mutex } = require("redis-semaphore");

const { KEY, TTL_MS, URL, say, serve } = require("./worker");

const redis = new Redis(URL);
const options = { lockTimeout: TTL_MS, acquireAttemptsLimit: 1, onLockLost: () => say("lost") };
let mutex;

serve(
  {
    acquire() {
      mutex = new Mutex(redis, KEY, options);
      return mutex.tryAcquire();
    },
    check: () => mutex.isAcquired,
    async release() {
      const held = mutex.isAcquired;
      await mutex.release();
      return held;
    },
  },
  "renews checks",
);
