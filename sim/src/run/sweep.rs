//! A sweep: one scenario over many seeds, in the virtual world.
//!
//! Invariant: whatever a sweep finds, the seed it reports is run once more for the report, with the
//! same bytes as before.

#![expect(
    clippy::disallowed_methods,
    reason = "the pace of a sweep is measured in the user's time"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use harness::partition::Partition;
use harness::sweep;
use harness::sweep::{BatchProgress, SweepPlan};
use harness::world::World;
use picklock::time::span_ns;
use reports::html::{FailingRun, SweptPage, sweep_page};
use reports::invariant_table::InvariantTable;
use reports::terminal::{self, Swept};
use scenarios::scenario::Scenario;
use scenarios::sweep::Sweep;

use super::report::{self, Report};
use super::{expectation, request};
use crate::args::{OutputFormat, RunArgs, Seeds, World as WorldName};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::run_batch;
use crate::shard::{PartFound, Question, ShardFile, cpu_ns};
use crate::terminal::Terminal;
use crate::{output, print, world};
use virtual_world::WORLD;

/// How many failing seeds are kept, and how many schedules are shown.
pub(crate) const KEEP: usize = 5;

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
    // Looked at before anything is made.
    world::simulated(args.lua).check(scenario)?;
    if args.shard.shards.is_some() {
        return part(args, scenario, seeds, terminal);
    }
    let report = Report::begin(args, WORLD, &request(scenario, seeds.0.start))?;
    let asked = SweepAsked { args, scenario, seeds };
    let (sweep, swept) = run_sweep(asked, terminal)?;
    write_report(asked, report, &sweep, &swept, terminal)?;
    let (exit, level) = (Exit::of_sweep(&sweep), |level| sweep.level(level));
    Ok(expectation::exit(args, scenario, exit, true, level, terminal))
}

/// What was asked for.
#[derive(Clone, Copy)]
struct SweepAsked<'a> {
    args: &'a RunArgs,
    scenario: &'a Arc<Scenario>,
    seeds: &'a Seeds,
}

/// What the shards of a sweep have found together, printed as by one run of the whole.
pub(crate) fn merged(
    args: &RunArgs,
    seeds: &Seeds,
    scenario: &Arc<Scenario>,
    (sweep, cpu_ns): (&Sweep, u64),
    missing: Option<String>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let report = Report::begin(args, WORLD, &request(scenario, seeds.0.start))?;
    let asked = SweepAsked { args, scenario, seeds };
    let mut swept = asked.swept(sweep);
    swept.remarks.extend(missing);
    write_report(asked, report, sweep, &Swept { cpu_ns, ..swept }, terminal)
}

/// Writes the report, and prints what was found, even if the report cannot be written.
fn write_report(
    asked: SweepAsked<'_>,
    report: Report<'_>,
    sweep: &Sweep,
    swept: &Swept,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let SweepAsked { args, scenario, seeds } = asked;
    let reported = sweep.failing.keys().next().copied().unwrap_or(seeds.0.start);
    let json = report.directory().write("sweep.json", |out| {
        serde_json::to_writer_pretty(&mut *out, sweep)?;
        out.write_all(b"\n")
    });
    let replay = |seeds: &str| report::replay_line(args, scenario, WORLD, seeds, true).text();
    let one = |seed: u64| replay(&format!("--seed {seed}"));
    let all =
        if args.digest { format!("--seeds {seeds} --digest") } else { format!("--seeds {seeds}") };
    let again = |seed: Option<u64>| seed.map_or_else(|| replay(&all), one);
    let Swept { headline, remarks, .. } = swept;
    let mut world = world::simulated(args.lua);
    let worst = worst(&mut world, scenario, sweep, one)?;
    let page = SweptPage {
        scenario: &scenario.name,
        headline,
        remarks,
        reported,
        worst: &worst,
        again: &again(None),
    };
    let page = sweep_page(&page, sweep, one);
    let html = report.directory().write("sweep.html", |out| out.write_all(page.as_bytes()));
    let run = world.run(&request(scenario, reported))?;
    let (first, written) = report.of_seed(reported).files(run, terminal);
    let written = json.and(html).map_err(Failure::unavailable).and(written);
    // An interrupted sweep is not compared with an expectation.
    let expected = expectation::compared(args, scenario, true, |level| sweep.level(level))
        .filter(|_| !sweep.interrupted);
    let table =
        || InvariantTable::sweep(sweep, &first, headline, remarks, again).beside(expected.clone());
    output::write(&args.format, |format| match format {
        OutputFormat::Json => output::json_text(sweep),
        OutputFormat::Junit => report::junit(&table()),
        OutputFormat::Markdown => Ok(table().markdown()),
        OutputFormat::Html => Err(output::no_page()),
        OutputFormat::Human => {
            let summary = terminal::sweep(swept, sweep, one, report::style(terminal));
            let places = written.as_ref().map_or_else(
                |_| String::new(),
                |path| {
                    let path = path.display();
                    format!(
                        "report: {path}/sweep.html, {path}/report.html (seed {reported}), {path}/sweep.json\n"
                    )
                },
            );
            Ok(format!("{summary}{places}replay: {}\n", again(None)))
        }
    })?;
    written.map(drop)
}

/// The worst schedules once more, for their pictures.
fn worst(
    world: &mut impl World,
    scenario: &Arc<Scenario>,
    sweep: &Sweep,
    replay: impl Fn(u64) -> String,
) -> Result<Vec<FailingRun>, Failure> {
    let worst = sweep.worst(KEEP).into_iter().map(|(_, kind)| {
        let run = world.run(&request(scenario, kind.seed))?;
        Ok(report::failing_run(&run, scenario, replay(kind.seed)))
    });
    worst.collect()
}

/// Runs the schedules; the results of the sweep, and how it was done.
fn run_sweep(asked: SweepAsked<'_>, terminal: &Terminal) -> Result<(Sweep, Swept), Failure> {
    let SweepAsked { args, scenario, seeds } = asked;
    let runtime = world::runtime()?;
    let (wall, began_ns) = (Instant::now(), cpu_ns());
    let total = seeds.0.end - seeds.0.start;
    let (plan, theirs, lua) = (asked.plan(), Arc::clone(scenario), args.lua);
    let work =
        move |batch: &BatchProgress| sweep::sweep(|| world::simulated(lua), &theirs, &plan, batch);
    let (swept, _) = runtime.block_on(run_batch(terminal, total, "schedules", work))?;
    let mut sweep = swept?;
    sweep.interrupted = sweep.schedules < total;
    let wall_ns = span_ns(wall.elapsed());
    let swept = asked.swept(&sweep);
    Ok((sweep, Swept { wall_ns, cpu_ns: cpu_ns() - began_ns, ..swept }))
}

impl SweepAsked<'_> {
    fn plan(self) -> SweepPlan {
        SweepPlan {
            seeds: self.seeds.0.clone(),
            part: self.args.shard.partition.unwrap_or(Partition::WHOLE),
            threads: self.args.threads.count(),
            keep: KEEP,
            digest: self.args.digest,
        }
    }

    /// What was swept, without the time it took.
    fn swept(self, sweep: &Sweep) -> Swept {
        let Self { args, scenario, seeds } = self;
        let headline = format!(
            "{}: {} clients, lock {}, world {WORLD}, {}seeds {seeds}",
            scenario.name,
            scenario.clients,
            scenario.lock.recipe,
            if args.searched { "searched, " } else { "" }
        );
        let mut remarks = scenario.remarks();
        if sweep.interrupted {
            remarks.push(format!(
                "interrupted after {} of {} schedules: what the others would have shown is not known",
                sweep.schedules,
                seeds.0.end - seeds.0.start
            ));
        } else {
            remarks.extend(expectation::remark(args, scenario, true, |level| sweep.level(level)));
        }
        Swept { headline, remarks, ..Swept::default() }
    }
}

/// Runs one part of the sweep, and keeps its findings for `merge`. The exit code says whether all was done, and nothing
/// of the findings.
fn part(
    args: &RunArgs,
    scenario: &Arc<Scenario>,
    seeds: &Seeds,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let asked = SweepAsked { args, scenario, seeds };
    let line = report::replay_line(args, scenario, WORLD, &format!("--seeds {seeds}"), true)
        .switch("--digest", args.digest);
    let command = [vec!["run".to_owned()], line.words()].concat();
    let question = Question::new(command, [&**scenario])?;
    let nothing = PartFound::Sweep { next: seeds.0.start, sweep: Sweep::default() };
    let file = ShardFile::open(&args.shard, question, nothing)?;
    let plan = asked.plan();
    let total = plan.schedules();
    let (theirs, lua) = (Arc::clone(scenario), args.lua);
    let work = move |batch: &BatchProgress| work_batches(file, &plan, &theirs, lua, batch);
    let runtime = world::runtime()?;
    let (file, interrupted) = runtime.block_on(run_batch(terminal, total, "schedules", work))?;
    let file = file?;
    let PartFound::Sweep { sweep, .. } = &file.shard.found else {
        return Err(file.of_another_kind());
    };
    print::results(&file.summary(&format!(
        "{} of {total} schedules of seeds {seeds}, {} of them violated something",
        sweep.schedules, sweep.violations
    )))?;
    Ok(Exit::of_shard(file.shard.complete, interrupted))
}

/// Continues a shard until all of it is done, or it has to stop.
fn work_batches(
    mut file: ShardFile,
    plan: &SweepPlan,
    scenario: &Arc<Scenario>,
    lua: bool,
    batch: &BatchProgress,
) -> Result<ShardFile, Failure> {
    if let PartFound::Sweep { sweep, .. } = &file.shard.found {
        batch.before.store(sweep.schedules, Ordering::Relaxed);
    }
    let (before_ns, began_ns, end) = (file.shard.cpu_ns, cpu_ns(), plan.seeds.end);
    while !file.shard.complete {
        let size = file.batch_size();
        let PartFound::Sweep { next, sweep } = &mut file.shard.found else {
            return Err(file.of_another_kind());
        };
        // The seeds of other parts are skipped at once.
        let until = next.saturating_add(size.saturating_mul(plan.part.of)).min(plan.seeds.end);
        let plan = SweepPlan { seeds: *next..until, ..plan.clone() };
        let found = sweep::sweep(|| world::simulated(lua), scenario, &plan, batch)?;
        if batch.stop.load(Ordering::Relaxed) {
            // Not all of the batch was done. It is done again.
            file.save()?;
            return Ok(file);
        }
        sweep.merge(found, KEEP);
        *next = until;
        file.shard.cpu_ns = before_ns + (cpu_ns() - began_ns);
        if until == end {
            file.shard.complete = true;
            file.save()?;
        } else {
            file.end_batch()?;
        }
    }
    Ok(file)
}
