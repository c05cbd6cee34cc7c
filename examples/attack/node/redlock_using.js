// node-redlock's `using`: a routine within a lock that extends itself, on one server or several.
"use strict";

const Redis = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const { KEY, TTL_MS, URLS, say, serve } = require("./worker");

const redlock = new Redlock(URLS.map((url) => new Redis(url)));
let signal, end, ended;

// Resolves when the routine begins; the routine then lasts until `end` is called.
function begin() {
  return new Promise((resolve, reject) => {
    const routine = (its) => {
      signal = its;
      signal.addEventListener("abort", () => say("lost"));
      resolve(true);
      return new Promise((done) => (end = done));
    };
    ended = redlock.using([KEY], TTL_MS, { retryCount: 0 }, routine);
    ended.catch(reject);
  });
}

serve(
  {
    acquire: () =>
      begin().catch((error) => {
        if (error instanceof ExecutionError) return false;
        throw error;
      }),
    check: () => !signal.aborted,
    async release() {
      end();
      await ended;
      return true;
    },
  },
  "renews checks",
);
