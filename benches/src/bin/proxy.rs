//! What the fault proxy costs, beside a direct connection, a plain TCP copy and haproxy in the same
//! run, and how exact its delays are.
//!
//! Starts a redis-server of its own on the loopback interface, measures the ways in turn,
//! prints ratios with the raw figures, and ends by itself. No figure decides the exit code.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use benches::copy::PlainCopy;
use benches::figures::{median, micros, percentile, spread};
use benches::haproxy::Haproxy;
use benches::load::{latencies, throughput};
use benches::served::beside_server;
use fault_proxy::{ClientId, Detail, Latency, Plan, Proxy, Upstream};
use live_world::server::PrivateServer;
use picklock::env::Node;
use tokio::runtime::Builder;

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

/// The width of a column of figures with what they lie between.
const WIDTH: usize = 27;

/// A name, and where it listens.
type Way = (&'static str, SocketAddr);

fn main() -> ExitCode {
    beside_server("proxy", Builder::new_current_thread(), measure)
}

async fn measure(server: &PrivateServer) -> Result<(), Box<dyn Error>> {
    let copy = PlainCopy::start(server.addr())?;
    let haproxy = Haproxy::start(server.addr())?;
    let proxy = Proxy::start(Detail::Faults)?;
    let listen =
        |client, plan| proxy.listen(ClientId(client), Node(0), Upstream::Tcp(server.addr()), plan);
    let link = listen(1, Plan::default())?;
    let mut ways = vec![("direct", server.addr()), ("plain copy", copy.addr)];
    ways.extend(haproxy.as_ref().map(|haproxy| ("haproxy", haproxy.addr)));
    ways.push(("fault proxy", link.addr()));
    println!("redis-server {}; medians of {ROUNDS} rounds, each way in turn", server.version());
    if haproxy.is_none() {
        println!("there is no haproxy on PATH, and so none is measured");
    }
    println!();
    row("", ways.iter().map(|(name, _)| (*name).to_owned()));

    let piped = format!(", pipeline {PIPELINE}");
    for (title, pipeline, requests) in [("", 1, REQUESTS), (&*piped, PIPELINE, REQUESTS_PIPELINED)]
    {
        let rate = async |way| throughput(way, CONNECTIONS, pipeline, requests).await;
        let rates = rounds(&ways, rate).await?;
        let title = format!("{CONNECTIONS} connections{title}");
        print(&title, &rates, |rate| format!("{rate:.0}/s"));
        compare("  over direct, in a round", &rates, 2, |rate, direct| rate / direct);
    }
    let alone = async |way| Ok(micros(median(&latencies(way, REQUESTS_ALONE).await?)));
    let medians = rounds(&ways, alone).await?;
    print("1 connection, median latency", &medians, |us| format!("{us:.1} µs"));
    compare("  added in a round, µs", &medians, 1, |us, direct| us - direct);
    let late = listen(2, Plan { replies: Latency::Fixed(INJECTED), ..Plan::default() })?;
    print_errors(&errors(link.addr(), late.addr()).await?);
    Ok(())
}

/// What was measured on each way, round by round.
type Measured = Vec<Vec<f64>>;

/// Measures each way in turn.
async fn rounds(
    ways: &[Way],
    figure: impl AsyncFn(SocketAddr) -> io::Result<f64>,
) -> io::Result<Measured> {
    let mut measured = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, way), of_way) in ways.iter().zip(&mut measured) {
            of_way.push(figure(*way).await?);
        }
    }
    Ok(measured)
}

/// How far off delays were in each round, in microseconds: the median and the 99th percentile.
#[derive(Default)]
struct Off {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Off {
    fn add(&mut self, round: &[Duration]) {
        self.p50.push(micros(median(round)));
        self.p99.push(micros(percentile(round, 99)));
    }
}

/// How far injected delays were off, and in the same rounds how late a thread woke that slept for as long: what is
/// the machine's. What the way takes without a delay is the median of the same round.
async fn errors(link: SocketAddr, late: SocketAddr) -> Result<(Off, Off), Box<dyn Error>> {
    let (mut proxy, mut sleeper) = (Off::default(), Off::default());
    for _ in 0..ROUNDS {
        let alone: Duration = median(&latencies(link, REQUESTS_LATE).await?);
        let delayed = latencies(late, REQUESTS_LATE).await?;
        let off: Vec<_> = delayed.iter().map(|it| it.abs_diff(alone + INJECTED)).collect();
        proxy.add(&off);
        let slept: Vec<_> = (0..REQUESTS_LATE).map(|_| oversleep()).collect();
        sleeper.add(&slept);
    }
    Ok((proxy, sleeper))
}

/// How late a thread wakes that sleeps for as long as the delay.
#[expect(clippy::disallowed_methods, reason = "it is the machine's sleep that is measured")]
fn oversleep() -> Duration {
    let began = Instant::now();
    std::thread::sleep(INJECTED);
    began.elapsed().saturating_sub(INJECTED)
}

/// The median of each way.
fn print(title: &str, measured: &Measured, shown: impl Fn(f64) -> String) {
    row(title, measured.iter().map(|of_way| shown(median(of_way))));
}

/// Each way beside the direct one, within a round: a shared machine is never as fast as it was.
fn compare(title: &str, measured: &Measured, digits: usize, beside: impl Fn(f64, f64) -> f64) {
    let cells = measured.iter().enumerate().map(|(place, of_way)| {
        let pairs = of_way.iter().zip(&measured[0]);
        let found: Vec<f64> = pairs.map(|(it, direct)| beside(*it, *direct)).collect();
        if place == 0 { String::new() } else { spread(&found, digits) }
    });
    row(title, cells);
}

fn print_errors((proxy, sleeper): &(Off, Off)) {
    println!("\na delay of {INJECTED:?}; of a round, µs:\n");
    println!("{:<43}{:>WIDTH$}{:>WIDTH$}", "", "p50", "p99");
    for (what, off) in [
        ("the fault proxy's delay is off by", proxy),
        ("a sleeping thread wakes too late by", sleeper),
    ] {
        println!("{what:<43}{:>WIDTH$}{:>WIDTH$}", spread(&off.p50, 0), spread(&off.p99, 0));
    }
}

fn row(title: &str, cells: impl Iterator<Item = String>) {
    let widths = std::iter::once(12).chain(std::iter::repeat(WIDTH));
    let cells: String = cells.zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
    println!("{title:<29}{cells}");
}
