//! A sweep: one scenario over many seeds, in the virtual world.
//!
//! Invariant: whatever a sweep finds, the seed it reports is run once more for the report, with the
//! same bytes as before.

#![expect(
    clippy::disallowed_methods,
    reason = "the pace of a sweep is measured in the user's time"
)]

use std::sync::Arc;
use std::time::Instant;

use harness::sweep;
use harness::sweep::BatchProgress;
use harness::world::World;
use nix::time::{ClockId, clock_gettime};
use picklock::time::span_ns;
use reports::html::{SweptPage, ToldRun, sweep_page};
use reports::invariant_table::InvariantTable;
use reports::terminal::{self, Swept};
use scenarios::matrix::expected;
use scenarios::scenario::Scenario;
use scenarios::sweep::Sweep;

use super::super::args::{OutputFormat, RunArgs, Seeds, World as WorldName};
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::progress::run_batch;
use super::super::terminal::Terminal;
use super::super::{load, output, world};
use super::report::{self, Report};
use super::{failed, request};
use virtual_world::WORLD;

/// So many failing seeds are kept, and so many schedules are told.
const KEEP: usize = 5;

/// Runs many schedules, and reports the first that violated something, or else the first.
pub(super) fn main(
    args: &RunArgs,
    scenario: &Arc<Scenario>,
    seeds: &Seeds,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    if args.world != WorldName::Virtual {
        return Err(Failure::usage_text(
            format!("--seeds {seeds} asks for many schedules, and only the virtual world has them"),
            "add --world virtual, or give one --seed",
        ));
    }
    world::refuse_server(&args.server)?;
    let mut world = world::simulated(args.lua);
    // Looked at before anything is made.
    world.check(scenario).map_err(failed)?;
    let report = Report::begin(args, WORLD, &request(scenario, seeds.0.start))?;
    let (sweep, swept) = look(args, scenario, seeds, terminal)?;
    let reported = sweep.failing.keys().next().copied().unwrap_or(seeds.0.start);
    report
        .directory()
        .write("sweep.json", |out| {
            serde_json::to_writer_pretty(&mut *out, &sweep)?;
            out.write_all(b"\n")
        })
        .map_err(Failure::unavailable)?;
    let replay = |seeds: &str| report::replay(args, scenario, WORLD, seeds, true);
    let one = |seed: u64| replay(&format!("--seed {seed}"));
    let again = |seed: Option<u64>| seed.map_or_else(|| replay(&format!("--seeds {seeds}")), one);
    let Swept { headline, remarks, .. } = &swept;
    let worst = worst(&mut world, scenario, &sweep, one)?;
    let page = SweptPage {
        scenario: &scenario.name,
        headline,
        remarks,
        reported,
        worst: &worst,
        again: &again(None),
    };
    let page = sweep_page(&page, &sweep, one);
    let written = report.directory().write("sweep.html", |out| out.write_all(page.as_bytes()));
    written.map_err(Failure::unavailable)?;
    let run = world.run(&request(scenario, reported)).map_err(failed)?;
    let (first, path) = report.of_seed(reported).files(run, terminal)?;
    let table = || InvariantTable::sweep(&sweep, &first, headline, remarks, again);
    output::write(&args.format, |format| match format {
        OutputFormat::Json => report::json_text(&sweep),
        OutputFormat::Junit => report::junit(&table()),
        OutputFormat::Markdown => Ok(table().markdown()),
        OutputFormat::Html => Err(output::no_page()),
        OutputFormat::Human => {
            let summary = terminal::sweep(&swept, &sweep, one, report::style(terminal));
            let path = path.display();
            Ok(format!(
                "{summary}report: {path}/sweep.html, {path}/report.html (seed {reported}), {path}/sweep.json\n"
            ))
        }
    })?;
    Ok(Exit::of_sweep(&sweep))
}

/// The worst schedules once more, for their pictures.
fn worst(
    world: &mut impl World,
    scenario: &Arc<Scenario>,
    sweep: &Sweep,
    replay: impl Fn(u64) -> String,
) -> Result<Vec<ToldRun>, Failure> {
    let told = sweep.worst(KEEP).into_iter().map(|(_, kind)| {
        let run = world.run(&request(scenario, kind.seed)).map_err(failed)?;
        Ok(report::told(&run, scenario, replay(kind.seed)))
    });
    told.collect()
}

/// What the sweep has found, and how.
fn look(
    args: &RunArgs,
    scenario: &Arc<Scenario>,
    seeds: &Seeds,
    terminal: &Terminal,
) -> Result<(Sweep, Swept), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let runtime = world::runtime()?;
    let (wall, cpu_ns) = (Instant::now(), cpu_ns());
    let total = seeds.0.end - seeds.0.start;
    let theirs = Arc::clone(scenario);
    let plan =
        sweep::SweepPlan { seeds: seeds.0.clone(), threads, keep: KEEP, digest: args.digest };
    let lua = args.lua;
    let work =
        move |batch: &BatchProgress| sweep::sweep(|| world::simulated(lua), &theirs, &plan, batch);
    let (swept, _) = runtime.block_on(run_batch(terminal, total, "schedules", work))?;
    let mut sweep = swept.map_err(failed)?;
    sweep.interrupted = sweep.schedules < total;
    let headline = format!(
        "{}: {} clients, lock {}, world {WORLD}, {}seeds {seeds}, {threads} threads",
        scenario.name,
        scenario.clients,
        scenario.lock.recipe,
        if args.searched { "searched, " } else { "" }
    );
    let mut remarks = scenario.remarks();
    if sweep.interrupted {
        remarks.push(format!(
            "interrupted after {} of {total} schedules: what the others would have shown is not known",
            sweep.schedules
        ));
    } else if args.scenario.as_deref().is_some_and(load::is_file) {
        remarks.extend(expected::remark(scenario, true, |level| sweep.level(level)));
    }
    let wall_ns = span_ns(wall.elapsed());
    let swept = Swept { headline, wall_ns, cpu_ns: self::cpu_ns() - cpu_ns, remarks };
    Ok((sweep, swept))
}

/// Processor time of this process so far, in nanoseconds.
fn cpu_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_or(0, |spent| span_ns(std::time::Duration::from(spent)))
}
