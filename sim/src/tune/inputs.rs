//! The inputs of a tuning, with the source of each.
//!
//! Invariant: the command line wins over an earlier run, that over a measurement, and that over an assumption; the
//! source is reported.

use std::path::Path;

use picklock::time::span_ns;
use reports::latency::{Latencies, Operation};
use scenarios::distribution::{Distribution, Histogram, Measured};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use ttl_model::tuning::Input;

use super::confirm::open;
use crate::args::{Taken, TuneArgs, World};
use crate::failure::Failure;
use crate::print;
use crate::terminal::Terminal;
use live_world::leases::measure::{MachineMeasurements, measure};
use ttl_model::law::Law;
use ttl_model::{Conditions, Rate, Traffic};

/// Assumed round trip, within a data centre.
const ROUND_TRIP: &str = "lognormal:500us,p99=3ms";
const ASSUMED: &str = "assumed";
const GIVEN: &str = "given";

/// What a study is run with.
pub(super) struct Inputs {
    pub(super) conditions: Conditions,
    pub(super) traffic: Traffic,
    pub(super) reported: Vec<Input>,
    /// The measurements, and how long they took in nanoseconds.
    pub(super) log: Option<(Latencies, u64)>,
}

pub(super) fn gather(
    args: &TuneArgs,
    runtime: &Runtime,
    signals: watch::Receiver<bool>,
    terminal: &Terminal,
) -> Result<Inputs, Failure> {
    let measured = match args.measure {
        true => Some(runtime.block_on(measured(args, signals, terminal))?),
        false => None,
    };
    let mut reported = Vec::new();
    let mut report = |name: &str, value: String, source: &str| {
        reported.push(Input { name: name.to_owned(), value, source: source.to_owned() });
    };
    let (hold, source) = match (&args.hold, &args.from) {
        (Some(hold), _) => (read("--hold", hold.clone())?, GIVEN.to_owned()),
        (None, Some(run)) => (of_run(run, "hold")?, from(run)),
        (None, None) => {
            return Err(Failure::usage_text(
                "the duration of work under the lock is missing",
                "give it, such as --hold lognormal:5ms,p99=80ms, or take it from an earlier run with --from RUN",
            ));
        }
    };
    report("work under the lock", hold.to_string(), &source);
    let (trip, source) = match (&args.rtt, &args.from, &measured) {
        (Some(trip), ..) => (read("--rtt", trip.clone())?, GIVEN.to_owned()),
        (None, Some(run), _) => (of_run(run, "SET")?, from(run)),
        (None, None, Some((it, server))) => {
            let source = format!("{} measurements here, to {server}", it.counts.0);
            (it.round_trip.clone(), source)
        }
        (None, None, None) => (text(ROUND_TRIP)?, ASSUMED.to_owned()),
    };
    report("round trip", trip.to_string(), &source);
    let pause = match &measured {
        Some((it, _)) => {
            let rate = it.pauses_per_ns * 1e9;
            let source = format!("{} measured here, of 1 ms or longer", it.counts.1);
            report("pauses", format!("{}, {rate:.2} per second", it.pause), &source);
            (it.pauses_per_ns, Law::new(&it.pause))
        }
        None => {
            let (rate, length, source) = pauses(args)?;
            report("pauses", format!("{length}, {rate}"), source);
            (rate.per_second() / 1e9, Law::new(&length))
        }
    };
    report("crashes", format!("{} per client", args.crashes), "given or by default");
    report("clock drift", format!("up to {} ppm", args.drift), "given or by default");
    report("traffic", traffic_text(args), "given or by default");
    report("from the last check to the write", args.write.to_string(), "given or by default");
    let conditions = Conditions {
        hold: Law::new(&hold),
        round_trip: Law::new(&trip),
        pause: Some(pause),
        drift_ppm: args.drift,
        write_ns: span_ns(args.write.0),
    };
    let traffic = Traffic {
        clients: args.clients,
        every_ns: span_ns(args.every.0),
        locks: args.locks,
        poll_ns: span_ns(args.poll.0),
        if_taken: args.if_taken.into(),
        waiting: 0.0,
    };
    let log = measured.map(|(it, _)| (latencies(&it), span_ns(args.measure_for.0)));
    Ok(Inputs { conditions, traffic, reported, log })
}

/// What was measured, for a log.
fn latencies(measured: &MachineMeasurements) -> Latencies {
    let mut latencies = Latencies::default();
    for (tag, samples_ns) in &measured.samples_ns {
        for ns in samples_ns {
            latencies.record(Operation::Command((*tag).to_owned()), *ns);
        }
    }
    latencies
}

/// How often processes stand still, for how long, and who says so.
fn pauses(args: &TuneArgs) -> Result<(Rate, Distribution, &'static str), Failure> {
    match (&args.pause, &args.pauses, &args.preset) {
        (Some(length), Some(rate), _) => {
            Ok((rate.clone(), read("--pause", length.clone())?, GIVEN))
        }
        (Some(_), None, _) => Err(Failure::usage_text(
            "--pause needs --pauses: how often do pauses occur?",
            "add it, such as --pauses 6/minute",
        )),
        (None, Some(_), _) => Err(Failure::usage_text(
            "--pauses needs --pause: how long do pauses last?",
            "add it, such as --pause lognormal:50ms,p99=200ms",
        )),
        (None, None, Some(preset)) => {
            let rate: Rate = preset.rate.parse().map_err(Failure::usage_error)?;
            Ok((rate, text(preset.length)?, preset.source))
        }
        (None, None, None) => Err(Failure::usage_text(
            "process pauses are missing, and without them no TTL can be judged",
            "use --preset go, jvm-g1, jvm-full or cgroup; or --pause and --pauses; or --measure",
        )),
    }
}

/// Who takes the lock how often, as the report says it.
fn traffic_text(args: &TuneArgs) -> String {
    let taken = match args.if_taken {
        Taken::Wait => format!("a waiting client tries every {}", args.poll),
        Taken::Skip => {
            "all at the same tick; a client that finds the lock taken skips the run".to_owned()
        }
    };
    let (clients, every, locks) = (args.clients, args.every, args.locks);
    let over = if locks == 1 { "one lock".to_owned() } else { format!("{locks} locks") };
    format!("{clients} clients, each every {every}, on {over}; {taken}")
}

/// Measures, and says where.
async fn measured(
    args: &TuneArgs,
    mut signals: watch::Receiver<bool>,
    terminal: &Terminal,
) -> Result<(MachineMeasurements, String), Failure> {
    if args.measure_for.0.is_zero() {
        return Err(Failure::usage_text(
            "--measure-for is zero",
            "give a duration, such as --measure-for 10s",
        ));
    }
    let target = open(args, World::Auto, terminal).await?;
    if !terminal.options.quiet {
        print::note(&format!("measuring for {}", args.measure_for));
    }
    let server = target.server().origin.clone();
    let found = tokio::select! {
        biased;
        Ok(_) = signals.wait_for(|interrupted| *interrupted) => Err(Failure::interrupted(
            "interrupted while measuring: nothing was simulated",
            "measure for a shorter time with --measure-for, or give --rtt, --pause and --pauses",
        )),
        found = measure(&target, args.measure_for.0) => found.map_err(Failure::unavailable),
    };
    target.close().await;
    Ok((found?, server))
}

fn from(run: &Path) -> String {
    format!("the run in {}", run.display())
}

fn text(text: &str) -> Result<Distribution, Failure> {
    text.parse()
        .map_err(|error: scenarios::distribution::DistributionError| Failure::internal(error))
}

/// Reads the file of the distribution, if it has one.
fn read(option: &str, mut distribution: Distribution) -> Result<Distribution, Failure> {
    distribution.read(Path::new(".")).map_err(|error| {
        Failure::usage_text(
            format!("{option}: {error}"),
            "give an HdrHistogram log, or a CSV file with lines of value and count",
        )
    })?;
    Ok(distribution)
}

/// The distribution of this operation in an earlier run.
fn of_run(run: &Path, tag: &str) -> Result<Distribution, Failure> {
    let log = "latency.hlog";
    // A distribution names its file as UTF-8, which a path need not be.
    let (beside, file) = match run.join(log).to_str() {
        Some(file) => (Path::new("."), file.to_owned()),
        None => (run, log.to_owned()),
    };
    let measured = Measured { file, tag: Some(tag.to_owned()), unit: None };
    let mut found = Distribution::Histogram(Histogram::of_file(measured));
    found.read(beside).map_err(|error| {
        Failure::usage_text(
            format!("--from: {error}"),
            "give the directory of a run in which clients got the lock, such as picklock-out/bonus-pool/latest",
        )
    })?;
    Ok(found)
}
