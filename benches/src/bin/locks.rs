//! What locks cost on a real redis-server: commands, handoffs, and a pair alone.
//!
//! Starts a redis-server of its own on the loopback interface, lets each library go through the same, in
//! turn, prints ratios with the raw figures, and ends by itself. No figure decides the exit code.
//! Invariant: commands are counted by the server, and only those that clients sent, not those of
//! scripts.

#![expect(clippy::disallowed_methods, reason = "a measurement takes the machine's time")]

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use benches::contend::{Contended, Contender, Crowd};
use benches::counted::sent;
use benches::figures::{median, micros, percentile};
use benches::load::throughput;
use benches::locks::{Kind, Ours, for_long, in_line, notified, polling};
use benches::served::beside_server;
use live_world::server::PrivateServer;
use picklock::command::Command;
use picklock::env::{Conn, Env};
use picklock::{Node, TokioEnv};
use tokio::runtime::Builder;

const HOLD: Duration = Duration::from_millis(2);
const ROUNDS: usize = 3;
const WAITERS: [usize; 2] = [100, 500];
const PAIRS: usize = 400;
const CLIENTS: usize = 50;
const REQUESTS: u32 = 50_000;
const ROUND_TRIPS: usize = 2_000;
/// Fewer, for each comes after a rest.
const RESTED_TRIPS: usize = 500;

fn main() -> ExitCode {
    beside_server("locks", Builder::new_multi_thread(), measure)
}

async fn measure(server: &PrivateServer) -> Result<(), Box<dyn Error>> {
    let bench = Bench { addr: server.addr(), control: open(server.addr())? };
    println!("redis-server {}; every client with connections of its own\n", server.version());
    for waiters in WAITERS {
        bench.waiters(waiters).await?;
    }
    bench.alone().await
}

fn open(addr: SocketAddr) -> Result<TokioEnv, Box<dyn Error>> {
    Ok(TokioEnv::open(format!("redis://{addr}/"))?)
}

/// The median round trip on an idle server: back to back, and each after a rest.
#[derive(Clone, Copy)]
struct Idle {
    busy: Duration,
    rested: Duration,
}

impl Idle {
    /// A handoff, and how many times as long as either it takes.
    fn beside(self, span: Duration) -> String {
        let times = |of: Duration| format!("{:.1}x", span.as_secs_f64() / of.as_secs_f64());
        format!("{:>8.0} us {:>6} {:>6}", micros(span), times(self.busy), times(self.rested))
    }
}

struct Bench {
    addr: SocketAddr,
    control: TokioEnv,
}

impl Bench {
    /// Many clients and one lock.
    async fn waiters(&self, waiters: usize) -> Result<(), Box<dyn Error>> {
        let idle = Idle {
            busy: self.round_trip(ROUND_TRIPS, None).await?,
            rested: self.round_trip(RESTED_TRIPS, Some(HOLD)).await?,
        };
        println!("{waiters} waiters, {ROUNDS} rounds, {HOLD:?} under the lock");
        println!(
            "idle round trip {:.0} us back to back, {:.0} us after a rest of {HOLD:?}\n",
            micros(idle.busy),
            micros(idle.rested)
        );
        println!(
            "{:<20} {:>9} {:>24} {:>24} {:>11}",
            "", "commands", "handoff p50, by either", "handoff p99, by either", "wall/ideal"
        );
        #[cfg(feature = "peers")]
        {
            use benches::locks::peers::{RedLock, RsLock};
            let url = format!("redis://{}/", self.addr);
            // Its SET is sent by clients, and its script deletes.
            let make = |key: &str| Ok(RsLock::new(&url, key));
            self.row("rslock 0.10", waiters, idle, true, make).await?;
            let make = |key: &str| Ok(RedLock::new(&url, key));
            self.row("redlock 2.0", waiters, idle, true, make).await?;
        }
        let ours: [(&str, Kind, bool); 3] = [
            ("picklock, polling", polling, true),
            ("picklock, notify", notified, false),
            ("picklock, queue", in_line, false),
        ];
        for (name, kind, sets) in ours {
            let make = |key: &str| Ok(kind(open(self.addr)?, key, for_long())?);
            self.row(name, waiters, idle, sets, make).await?;
        }
        println!();
        Ok(())
    }

    async fn row<C: Contender>(
        &self,
        name: &str,
        waiters: usize,
        idle: Idle,
        sets: bool,
        make: impl Fn(&str) -> Result<C, Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let key = format!("picklock:bench:{name}:{waiters}");
        let clients = (0..waiters).map(|_| make(&key)).collect::<Result<Vec<_>, _>>()?;
        let crowd = Crowd::warmed(clients, HOLD).await?;
        let before = sent(&self.control, sets).await?;
        let Contended { handoffs, wall, held, .. } = crowd.contend(ROUNDS).await?;
        let sent = sent(&self.control, sets).await? - before;
        let at = |percent: usize| percentile(&handoffs, percent);
        println!(
            "{name:<20} {:>9.2} {} {} {:>11.2}",
            sent as f64 / (waiters * ROUNDS) as f64,
            idle.beside(at(50)),
            idle.beside(at(99)),
            wall.as_secs_f64() / held.as_secs_f64(),
        );
        Ok(())
    }

    /// One after the other, with nobody in the way.
    async fn alone(&self) -> Result<(), Box<dyn Error>> {
        println!(
            "uncontended: {CLIENTS} clients with a key each, {PAIRS} pairs of acquire and release"
        );
        println!("{:<34} {:>10} {:>12} {:>14}", "", "commands", "pairs/s", "of the limit");
        let limit = throughput(self.addr, u32::try_from(CLIENTS)?, 1, REQUESTS).await?;
        for (name, shared) in [("connections of their own", false), ("one connection", true)] {
            let env = open(self.addr)?;
            let mut locks = Vec::new();
            for client in 0..CLIENTS {
                let env = if shared { env.clone() } else { open(self.addr)? };
                locks.push(polling(env, &format!("picklock:bench:alone:{client}"), for_long())?);
            }
            // A pair each beforehand, for the connections and the script.
            pairs(&locks, 1).await?;
            let before = sent(&self.control, true).await?;
            let took = pairs(&locks, PAIRS).await?;
            let sent = sent(&self.control, true).await? - before;
            let many = (CLIENTS * PAIRS) as f64;
            let rate = many / took.as_secs_f64();
            println!(
                "{name:<34} {:>10.2} {rate:>12.0} {:>14.2}",
                sent as f64 / many,
                2.0 * rate / limit
            );
            // No more than one client is measured at a time.
            drop(locks);
        }
        println!(
            "\nthe limit: {limit:.0} SETs a second over {CLIENTS} connections, one at a time each"
        );
        Ok(())
    }

    /// The median round trip on an idle server: back to back, or each after a rest, as a handoff comes after a
    /// hold, when processors have gone to sleep.
    async fn round_trip(
        &self,
        trips: usize,
        rest: Option<Duration>,
    ) -> Result<Duration, Box<dyn Error>> {
        let conn = self.control.connect(Node(0)).await?;
        let mut spans = Vec::with_capacity(trips);
        for _ in 0..trips {
            if let Some(rest) = rest {
                tokio::time::sleep(rest).await;
            }
            let began = Instant::now();
            conn.call(Command::new("PING")).await?;
            spans.push(began.elapsed());
        }
        Ok(median(&spans))
    }
}

/// So many pairs of each lock, all at once.
async fn pairs(locks: &[Ours], count: usize) -> Result<Duration, Box<dyn Error>> {
    let began = Instant::now();
    let mut running = Vec::new();
    for lock in locks {
        let lock = lock.clone();
        running.push(tokio::spawn(async move {
            for _ in 0..count {
                let held = lock.acquire().await?;
                lock.release(held).await?;
            }
            Ok::<_, String>(())
        }));
    }
    for pair in running {
        pair.await??;
    }
    Ok(began.elapsed())
}
