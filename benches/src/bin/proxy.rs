//! What the fault proxy costs, beside a direct connection and a plain TCP copy in the same run.
//!
//! Starts a redis-server of its own on the loopback interface, measures the three ways in turn,
//! prints ratios with the raw figures, and ends by itself. No figure decides the exit code.

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use benches::copy::PlainCopy;
use benches::figures::median;
use benches::load::{latencies, throughput};
use picklock::env::Node;
use sim::live::proxy::{ClientId, Detail, Plan, Proxy, Upstream};
use sim::live::server::{Server, ServerSpec, find_server};
use sim::live::supervisor::{self, Supervisor};

/// Each way is measured so often, in turn.
const ROUNDS: usize = 7;
const CONNECTIONS: u32 = 50;
const PIPELINE: usize = 16;
const REQUESTS: u32 = 50_000;
const REQUESTS_PIPELINED: u32 = 400_000;
const REQUESTS_ALONE: u32 = 5_000;

const WAYS: [&str; 3] = ["direct", "plain copy", "fault proxy"];

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
    let proxy = Proxy::start(Detail::Faults)?;
    let upstream = Upstream::Tcp(server.addr());
    let link = proxy.listen(ClientId(1), Node(0), upstream, Plan::default())?;
    let ways = [server.addr(), copy.addr(), link.addr()];
    println!("redis-server {}; medians of {ROUNDS} rounds, each way in turn\n", server.version());
    row("", WAYS.map(str::to_owned));

    let title = format!("{CONNECTIONS} connections");
    print_rates(&title, &rates(ways, 1, REQUESTS).await?);
    let title = format!("{CONNECTIONS} connections, pipeline {PIPELINE}");
    print_rates(&title, &rates(ways, PIPELINE, REQUESTS_PIPELINED).await?);
    print_latencies(&medians_alone(ways).await?);

    server.stop().await?;
    drop(server);
    supervisor.shutdown().await;
    Ok(())
}

/// Requests a second on each way, round by round.
async fn rates(
    ways: [SocketAddr; 3],
    pipeline: usize,
    requests: u32,
) -> Result<[Vec<f64>; 3], Box<dyn Error>> {
    let mut measured = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (way, of_way) in ways.iter().zip(&mut measured) {
            of_way.push(throughput(*way, CONNECTIONS, pipeline, requests).await?);
        }
    }
    Ok(measured)
}

/// The median latency of one connection on each way, in microseconds, round by round.
async fn medians_alone(ways: [SocketAddr; 3]) -> Result<[Vec<f64>; 3], Box<dyn Error>> {
    let mut measured = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (way, of_way) in ways.iter().zip(&mut measured) {
            let latency: Duration = median(&latencies(*way, REQUESTS_ALONE).await?);
            of_way.push(latency.as_secs_f64() * 1e6);
        }
    }
    Ok(measured)
}

fn print_rates(title: &str, rates: &[Vec<f64>; 3]) {
    let rate = |way: usize| format!("{:.0}/s", median(&rates[way]));
    row(title, [rate(0), rate(1), rate(2)]);
    // Compared within a round, for a shared machine is never as fast as it was.
    let ratios = |way: usize| -> Vec<f64> {
        rates[way].iter().zip(&rates[0]).map(|(rate, direct)| rate / direct).collect()
    };
    row("  over direct, in a round", [String::new(), spread(&ratios(1), 2), spread(&ratios(2), 2)]);
}

fn print_latencies(medians: &[Vec<f64>; 3]) {
    let latency = |way: usize| format!("{:.1} µs", median(&medians[way]));
    row("1 connection, median latency", [latency(0), latency(1), latency(2)]);
    let added = |way: usize| -> Vec<f64> {
        medians[way].iter().zip(&medians[0]).map(|(us, direct)| us - direct).collect()
    };
    row("  added in a round, µs", [String::new(), spread(&added(1), 1), spread(&added(2), 1)]);
}

/// The median, and the least and the greatest.
fn spread(values: &[f64], digits: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.digits$} ({least:.digits$} to {greatest:.digits$})", median(values))
}

fn row(title: &str, [direct, copy, proxy]: [String; 3]) {
    println!("{title:<30}{direct:>14}{copy:>24}{proxy:>24}");
}
