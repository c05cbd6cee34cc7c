//! `picklock matrix`: every recipe in every scenario, expected beside found.
//!
//! Invariant: nothing runs before every name and every format has been looked at; picklock ends with 0
//! only where every claim was put to the test and found true, of those that can be in this world.

mod live;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use harness::matrix;
use harness::progress::BatchProgress;
use reports::matrix as written;
use scenarios::catalog;
use scenarios::matrix::{Conformance, Matrix, Pair, Several, locks};
use scenarios::nearest::nearest;
use scenarios::scenario::{Overrides, Scenario};

use super::args::{MatrixArgs, OutputFormat, World};
use super::exit::Exit;
use super::failure::Failure;
use super::line::Line;
use super::load::{self, Source};
use super::progress::Progress;
use super::run::{SEARCHED_LIVE, failed, report};
use super::terminal::Terminal;
use super::{output, signal, world};
use virtual_world::{VirtualWorld, WORLD};

/// Runs, writes, and says how picklock ends.
pub(super) fn main(args: &MatrixArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check(&args.format)?;
    let asked = Asked::of(args)?;
    let scenarios = asked.pairs.clone();
    let runtime = world::runtime()?;
    let (found, failed) = match args.world {
        World::Virtual => {
            world::refuse_server(&args.server)?;
            (vec![runtime.block_on(on_virtual_time(args, scenarios, terminal))?], None)
        }
        _ if args.searched => {
            return Err(Failure::usage_text(SEARCHED_LIVE, "add --world virtual"));
        }
        _ => {
            if let Some(seeds) = &args.seeds {
                return Err(Failure::usage_text(
                    format!(
                        "--seeds {seeds} asks for many schedules, and only the virtual world has them"
                    ),
                    "add --world virtual, or omit --seeds",
                ));
            }
            runtime.block_on(live::on_each(args, &scenarios, terminal))?
        }
    };
    runtime.shutdown_background();
    output::write(&args.format, |format| text(&found, format, args, &asked, terminal))?;
    failed.map_or(Ok(Exit::of_matrices(&found)), Err)
}

/// What was asked for.
struct Asked {
    /// The pairs, scenario by scenario.
    pairs: Vec<Arc<Scenario>>,
    /// Each scenario as its file has it, for its story.
    told: Vec<Scenario>,
    /// What each scenario of the user's own is called on the command line, by its name.
    files: BTreeMap<String, String>,
}

impl Asked {
    fn of(args: &MatrixArgs) -> Result<Self, Failure> {
        let locks = chosen_locks(&args.lock)?;
        let mut asked = Self { pairs: Vec::new(), told: Vec::new(), files: BTreeMap::new() };
        for source in sources(&args.scenario)? {
            let Source { name, file, text, is_file } = &source;
            let whole = Scenario::parse(name, file, text, &Overrides::default());
            let whole = whole.map_err(Failure::usage)?;
            if asked.told.iter().any(|it| it.name == whole.name) {
                return Err(Failure::usage_text(
                    format!("two scenarios are called {}: one of them in {file}", whole.name),
                    "name them apart, with `name = \"…\"` in the file or with another file name",
                ));
            }
            if args.searched && args.scenario.is_empty() && whole.unsearchable().is_some() {
                continue;
            }
            for lock in &locks {
                let pair = Pair::form((name, file, text), lock, args.searched);
                asked.pairs.push(Arc::new(pair.map_err(Failure::usage)?));
            }
            if *is_file {
                asked.files.insert(whole.name.clone(), file.clone());
            }
            asked.told.push(whole);
        }
        Ok(asked)
    }

    /// The line that runs a pair again: with the seed that violated what was expected to hold, where there
    /// is one, and else with all of them.
    fn replay(&self, args: &MatrixArgs, pair: &Pair) -> String {
        let scenario = self.files.get(&pair.scenario).unwrap_or(&pair.scenario);
        let mut line = Line::new()
            .word("matrix")
            .option("--world", args.world.name())
            .option("--scenario", scenario)
            .option("--lock", &pair.lock)
            .server(&args.server, args.server.redis.is_none());
        let surprising = pair.cells.iter().filter(|it| it.standing == Conformance::Different);
        let seed = surprising.filter_map(|it| it.runs.first_violated).min();
        let seeds = match (seed, &args.seeds) {
            // The live worlds have one seed, and no option for it.
            (Some(seed), _) if args.world == World::Virtual => {
                Some(format!("{seed}..{}", u128::from(seed) + 1))
            }
            (_, Some(seeds)) => Some(seeds.to_string()),
            (_, None) => None,
        };
        if let Some(seeds) = seeds {
            line = line.option("--seeds", &seeds);
        }
        if args.searched { line.word("--searched") } else { line }.text()
    }
}

/// The scenarios that were asked for, those of the catalogue first and in its order; all of these where
/// none was.
fn sources(asked: &[OsString]) -> Result<Vec<Source>, Failure> {
    let named = asked.iter().map(|it| load::source(it)).collect::<Result<Vec<_>, _>>()?;
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|it| it == name);
    let of_catalogue = catalog::ALL.into_iter().map(|(name, _)| name).filter(|name| wanted(name));
    let of_catalogue = of_catalogue.map(|name| load::source(name.as_ref()));
    of_catalogue.chain(named.into_iter().filter(|it| it.is_file).map(Ok)).collect()
}

/// Those of the recipes that were asked for, in their own order; all where none was.
fn chosen_locks(asked: &[String]) -> Result<Vec<&'static str>, Failure> {
    let known: Vec<&str> = locks().collect();
    for name in asked {
        if !known.contains(&name.as_str()) {
            let help = match nearest(name, known.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "`picklock list` shows them all".to_owned(),
            };
            return Err(Failure::usage_text(format!("no recipe is called {name:?}"), help));
        }
    }
    let wanted = |name: &&str| asked.is_empty() || asked.iter().any(|it| it == name);
    Ok(known.into_iter().filter(wanted).collect())
}

async fn on_virtual_time(
    args: &MatrixArgs,
    scenarios: Vec<Arc<Scenario>>,
    terminal: &Terminal,
) -> Result<Matrix, Failure> {
    let mut signals = signal::watch().map_err(|error| Failure::unavailable(&error))?;
    let watched = Arc::new(BatchProgress::default());
    let shown = Arc::clone(&watched);
    let done = move || shown.done.load(Ordering::Relaxed);
    let progress = Progress::show(terminal, done, scenarios.len() as u64, "pairs");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let (seeds, watch) = (args.seeds.as_ref().map(|it| it.0.clone()), Arc::clone(&watched));
    let mut work = tokio::task::spawn_blocking(move || {
        matrix::pairs(VirtualWorld::default, &scenarios, seeds.as_ref(), threads, &watch)
    });
    let mut interrupted = false;
    let pairs = tokio::select! {
        biased;
        pairs = &mut work => pairs,
        Ok(_) = signals.wait_for(|interrupted| *interrupted) => {
            interrupted = true;
            watched.stop.store(true, Ordering::Relaxed);
            work.await
        }
    };
    drop(progress);
    let pairs = pairs.map_err(|error| Failure::internal(error.to_string()))?;
    Ok(Matrix::new(WORLD, None, pairs.map_err(failed)?, interrupted))
}

/// The matrix, of each server, in one format.
fn text(
    found: &[Matrix],
    format: OutputFormat,
    args: &MatrixArgs,
    asked: &Asked,
    terminal: &Terminal,
) -> Result<String, Failure> {
    let internal = |error: &dyn std::error::Error| Failure::internal(error.to_string());
    Ok(match format {
        OutputFormat::Human => reports::terminal::matrix(found, report::style(terminal)),
        OutputFormat::Json => {
            let json = match found {
                [one] => serde_json::to_string_pretty(one),
                several => serde_json::to_string_pretty(&Several::new(several.to_vec())),
            };
            json.map_err(|error| internal(&error))? + "\n"
        }
        OutputFormat::Junit => {
            let replay = |pair: &Pair| asked.replay(args, pair);
            written::junit(found, replay).map_err(|error| internal(&error))?
        }
        OutputFormat::Markdown => written::markdown(found, &asked.told),
    })
}
