//! `picklock attack`: other people's locks, in their own programs.
//!
//! Invariant: what has been started is gone when this returns: workers, with all they have started, and servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use attack::{Attack, AttackError, AttackReport, Campaign, PlanOutcome, human};
use live_world::supervisor::Supervisor;

use super::args::AttackArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::terminal::Terminal;
use super::{print, signal};

/// How long a worker may take to start: a JVM on a busy machine takes seconds.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take over an answer beyond some TTLs.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Learns the worker's commands, strikes at each, and reports.
pub(super) fn main(args: &AttackArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let attack = Arc::new(Attack {
        command: args.command.clone(),
        clients: args.clients,
        ttl: args.ttl.0,
        key: args.key.clone(),
        start_within: START_WITHIN,
        answer_within: args.ttl.0 * 4 + ANSWER_WITHIN,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(&error))?;
    let done = runtime.block_on(async {
        let supervisor = Supervisor::spawn(None).map_err(|error| Failure::unavailable(&error))?;
        let mut stopped = signal::watch().map_err(|error| Failure::unavailable(&error))?;
        let outcome = tokio::select! {
            biased;
            outcome = act(args, &attack, &supervisor, terminal) => outcome,
            _ = stopped.wait_for(|stopped| *stopped) => Err(Failure::interrupted(
                "interrupted before all plans had run",
                "run again, or fewer plans with --only",
            )),
        };
        supervisor.shutdown().await;
        outcome
    });
    done
}

async fn act(
    args: &AttackArgs,
    attack: &Arc<Attack>,
    supervisor: &Supervisor,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    if args.list {
        let plans = attack::list(attack, supervisor).await.map_err(|error| failure(&error))?;
        let lines: Vec<String> =
            plans.iter().map(|plan| format!("{plan}: {}\n", plan.fault.does())).collect();
        print::results(&lines.concat())?;
        return Ok(Exit::Held);
    }
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let jobs = args.jobs.map_or(cores * 2, usize::from);
    let is_quiet = terminal.is_quiet();
    let campaign = Campaign {
        only: args.only.clone(),
        again: args.again,
        jobs,
        stop: Arc::new(AtomicBool::new(false)),
        progress: Box::new(move |done, of| {
            if !is_quiet {
                print::note(&format!("{done} of {of} plans done"));
            }
        }),
    };
    let stop = Arc::clone(&campaign.stop);
    let report =
        attack::run(attack, supervisor, campaign).await.map_err(|error| failure(&error))?;
    stop.store(true, Ordering::Relaxed);
    let command = report.command.join(" ");
    let ttl = args.ttl;
    let text =
        human(&report, |plan| format!("picklock attack --ttl {ttl} --only {plan} -- {command}"));
    print::results(&text)?;
    Ok(exit(&report))
}

fn failure(error: &AttackError) -> Failure {
    match error {
        AttackError::Worker(_) | AttackError::NoLock(_) => Failure::usage_text(
            error.to_string(),
            "a worker reads orders from its standard input and answers them: see docs/attack.md",
        ),
        _ => Failure::unavailable(error),
    }
}

fn exit(report: &AttackReport) -> Exit {
    match () {
        () if !report.complete => Exit::Interrupted,
        () if report.count(PlanOutcome::Bug) > 0 => Exit::Violated,
        () if report.plans.is_empty() => Exit::NothingRan,
        () if report.count(PlanOutcome::Inconclusive) > 0 => Exit::Inconclusive,
        () => Exit::Held,
    }
}
