//! `picklock matrix`: every recipe in every scenario, with what is expected beside what is found.
//!
//! Invariant: nothing runs before every name and every format has been checked. The exit code is 0 only if every claim
//! that this world can test was tested and found true. Pairs that the live worlds cannot stage are not run, and marked
//! so; a pair whose run was cut short does not count as held.

mod part;
mod replay;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::matrix;
use harness::sweep::BatchProgress;
use harness::world::{CutShort, Run, RunError, RunRequest, World as _};
use history::nearest::nearest;
use history::verdict::{Finding, Outcome, Verdict};
use live_world::LiveWorld;
use reports::html::{FailingRun, MatrixSection, matrix_page};
use reports::matrix as written;
use scenarios::catalog;
use scenarios::matrix::{Conformance, INTERRUPTED, Matrix, Pair, Several, VerdictCounts, locks};
use scenarios::result::ServerFacts;
use scenarios::scenario::{Overrides, Scenario, ScenarioFile};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use virtual_world::WORLD;

pub(super) use self::part::merged;
use super::args::{MatrixArgs, OutputFormat, ServerArgs, World};
use super::exit::Exit;
use super::failure::{Failure, did_you_mean};
use super::line::Line;
use super::load::{self, Source};
use super::progress::{Progress, run_batch};
use super::run::{SEARCHED_LIVE, failed, report};
use super::shard::Question;
use super::terminal::Terminal;
use super::{output, print, signal, world};

/// How many pairs run at a time per core: clients mostly wait.
const AT_ONCE: usize = 4;
/// How many pairs run at a time at most.
const PLACES_MOST: u32 = 1 << 10;
/// How often a pair is run while its runs are vacuous. On a machine so busy that three in a row are vacuous, a fourth
/// would show no more.
const RUNS_MOST: usize = 3;
/// The seed of latency, jitter and tokens in every run.
const SEED: u64 = 1;

/// Runs, writes, and returns the exit code.
pub(super) fn main(args: &MatrixArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check_places(&args.format)?;
    output::refuse_of_part(&args.shard, &args.format)?;
    world::refuse_lua(args.world, args.lua)?;
    let asked = Asked::read(args)?;
    if args.world == World::Virtual {
        world::refuse_server(&args.server)?;
    } else if args.searched {
        return Err(Failure::usage_text(SEARCHED_LIVE, "add --world virtual"));
    } else if let Some(seeds) = &args.seeds {
        return Err(Failure::usage_text(
            format!("--seeds {seeds} asks for many schedules, and only the virtual world has them"),
            "add --world virtual, or omit --seeds",
        ));
    }
    if args.shard.shards.is_some() {
        return part::run(args, &asked, terminal);
    }
    let runtime = world::runtime()?;
    let (found, failed) = match args.world {
        World::Virtual => {
            let pairs = asked.pairs.clone();
            let counts = PairCounts { done: 0, total: pairs.len() as u64 };
            let matrix = runtime.block_on(on_virtual_time(args, pairs, counts, terminal))?;
            (MatricesFound::of_virtual(args, &asked, matrix)?, None)
        }
        _ => runtime.block_on(on_each(args, &asked, terminal))?,
    };
    runtime.shutdown_background();
    let exit = write_report(args, &asked, found, terminal)?;
    failed.map_or(Ok(exit), Err)
}

/// Writes what was found, and returns the exit code.
fn write_report(
    args: &MatrixArgs,
    asked: &Asked,
    found: MatricesFound,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let MatricesFound { matrices, failing } = found;
    output::write(&args.format, |format| match format {
        OutputFormat::Html => {
            let sections = matrices.iter().zip(&failing);
            let sections: Vec<MatrixSection<'_>> =
                sections.map(|(matrix, failing)| MatrixSection { matrix, failing }).collect();
            Ok(matrix_page(&sections, &asked.scenarios, |pair| asked.replay(args, pair)))
        }
        _ => text(&matrices, format, args, asked, terminal),
    })?;
    Ok(Exit::of_matrices(&matrices))
}

/// Runs of pairs that violate something, by scenario and recipe.
type FailingRuns = BTreeMap<(String, String), FailingRun>;

/// The matrix on each server, and the failing runs of each if a page is asked for.
struct MatricesFound {
    matrices: Vec<Matrix>,
    failing: Vec<FailingRuns>,
}

impl MatricesFound {
    /// A matrix of the virtual world.
    fn of_virtual(args: &MatrixArgs, asked: &Asked, matrix: Matrix) -> Result<Self, Failure> {
        let failing = match wants_stories(args) {
            true => stories(args, asked, &matrix)?,
            false => FailingRuns::new(),
        };
        Ok(Self { matrices: vec![matrix], failing: vec![failing] })
    }
}

/// Whether a page is asked for: only a page shows stories.
fn wants_stories(args: &MatrixArgs) -> bool {
    args.format.iter().any(|it| it.format == OutputFormat::Html)
}

/// What was asked for.
pub(super) struct Asked {
    /// The pairs, scenario by scenario.
    pub(super) pairs: Vec<Arc<Scenario>>,
    /// Each scenario as its file has it, for its story.
    scenarios: Vec<Scenario>,
    /// By the name of each scenario of the user: its file on the command line.
    pub(super) files: BTreeMap<String, String>,
}

impl Asked {
    pub(super) fn read(args: &MatrixArgs) -> Result<Self, Failure> {
        let locks = chosen_locks(&args.lock)?;
        let mut asked = Self { pairs: Vec::new(), scenarios: Vec::new(), files: BTreeMap::new() };
        for source in sources(&args.scenario)? {
            let Source { name, file, text, is_file } = &source;
            let written = ScenarioFile::read(name, file, text).map_err(Failure::usage)?;
            let whole = written.with(&Overrides::default()).map_err(Failure::usage)?;
            if asked.scenarios.iter().any(|it| it.name == whole.name) {
                return Err(Failure::usage_text(
                    format!("two scenarios are called {}: one of them in {file}", whole.name),
                    "name them apart, with `name = \"…\"` in the file or with another file name",
                ));
            }
            if args.searched && args.scenario.is_empty() && whole.unsearchable().is_some() {
                continue;
            }
            for lock in &locks {
                let pair = Pair::form(&written, lock, args.searched);
                asked.pairs.push(Arc::new(pair.map_err(Failure::usage)?));
            }
            if *is_file {
                asked.files.insert(whole.name.clone(), file.clone());
            }
            asked.scenarios.push(whole);
        }
        Ok(asked)
    }

    /// The same with these pairs alone.
    fn of(&self, pairs: Vec<Arc<Scenario>>) -> Self {
        Self { pairs, scenarios: self.scenarios.clone(), files: self.files.clone() }
    }

    /// The question that all parts of the matrix have in common.
    fn question(&self, args: &MatrixArgs) -> Result<Question, Failure> {
        let mut line = Line::new()
            .word("matrix")
            .option("--world", args.world.name())
            .server(&args.server, args.server.redis.is_none());
        for scenario in &args.scenario {
            line = line.option("--scenario", &scenario.to_string_lossy());
        }
        for lock in &args.lock {
            line = line.option("--lock", lock);
        }
        if let Some(seeds) = &args.seeds {
            line = line.option("--seeds", &seeds.to_string());
        }
        for (switch, is_on) in [("--searched", args.searched), ("--lua", args.lua)] {
            line = if is_on { line.word(switch) } else { line };
        }
        Question::new(line.words(), self.pairs.iter().map(|it| &**it))
    }
}

/// The scenarios that were asked for, those of the catalogue first and in its order; the whole catalogue if none was.
fn sources(asked: &[OsString]) -> Result<Vec<Source>, Failure> {
    let named = asked.iter().map(|it| load::source(it)).collect::<Result<Vec<_>, _>>()?;
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|it| it == name);
    let of_catalogue = catalog::ALL.into_iter().map(|(name, _)| name).filter(|name| wanted(name));
    let of_catalogue = of_catalogue.map(|name| load::source(name.as_ref()));
    of_catalogue.chain(named.into_iter().filter(|it| it.is_file).map(Ok)).collect()
}

/// The recipes that were asked for, in their own order; all if none was.
fn chosen_locks(asked: &[String]) -> Result<Vec<&'static str>, Failure> {
    let known: Vec<&str> = locks().collect();
    for name in asked {
        if !known.contains(&name.as_str()) {
            let nearest = nearest(name, known.iter().copied());
            let help = did_you_mean(nearest, "`picklock list` shows them all");
            return Err(Failure::usage_text(format!("no recipe is called {name:?}"), help));
        }
    }
    let wanted = |name: &&str| asked.is_empty() || asked.iter().any(|it| it == name);
    Ok(known.into_iter().filter(wanted).collect())
}

/// The counts with which progress begins.
struct PairCounts {
    /// How many pairs are done already.
    done: u64,
    /// How many there are, with those.
    total: u64,
}

/// Runs these pairs.
async fn on_virtual_time(
    args: &MatrixArgs,
    scenarios: Vec<Arc<Scenario>>,
    PairCounts { done, total }: PairCounts,
    terminal: &Terminal,
) -> Result<Matrix, Failure> {
    let threads = args.threads.count();
    let (seeds, lua) = (args.seeds.as_ref().map(|it| it.0.clone()), args.lua);
    let work = move |batch: &BatchProgress| {
        batch.before.store(done, Ordering::Relaxed);
        matrix::pairs(|| world::simulated(lua), &scenarios, seeds.as_ref(), threads, batch)
    };
    let (pairs, interrupted) = run_batch(terminal, total, "pairs", work).await?;
    Ok(Matrix::new(WORLD, None, pairs.map_err(failed)?, interrupted))
}

/// The pairs that violate something once more, each with the lowest seed that does.
fn stories(args: &MatrixArgs, asked: &Asked, matrix: &Matrix) -> Result<FailingRuns, Failure> {
    let mut world = world::simulated(args.lua);
    let mut failing = FailingRuns::new();
    for pair in &matrix.pairs {
        let seed = pair.cells.iter().filter_map(|it| it.runs.first_violated).min();
        let is_it = |it: &&Arc<Scenario>| it.name == pair.scenario && it.lock.recipe == pair.lock;
        if let (Some(seed), Some(scenario)) = (seed, asked.pairs.iter().find(is_it)) {
            let run = world.run(&RunRequest::new(Arc::clone(scenario), seed)).map_err(failed)?;
            let line = asked.line(args, pair, Some(seed));
            let run = report::failing_run(&run, scenario, line);
            failing.insert((pair.scenario.clone(), pair.lock.clone()), run.single());
        }
    }
    Ok(failing)
}

/// The matrix on every server that was named, and why there is none on one of them.
async fn on_each(
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
async fn on_server(
    args: &MatrixArgs,
    server: &ServerArgs,
    asked: &Asked,
    interrupted: watch::Receiver<bool>,
    terminal: &Terminal,
) -> Result<(Matrix, FailingRuns), Failure> {
    let (scenarios, is_told) = (&asked.pairs, wants_stories(args));
    let first = world::choose(args.world, server)?;
    if !terminal.options.quiet {
        print::note(&first.why);
    }
    let world =
        LiveWorld::new(first.choice, Handle::current(), interrupted.clone()).lua_only(args.lua);
    let done = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&done);
    let total = scenarios.len() as u64;
    let progress = Progress::show(terminal, move || shown.load(Ordering::Relaxed), total, "pairs");
    let places = u32::try_from(args.threads.or_per_cpu(AT_ONCE)).unwrap_or(u32::MAX).min(PLACES_MOST);
    let at_once = Arc::new(Semaphore::new(places as usize));
    let mut running = JoinSet::new();
    let mut pairs: Vec<Option<Pair>> = Vec::new();
    for (place, scenario) in scenarios.iter().enumerate() {
        let pair = match world.check(scenario) {
            Err(RunError::Impossible { why, .. }) => Some(Pair::not_run(scenario, Some(why))),
            checked => checked.map(|()| None).map_err(failed)?,
        };
        if pair.is_some() {
            done.fetch_add(1, Ordering::Relaxed);
        } else {
            let (scenario, world) = (Arc::clone(scenario), world.clone());
            let (at_once, done) = (Arc::clone(&at_once), Arc::clone(&done));
            // A pair with many clients has the machine to itself, so that they need not wait for a core. If a pair
            // has several servers, each takes the place of a run.
            let servers = scenario.topology().servers().min(places);
            let takes = if scenario.is_crowded() { places } else { servers };
            running.spawn(async move {
                // Closed once a pair has failed: the rest need not begin.
                let _permit = at_once.acquire_many(takes).await.ok()?;
                // A run waits for its world, which a runtime must not.
                let found =
                    tokio::task::spawn_blocking(move || settled(world, &scenario, is_told)).await;
                done.fetch_add(1, Ordering::Relaxed);
                Some((place, found.map_err(Failure::internal).and_then(|found| found)))
            });
        }
        pairs.push(pair);
    }
    let (mut known, mut failing, mut failure) = (None, FailingRuns::new(), None);
    while let Some(ended) = running.join_next().await {
        let Some((place, found)) = ended.map_err(Failure::internal)? else { continue };
        let (pair, shown) = match found {
            Ok(found) => found,
            Err(error) => {
                // The pairs that run need the runtime until they have stopped their servers.
                at_once.close();
                failure.get_or_insert(error);
                continue;
            }
        };
        if let Some(it) = shown.failing {
            let run = FailingRun { replay: asked.line(args, &pair, None), ..it };
            failing.insert((pair.scenario.clone(), pair.lock.clone()), run.single());
        }
        pairs[place] = Some(pair);
        known = known.or(shown.server);
    }
    drop(progress);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let cut_short = *interrupted.borrow();
    let pairs = pairs.into_iter().flatten().collect();
    // If nothing was run, the server's version is not known.
    let known = known.or_else(|| path(server));
    Ok((Matrix::new(first.world.name(), known, pairs, cut_short), failing))
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
    is_told: bool,
) -> Result<(Pair, Shown), Failure> {
    let mut run_again = Vec::new();
    loop {
        let (mut pair, mut shown) = one(&mut world, scenario, is_told)?;
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
    is_told: bool,
) -> Result<(Pair, Shown), Failure> {
    let stopped = || Pair::not_run(scenario, Some(INTERRUPTED.to_owned()));
    let run = match world.run(&RunRequest::new(Arc::clone(scenario), SEED)) {
        Err(RunError::Interrupted) => return Ok((stopped(), Shown::default())),
        run => run.map_err(failed)?,
    };
    let ServerFacts { software, version, origin, .. } = &run.server;
    let server = Some(format!("{software} {version}, {origin}"));
    if run.cut_short == Some(CutShort::Interrupted) {
        return Ok((stopped(), Shown { server, ..Shown::default() }));
    }
    // If the server was lost during a run, nothing in it counts as held.
    let findings = run.findings();
    let levels = Run::levels(&findings);
    let runs = levels.map(|shown| {
        let mut tally = VerdictCounts::default();
        tally.add(SEED, shown);
        tally
    });
    let pair = Pair::found(scenario, runs).lasting(run.history.duration_ns());
    let vacuous = vacuous(&findings).filter(|_| pair.standing() == Some(Conformance::Vacuous));
    let is_told = is_told && levels.contains(&Outcome::Violated);
    let failing = is_told.then(|| report::failing_run(&run, scenario, String::new()));
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

/// The matrix, of each server, in one format.
fn text(
    found: &[Matrix],
    format: OutputFormat,
    args: &MatrixArgs,
    asked: &Asked,
    terminal: &Terminal,
) -> Result<String, Failure> {
    Ok(match format {
        OutputFormat::Human => {
            let replays = asked.replays(args, found).filter(|_| !terminal.options.quiet);
            reports::terminal::matrix(found, report::style(terminal)) + &replays.collect::<String>()
        }
        OutputFormat::Json => match found {
            [one] => output::json_text(one)?,
            several => output::json_text(&Several::new(several.to_vec()))?,
        },
        OutputFormat::Junit => {
            let replay = |pair: &Pair| asked.replay(args, pair);
            written::junit(found, replay).map_err(Failure::internal)?
        }
        OutputFormat::Markdown => written::markdown(found, &asked.scenarios),
        OutputFormat::Html => return Err(output::no_page()),
    })
}
