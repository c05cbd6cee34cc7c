//! The matrix in a live world: one run a pair, each with a server of its own.
//!
//! Invariant: what the live worlds cannot stage is not run and says so; a pair whose run was cut short
//! is not counted as held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scenarios::checker;
use scenarios::matrix::{Matrix, Pair, Tally};
use scenarios::scenario::Scenario;
use scenarios::verdict::{Level, worst};
use tokio::sync::watch;

use super::super::args::MatrixArgs;
use super::super::failure::Failure;
use super::super::progress::Progress;
use super::super::run::{draw, failed};
use super::super::terminal::Terminal;
use super::super::world::{self, Chosen};
use super::super::{print, signal};
use crate::live::run::{CutShort, Gauge, Order, run};
use crate::live::target::{KeySpace, Settings, Target};

/// What latency, jitter and tokens of every run are drawn from.
const SEED: u64 = 1;

/// Runs every pair that a live world can.
pub(super) async fn matrix(
    args: &MatrixArgs,
    scenarios: Vec<Scenario>,
    terminal: &Terminal,
) -> Result<Matrix, Failure> {
    let interrupted = signal::watch().map_err(|error| Failure::unavailable(&error))?;
    let first = world::choose(args.world, &args.server)?;
    if !terminal.is_quiet() {
        print::note(&first.why);
    }
    let done = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&done);
    let total = scenarios.len() as u64;
    let progress = Progress::show(terminal, move || shown.load(Ordering::Relaxed), total, "pairs");
    let (mut pairs, mut server) = (Vec::with_capacity(scenarios.len()), None);
    for scenario in &scenarios {
        let pair = match scenario.only_virtual() {
            _ if *interrupted.borrow() => Pair::not_run(scenario, Some("interrupted".to_owned())),
            Some(what) => {
                let why = format!("it asks for {what}, and the live worlds cannot do that yet");
                Pair::not_run(scenario, Some(why))
            }
            None => {
                let chosen = world::choose(args.world, &args.server)?;
                one(scenario, chosen, &mut server, interrupted.clone()).await?
            }
        };
        pairs.push(pair);
        done.fetch_add(1, Ordering::Relaxed);
    }
    drop(progress);
    let cut_short = *interrupted.borrow();
    Ok(Matrix::new(first.world.name(), server, pairs, cut_short))
}

async fn one(
    scenario: &Scenario,
    chosen: Chosen,
    server: &mut Option<String>,
    interrupted: watch::Receiver<bool>,
) -> Result<Pair, Failure> {
    let world = chosen.world.name();
    let keys = KeySpace::of_run(&format!("{}-{:016x}", scenario.name, draw()?));
    let settings = Settings { software: scenario.software(), ..Settings::default() };
    let target = Target::open(chosen.choice, keys, &settings)
        .await
        .map_err(|error| Failure::unavailable(&error))?;
    let facts = target.server();
    server.get_or_insert_with(|| format!("{} {}, {}", facts.software, facts.version, facts.how));
    let order = Order { scenario, seed: SEED, world };
    let run = run(&target, order, &Gauge::default(), interrupted).await;
    target.close().await;
    let run = run.map_err(|error| failed(&error))?;
    if run.cut_short == Some(CutShort::Interrupted) {
        return Ok(Pair::not_run(scenario, Some("interrupted".to_owned())));
    }
    // Of a run whose server has gone, nothing counts as held: what is claimed of it is not found.
    let findings = checker::judge(&run.history, run.cut_short.is_none());
    let runs = Level::ALL.map(|level| {
        let of_level = findings.iter().filter(|it| it.level == level);
        let mut tally = Tally::default();
        tally.add(SEED, worst(of_level.map(|it| it.verdict.outcome())));
        tally
    });
    Ok(Pair::found(scenario, runs))
}
