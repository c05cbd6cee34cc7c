//! What the fault proxy costs, beside a direct connection, a plain TCP copy and haproxy in the same
//! run, and how exact its delays are.
//!
//! Starts a redis-server of its own on the loopback interface, measures the ways in turn,
//! prints ratios with the raw figures, and ends by itself. No figure decides the exit code.

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use benches::copy::PlainCopy;
use benches::figures::median;
use benches::haproxy::Haproxy;
use benches::load::{latencies, throughput};
use picklock::env::Node;
use sim::live::proxy::{ClientId, Detail, Latency, Plan, Proxy, Upstream};
use sim::live::server::{Server, ServerSpec, find_server};
use sim::live::supervisor::{self, Supervisor};

/// Each way is measured so often, in turn.
const ROUNDS: usize = 7;
const CONNECTIONS: u32 = 50;
const PIPELINE: usize = 16;
const REQUESTS: u32 = 50_000;
const REQUESTS_PIPELINED: u32 = 400_000;
const REQUESTS_ALONE: u32 = 5_000;

const REQUESTS_LATE: u32 = 500;
/// The delay whose error is measured.
const INJECTED: Duration = Duration::from_millis(5);

/// A name, and where it listens.
type Way = (&'static str, SocketAddr);

fn main() -> ExitCode {
    // The supervisor of the server is this program once more.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == supervisor::COMMAND) {
        return supervisor::main();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let measured = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(measure()));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<(), Box<dyn Error>> {
    let binary = find_server(None, None)?;
    let supervisor = Supervisor::spawn(None)?;
    let mut server = Server::start(&supervisor, ServerSpec::new(&binary.path)).await?;
    let copy = PlainCopy::start(server.addr())?;
    let haproxy = Haproxy::start(server.addr())?;
    let proxy = Proxy::start(Detail::Faults)?;
    let listen =
        |client, plan| proxy.listen(ClientId(client), Node(0), Upstream::Tcp(server.addr()), plan);
    let link = listen(1, Plan::default())?;
    let mut ways = vec![("direct", server.addr()), ("plain copy", copy.addr())];
    ways.extend(haproxy.as_ref().map(|haproxy| ("haproxy", haproxy.addr())));
    ways.push(("fault proxy", link.addr()));
    println!("redis-server {}; medians of {ROUNDS} rounds, each way in turn", server.version());
    if haproxy.is_none() {
        println!("there is no haproxy on PATH, and so none is measured");
    }
    println!();
    row("", ways.iter().map(|(name, _)| (*name).to_owned()));

    let title = format!("{CONNECTIONS} connections");
    print_rates(&title, &rates(&ways, 1, REQUESTS).await?);
    let title = format!("{CONNECTIONS} connections, pipeline {PIPELINE}");
    print_rates(&title, &rates(&ways, PIPELINE, REQUESTS_PIPELINED).await?);
    print_latencies(&medians_alone(&ways).await?);
    let late = listen(2, Plan { replies: Latency::Fixed(INJECTED), ..Plan::default() })?;
    print_errors(&errors(link.addr(), late.addr()).await?);

    server.stop().await?;
    drop(server);
    supervisor.shutdown().await;
    Ok(())
}

/// What was measured on each way, round by round.
type Measured = Vec<Vec<f64>>;

/// Requests a second.
async fn rates(ways: &[Way], pipeline: usize, requests: u32) -> Result<Measured, Box<dyn Error>> {
    let mut measured = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, way), of_way) in ways.iter().zip(&mut measured) {
            of_way.push(throughput(*way, CONNECTIONS, pipeline, requests).await?);
        }
    }
    Ok(measured)
}

/// The median latency of one connection, in microseconds.
async fn medians_alone(ways: &[Way]) -> Result<Measured, Box<dyn Error>> {
    let mut measured = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, way), of_way) in ways.iter().zip(&mut measured) {
            let latency: Duration = median(&latencies(*way, REQUESTS_ALONE).await?);
            of_way.push(latency.as_secs_f64() * 1e6);
        }
    }
    Ok(measured)
}

/// How far an injected delay was off, in microseconds: the 99th percentile of each round. What the
/// way takes without it is the median of the same round.
async fn errors(link: SocketAddr, late: SocketAddr) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut measured = Vec::new();
    for _ in 0..ROUNDS {
        let alone: Duration = median(&latencies(link, REQUESTS_LATE).await?);
        let mut off: Vec<Duration> = latencies(late, REQUESTS_LATE)
            .await?
            .into_iter()
            .map(|latency| latency.abs_diff(alone + INJECTED))
            .collect();
        off.sort_unstable();
        measured.push(off[off.len() * 99 / 100].as_secs_f64() * 1e6);
    }
    Ok(measured)
}

fn print_rates(title: &str, rates: &Measured) {
    row(title, rates.iter().map(|of_way| format!("{:.0}/s", median(of_way))));
    // Compared within a round, for a shared machine is never as fast as it was.
    row(
        "  over direct, in a round",
        rates.iter().enumerate().map(|(place, of_way)| {
            let ratios: Vec<f64> =
                of_way.iter().zip(&rates[0]).map(|(rate, direct)| rate / direct).collect();
            if place == 0 { String::new() } else { spread(&ratios, 2) }
        }),
    );
}

fn print_latencies(medians: &Measured) {
    row(
        "1 connection, median latency",
        medians.iter().map(|of_way| format!("{:.1} µs", median(of_way))),
    );
    row(
        "  added in a round, µs",
        medians.iter().enumerate().map(|(place, of_way)| {
            let added: Vec<f64> =
                of_way.iter().zip(&medians[0]).map(|(us, direct)| us - direct).collect();
            if place == 0 { String::new() } else { spread(&added, 1) }
        }),
    );
}

fn print_errors(errors: &[f64]) {
    println!("\na delay of {INJECTED:?} through the fault proxy is off by, p99 of a round, µs:");
    println!("  {}", spread(errors, 0));
}

/// The median, and the least and the greatest.
fn spread(values: &[f64], digits: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.digits$} ({least:.digits$} to {greatest:.digits$})", median(values))
}

fn row(title: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells
        .enumerate()
        .map(|(place, cell)| if place == 0 { format!("{cell:>12}") } else { format!("{cell:>22}") })
        .collect();
    println!("{title:<29}{cells}");
}
