//! `picklock tune`: what TTL to set.
//!
//! Invariant: nothing is simulated before the whole command line is valid, and every input is printed with its source.

mod confirm;
mod inputs;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::CommandFactory as _;
use picklock::time::span_ns;
use reports::chart::png;
use reports::html::Picture;
use reports::latency::Latencies;
use reports::tuning::{Frontier, page, text};
use reports::{RunDirectory, WriteError};
use scenarios::span::Span;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use ttl_model::tuning::{Confirmation, Point, Protection, SCHEMA, Targets, Tuning};

use self::confirm::{Aborted, Confirm};
use self::inputs::{Inputs, gather};
use super::args::{Cli, Renew, Taken, TuneArgs, TuneFormat};
use super::exit::Exit;
use super::failure::Failure;
use super::line::Line;
use super::progress::Progress;
use super::run::{self, report};
use super::terminal::Terminal;
use super::{print, signal, variables, world};
use ttl_model::format::time;
use ttl_model::{Study, StudyError, StudyProgress, advice};

/// The default of --takeover.
const TAKEOVER: Duration = Duration::from_secs(10);
/// The least --confirm-for.
const SHORTEST_CONFIRMATION: Duration = Duration::from_secs(1);
/// Utilization of a lock beyond which its queue grows without bound.
const BUSY: f64 = 0.95;

pub(super) fn main(args: &TuneArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    check_args(args)?;
    // Before anything is measured or simulated, so that nobody waits for what cannot be kept.
    let directory = run::directory(&args.out, "tune", args.seed)?;
    let runtime = world::runtime()?;
    let tuned = simulate_and_confirm(args, &runtime, terminal);
    // Do not wait for threads that still measure or simulate.
    runtime.shutdown_background();
    let Tuned { tuning, log, cut } = tuned?;
    print_result(args, directory, &tuning, log.as_ref(), terminal)?;
    if let Some(why) = &tuning.cut_short {
        print::note(&format!("{why}; for the rest run: {}", tuning.replay));
        return Ok(Exit::Interrupted);
    }
    match cut {
        Some(Aborted::Interrupted) => return Ok(Exit::Interrupted),
        Some(Aborted::Failed(failure)) => return Err(failure),
        None => {}
    }
    match tuning.confirmation.as_ref().map(Confirmation::agrees) {
        Some(Some(false)) => {
            print::note("the server disagrees with the model: do not rely on this advice");
        }
        Some(None) => print::note("too few holds failed on the server to validate the model"),
        Some(Some(true)) | None => {}
    }
    Ok(Exit::of_tuning(&tuning))
}

/// Refuses options that ask for the impossible, or that have no effect.
fn check_args(args: &TuneArgs) -> Result<(), Failure> {
    for (option, of, is_there) in [
        ("--measure-for", "--measure", args.measure),
        ("--confirm-for", "--confirm", args.confirm),
        ("--redis", "--measure or --confirm", args.measure || args.confirm),
    ] {
        if !is_there && world::is_on_line(option) {
            return Err(Failure::usage_text(
                format!("{option} has no effect without {of}"),
                format!("add {of}, or remove {option}"),
            ));
        }
    }
    if args.confirm && args.confirm_for.0 < SHORTEST_CONFIRMATION {
        return Err(Failure::usage_text(
            format!("--confirm-for {} is too short", args.confirm_for),
            "give at least 1s, such as --confirm-for 20s",
        ));
    }
    for (option, rate) in [("--overlaps", &args.overlaps), ("--lost", &args.lost)] {
        if rate.per_day() == 0.0 {
            return Err(Failure::usage_text(
                format!("{option} {rate}: no simulation can show that something never happens"),
                "say how rare it must be, such as 1/year, or use fencing (--lock fence)",
            ));
        }
    }
    Ok(())
}

/// What was simulated, and what a server has shown of it.
struct Tuned {
    tuning: Tuning,
    /// The measurements, and how long they took in nanoseconds.
    log: Option<(Latencies, u64)>,
    /// What ended the part on the server early.
    cut: Option<Aborted>,
}

/// Measures, simulates, and tries it on a server, as far as that is asked for.
fn simulate_and_confirm(
    args: &TuneArgs,
    runtime: &Runtime,
    terminal: &Terminal,
) -> Result<Tuned, Failure> {
    let signals = signal::watch().map_err(Failure::unavailable)?;
    let mut inputs = gather(args, runtime, signals.clone(), terminal)?;
    let grid = grid(args, &inputs)?;
    fits(args, &inputs)?;
    let study = Study {
        conditions: inputs.conditions.clone(),
        traffic: inputs.traffic,
        grid,
        keepings: Protection::ALL.to_vec(),
        holds: args.holds,
        seed: args.seed,
        threads: args.threads.count(),
    };
    let log = inputs.log.take();
    let confirm = match args.confirm {
        // An unavailable server is reported before anything is simulated.
        true => Some(runtime.block_on(Confirm::open(args, &study, terminal))?),
        false => None,
    };
    let (points, simulated) = runtime.block_on(run_study(study, signals.clone(), terminal))?;
    let mut tuning = judge(args, inputs, points, simulated);
    let cut = match confirm {
        // Interrupted in the simulation: do not start the server part.
        Some(it) if tuning.cut_short.is_some() => {
            runtime.block_on(it.close());
            None
        }
        Some(it) => runtime.block_on(it.run(args, signals, terminal, &mut tuning)),
        None => None,
    };
    Ok(Tuned { tuning, log, cut })
}

/// Writes the report and prints the result, even if the report cannot be written.
fn print_result(
    args: &TuneArgs,
    directory: RunDirectory,
    tuning: &Tuning,
    log: Option<&(Latencies, u64)>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let drawing = Picture::wide(&Frontier(tuning)).map_err(Failure::internal)?;
    let written = write(&directory, tuning, &drawing, log).map_err(Failure::unavailable);
    let mut place = String::new();
    if written.is_ok() {
        place = format!("report: {}/report.html\n", directory.path().display());
        report::finish(directory);
    }
    let said = match args.format {
        TuneFormat::Human => text(tuning, report::style(terminal)) + &place,
        TuneFormat::Json => super::output::json_text(tuning)?,
    };
    print::results(&said)?;
    written
}

/// The settings to evaluate; the lock accepts each.
fn grid(args: &TuneArgs, inputs: &Inputs) -> Result<Vec<(Duration, Option<Duration>)>, Failure> {
    let said = !args.ttl.is_empty();
    let ttls: Vec<Duration> = match said {
        true => args.ttl.iter().map(|it| it.0).collect(),
        false => inputs.traffic.usual_ttls(),
    };
    let trip_ns = inputs.conditions.round_trip.median_ns();
    let (mut grid, mut too_slow) = (Vec::new(), None);
    for ttl in ttls {
        let options = match picklock::Options::builder(ttl).build() {
            Ok(options) => options,
            Err(_) if !said => continue,
            Err(error) => {
                let advice = "give a longer TTL, such as --ttl 5s,10s";
                return Err(Failure::usage_text(format!("--ttl: {error}"), advice));
            }
        };
        let room = options.validity().min(options.call_timeout());
        if span_ns(room) <= trip_ns {
            let failure = no_reply_in_time(ttl, Duration::from_nanos(trip_ns), room);
            if said {
                return Err(failure);
            }
            too_slow = Some(failure);
            continue;
        }
        too_slow = None;
        for renew in &args.renew {
            let renew = match renew {
                Renew::Never => None,
                Renew::Every(span) => Some(span.0),
                Renew::Part(over, under) => Some(ttl * *over / *under),
            };
            match renew {
                // An interval may be too long for some of the TTLs.
                Some(every) if every.is_zero() || every >= options.validity() => {}
                renew if grid.contains(&(ttl, renew)) => {}
                renew => grid.push((ttl, renew)),
            }
        }
    }
    match too_slow {
        _ if !grid.is_empty() => Ok(grid),
        Some(failure) => Err(failure),
        None => Err(Failure::usage_text(
            "no setting to evaluate: every renewal interval reaches the validity of its lock, which is its TTL less the drift allowance",
            "remove --renew, or give longer TTLs, such as --ttl 10s,30s",
        )),
    }
}

/// Refuses a TTL under which the lock waits for a reply no longer than the median round trip.
fn no_reply_in_time(ttl: Duration, trip: Duration, room: Duration) -> Failure {
    // Beyond some TTL the call timeout grows no more.
    let longest = picklock::Options::builder(Duration::from_secs(3_600)).build();
    let is_hopeless = longest.is_ok_and(|longest| longest.call_timeout() <= trip);
    let (what, advice) = match is_hopeless {
        true => ("no TTL is long enough".to_owned(), "give a shorter round trip with --rtt"),
        false => (format!("a TTL of {ttl:?} is too short"), "give a TTL of many round trips"),
    };
    Failure::usage_text(
        format!(
            "{what}: the median round trip is {trip:?}, but the lock waits only {room:?} for a reply"
        ),
        advice,
    )
}

/// Refuses holds without work, overloaded locks, and clocks beyond the lock's drift allowance.
fn fits(args: &TuneArgs, inputs: &Inputs) -> Result<(), Failure> {
    if args.every.0.is_zero() {
        return Err(Failure::usage_text(
            "--every is zero",
            "give the interval of a client, such as --every 1s",
        ));
    }
    if inputs.conditions.hold.mean_ns() == 0.0 {
        return Err(Failure::usage_text(
            "the work under the lock takes no time, so no crash can leave the lock behind",
            "give how long it lasts, such as --hold 1us",
        ));
    }
    let allowed = picklock::validity::Drift::default().ppm;
    if args.drift > allowed {
        return Err(Failure::usage_text(
            format!(
                "a clock drift of {} ppm exceeds the lock's allowance of {allowed} ppm",
                args.drift
            ),
            "no TTL is safe with such clocks: synchronize them, or use fencing",
        ));
    }
    // Clients that skip form no queue.
    if args.if_taken == Taken::Skip {
        return Ok(());
    }
    let tracked = Protection::from(args.lock).is_tracked();
    let busy = inputs.traffic.load(&inputs.conditions, tracked);
    if busy >= BUSY {
        return Err(Failure::usage_text(
            format!("the load of each lock is {:.0} %: too few locks for this work", busy * 100.0),
            "use fewer --clients, a longer --every, more --locks, a shorter --hold or --write, or fewer --pauses; if clients skip \
             their run when the lock is taken, like replicas of a cron job, add --if-taken skip",
        ));
    }
    Ok(())
}

/// Simulates every setting; the results, and how many holds were simulated.
async fn run_study(
    study: Study,
    signals: watch::Receiver<bool>,
    terminal: &Terminal,
) -> Result<(Vec<Point>, u64), Failure> {
    let study_progress = Arc::new(StudyProgress::default());
    let shown = Arc::clone(&study_progress);
    let done = move || shown.done.load(Ordering::Relaxed);
    let progress = Progress::show(terminal, done, (study.parts(), 1), "parts");
    #[expect(clippy::disallowed_methods, reason = "the duration is shown to the user")]
    let began = Instant::now();
    let watch = Arc::clone(&study_progress);
    let work = tokio::task::spawn_blocking(move || study.run(&watch));
    let (points, _) = signal::finish(work, signals, &study_progress.stop).await?;
    let wall = began.elapsed();
    drop(progress);
    let points = points.map_err(|error| match error {
        StudyError::Options(error) => Failure::internal(error),
        StudyError::Threads(error) => Failure::unavailable(error),
    })?;
    let simulated = study_progress.holds.load(Ordering::Relaxed);
    if !terminal.options.quiet {
        #[expect(clippy::cast_precision_loss, reason = "a pace needs no more digits")]
        let pace = simulated as f64 / wall.as_secs_f64().max(1e-9) / 1e6;
        print::note(&format!(
            "simulated {pace:.2} million holds per second, {:.1} s",
            wall.as_secs_f64()
        ));
    }
    Ok((points, simulated))
}

/// What the user wants of a setting.
fn targets(args: &TuneArgs) -> Targets {
    let (takeover, missed) = match (args.takeover, args.if_taken) {
        (Some(takeover), _) => (takeover, None),
        (None, Taken::Wait) => (Span(TAKEOVER), None),
        // If no run is missed, the next one takes the lock; 5 % of slack for its round trip.
        (None, Taken::Skip) => (Span(args.every.0 + args.every.0 / 20), Some(0)),
    };
    Targets {
        overlaps: args.overlaps.to_string(),
        overlaps_per_day: args.overlaps.per_day(),
        lost: args.lost.to_string(),
        lost_per_day: args.lost.per_day(),
        takeover,
        missed,
    }
}

/// Judges the simulated settings, and says which one to choose.
fn judge(args: &TuneArgs, inputs: Inputs, mut points: Vec<Point>, simulated: u64) -> Tuning {
    let unfinished = points.iter().filter(|it| it.unfinished).count();
    let cut_short = (unfinished > 0).then(|| {
        let (finished, all) = (points.len() - unfinished, points.len());
        format!("interrupted after {finished} of {all} settings")
    });
    let (traffic, targets, keeping) = (inputs.traffic, targets(args), args.lock.into());
    advice::judge(&mut points, &targets);
    let mut advice = advice::advise(&points, &targets, keeping);
    if args.if_taken == Taken::Skip {
        let shortest = Duration::from_nanos(inputs.conditions.hold.tail.with_share(0.99));
        advice.because.push(format!(
            "not simulated: offsets between the clocks and start times of clients. 99 % of holds last {} or longer; a client \
             that starts later than that finds the lock free and repeats the run. No TTL prevents this: store with the \
             result which run is done",
            time(Span(shortest))
        ));
    }
    // A crash orphans a lock if its process holds one.
    let held = inputs.conditions.hold.mean_ns() * traffic.asks_per_ns();
    let held = held.min(f64::from(args.locks.min(args.clients)));
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let set = variables::spelt_out(Cli::command(), "tune", &words);
    Tuning {
        schema: SCHEMA.to_owned(),
        inputs: inputs.reported,
        targets,
        keeping,
        seed: args.seed,
        if_taken: args.if_taken.into(),
        holds_per_day: traffic.asks_per_ns() * 86_400e9,
        orphans_per_day: held * args.crashes.per_day(),
        simulated,
        points,
        advice,
        cut_short,
        confirmation: None,
        replay: replay(words.into_iter().chain(set)),
    }
}

/// The replay line, without a password.
fn replay(words: impl Iterator<Item = OsString>) -> String {
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let mut line = Line::plain();
    while let Some(word) = words.next() {
        let is_with_url = word.starts_with("--redis=");
        let has_url = is_with_url || (word == "--redis" && words.next().is_some());
        line = if has_url { line.user_server() } else { line.argument(&word) };
    }
    line.text()
}

/// Writes the files of the report into this directory.
fn write(
    directory: &RunDirectory,
    tuning: &Tuning,
    drawing: &Picture,
    log: Option<&(Latencies, u64)>,
) -> Result<(), WriteError> {
    directory.write("tune.json", |out| {
        serde_json::to_writer_pretty(&mut *out, tuning)?;
        out.write_all(b"\n")
    })?;
    directory.write("frontier.svg", |out| out.write_all(drawing.svg().as_bytes()))?;
    directory.write_by_path("frontier.png", |path| {
        png(&Frontier(tuning), path).map_err(std::io::Error::other)
    })?;
    if let Some((latencies, length_ns)) = log {
        directory.write("measured.hlog", |mut out| {
            reports::hlog::write(latencies, *length_ns, &mut out)
        })?;
    }
    let page = page(tuning, Some(drawing));
    directory.write("report.html", |out| out.write_all(page.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_line_has_everything_but_the_url() {
        let said = |line: &str| replay(line.split(' ').map(OsString::from));
        let plain = "tune --hold 5ms --confirm --redis-x y";
        assert_eq!(said(plain), format!("picklock {plain}"));
        for given in ["--redis redis://:secret@h:1", "--redis=redis://:secret@h:1"] {
            let line = said(&format!("tune {given} --ttl 5s"));
            assert_eq!(line, "picklock tune --redis \"$PICKLOCK_REDIS\" --ttl 5s");
        }
    }
}
