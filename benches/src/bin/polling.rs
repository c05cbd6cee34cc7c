//! What waiting costs: a hundred clients that poll, wait for a message, or queue.
//!
//! Article 3 has a hundred clients, a job of a second, and a poll every 50 ms or every second; here all
//! of it is ten times as fast. Starts a redis-server of its own on the loopback interface, prints a table,
//! and writes a chart beside it where a directory is named: `polling DIR`. Invariant: requests are counted
//! by the server, and only those that clients sent.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use benches::contend::{Contended, Crowd};
use benches::counted::sent;
use benches::figures::{millis, percentile};
use benches::locks::{Kind, Ours, asking, for_long, in_line, notified};
use benches::served::beside_server;
use live_world::server::PrivateServer;
use picklock::TokioEnv;
use reports::chart::{Growth, Series, png, svg};
use reports::file;
use scenarios::format::count;
use tokio::runtime::Builder;

/// The article's second.
const JOB: Duration = Duration::from_millis(100);
const CLIENTS: [usize; 4] = [10, 25, 50, 100];

fn main() -> ExitCode {
    beside_server("polling", Builder::new_multi_thread(), measure)
}

async fn measure(server: &PrivateServer) -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from);
    let url = format!("redis://{}/", server.addr());
    println!(
        "redis-server {}; one lock, {JOB:?} under it, everybody wants it once\n",
        server.version()
    );
    println!(
        "{:<24} {:>8} {:>10} {:>13} {:>13} {:>13}",
        "", "clients", "requests", "wait, median", "wait, longest", "idle between"
    );
    let open = || TokioEnv::open(url.as_str());
    let mut series = Vec::new();
    for (name, every) in [("polls every 50 ms", JOB / 20), ("polls every second", JOB)] {
        let make = |key: &str| Ok(asking(open()?, key, every)?);
        series.push(grows((name, true), &open()?, make).await?);
    }
    let told: [(&str, Kind); 2] = [("notify", notified), ("queue", in_line)];
    for (name, kind) in told {
        let make = |key: &str| Ok(kind(open()?, key, for_long())?);
        series.push(grows((name, false), &open()?, make).await?);
    }
    if let Some(directory) = directory {
        let chart = Growth {
            title: "Requests to the server until everybody has had the lock once".to_owned(),
            subtitle: format!(
                "redis-server {}; jobs of 1 s, measured ten times as fast: a job takes 100 ms, and a second is 100 ms",
                server.version()
            ),
            x: "clients that want the lock at once".to_owned(),
            y: "requests".to_owned(),
            series,
        };
        file::write(&directory.join("polling-load.svg"), &svg(&chart)?)?;
        png(&chart, &directory.join("polling-load.png"))?;
    }
    Ok(())
}

/// One way to wait, with more and more clients.
async fn grows(
    (name, sets): (&str, bool),
    control: &TokioEnv,
    make: impl Fn(&str) -> Result<Ours, Box<dyn Error>>,
) -> Result<Series, Box<dyn Error>> {
    let (mut points, mut note) = (Vec::new(), String::new());
    for clients in CLIENTS {
        let key = format!("picklock:bench:{name}:{clients}");
        let all = (0..clients).map(|_| make(&key)).collect::<Result<Vec<_>, _>>()?;
        let crowd = Crowd::warmed(all, JOB).await?;
        let before = sent(control, sets).await?;
        let Contended { waits, wall, held, .. } = crowd.contend(1).await?;
        let requests = sent(control, sets).await? - before;
        let idle = wall.saturating_sub(held);
        println!(
            "{name:<24} {clients:>8} {requests:>10} {:>10.0} ms {:>10.0} ms {:>10.2} ms",
            millis(percentile(&waits, 50)),
            millis(percentile(&waits, 100)),
            millis(idle) / clients as f64,
        );
        points.push((clients as f64, requests as f64));
        note = format!("{} for {clients} clients", count(requests));
    }
    println!();
    Ok(Series { name: name.to_owned(), note, points })
}
