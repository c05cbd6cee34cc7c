//! What a TTL costs on a real redis-server: renewals, waiting, and a crash.
//!
//! Starts a redis-server of its own on the loopback interface, prints three tables, writes two charts beside them where
//! a directory is named (`tuning DIR`), and ends by itself. No figure decides the exit code. Invariant: renewals
//! are counted by the server, and two clients that have a lock at once are an error and no figure.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use benches::contend::Crowd;
use benches::crash::{Crashes, crashes};
use benches::figures::{micros, millis, percentile, spread};
use benches::locks::{Kind, in_line, notified, open, polling};
use benches::renewed::{REST, interval, renewed};
use benches::served::beside_server;
use live_world::server::PrivateServer;
use picklock::Options;
use reports::chart::{Growth, Series, png, svg};
use reports::file;
use tokio::runtime::Builder;

const TTLS: [Duration; 5] = [
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
];
/// Locks that are held at once.
const LOCKS: u32 = 500;
/// For how long renewals are counted at least.
const AT_LEAST: Duration = Duration::from_secs(5);

const WAITERS: [usize; 4] = [1, 10, 50, 100];
const WAITERS_TTLS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
const HOLD: Duration = Duration::from_millis(2);
/// Handoffs that are measured at least, save where each takes long.
const HANDOFFS: usize = 200;
const MOST_ROUNDS: usize = 60;

/// Holders that die, of each kind of lock with each TTL.
const CRASHES: u32 = 100;

const QUEUE: &str = "queue";
const NOTIFY: &str = "notify";
const POLLING: &str = "polling";
const KINDS: [(&str, Kind); 3] = [(QUEUE, in_line), (NOTIFY, notified), (POLLING, polling)];

fn main() -> ExitCode {
    beside_server("tuning", Builder::new_multi_thread(), measure)
}

async fn measure(server: &PrivateServer) -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from);
    if let Some(directory) = &directory {
        std::fs::create_dir_all(directory)?;
    }
    let url = format!("redis://{}/", server.addr());
    println!("redis-server {}; clients and server share the machine\n", server.version());
    let renewals = load(&url).await?;
    waits(&url).await?;
    let takeovers = dying(&url).await?;
    if let Some(directory) = directory {
        charts(&directory, renewals, takeovers, server.version())?;
    }
    Ok(())
}

/// Renewals against the TTL.
async fn load(url: &str) -> Result<Series, Box<dyn Error>> {
    println!(
        "{LOCKS} locks held at once, each by a client of its own and renewed every third of its TTL; beside them\n\
         one client takes a free lock and gives it back (a pair), rests for {REST:?}, and notes by how much it woke\n\
         too late at worst (stood still)\n"
    );
    println!(
        "{:<11} {:>11} {:>9} {:>6} {:>14} {:>11} {:>11} {:>13} {:>10}",
        "TTL",
        "renewals/s",
        "formula",
        "lost",
        "server's CPU",
        "pair p50",
        "pair p99",
        "stood still",
        "measured"
    );
    let mut points = Vec::new();
    // Without any, no TTL matters.
    let rows = [(0, TTLS[0])].into_iter().chain(TTLS.map(|ttl| (LOCKS, ttl)));
    for (locks, ttl) in rows {
        let found = renewed(url, locks, ttl, AT_LEAST).await?;
        let formula = f64::from(locks) / interval(ttl)?.as_secs_f64();
        let name = if locks == 0 { String::from("none held") } else { format!("{ttl:?}") };
        println!(
            "{name:<11} {:>11.1} {formula:>9.1} {:>6} {:>12.1} % {:>8.0} us {:>8.0} us {:>10.1} ms {:>8.1} s",
            found.rate(),
            found.lost,
            100.0 * found.busy.as_secs_f64() / found.wall.as_secs_f64(),
            micros(percentile(&found.pairs, 50)),
            micros(percentile(&found.pairs, 99)),
            millis(found.stood_still),
            found.wall.as_secs_f64(),
        );
        if locks > 0 {
            points.push((ttl.as_secs_f64(), found.rate()));
        }
    }
    let last = points.last().map_or(0.0, |point| point.1);
    let note = format!("{last:.0} with a TTL of {:?}", TTLS[TTLS.len() - 1]);
    Ok(Series { name: String::from("renewals a second"), note, points })
}

/// Acquisition and handoff against how many wait, with one TTL and another.
async fn waits(url: &str) -> Result<(), Box<dyn Error>> {
    let [short, long] = WAITERS_TTLS;
    println!(
        "\none has the lock for {HOLD:?} and the others wait, each for one turn; \
         rounds with a TTL of {short:?} and of {long:?} in turn\n"
    );
    println!(
        "{:<21} {:>7} {:>5} {:>15} {:>13} {:>12} {:>12}",
        "", "waiters", "TTL", "acquisition p50", "p99", "handoff p50", "p99"
    );
    let mut ratios = Vec::new();
    for (name, kind) in KINDS {
        ratios.extend(waits_of(name, kind, url).await?);
    }
    println!(
        "handoff p50 with a TTL of {long:?} over that with {short:?}: {}\n",
        spread(&ratios, 2)
    );
    Ok(())
}

/// The same of one kind of lock; gives the ratios of handoffs with the second TTL over those with the first.
async fn waits_of(name: &str, kind: Kind, url: &str) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut ratios = Vec::new();
    for waiters in WAITERS {
        let mut crowds = Vec::new();
        for ttl in WAITERS_TTLS {
            let key = format!("picklock:bench:{name}:{waiters}:{ttl:?}");
            let held = || Options::builder(ttl).watchdog();
            let clients = (0..=waiters).map(|_| open(kind, url, &key, held()));
            let clients = clients.collect::<Result<_, _>>()?;
            crowds.push((ttl, Crowd::warmed(clients, HOLD).await?, Vec::new(), Vec::new()));
        }
        for _ in 0..HANDOFFS.div_ceil(waiters).min(MOST_ROUNDS) {
            for (_, crowd, waits, handoffs) in &mut crowds {
                let found = crowd.contend(1).await?;
                // The first has nobody to wait for.
                waits.extend(found.waits.into_iter().skip(1));
                handoffs.extend(found.handoffs);
            }
        }
        let mut medians = Vec::new();
        for (ttl, _, waits, handoffs) in crowds {
            let handoff = micros(percentile(&handoffs, 50));
            println!(
                "{name:<21} {waiters:>7} {:>5} {:>12.1} ms {:>10.1} ms {handoff:>9.0} us {:>9.0} us",
                format!("{ttl:?}"),
                millis(percentile(&waits, 50)),
                millis(percentile(&waits, 99)),
                micros(percentile(&handoffs, 99)),
            );
            medians.push(handoff);
        }
        ratios.push(medians[1] / medians[0]);
    }
    println!();
    Ok(ratios)
}

/// What it takes until the next one has the lock of a holder that has died; to be drawn, of those in line.
async fn dying(url: &str) -> Result<[Series; 2], Box<dyn Error>> {
    println!("a holder dies, and one waits: until that one has the lock, {CRASHES} crashes each\n");
    println!(
        "{:<5} {:<21} {:>12} {:>19} {:>12} {:>12}",
        "TTL", "", "mean", "TTL less interval/2", "longest", "lost before"
    );
    let mut series = ["mean", "longest"]
        .map(|what| Series { name: format!("{what} takeover"), ..Series::default() });
    for ttl in TTLS {
        let (lines, messages, questions) = tokio::join!(
            crashes(in_line, (url, QUEUE), ttl, CRASHES),
            crashes(notified, (url, NOTIFY), ttl, CRASHES),
            crashes(polling, (url, POLLING), ttl, CRASHES),
        );
        let lines = lines?;
        for (series, ms) in series.iter_mut().zip(takeover_ms(&lines)) {
            series.points.push((ttl.as_secs_f64(), ms / 1e3));
            series.note = format!("{:.1} s with a TTL of {ttl:?}", ms / 1e3);
        }
        // What is left of the TTL is uniform over the last interval.
        let formula_ms = (ttl - interval(ttl)? / 2).as_secs_f64() * 1e3;
        for (name, found) in [(QUEUE, lines), (NOTIFY, messages?), (POLLING, questions?)] {
            let [mean_ms, longest_ms] = takeover_ms(&found);
            println!(
                "{:<5} {name:<21} {mean_ms:>9.0} ms {formula_ms:>16.0} ms {longest_ms:>9.0} ms {:>12}",
                format!("{ttl:?}"),
                found.lost,
            );
        }
        println!();
    }
    Ok(series)
}

/// The mean and the longest, in milliseconds.
fn takeover_ms(found: &Crashes) -> [f64; 2] {
    [found.mean_ns() / 1e6, millis(percentile(&found.takeovers, 100))]
}

fn charts(
    directory: &Path,
    renewals: Series,
    takeovers: [Series; 2],
    version: &str,
) -> Result<(), Box<dyn Error>> {
    let load = Growth {
        title: String::from("What a TTL costs: renewals"),
        subtitle: format!(
            "redis-server {version}; {LOCKS} locks held at once, each renewed every third of its TTL"
        ),
        x: String::from("TTL in seconds"),
        y: String::from("renewals a second"),
        series: vec![renewals],
    };
    let takeover = Growth {
        title: String::from("What a TTL costs: waiting after a crash"),
        subtitle: format!(
            "redis-server {version}; {CRASHES} holders that die while one client queues, renewed every third of the TTL"
        ),
        x: String::from("TTL in seconds"),
        y: String::from("seconds until the next has the lock"),
        series: takeovers.into(),
    };
    for (name, chart) in [("tuning-load", load), ("tuning-takeover", takeover)] {
        file::write(&directory.join(format!("{name}.svg")), &svg(&chart)?)?;
        png(&chart, &directory.join(format!("{name}.png")))?;
    }
    Ok(())
}
