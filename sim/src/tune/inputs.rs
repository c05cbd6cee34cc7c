//! The numbers that a tuning counts with, and where each comes from.
//!
//! Invariant: what was said on the command line wins over what an earlier run shows, that over what is measured,
//! and that over what is assumed; and each is told.

use std::path::Path;

use picklock::time::span_ns;
use reports::latency::Latencies;
use scenarios::distribution::{Distribution, Histogram, Measured};
use scenarios::tuning::Input;
use tokio::runtime::Runtime;

use super::args::{Taken, TuneArgs};
use super::confirm::open;
use crate::args::World;
use crate::failure::Failure;
use crate::print;
use crate::terminal::Terminal;
use live_world::leases::measure::{Measurements, measure};
use ttl_model::law::Law;
use ttl_model::{Conditions, Rate, Traffic, presets};

/// A round trip within a data centre, where nobody has said or measured one.
const ROUND_TRIP: &str = "lognormal:500us,p99=3ms";
const ASSUMED: &str = "assumed";
const GIVEN: &str = "given";

/// What is counted with.
pub(super) struct Inputs {
    pub(super) conditions: Conditions,
    pub(super) traffic: Traffic,
    pub(super) told: Vec<Input>,
    /// What was measured for them, and for how long.
    pub(super) log: Option<(Latencies, u64)>,
}

/// Gathers them.
pub(super) fn gather(
    args: &TuneArgs,
    runtime: &Runtime,
    terminal: &Terminal,
) -> Result<Inputs, Failure> {
    let measured = match args.measure {
        true => Some(runtime.block_on(measured(args, terminal))?),
        false => None,
    };
    let mut told = Vec::new();
    let mut tell = |name: &str, value: String, source: &str| {
        told.push(Input { name: name.to_owned(), value, source: source.to_owned() });
    };
    let (hold, source) = match (&args.hold, &args.from) {
        (Some(hold), _) => (read("--hold", hold.clone())?, GIVEN.to_owned()),
        (None, Some(run)) => (of_run(run, "hold")?, from(run)),
        (None, None) => {
            return Err(Failure::usage_text(
                "how long the work under the lock takes is not said",
                "say it, as in --hold lognormal:5ms,p99=80ms, or take it from an earlier run with --from RUN",
            ));
        }
    };
    tell("work under the lock", hold.to_string(), &source);
    let (trip, source) = match (&args.rtt, &args.from, &measured) {
        (Some(trip), ..) => (read("--rtt", trip.clone())?, GIVEN.to_owned()),
        (None, Some(run), _) => (of_run(run, "SET")?, from(run)),
        (None, None, Some((it, server))) => {
            let source = format!("measured here, {} times, to {server}", it.counts.0);
            (it.round_trip.clone(), source)
        }
        (None, None, None) => (text(ROUND_TRIP)?, ASSUMED.to_owned()),
    };
    tell("round trip", trip.to_string(), &source);
    let pause = match (&args.pause, &args.pauses, &args.preset) {
        _ if measured.is_some() => None,
        (Some(length), Some(rate), _) => {
            let length = read("--pause", length.clone())?;
            tell("pauses", format!("{length}, {rate}"), GIVEN);
            Some((rate.clone(), length))
        }
        (Some(_), None, _) => {
            return Err(Failure::usage_text(
                "--pause says how long pauses last, and not how often they come",
                "add --pauses, as in --pauses 6/minute",
            ));
        }
        (None, Some(_), _) => {
            return Err(Failure::usage_text(
                "--pauses says how often pauses come, and not how long they last",
                "add --pause, as in --pause lognormal:50ms,p99=200ms",
            ));
        }
        (None, None, Some(name)) => {
            let Some(preset) = presets::named(name) else {
                let names: Vec<&str> = presets::ALL.iter().map(|it| it.name).collect();
                return Err(Failure::usage_text(
                    format!("no preset of pauses is called {name:?}"),
                    format!("there are {}", names.join(", ")),
                ));
            };
            tell("pauses", format!("{}, {}", preset.length, preset.rate), preset.source);
            let rate: Rate = preset.rate.parse().map_err(|error| Failure::usage_error(&error))?;
            Some((rate, text(preset.length)?))
        }
        (None, None, None) => {
            return Err(Failure::usage_text(
                "what makes processes stand still is not said, and no TTL can be judged without it",
                "take a preset with --preset go, jvm-g1, jvm-full or cgroup; say --pause and --pauses; or --measure",
            ));
        }
    };
    if let Some((it, _)) = &measured {
        let rate = it.pauses_per_ns * 1e9;
        let source = format!("measured here, {} of a millisecond or longer", it.counts.1);
        tell("pauses", format!("{}, {rate:.2} a second", it.pause), &source);
    }
    tell("crashes", format!("{} of each client", args.crashes), "given or by default");
    tell("clock drift", format!("up to {} ppm", args.drift), "given or by default");
    let taken = match args.if_taken {
        Taken::Wait => format!("who waits tries every {}", args.poll),
        Taken::Skip => "all at the same tick; who finds it taken skips this run".to_owned(),
    };
    let (clients, every, locks) = (args.clients, args.every, args.locks);
    let over = if locks == 1 { "one lock".to_owned() } else { format!("{locks} locks") };
    let traffic = format!("{clients} clients, each once in {every}, over {over}; {taken}");
    tell("traffic", traffic, "given or by default");
    tell("from the last look to the write", args.write.to_string(), "given or by default");
    let pause = pause.map(|(rate, length)| (rate.per_second() / 1e9, Law::new(&length)));
    let by_measure = measured.as_ref().map(|(it, _)| (it.pauses_per_ns, Law::new(&it.pause)));
    let conditions = Conditions {
        hold: Law::new(&hold),
        round_trip: Law::new(&trip),
        pause: by_measure.or(pause),
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
    let log = measured.map(|(it, _)| (it.latencies, span_ns(args.measure_for.0)));
    Ok(Inputs { conditions, traffic, told, log })
}

/// Measures, and says where.
async fn measured(args: &TuneArgs, terminal: &Terminal) -> Result<(Measurements, String), Failure> {
    if args.measure_for.0.is_zero() {
        return Err(Failure::usage_text(
            "--measure-for is zero",
            "say for how long, as in --measure-for 10s",
        ));
    }
    let target = open(args, World::Auto, terminal).await?;
    if !terminal.is_quiet() {
        print::note(&format!("measuring for {}", args.measure_for));
    }
    let server = target.server().how.clone();
    let found = measure(&target, args.measure_for.0).await;
    target.close().await;
    Ok((found.map_err(|error| Failure::unavailable(&error))?, server))
}

fn from(run: &Path) -> String {
    format!("the run in {}", run.display())
}

fn text(text: &str) -> Result<Distribution, Failure> {
    text.parse().map_err(|error: scenarios::distribution::DistributionError| {
        Failure::internal(error.to_string())
    })
}

/// With its file read, where it has one.
fn read(option: &str, mut distribution: Distribution) -> Result<Distribution, Failure> {
    distribution.read(Path::new(".")).map_err(|error| {
        Failure::usage_text(
            format!("{option}: {error}"),
            "name an HdrHistogram log, or CSV whose lines are a value and how often it came",
        )
    })?;
    Ok(distribution)
}

/// What an earlier run has measured of this operation.
fn of_run(run: &Path, tag: &str) -> Result<Distribution, Failure> {
    let log = "latency.hlog";
    // A distribution names its file in text, which a path need not be.
    let (beside, file) = match run.join(log).to_str() {
        Some(file) => (Path::new("."), file.to_owned()),
        None => (run, log.to_owned()),
    };
    let measured = Measured { file, tag: Some(tag.to_owned()), unit: None };
    let mut found = Distribution::Histogram(Histogram::of_file(measured));
    found.read(beside).map_err(|error| {
        Failure::usage_text(
            format!("--from: {error}"),
            "name the directory of a run whose clients got the lock, such as picklock-out/bonus-pool/latest",
        )
    })?;
    Ok(found)
}
