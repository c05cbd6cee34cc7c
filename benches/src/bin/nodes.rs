//! What one of five servers that stands still costs a lock on all of them, and what it costs to renew many locks
//! that were all taken at once.
//!
//! Starts redis-servers of its own on the loopback interface, prints figures, and ends by itself. No figure decides the
//! exit code. Everything of ours runs on one thread.

#![expect(clippy::disallowed_methods, reason = "a measurement takes the machine's time")]

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use benches::figures::{micros, percentile};
use benches::served::beside_server;
use live_world::server::{PrivateServer, ServerSpec, find_server};
use live_world::supervisor::{Signal, Supervisor};
use picklock::{Locks, Node, Options, Redlock, Released, TokioEnv};
use tokio::runtime::Builder;

const SERVERS: usize = 5;
const PAIRS: usize = 2_000;
/// Each of the two ways is measured so often, in turn.
const ROUNDS: usize = 3;
const TTL: Duration = Duration::from_secs(30);
const HOLDERS: u32 = 3_000;
const INTERVALS: u32 = 6;
const TTLS_MS: [u64; 3] = [500, 1_000, 3_000];

fn main() -> ExitCode {
    beside_server("nodes", Builder::new_current_thread(), async |server| {
        println!("redis-server {}; clients on one thread\n", server.version());
        several().await?;
        renewals(server).await
    })
}

async fn several() -> Result<(), Box<dyn Error>> {
    let binary = find_server(None, None)?;
    let supervisor = Supervisor::spawn(None)?;
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(PrivateServer::start(&supervisor, ServerSpec::new(&binary.path)).await?);
    }
    let measured = pairs(&servers).await;
    for server in &mut servers {
        // One that stands still cannot be asked to end.
        server.kill().await?;
    }
    drop(servers);
    supervisor.shutdown().await;
    measured
}

/// One after the other, with nobody in the way; then the same with one server that stands still.
async fn pairs(servers: &[PrivateServer]) -> Result<(), Box<dyn Error>> {
    println!("a lock on {SERVERS} servers, {PAIRS} acquisitions and releases, one after the other");
    println!("{:<28} {:>22} {:>22}", "", "acquired, p50 and p99", "released, p50 and p99");
    for _ in 0..ROUNDS {
        println!("{:<28} {}", "all answer", round(servers).await?);
        servers[0].signal(Signal::Stop)?;
        let stopped = round(servers).await;
        servers[0].signal(Signal::Cont)?;
        println!("{:<28} {}", "one stands still", stopped?);
    }
    println!();
    Ok(())
}

async fn round(servers: &[PrivateServer]) -> Result<String, Box<dyn Error>> {
    let env = TokioEnv::open_all(servers.iter().map(|it| format!("redis://{}/", it.addr())))?;
    let nodes = (0_u16..).map(Node).take(SERVERS);
    let lock = Redlock::new(env, nodes, *b"picklock:bench:nodes", Options::builder(TTL).build()?)?;
    // For the connections and the script.
    let _ = lock.try_acquire().await?.release().await;
    let (mut acquired, mut released) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let began = Instant::now();
        let guard = lock.try_acquire().await?;
        acquired.push(began.elapsed());
        let began = Instant::now();
        match guard.release().await {
            Released::Released => released.push(began.elapsed()),
            other => return Err(format!("not released: {other:?}").into()),
        }
    }
    let at = |spans: &[Duration], percent| micros(percentile(spans, percent));
    let both = |spans: &[Duration]| format!("{:>7.0} us {:>8.0} us", at(spans, 50), at(spans, 99));
    Ok(format!("{:>22} {:>22}", both(&acquired), both(&released)))
}

async fn renewals(server: &PrivateServer) -> Result<(), Box<dyn Error>> {
    println!(
        "{HOLDERS} locks taken at once over one connection and renewed every third of the TTL"
    );
    println!("{:<8} {:>12} {:>10} {:>10}", "TTL", "taken in", "renewed", "lost");
    for ttl_ms in TTLS_MS {
        let ttl = Duration::from_millis(ttl_ms);
        let options = Options::builder(ttl).watchdog().build()?;
        let locks = Locks::open(format!("redis://{}/", server.addr()), options)?;
        let began = Instant::now();
        let mut taking = Vec::new();
        for place in 0..HOLDERS {
            let (locks, key) = (locks.clone(), format!("picklock:bench:{place}").into_bytes());
            taking.push(tokio::spawn(async move { locks.try_acquire(key).await }));
        }
        let mut held = Vec::new();
        for taking in taking {
            held.extend(taking.await?.ok());
        }
        let took = began.elapsed();
        tokio::time::sleep(ttl / 3 * INTERVALS).await;
        let lost = HOLDERS as usize - held.iter().filter(|guard| guard.is_valid()).count();
        let renewed = locks.counters().get(picklock::Count::Renewed);
        println!("{ttl_ms:>5} ms {:>9.0} ms {renewed:>10} {lost:>10}", took.as_secs_f64() * 1e3);
        drop(held);
        locks.drain().await;
    }
    Ok(())
}
