//! `picklock matrix`: every recipe in every scenario, with what is expected beside what is found.
//!
//! Invariant: nothing runs before every name and every format has been checked. The exit code is 0 only if every claim
//! that this world can test was tested and found true.

mod live;
mod part;
mod replay;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use harness::matrix;
use harness::sweep::BatchProgress;
use harness::world::{RunRequest, World as _};
use history::nearest::nearest;
use reports::html::{FailingRun, MatrixSection, matrix_page};
use reports::matrix as written;
use scenarios::catalog;
use scenarios::matrix::{Matrices, Matrix, Pair, locks};
use scenarios::scenario::{Overrides, Scenario, ScenarioFile};
use virtual_world::WORLD;

pub(super) use self::part::merged;
use super::args::{MatrixArgs, OutputFormat, World};
use super::exit::Exit;
use super::failure::{Failure, did_you_mean};
use super::line::Line;
use super::load::{self, Source};
use super::progress::run_batch;
use super::run::{SEARCHED_LIVE, report};
use super::shard::Question;
use super::terminal::Terminal;
use super::{output, world};

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
        _ => runtime.block_on(live::on_each(args, &asked, terminal))?,
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
        let line = Line::new()
            .word("matrix")
            .option("--world", args.world.name())
            .server(&args.server, args.server.redis.is_none())
            .options("--scenario", args.scenario.iter().map(|it| it.display()))
            .options("--lock", &args.lock)
            .options("--seeds", &args.seeds)
            .switch("--searched", args.searched)
            .switch("--lua", args.lua);
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
    Ok(Matrix::new(WORLD, None, pairs?, interrupted))
}

/// The pairs that violate something once more, each with the lowest seed that does.
fn stories(args: &MatrixArgs, asked: &Asked, matrix: &Matrix) -> Result<FailingRuns, Failure> {
    let mut world = world::simulated(args.lua);
    let mut failing = FailingRuns::new();
    for pair in &matrix.pairs {
        let seed = pair.cells.iter().filter_map(|it| it.runs.first_violated).min();
        let is_it = |it: &&Arc<Scenario>| it.name == pair.scenario && it.lock.recipe == pair.lock;
        if let (Some(seed), Some(scenario)) = (seed, asked.pairs.iter().find(is_it)) {
            let run = world.run(&RunRequest::new(Arc::clone(scenario), seed))?;
            let line = asked.line(args, pair, Some(seed));
            let run = report::failing_run(&run, scenario, line);
            failing.insert((pair.scenario.clone(), pair.lock.clone()), run.single());
        }
    }
    Ok(failing)
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
            several => output::json_text(&Matrices::new(several.to_vec()))?,
        },
        OutputFormat::Junit => {
            let replay = |pair: &Pair| asked.replay(args, pair);
            written::junit(found, replay).map_err(Failure::internal)?
        }
        OutputFormat::Markdown => written::markdown(found, &asked.scenarios),
        OutputFormat::Html => return Err(output::no_page()),
    })
}
