//! `picklock attack`: other people's locks, in their own programs.
//!
//! Invariant: when this returns, all that it started is gone: servers, workers, and what workers have started.

mod part;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use attack::{Attack, AttackError, AttackReport, Campaign, NO_FAULT, Oracle, WorkerError};
use live_world::limits::{BESIDES, Links, ensure_open_files};
use live_world::program::ProgramError;
use live_world::supervisor::Supervisor;
use reports::directory::{RunDirectory, WriteError};
use scenarios::scenario::check_span_of_ttl;
use tokio::sync::watch;

use self::part::AttackPart;
pub(super) use self::part::merged;
use super::args::{AttackArgs, OutputFormat, cpus};
use super::exit::Exit;
use super::failure::Failure;
use super::line::Line;
use super::progress::Progress;
use super::run::report::finish;
use super::terminal::Terminal;
use super::world::{Chosen, choose, refuse_several, runtime};
use super::{output, print, run, signal};

/// How many plans run at a time per core: most of the time they wait for TTLs.
const JOBS_PER_CORE: usize = 4;
/// So many connections of a worker to each server are expected: to send, to listen, and to send in the background.
const CONNECTIONS: u64 = 3;
/// A lock with a longer TTL is not attacked: nobody waits for some hundred plans of a few TTLs each.
const TTL_MOST: Duration = Duration::from_secs(3600);
/// How long it may take over an answer beyond some TTLs.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Learns the worker's commands, strikes at each, and reports.
pub(super) fn main(args: &AttackArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check(&args.format)?;
    output::refuse_of_part(&args.shard, &args.format)?;
    if args.server.redis.is_some() {
        return Err(Failure::usage_text(
            "an attack needs a server of its own",
            "omit --redis: picklock starts a redis-server, or uses its own model with --world embedded",
        ));
    }
    if args.oracle.is_some() && args.nodes > 1 {
        return Err(Failure::usage_text(
            "programs that an oracle judges are attacked on one server",
            "omit --nodes, or write a worker: see docs/attack.md",
        ));
    }
    refuse_nothing(args)?;
    refuse_several(&args.server)?;
    let Chosen { choice, why, .. } = choose(args.world, &args.server)?;
    if !terminal.options.quiet {
        print::note(&why);
    }
    let end_within = args.end_within.0;
    let oracle = args.oracle.clone().map(|command| Oracle { command, end_within });
    let attack = Arc::new(Attack {
        command: args.command.clone(),
        server: choice,
        nodes: args.nodes,
        clients: args.clients,
        ttl: args.ttl.0,
        key: args.key.clone(),
        lock_key: args.lock_key.clone(),
        start_within: args.start_within.0,
        answer_within: if oracle.is_some() { end_within } else { args.ttl.0 * 4 + ANSWER_WITHIN },
        oracle,
    });
    ensure_files(&attack)?;
    runtime()?.block_on(async {
        let supervisor = Supervisor::spawn(None).map_err(Failure::unavailable)?;
        let stopped = signal::watch().map_err(Failure::unavailable)?;
        let outcome = act(args, &attack, &supervisor, stopped, terminal).await;
        supervisor.shutdown().await;
        outcome
    })
}

/// Without enough open files a worker cannot connect, and its lock would look broken.
fn ensure_files(attack: &Attack) -> Result<(), Failure> {
    let external = u64::from(attack.nodes) * u64::from(attack.clients);
    let links = Links { external, each: CONNECTIONS, faults: true, ..Links::default() };
    ensure_open_files(links.needed() + BESIDES).map_err(Failure::unavailable)?;
    Ok(())
}

/// Refuses names that are empty, and times that are none.
fn refuse_nothing(args: &AttackArgs) -> Result<(), Failure> {
    check_span_of_ttl(args.ttl)
        .map_err(|why| Failure::usage_text(why, "give whole milliseconds, such as --ttl 600ms"))?;
    if args.ttl.0 > TTL_MOST {
        return Err(Failure::usage_text(
            format!(
                "with a TTL of {} an attack takes too long: each plan lasts a few TTLs",
                args.ttl
            ),
            "have your command lock for an hour at most, such as --ttl 600ms",
        ));
    }
    let times = [("--start-within", args.start_within), ("--end-within", args.end_within)];
    if let Some((option, _)) = times.into_iter().find(|(_, span)| span.0.is_zero()) {
        let help = format!("give a duration, such as {option} 30s");
        return Err(Failure::usage_text(format!("{option} is zero"), help));
    }
    let names = [
        ("--key", Some(&args.key), "name the lock, such as --key picklock-attack"),
        ("--lock-key", args.lock_key.as_ref(), "name a key on the server, or omit it"),
        ("--oracle", args.oracle.as_ref(), "give a shell command, or omit it"),
    ];
    let is_empty = |name: Option<&String>| name.is_some_and(|it| it.trim().is_empty());
    match names.into_iter().find(|(_, name, _)| is_empty(*name)) {
        Some((option, _, help)) => Err(Failure::usage_text(format!("{option} is empty"), help)),
        None => Ok(()),
    }
}

async fn act(
    args: &AttackArgs,
    attack: &Arc<Attack>,
    supervisor: &Supervisor,
    mut stopped: watch::Receiver<bool>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    if !terminal.options.quiet {
        print::note(&format!(
            "learning what your command sends, in runs without a fault that take a few TTLs of {}",
            args.ttl
        ));
    }
    let learnt = tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => return Err(Failure::interrupted(
            "interrupted before any plan was run",
            "run again; `--only` runs fewer plans",
        )),
        learnt = attack::learn(attack, supervisor) => learnt.map_err(|error| failure(args, error))?,
    };
    let mut plans = learnt.plans(&args.only, &args.faults);
    let faultless = args.only.iter().any(|only| only == NO_FAULT);
    let (only, faults) = (args.only.join(" or "), args.faults.join(" or "));
    let none = match &learnt.unknown(&args.only)[..] {
        [] if !plans.is_empty() || faultless => None,
        [] if only.is_empty() => Some(format!("no plan has the fault {faults}")),
        [] => Some(format!("no plan called {only} has the fault {faults}")),
        unknown => Some(format!("no plan is called {}", unknown.join(" or "))),
    };
    if let Some(none) = none {
        let help = "`picklock attack --list -- COMMAND` lists the plans for your worker";
        return Err(Failure::usage_text(none, help));
    }
    if args.list {
        let lines = plans.iter().map(|plan| format!("{plan}: {}\n", plan.fault.does()));
        print::results(&lines.collect::<String>())?;
        learnt.remarks().iter().for_each(|remark| print::note(remark));
        return Ok(Exit::Held);
    }
    let place = match args.shard.shards {
        Some(_) => ReportPlace::Shard(Box::new(AttackPart::open(args, &mut plans)?)),
        None => ReportPlace::Directory(run::directory(&args.out, "attack", 1)?),
    };
    let done = Arc::new(AtomicU64::new(0));
    let campaign = Campaign {
        plans,
        faultless,
        runs_each: args.again,
        jobs: args.jobs.map_or_else(|| cpus() * JOBS_PER_CORE, usize::from),
        done: Arc::clone(&done),
        stopped,
    };
    let done = move || done.load(Ordering::Relaxed);
    let total = campaign.plans.len() as u64;
    let progress =
        Progress::show(terminal, done, (total, (campaign.jobs as u64).min(total)), "plans");
    let report = learnt.attack(supervisor, &campaign).await;
    let report = report.map_err(|error| failure(args, error))?;
    drop(progress);
    match place {
        ReportPlace::Shard(part) => part.keep(report),
        ReportPlace::Directory(directory) => {
            write(args, &report, directory, terminal)?;
            Ok(Exit::of_attack(&report))
        }
    }
}

/// Where the findings are kept.
enum ReportPlace {
    Directory(RunDirectory),
    Shard(Box<AttackPart>),
}

/// Writes the files, and prints what is to be printed.
fn write(
    args: &AttackArgs,
    report: &AttackReport,
    directory: RunDirectory,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let replay = |plan: &str| again(args, plan);
    let json = serde_json::to_string_pretty(report).map_err(Failure::internal)? + "\n";
    let page = attack::page(report, replay);
    let written = write_all(&directory, report, &json, &page);
    // If the directory cannot be written, the findings are still printed.
    output::write(&args.format, |format| {
        Ok(match format {
            OutputFormat::Human => {
                let report_at = directory.path().join("report.html");
                let report_at = match &written {
                    Ok(()) => format!("report: {}\n", report_at.display()),
                    Err(_) => String::new(),
                };
                if terminal.options.quiet {
                    report.sentence() + "\n"
                } else {
                    attack::human(report, replay) + &report_at
                }
            }
            OutputFormat::Json => json.clone(),
            OutputFormat::Markdown => attack::markdown(report),
            OutputFormat::Html => return Err(output::no_page()),
            OutputFormat::Junit => attack::junit(report, replay).map_err(Failure::internal)?,
        })
    })?;
    written.map_err(Failure::unavailable)?;
    finish(directory);
    Ok(())
}

/// The files of an attack: its report as JSON and as a page, and the histories of plans with findings.
fn write_all(
    directory: &RunDirectory,
    report: &AttackReport,
    json: &str,
    page: &str,
) -> Result<(), WriteError> {
    for (name, text) in [("attack.json", json), ("report.html", page)] {
        directory.write(name, |file| file.write_all(text.as_bytes()))?;
    }
    for plan in report.plans.iter().filter(|plan| !plan.findings.is_empty()) {
        let name = format!("{}.jsonl", plan.plan);
        directory.write(&name, |file| history::write(&plan.history, file))?;
    }
    Ok(())
}

/// The command that runs one plan again.
fn again(args: &AttackArgs, plan: &str) -> String {
    let slow = (args.start_within != AttackArgs::START_WITHIN).then_some(args.start_within);
    let line = asked(args, &[plan.to_owned()]).options("--start-within", slow).word("--");
    args.command.iter().fold(line, |line, it| line.argument(&it.to_string_lossy())).text()
}

/// The command line that runs these plans, without the user's command.
fn asked(args: &AttackArgs, only: &[String]) -> Line {
    let several = (args.nodes > 1).then_some(args.nodes);
    let end_within = args.oracle.as_ref().map(|_| args.end_within);
    Line::new()
        .word("attack")
        .options("--only", only)
        .option("--ttl", args.ttl)
        .option("--clients", args.clients)
        .option("--key", &args.key)
        .options("--lock-key", &args.lock_key)
        .options("--nodes", several)
        .option("--world", args.world.name())
        .server(&args.server, true)
        .options("--oracle", &args.oracle)
        .options("--end-within", end_within)
}

fn failure(args: &AttackArgs, error: AttackError) -> Failure {
    match error {
        AttackError::Worker(WorkerError::NoRoom(_)) => Failure::unavailable(error),
        AttackError::Start(ProgramError::NotRun(_))
        | AttackError::Worker(WorkerError::Start(_)) => Failure::usage_text(
            error.to_string(),
            "behind `--` come a program (on PATH, or a file that may be executed) and its arguments, each a word: \
             `-- python3 worker.py`",
        ),
        AttackError::Worker(_) | AttackError::NoLock(_) if args.oracle.is_some() => {
            Failure::usage_text(
                error.to_string(),
                "programs must work, end by themselves and content the oracle while nothing goes wrong: see \
                 docs/attack.md#without-a-worker",
            )
        }
        AttackError::NoLock(_) => Failure::usage_text(
            error.to_string(),
            "docs/attack.md says how the lock's key is found, and which locks cannot be attacked; `picklock attack --help` \
             shows how to write a worker",
        ),
        AttackError::Worker(WorkerError::Silent { order: "ready", .. }) => Failure::usage_text(
            error.to_string(),
            "a worker prints `ready` once it takes orders: `picklock attack --help` shows how. A slow machine needs a longer \
             `--start-within`",
        ),
        AttackError::Worker(_) | AttackError::Misspelt { .. } => Failure::usage_text(
            error.to_string(),
            "a worker reads orders from its standard input and answers them: `picklock attack --help` shows how",
        ),
        _ => Failure::unavailable(error),
    }
}
