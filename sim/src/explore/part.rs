//! One part of an exploration, for `picklock merge`, and all of them together.
//!
//! Invariant: every part tries all schedules with fewer faults than the most, which are few. From them it learns the
//! schedules with the most faults, and tries its own share of those. So the parts together try what one run tries; the
//! merge runs again only those that violate something.

use std::collections::BTreeSet;
use std::time::Duration;

use explore::{
    Base, Explored, LastFound, LastNumber, LastPart, SearchEnd, SearchFrontier, SearchPlan,
    SearchStage,
};
use harness::partition::Partition;
use harness::sweep::BatchProgress;

use super::{SearchSpent, base, directory, line, plan, write_report};
use crate::args::ExploreArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shard::{PartFound, Question, Shard, ShardFile, cpu_ns, refuse_changed};
use crate::terminal::Terminal;
use crate::{budget, print, world};

/// Tries one part, and keeps its findings for `merge`. The exit code says whether all was done, and nothing of them.
pub(super) fn main(args: &ExploreArgs, base: &Base, terminal: &Terminal) -> Result<Exit, Failure> {
    let nothing = PartFound::Explore { next: 0, stages: Vec::new(), found: Vec::new() };
    let file = ShardFile::open(&args.shard, question(args, base)?, nothing)?;
    let (plan, base) = (plan(args), base.clone());
    let part = args.shard.partition.unwrap_or(Partition::WHOLE);
    let work = move |batch: &BatchProgress| work_batches(file, &base, &plan, part, batch);
    let (file, interrupted) = budget::within(args.budget.0, terminal, work)?;
    let file = file?;
    let PartFound::Explore { stages, .. } = &file.shard.found else {
        return Err(file.of_another_kind());
    };
    let sum = |of: fn(&SearchStage) -> u64| stages.iter().map(of).sum::<u64>();
    print::results(&file.summary(&format!(
        "{} schedules with the most faults, {} of them violate something",
        sum(|it| it.schedules),
        sum(|it| it.violating)
    )))?;
    if !file.shard.complete && !terminal.options.quiet {
        note(stages);
    }
    Ok(Exit::of_shard(file.shard.complete, interrupted))
}

/// Says why nothing was saved, if so.
fn note(stages: &[SearchStage]) {
    let why = match stages {
        [] => "those with fewer faults, which come first at every start, took all of the time",
        _ if stages.iter().all(|it| it.schedules == 0) => {
            "all that add a fault to the same schedule are saved together, and the time was too short for the first of these"
        }
        _ => return,
    };
    print::note(&format!("note: none of these was saved: {why}; give more time with --budget"));
}

/// The question that all parts have in common.
fn question(args: &ExploreArgs, base: &Base) -> Result<Question, Failure> {
    let line = line(args, base)
        .server(&args.server, true)
        .switch("--no-confirm", args.no_confirm)
        .switch("--keep", args.regressions.keep);
    Question::new(line.words(), [base.whole()])
}

/// Continues a shard until all of it is done, or it has to stop.
fn work_batches(
    mut file: ShardFile,
    base: &Base,
    plan: &SearchPlan,
    part: Partition,
    batch: &BatchProgress,
) -> Result<ShardFile, Failure> {
    let (before_ns, began_ns) = (file.shard.cpu_ns, cpu_ns());
    let world = || world::simulated(false);
    let frontier = SearchFrontier::reach(&world, base, plan, batch, &mut |_| {})?;
    let is_mine = |(parent, child): LastNumber| {
        part.takes(parent.wrapping_add(child), format!("{parent}.{child}").as_bytes())
    };
    let mut stopped = frontier.is_stopped();
    while !file.shard.complete && !stopped {
        let size = file.batch_size();
        let PartFound::Explore { next, stages, found } = &mut file.shard.found else {
            return Err(file.of_another_kind());
        };
        let until = next.saturating_add(size).min(frontier.parents());
        let mine = LastPart { parents: *next..until, which: is_mine, goes_on: true };
        let tried = frontier.look(&world, base, plan, mine, batch, |_| {})?;
        add(stages, &tried.stages);
        found.extend(tried.found.iter().map(|(number, _)| *number));
        *next = tried.next;
        stopped = tried.next < until;
        file.shard.cpu_ns = before_ns + (cpu_ns() - began_ns);
        file.shard.complete = tried.next == frontier.parents();
        file.end_batch()?;
    }
    file.save()?;
    Ok(file)
}

fn add(stages: &mut Vec<SearchStage>, more: &[SearchStage]) {
    if stages.is_empty() {
        stages.extend_from_slice(more);
    } else {
        stages.iter_mut().zip(more).for_each(|(stage, more)| stage.add(more));
    }
}

/// What the shards of an exploration have found together, printed as by one run of the whole.
pub(crate) fn merged(
    args: &ExploreArgs,
    asked: &Question,
    shards: impl Iterator<Item = Shard>,
    lacking: Option<String>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let base = base(args)?;
    refuse_changed(asked, &question(args, &base)?)?;
    let directory = directory(args, &base)?;
    let (mut stages, mut found, mut cpu_ns) = (Vec::new(), BTreeSet::new(), 0);
    for shard in shards {
        let PartFound::Explore { stages: more, found: theirs, .. } = shard.found else {
            return Err(Failure::internal("an exploration has a shard of something else"));
        };
        add(&mut stages, &more);
        found.extend(theirs);
        cpu_ns += shard.cpu_ns;
    }
    stages.iter_mut().for_each(|it| it.is_whole &= lacking.is_none());
    let mut explored = explored(args, &base, (stages, &found))?;
    // Shards that have not reached the schedules with the most faults have no stage for them.
    if lacking.is_some() && explored.ended == SearchEnd::Exhausted {
        explored.ended = SearchEnd::Stopped;
    }
    let spent = SearchSpent { took: Duration::from_nanos(cpu_ns), interrupted: false, lacking };
    write_report((args, &base), &explored, spent, directory, terminal)
}

/// The counts, and the schedules that violate something, which are run once more.
fn explored(
    args: &ExploreArgs,
    base: &Base,
    (stages, found): (Vec<SearchStage>, &BTreeSet<LastNumber>),
) -> Result<Explored, Failure> {
    let (plan, batch) = (plan(args), BatchProgress::default());
    let world = || world::simulated(false);
    let frontier = SearchFrontier::reach(&world, base, &plan, &batch, &mut |_| {})?;
    let which = |number: LastNumber| found.contains(&number);
    let violating = LastPart { parents: 0..frontier.parents(), which, goes_on: false };
    let LastFound { found, .. } = frontier.look(&world, base, &plan, violating, &batch, |_| {})?;
    Ok(frontier.explored(stages, found))
}
