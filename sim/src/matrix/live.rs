//! The matrix in a live world: one run a pair, each with a server of its own; on several kinds of server,
//! one after the other.
//!
//! Invariant: what the live worlds cannot stage is not run and says so; a pair whose run was cut short
//! is not counted as held. One that was vacuous, because a staged fault missed its moment, is run again, a
//! few times at most, and says so. Several pairs run at a time, for clients mostly wait; their servers and proxies
//! know nothing of each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scenarios::matrix::{Conformance, Matrix, Pair, VerdictCounts};
use scenarios::result::ServerFacts;
use scenarios::scenario::Scenario;
use scenarios::verdict::{Finding, Verdict};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};

use super::super::args::{MatrixArgs, ServerArgs};
use super::super::failure::Failure;
use super::super::progress::Progress;
use super::super::terminal::Terminal;
use super::super::{print, run, signal, world};
use harness::world::{CutShort, RunError, RunRequest, World as _};
use live_world::LiveWorld;

/// So many pairs run at a time for every core.
const AT_ONCE: usize = 4;
/// And never more than this at all.
const PLACES_MOST: u32 = 1 << 10;
/// So many clients are a crowd.
const CROWD: u32 = 50;
/// So often a pair is run where one run after the other is vacuous. On a machine that is so busy that three
/// in a row are, a fourth would say no more.
const RUNS_MOST: usize = 3;
/// What latency, jitter and tokens of every run are drawn from.
const SEED: u64 = 1;

/// The matrix on every server that was named, and why there is none on one of them.
pub(super) async fn on_each(
    args: &MatrixArgs,
    scenarios: &[Arc<Scenario>],
    terminal: &Terminal,
) -> Result<(Vec<Matrix>, Option<Failure>), Failure> {
    let servers = world::each(&args.server)?;
    for server in &servers {
        // Nobody should wait for one to hear that another is none.
        world::choose(args.world, server)?;
    }
    let interrupted = signal::watch().map_err(|error| Failure::unavailable(&error))?;
    let (mut all, mut failed) = (Vec::new(), None);
    for server in &servers {
        let found = matrix(args, server, scenarios, interrupted.clone(), terminal).await;
        let failure = match found {
            Ok(found) => {
                all.push(found);
                continue;
            }
            Err(failure) if servers.len() == 1 => return Err(failure),
            Err(failure) => failure,
        };
        // What others have shown is shown all the same, and that nothing is known of this one.
        let why = Some(failure.first_line());
        let pairs = scenarios.iter().map(|it| Pair::not_run(it, why.clone())).collect();
        all.push(Matrix::new(args.world.name(), path(server), pairs, false));
        match failed {
            None => failed = Some(failure),
            Some(_) => print::raw(&failure.render(terminal)),
        }
    }
    Ok((all, failed))
}

fn path(server: &ServerArgs) -> Option<String> {
    world::named(server).map(|path| path.display().to_string())
}

/// Runs every pair that a live world can, on one server.
async fn matrix(
    args: &MatrixArgs,
    server: &ServerArgs,
    scenarios: &[Arc<Scenario>],
    interrupted: watch::Receiver<bool>,
    terminal: &Terminal,
) -> Result<Matrix, Failure> {
    let first = world::choose(args.world, server)?;
    if !terminal.is_quiet() {
        print::note(&first.why);
    }
    let world = LiveWorld::new(first.choice, Handle::current(), interrupted.clone());
    let done = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&done);
    let total = scenarios.len() as u64;
    let progress = Progress::show(terminal, move || shown.load(Ordering::Relaxed), total, "pairs");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let places = args.threads.map_or(AT_ONCE * cores, usize::from).max(1);
    let places = u32::try_from(places).unwrap_or(u32::MAX).min(PLACES_MOST);
    let at_once = Arc::new(Semaphore::new(places as usize));
    let mut running = JoinSet::new();
    let mut pairs: Vec<Option<Pair>> = Vec::new();
    for (place, scenario) in scenarios.iter().enumerate() {
        let pair = match world.check(scenario) {
            Err(RunError::Impossible { why, .. }) => Some(Pair::not_run(scenario, Some(why))),
            checked => checked.map(|()| None).map_err(run::failed)?,
        };
        if pair.is_some() {
            done.fetch_add(1, Ordering::Relaxed);
        } else {
            let (scenario, world) = (Arc::clone(scenario), world.clone());
            let (at_once, done) = (Arc::clone(&at_once), Arc::clone(&done));
            // A crowd has the machine to itself: its clients are not to wait for each other's turn. Of
            // several servers each takes the place of a run.
            let servers = scenario.topology().servers().min(places);
            let takes = if scenario.clients >= CROWD { places } else { servers };
            running.spawn(async move {
                let _place = at_once.acquire_many(takes).await;
                // A run waits for its world, which a runtime must not.
                let found = tokio::task::spawn_blocking(move || settled(world, &scenario)).await;
                done.fetch_add(1, Ordering::Relaxed);
                (place, found)
            });
        }
        pairs.push(pair);
    }
    let mut known = None;
    while let Some(ended) = running.join_next().await {
        let internal = |error: JoinError| Failure::internal(error.to_string());
        let (place, found) = ended.map_err(internal)?;
        let (pair, of_pair) = found.map_err(internal)??;
        pairs[place] = Some(pair);
        known = known.or(of_pair);
    }
    drop(progress);
    let cut_short = *interrupted.borrow();
    let pairs = pairs.into_iter().flatten().collect();
    // Where nothing was run nobody has asked it what it is.
    let known = known.or_else(|| path(server));
    Ok(Matrix::new(first.world.name(), known, pairs, cut_short))
}

/// One pair, run until a run has shown something, and the server it ran against.
fn settled(
    mut world: LiveWorld,
    scenario: &Arc<Scenario>,
) -> Result<(Pair, Option<String>), Failure> {
    let mut run_again = Vec::new();
    loop {
        let (mut pair, known, vacuous) = one(&mut world, scenario)?;
        match vacuous.filter(|_| run_again.len() + 1 < RUNS_MOST) {
            Some(why) => run_again.push(why),
            None => {
                pair.run_again = run_again;
                return Ok((pair, known));
            }
        }
    }
}

/// One run of a pair, the server it ran against, and why it shows nothing of what is claimed, if so.
fn one(
    world: &mut LiveWorld,
    scenario: &Arc<Scenario>,
) -> Result<(Pair, Option<String>, Option<String>), Failure> {
    let stopped = || Pair::not_run(scenario, Some("interrupted".to_owned()));
    let run = match world.run(&RunRequest::new(Arc::clone(scenario), SEED)) {
        // What would strike others is not staged, and no reason to leave out all the rest.
        Err(RunError::NotOurs(why)) => return Ok((Pair::not_run(scenario, Some(why)), None, None)),
        Err(RunError::Interrupted) => return Ok((stopped(), None, None)),
        run => run.map_err(run::failed)?,
    };
    let ServerFacts { software, version, origin, .. } = &run.server;
    let server = Some(format!("{software} {version}, {origin}"));
    if run.cut_short == Some(CutShort::Interrupted) {
        return Ok((stopped(), server, None));
    }
    // Of a run whose server has gone, nothing counts as held: what is claimed of it is not found.
    let findings = run.findings();
    let runs = run.levels(&findings).map(|shown| {
        let mut tally = VerdictCounts::default();
        tally.add(SEED, shown);
        tally
    });
    let pair = Pair::found(scenario, runs).lasting(run.history.duration_ns());
    let vacuous = vacuous(&findings).filter(|_| pair.standing() == Some(Conformance::Vacuous));
    Ok((pair, server, vacuous))
}

/// Why a run shows nothing, where what would have put the lock to the test did not happen. What could not
/// be decided for another reason would not be the next time.
fn vacuous(findings: &[Finding]) -> Option<String> {
    findings.iter().find_map(|it| match &it.verdict {
        Verdict::Vacuous(missing) => Some(missing.to_string()),
        _ => None,
    })
}
