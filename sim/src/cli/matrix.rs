//! `picklock matrix`: every recipe in every scenario, expected beside found.
//!
//! Invariant: nothing runs before every name and every format has been looked at; picklock ends with 0
//! only where every claim was put to the test and found true, of those that can be in this world.

mod live;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reports::matrix as written;
use scenarios::catalog;
use scenarios::matrix::{Matrix, Pair, Several, locks};
use scenarios::nearest::nearest;
use scenarios::scenario::Scenario;

use super::args::{MatrixArgs, OutputFormat, World};
use super::exit::Exit;
use super::failure::Failure;
use super::progress::Progress;
use super::run::{SEARCHED_LIVE, report, unbuildable};
use super::terminal::Terminal;
use super::{output, signal, world};
use crate::virtual_time::{WORLD, matrix};

/// Runs, writes, and says how picklock ends.
pub(super) fn main(args: &MatrixArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check(&args.format)?;
    let scenarios = asked(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(&error))?;
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
                    "add --world virtual, or leave --seeds away",
                ));
            }
            runtime.block_on(live::on_each(args, &scenarios, terminal))?
        }
    };
    runtime.shutdown_background();
    output::write(&args.format, |format| text(&found, format, terminal))?;
    failed.map_or(Ok(Exit::of_matrices(&found)), Err)
}

/// The pairs that were asked for, scenario by scenario.
fn asked(args: &MatrixArgs) -> Result<Vec<Scenario>, Failure> {
    let known: Vec<&str> = catalog::ALL.iter().map(|(name, _)| *name).collect();
    let mut scenarios = chosen("scenario", &args.scenario, known)?;
    if args.searched && args.scenario.is_empty() {
        let all = catalog::all().map_err(Failure::usage)?;
        let has_none =
            |name: &str| all.iter().any(|it| it.name == name && it.unsearchable().is_some());
        scenarios.retain(|name| !has_none(name));
    }
    let locks = chosen("recipe", &args.lock, locks().collect())?;
    let form = if args.searched { Pair::searched } else { Pair::scenario };
    let pairs = scenarios.iter().flat_map(|name| locks.iter().map(move |lock| (name, lock)));
    pairs.map(|(name, lock)| form(name, lock).map_err(Failure::usage)).collect()
}

/// Those of the known names that were asked for, in their own order; all where none was.
fn chosen<'a>(what: &str, asked: &[String], known: Vec<&'a str>) -> Result<Vec<&'a str>, Failure> {
    for name in asked {
        if !known.contains(&name.as_str()) {
            let help = match nearest(name, known.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "`picklock list` shows them all".to_owned(),
            };
            return Err(Failure::usage_text(format!("no {what} is called {name:?}"), help));
        }
    }
    let wanted = |name: &&str| asked.is_empty() || asked.iter().any(|it| it == name);
    Ok(known.into_iter().filter(wanted).collect())
}

async fn on_virtual_time(
    args: &MatrixArgs,
    scenarios: Vec<Scenario>,
    terminal: &Terminal,
) -> Result<Matrix, Failure> {
    let mut signals = signal::watch().map_err(|error| Failure::unavailable(&error))?;
    let watched = Arc::new(matrix::Progress::default());
    let shown = Arc::clone(&watched);
    let done = move || shown.done.load(Ordering::Relaxed);
    let progress = Progress::show(terminal, done, scenarios.len() as u64, "pairs");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let (seeds, watch) = (args.seeds.as_ref().map(|it| it.0.clone()), Arc::clone(&watched));
    let mut work = tokio::task::spawn_blocking(move || {
        matrix::pairs(&scenarios, seeds.as_ref(), threads, &watch)
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
    Ok(Matrix::new(WORLD, None, pairs.map_err(|error| unbuildable(&error))?, interrupted))
}

/// The matrix, of each server, in one format.
fn text(found: &[Matrix], format: OutputFormat, terminal: &Terminal) -> Result<String, Failure> {
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
        OutputFormat::Junit => written::junit(found).map_err(|error| internal(&error))?,
        OutputFormat::Markdown => {
            written::markdown(found, &catalog::all().map_err(Failure::usage)?)
        }
    })
}
