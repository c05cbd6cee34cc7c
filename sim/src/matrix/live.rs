//! The matrix in the live worlds: pairs beside each other, on one server after another.
//!
//! Invariant: a pair that a world cannot stage is not run, and marked so; a pair whose run was cut short does not count as
//! held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::world::{CutShort, RunError, RunRequest, World as _};
use history::verdict::{Finding, Level, Verdict};
use live_world::LiveWorld;
use reports::html::FailingRun;
use scenarios::matrix::{Conformance, INTERRUPTED, Matrix, Pair, VerdictCounts};
use scenarios::result::ServerFacts;
use scenarios::scenario::Scenario;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::{Asked, FailingRuns, MatricesFound, wants_stories};
use crate::args::{MatrixArgs, ServerArgs};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::run::report;
use crate::terminal::Terminal;
use crate::world::{self, Chosen};
use crate::{print, signal};

/// How many pairs run at a time per core: clients mostly wait.
const AT_ONCE: usize = 4;
/// How many pairs run at a time at most.
const PLACES_MOST: u32 = 1 << 10;
/// How often a pair is run while its runs are vacuous. On a machine so busy that three in a row are vacuous, a fourth
/// would show no more.
const RUNS_MOST: usize = 3;
/// The seed of latency, jitter and tokens in every run.
const SEED: u64 = 1;

/// The matrix on every server that was named, and why there is none on one of them.
pub(super) async fn on_each(
    args: &MatrixArgs,
    asked: &Asked,
    terminal: &Terminal,
) -> Result<(MatricesFound, Option<Failure>), Failure> {
    let servers = world::each(&args.server)?;
    for server in &servers {
        // Check all servers first: nobody should wait for one to learn that another cannot be used.
        world::choose(args.world, server)?;
    }
    let interrupted = signal::watch().map_err(Failure::unavailable)?;
    let (mut all, mut failed) = (MatricesFound { matrices: Vec::new(), failing: Vec::new() }, None);
    for server in &servers {
        let found = on_server(args, server, asked, interrupted.clone(), terminal).await;
        let failure = match found {
            Ok((matrix, failing)) => {
                all.matrices.push(matrix);
                all.failing.push(failing);
                continue;
            }
            Err(failure) if servers.len() == 1 => return Err(failure),
            Err(failure) => failure,
        };
        // The results of the others are shown all the same, and this server's pairs as not run.
        let why = Some(failure.first_line());
        let pairs = asked.pairs.iter().map(|it| Pair::not_run(it, why.clone())).collect();
        all.matrices.push(Matrix::new(args.world.name(), path(server), pairs, false));
        all.failing.push(FailingRuns::new());
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
pub(super) async fn on_server(
    args: &MatrixArgs,
    server: &ServerArgs,
    asked: &Asked,
    interrupted: watch::Receiver<bool>,
    terminal: &Terminal,
) -> Result<(Matrix, FailingRuns), Failure> {
    let Chosen { world: name, choice, why } = world::choose(args.world, server)?;
    if !terminal.options.quiet {
        print::note(&why);
    }
    let world = LiveWorld::new(choice, Handle::current(), interrupted.clone()).lua_only(args.lua);
    let mut running = RunningPairs::new(args);
    let (done, total) = (Arc::clone(&running.done), asked.pairs.len() as u64);
    let progress =
        Progress::show(terminal, move || done.load(Ordering::Relaxed), (total, 1), "pairs");
    let mut pairs: Vec<Option<Pair>> = Vec::new();
    for (place, scenario) in asked.pairs.iter().enumerate() {
        pairs.push(match world.check(scenario) {
            Err(RunError::Impossible { why, .. }) => {
                running.done.fetch_add(1, Ordering::Relaxed);
                Some(Pair::not_run(scenario, Some(why)))
            }
            checked => {
                checked?;
                running.start(place, world.clone(), Arc::clone(scenario));
                None
            }
        });
    }
    let found = running.ended().await;
    drop(progress);
    let (mut known, mut failing) = (None, FailingRuns::new());
    for (place, pair, shown) in found? {
        if let Some(it) = shown.failing {
            let run = FailingRun { replay: asked.line(args, &pair, None), ..it };
            failing.insert((pair.scenario.clone(), pair.lock.clone()), run.single());
        }
        pairs[place] = Some(pair);
        known = known.or(shown.server);
    }
    let cut_short = *interrupted.borrow();
    let pairs = pairs.into_iter().flatten().collect();
    // If nothing was run, the server's version is not known.
    let known = known.or_else(|| path(server));
    Ok((Matrix::new(name.name(), known, pairs, cut_short), failing))
}

/// What came of a pair, and its place among all.
type PairEnd = (usize, Result<(Pair, Shown), Failure>);

/// Pairs that run beside each other.
struct RunningPairs {
    tasks: JoinSet<Option<PairEnd>>,
    /// How many run at a time, and a permit for each.
    places: u32,
    permits: Arc<Semaphore>,
    /// How many have ended.
    done: Arc<AtomicU64>,
    wants_stories: bool,
}

impl RunningPairs {
    fn new(args: &MatrixArgs) -> Self {
        let places = args.threads.or_per_cpu(AT_ONCE);
        let places = u32::try_from(places).unwrap_or(u32::MAX).min(PLACES_MOST);
        Self {
            tasks: JoinSet::new(),
            places,
            permits: Arc::new(Semaphore::new(places as usize)),
            done: Arc::default(),
            wants_stories: wants_stories(args),
        }
    }

    /// Runs a pair once there is room for it.
    fn start(&mut self, place: usize, world: LiveWorld, scenario: Arc<Scenario>) {
        let (permits, done) = (Arc::clone(&self.permits), Arc::clone(&self.done));
        let wants_stories = self.wants_stories;
        // A pair with many clients has the machine to itself, so that they need not wait for a core. If a pair has
        // several servers, each takes the place of a run.
        let servers = scenario.topology().servers().min(self.places);
        let takes = if scenario.is_crowded() { self.places } else { servers };
        self.tasks.spawn(async move {
            // Closed once a pair has failed: the rest need not begin.
            let _permit = permits.acquire_many(takes).await.ok()?;
            // A run waits for its world, which a runtime must not.
            let run = move || settled(world, &scenario, wants_stories);
            let found = tokio::task::spawn_blocking(run).await;
            done.fetch_add(1, Ordering::Relaxed);
            Some((place, found.map_err(Failure::internal).and_then(|found| found)))
        });
    }

    /// Waits for all, and returns what they have shown in the order in which they ended.
    async fn ended(mut self) -> Result<Vec<(usize, Pair, Shown)>, Failure> {
        let (mut found, mut failure) = (Vec::new(), None);
        while let Some(ended) = self.tasks.join_next().await {
            match ended.map_err(Failure::internal)? {
                Some((place, Ok((pair, shown)))) => found.push((place, pair, shown)),
                Some((_, Err(error))) => {
                    // The pairs that run need the runtime until they have stopped their servers.
                    self.permits.close();
                    failure.get_or_insert(error);
                }
                None => {}
            }
        }
        failure.map_or(Ok(found), Err)
    }
}

/// What a run of a pair has shown beside its verdicts.
#[derive(Default)]
struct Shown {
    /// The server it ran against.
    server: Option<String>,
    /// Why it shows nothing of what is claimed, if so.
    vacuous: Option<String>,
    /// The run, if stories are wanted and it violates something.
    failing: Option<FailingRun>,
}

/// One pair, run until a run has shown something.
fn settled(
    mut world: LiveWorld,
    scenario: &Arc<Scenario>,
    wants_stories: bool,
) -> Result<(Pair, Shown), Failure> {
    let mut run_again = Vec::new();
    loop {
        let (mut pair, mut shown) = one(&mut world, scenario, wants_stories)?;
        match shown.vacuous.take().filter(|_| run_again.len() + 1 < RUNS_MOST) {
            Some(why) => run_again.push(why),
            None => {
                pair.run_again = run_again;
                return Ok((pair, shown));
            }
        }
    }
}

/// One run of a pair.
fn one(
    world: &mut LiveWorld,
    scenario: &Arc<Scenario>,
    wants_stories: bool,
) -> Result<(Pair, Shown), Failure> {
    let stopped = || Pair::not_run(scenario, Some(INTERRUPTED.to_owned()));
    let run = match world.run(&RunRequest::new(Arc::clone(scenario), SEED)) {
        Err(RunError::Interrupted) => return Ok((stopped(), Shown::default())),
        run => run?,
    };
    let ServerFacts { software, version, origin, .. } = &run.server;
    let server = Some(format!("{software} {version}, {origin}"));
    if run.cut_short == Some(CutShort::Interrupted) {
        return Ok((stopped(), Shown { server, ..Shown::default() }));
    }
    // If the server was lost during a run, nothing in it counts as held.
    let findings = run.findings();
    let runs = Level::ALL.map(|level| VerdictCounts::of_findings(SEED, &findings, level));
    let pair = Pair::found(scenario, runs).lasting(run.history.duration_ns());
    let vacuous = vacuous(&findings).filter(|_| pair.standing() == Some(Conformance::Vacuous));
    let is_shown = wants_stories && runs.iter().any(|it| it.violated > 0);
    let failing = is_shown.then(|| report::failing_run(&run, scenario, String::new()));
    Ok((pair, Shown { server, vacuous, failing }))
}

/// Why a run is vacuous, if the lock was not put to the test. A run that is undecided for another reason would be so
/// the next time, too.
fn vacuous(findings: &[Finding]) -> Option<String> {
    findings.iter().find_map(|it| match &it.verdict {
        Verdict::Vacuous(missing) => Some(missing.to_string()),
        _ => None,
    })
}
