//! The search: every schedule within the bounds, the smallest first.
//!
//! Invariant: what is found depends on the world without faults and the bounds, not on the number of threads. A fault
//! is staged only at a place to which a run with the earlier faults has come, and after those faults. So no two
//! schedules have the same faults in another order.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use harness::sweep::BatchProgress;
use harness::threads::map_on_threads;
use harness::world::{RunError, RunRequest, World};
use history::verdict::{Finding, Vacuous, Verdict};
use serde::{Deserialize, Serialize};

use super::alphabet::Alphabet;
use super::base::{Base, SEED};
use super::bounds::{Bounds, Size};
use super::candidate::Candidate;
use super::place::places;
use super::violation::Violation;

/// How many violations of one invariant are kept: some of them have shorter stories than others.
const KEPT: usize = 32;

/// How far to search, and how.
#[derive(Clone, Copy, Debug)]
pub struct SearchPlan {
    /// How far.
    pub bounds: Bounds,
    /// The number of threads.
    pub threads: usize,
    /// Whether faults are staged that every lock with a TTL assumes away.
    pub beyond: bool,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Explored {
    /// What was tried, in this order.
    pub stages: Vec<SearchStage>,
    /// The first violations of each invariant, from the stages with the fewest faults that have any. Those of one
    /// invariant are all of one size. Ordered by level.
    pub found: Vec<FoundSchedule>,
    /// How it ended.
    pub ended: SearchEnd,
}

/// How a search has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// Every schedule within the bounds was tried, and none violates anything.
    Exhausted,
    /// Something was found.
    Violated,
    /// It was ended before that.
    Stopped,
}

/// All schedules of one size with so many faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchStage {
    /// How large the world is.
    #[serde(flatten)]
    pub size: Size,
    /// How many faults strike.
    pub faults: usize,
    /// How many schedules were run.
    pub schedules: u64,
    /// How many of them violate something.
    pub violating: u64,
    /// In how many others something is undecided, because something happened that the lock assumes not to happen.
    pub undecided: u64,
    /// How many others show nothing: nobody got the lock, nobody contended, or a fault met nobody.
    pub vacuous: u64,
    /// Whether all of them were run.
    #[serde(rename = "whole")]
    pub is_whole: bool,
}

/// A schedule that violates something.
#[derive(Clone, Debug)]
pub struct FoundSchedule {
    /// Which.
    pub candidate: Candidate,
    /// What it violates.
    pub violation: Violation,
}

/// The number of its parent, which has one fault less, and its number among that parent's children; both from 0.
pub type LastNumber = (u64, u64);

/// A search that has tried everything but the schedules with the most faults, which are by far the greatest number.
#[derive(Clone, Debug)]
pub struct SearchFrontier {
    explored: Explored,
    /// By size; none where the search is over.
    last: Vec<(Size, Vec<Task>)>,
}

/// Which of the schedules with the most faults are tried.
#[derive(Clone, Debug)]
pub struct LastPart<F> {
    /// The numbers of those with one fault less of which they are made.
    pub parents: Range<u64>,
    /// Whether one of them is tried.
    pub which: F,
    /// Whether a search that is stopped leaves out everything from its first unfinished parent on, to resume there.
    pub goes_on: bool,
}

/// The results of some of the schedules with the most faults.
#[derive(Clone, Debug)]
pub struct LastFound {
    /// By size.
    pub stages: Vec<SearchStage>,
    /// The first that violate something.
    pub found: Vec<(LastNumber, FoundSchedule)>,
    /// The first parent that is not finished.
    pub next: u64,
}

/// Searches within the bounds until something is found, or the caller stops it. `seen` gets every stage.
///
/// # Errors
/// [`RunError`] if the lock cannot run in such a world.
pub fn search<W: World>(
    world: impl Fn() -> W + Sync,
    base: &Base,
    plan: &SearchPlan,
    progress: &BatchProgress,
    mut seen: impl FnMut(&SearchStage),
) -> Result<Explored, RunError> {
    let frontier = SearchFrontier::reach(&world, base, plan, progress, &mut seen)?;
    let all = LastPart { parents: 0..frontier.parents(), which: |_| true, goes_on: false };
    let LastFound { stages, found, .. } = frontier.look(&world, base, plan, all, progress, seen)?;
    Ok(frontier.explored(stages, found))
}

impl SearchFrontier {
    /// Tries every schedule with fewer faults than the most.
    ///
    /// # Errors
    /// [`RunError`] if the lock cannot run in such a world.
    pub fn reach<W: World>(
        world: &(impl Fn() -> W + Sync),
        base: &Base,
        plan: &SearchPlan,
        progress: &BatchProgress,
        seen: &mut impl FnMut(&SearchStage),
    ) -> Result<Self, RunError> {
        let rounds = plan.bounds.rounds.min(base.rounds_most());
        let sizes = Bounds { rounds, ..plan.bounds }.sizes();
        let mut explored =
            Explored { stages: Vec::new(), found: Vec::new(), ended: SearchEnd::Exhausted };
        // The candidates that are tried next, for each size.
        let calm = |size: &Size| (*size, vec![Task::Run(Candidate::calm(*size))]);
        let mut next: Vec<(Size, Vec<Task>)> = sizes.iter().map(calm).collect();
        for faults in 0..plan.bounds.faults {
            for (size, tasks) in &mut next {
                let batch = TaskBatch { tasks: std::mem::take(tasks), first: 0, keeps_next: true };
                let grown = Grown::all(grow_all(world, base, batch, |_| true, plan, progress)?);
                let stage = SearchStage { size: *size, faults, ..grown.counts };
                seen(&stage);
                explored.stages.push(stage);
                explored.found.extend(grown.found.into_iter().map(|(_, found)| found));
                *tasks = grown.next.into_iter().map(Task::Grow).collect();
                if !stage.is_whole {
                    explored.ended = SearchEnd::Stopped;
                    return Ok(Self { explored, last: Vec::new() });
                }
            }
            if !explored.found.is_empty() {
                return Ok(Self { explored, last: Vec::new() });
            }
        }
        Ok(Self { explored, last: next })
    }

    /// Whether it was stopped before.
    pub fn is_stopped(&self) -> bool {
        self.explored.ended == SearchEnd::Stopped
    }

    /// The number of schedules with one fault less, of which those with the most are made; 0 if the search is over.
    pub fn parents(&self) -> u64 {
        self.last.iter().map(|(_, tasks)| tasks.len() as u64).sum()
    }

    /// Tries this part of the schedules with the most faults.
    ///
    /// # Errors
    /// [`RunError`] if the lock cannot run in such a world.
    pub fn look<W: World>(
        &self,
        world: &(impl Fn() -> W + Sync),
        base: &Base,
        plan: &SearchPlan,
        part: LastPart<impl Fn(LastNumber) -> bool + Sync>,
        progress: &BatchProgress,
        mut seen: impl FnMut(&SearchStage),
    ) -> Result<LastFound, RunError> {
        let LastPart { parents, which, goes_on } = part;
        let (mut stages, mut found, mut before) = (Vec::new(), Vec::new(), 0);
        let mut next = parents.start;
        for (size, tasks) in &self.last {
            let end = before + tasks.len() as u64;
            let place = |number: u64| usize::try_from(number.clamp(before, end) - before);
            let range = place(parents.start).unwrap_or(0)..place(parents.end).unwrap_or(0);
            let first = before + range.start as u64;
            let batch = TaskBatch { tasks: tasks[range].to_vec(), first, keeps_next: false };
            let mut grown = grow_all(world, base, batch, &which, plan, progress)?;
            // Once the search is stopped, no parent of a later size is finished.
            let whole = grown.iter().take_while(|it| it.counts.is_whole).count();
            next += whole as u64;
            if goes_on {
                grown.truncate(whole);
            }
            let grown = Grown::all(grown);
            let stage = SearchStage { size: *size, faults: plan.bounds.faults, ..grown.counts };
            seen(&stage);
            found.extend(grown.found);
            stages.push(stage);
            before = end;
            if !stage.is_whole {
                break;
            }
        }
        Ok(LastFound { stages, found: firsts(found), next })
    }

    /// The whole result, with what these stages have shown of the schedules with the most faults.
    #[must_use]
    pub fn explored(
        self,
        stages: Vec<SearchStage>,
        mut found: Vec<(LastNumber, FoundSchedule)>,
    ) -> Explored {
        let Self { mut explored, .. } = self;
        if !stages.iter().all(|it| it.is_whole) {
            explored.ended = SearchEnd::Stopped;
        }
        explored.stages.extend(stages);
        found.sort_by_key(|(number, _)| *number);
        explored.found.extend(found.into_iter().map(|(_, found)| found));
        explored.settled()
    }
}

impl SearchStage {
    /// Counts what another part of it has counted.
    pub fn add(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.violating += other.violating;
        self.undecided += other.undecided;
        self.vacuous += other.vacuous;
        self.is_whole &= other.is_whole;
    }
}

impl Explored {
    /// How many schedules were run.
    pub fn schedules(&self) -> u64 {
        self.stages.iter().map(|it| it.schedules).sum()
    }

    fn settled(mut self) -> Self {
        let found = self.found.into_iter().map(|it| ((0, 0), it)).collect();
        self.found = firsts(found).into_iter().map(|(_, it)| it).collect();
        if !self.found.is_empty() {
            self.ended = SearchEnd::Violated;
        }
        self
    }
}

/// What is to be done with a candidate.
#[derive(Clone, Debug)]
enum Task {
    /// It is run itself.
    Run(Candidate),
    /// It is run with one more fault, for each that can strike.
    Grow(Candidate),
}

/// Tasks that are done together.
struct TaskBatch {
    tasks: Vec<Task>,
    /// The number of the first.
    first: u64,
    /// Whether candidates that can be tried with one more fault are kept.
    keeps_next: bool,
}

/// The results of some tasks.
struct Grown {
    counts: SearchStage,
    found: Vec<(LastNumber, FoundSchedule)>,
    /// Candidates that can be tried with one more fault.
    next: Vec<Candidate>,
}

impl Grown {
    fn new() -> Self {
        let size = Size { clients: 0, rounds: 0 };
        let counts = SearchStage {
            size,
            faults: 0,
            schedules: 0,
            violating: 0,
            undecided: 0,
            vacuous: 0,
            is_whole: true,
        };
        Self { counts, found: Vec::new(), next: Vec::new() }
    }

    /// The results of all of these together.
    fn all(each: Vec<Self>) -> Self {
        let mut all = Self::new();
        for it in each {
            all.counts.add(&it.counts);
            all.found.extend(it.found);
            all.found = firsts(all.found);
            all.next.extend(it.next);
        }
        all
    }

    fn count(&mut self, findings: &[Finding], candidate: &Candidate) -> Vec<Violation> {
        let violations = Violation::all(findings, &candidate.faults);
        let any = |what: fn(&Verdict) -> bool| findings.iter().any(|it| what(&it.verdict));
        self.counts.schedules += 1;
        match () {
            () if !violations.is_empty() => self.counts.violating += 1,
            () if any(|it| matches!(it, Verdict::Inconclusive(_))) => self.counts.undecided += 1,
            () if any(|it| matches!(it, Verdict::Vacuous(_))) => self.counts.vacuous += 1,
            () => {}
        }
        violations
    }
}

/// The first violations of each invariant, all of one size; ordered by level.
fn firsts(found: Vec<(LastNumber, FoundSchedule)>) -> Vec<(LastNumber, FoundSchedule)> {
    let mut firsts: Vec<(LastNumber, FoundSchedule)> = Vec::new();
    for (number, it) in found {
        let mut same = firsts.iter().filter(|(_, first)| first.violation.is_of(&it.violation));
        let is_larger = same.clone().any(|(_, first)| first.candidate.size != it.candidate.size);
        if !is_larger && same.by_ref().count() < KEPT {
            firsts.push((number, it));
        }
    }
    firsts.sort_by_key(|(_, it)| it.violation.level);
    firsts
}

/// Does all tasks on the threads of the plan, but only their schedules for which `which` is true. The results are in
/// the order of the tasks.
fn grow_all<W: World>(
    world: &(impl Fn() -> W + Sync),
    base: &Base,
    TaskBatch { tasks, first, keeps_next }: TaskBatch,
    which: impl Fn(LastNumber) -> bool + Sync,
    plan: &SearchPlan,
    progress: &BatchProgress,
) -> Result<Vec<Grown>, RunError> {
    let grown = map_on_threads(plan.threads, &tasks, || {
        let mut grower = Grower { world: world(), base, plan, keeps_next, progress };
        let which = &which;
        move |nth, task| Some(grower.grow(task, first + nth as u64, which))
    })?;
    let all = grown.into_iter().map(|it| it.unwrap_or_else(|| unreachable!("every task was done")));
    all.collect()
}

/// One thread's share.
struct Grower<'a, W> {
    world: W,
    base: &'a Base,
    plan: &'a SearchPlan,
    keeps_next: bool,
    progress: &'a BatchProgress,
}

impl<W: World> Grower<'_, W> {
    fn grow(
        &mut self,
        task: &Task,
        number: u64,
        which: impl Fn(LastNumber) -> bool,
    ) -> Result<Grown, RunError> {
        let mut grown = Grown::new();
        if self.progress.stop.load(Ordering::Relaxed) {
            grown.counts.is_whole = false;
            return Ok(grown);
        }
        let candidates = match task {
            Task::Run(candidate) => vec![candidate.clone()],
            Task::Grow(parent) => self.children(parent)?,
        };
        for (child, candidate) in (0..).zip(candidates) {
            if which((number, child)) {
                self.try_out((number, child), candidate, &mut grown)?;
            }
        }
        Ok(grown)
    }

    /// The candidate with one more fault, for each that can strike.
    fn children(&mut self, parent: &Candidate) -> Result<Vec<Candidate>, RunError> {
        let alphabet = Alphabet::of(self.base.whole(), self.plan.beyond);
        let scenario = Arc::new(self.base.scenario(parent));
        let run = self.world.run(&RunRequest::new(scenario, SEED))?;
        let places = places(&run.history, parent.faults.len());
        self.world.recycle(run);
        let faults = places.iter().flat_map(|place| alphabet.at(place, &parent.faults));
        let struck = faults.map(|fault| parent.with(fault));
        // A drop is there from the beginning, so it comes before every fault.
        let drops = if parent.count() == 0 { alphabet.drops() } else { Vec::new() };
        let drops = drops.into_iter().map(|it| Candidate { drop: Some(it), ..parent.clone() });
        Ok(struck.chain(drops).collect())
    }

    fn try_out(
        &mut self,
        number: LastNumber,
        candidate: Candidate,
        grown: &mut Grown,
    ) -> Result<(), RunError> {
        if self.progress.stop.load(Ordering::Relaxed) {
            grown.counts.is_whole = false;
            return Ok(());
        }
        let scenario = Arc::new(self.base.scenario(&candidate));
        let run = self.world.run(&RunRequest::new(scenario, SEED))?;
        let findings = run.findings();
        let violations = grown.count(&findings, &candidate);
        self.world.recycle(run);
        self.progress.done.fetch_add(1, Ordering::Relaxed);
        if violations.is_empty() {
            // After a fault that has struck nobody, everything goes as without it.
            let missed =
                |it: &Finding| matches!(it.verdict, Verdict::Vacuous(Vacuous::NeverStruck(_)));
            if self.keeps_next && !findings.iter().any(missed) {
                grown.next.push(candidate);
            }
        } else {
            let found =
                |violation| (number, FoundSchedule { candidate: candidate.clone(), violation });
            grown.found.extend(violations.into_iter().map(found));
            grown.found = firsts(std::mem::take(&mut grown.found));
        }
        Ok(())
    }
}
