// The protocol of a worker: reads orders, answers them. See docs/attack.md.
"use strict";

const readline = require("node:readline");

const say = (answer) => console.log(answer.replaceAll("\n", " "));

// Each of the three returns whether it is so, or throws; it may be asynchronous.
async function serve({ acquire, check, release }, promises = "") {
  const orders = { acquire, check, release };
  say(`ready ${promises}`);
  for await (const order of readline.createInterface({ input: process.stdin })) {
    try {
      say((await orders[order]()) ? "ok" : "no");
    } catch (error) {
      say(`unknown ${error}`);
    }
  }
  // An open connection would keep the process alive.
  process.exit();
}

module.exports = {
  URL: process.env.REDIS_URL,
  // Each server, where the lock is on several.
  URLS: (process.env.REDIS_URLS ?? process.env.REDIS_URL).split(","),
  KEY: process.env.PICKLOCK_KEY,
  TTL_MS: Number(process.env.PICKLOCK_TTL_MS),
  say,
  serve,
};
