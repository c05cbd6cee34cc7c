//! The search: every schedule within the bounds, the smallest first.
//!
//! Invariant: what is found depends on the world without faults and the bounds, not on the number of threads. A fault is
//! only ever staged at a place to which a run with the faults before it has come, and behind these; so no two schedules
//! have the same faults in another order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use harness::sweep::BatchProgress;
use harness::world::{RunError, RunRequest, World};
use history::verdict::{Finding, Vacuous, Verdict};

use super::alphabet::Alphabet;
use super::base::{Base, SEED};
use super::bounds::{Bounds, Size};
use super::candidate::Candidate;
use super::place::places;
use super::violation::Violation;

/// So many violations of one invariant are kept: some of them are told in fewer steps than others.
const KEPT: usize = 32;

/// How far to search, and how.
#[derive(Clone, Copy, Debug)]
pub struct SearchPlan {
    /// How far.
    pub bounds: Bounds,
    /// On how many threads.
    pub threads: usize,
    /// Whether faults are staged that every lock which expires assumes away.
    pub beyond: bool,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Explored {
    /// What was tried, in this order.
    pub stages: Vec<SearchStage>,
    /// The first violations of each invariant in the stages with the fewest faults that have any, all of one size, the
    /// nearest level first.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchStage {
    /// How large the world is.
    pub size: Size,
    /// How many faults strike.
    pub faults: usize,
    /// How many schedules were run.
    pub schedules: u64,
    /// How many of them violate something.
    pub violating: u64,
    /// In how many others something is undecided, because the lock assumes that what happened does not happen.
    pub undecided: u64,
    /// How many others show nothing: nobody got the lock, nobody contended, or a fault met nobody.
    pub vacuous: u64,
    /// Whether all of them were run.
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

/// Searches within the bounds until something is found, or the caller has it stopped. `seen` is told of every stage.
///
/// # Errors
/// [`RunError`] where the lock cannot run in such a world.
pub fn search<W: World>(
    world: impl Fn() -> W + Sync,
    base: &Base,
    plan: &SearchPlan,
    progress: &BatchProgress,
    mut seen: impl FnMut(&SearchStage),
) -> Result<Explored, RunError> {
    let rounds = plan.bounds.rounds.min(base.rounds_most());
    let sizes = Bounds { rounds, ..plan.bounds }.sizes();
    let mut explored =
        Explored { stages: Vec::new(), found: Vec::new(), ended: SearchEnd::Exhausted };
    // What each size is to be tried with next.
    let mut parents: Vec<Vec<Candidate>> = sizes.iter().map(|_| Vec::new()).collect();
    for faults in 0..=plan.bounds.faults {
        for (size, parents) in sizes.iter().zip(&mut parents) {
            let keep = faults < plan.bounds.faults;
            let tasks = match faults {
                0 => vec![Task::Run(Candidate::calm(*size))],
                _ => std::mem::take(parents).into_iter().map(Task::Grow).collect(),
            };
            let grown = grow_all(&world, base, &tasks, plan, keep, progress)?;
            let stage = SearchStage { size: *size, faults, ..grown.counts };
            seen(&stage);
            explored.stages.push(stage);
            explored.found.extend(grown.found);
            *parents = grown.next;
            if !stage.is_whole {
                explored.ended = SearchEnd::Stopped;
                return Ok(explored.settled());
            }
        }
        if !explored.found.is_empty() {
            break;
        }
    }
    Ok(explored.settled())
}

impl Explored {
    /// How many schedules were run.
    pub fn schedules(&self) -> u64 {
        self.stages.iter().map(|it| it.schedules).sum()
    }

    fn settled(mut self) -> Self {
        self.found = firsts(self.found);
        if !self.found.is_empty() {
            self.ended = SearchEnd::Violated;
        }
        self
    }
}

/// What is to be done with a candidate.
enum Task {
    /// It is run itself.
    Run(Candidate),
    /// It is run with each fault more that can strike.
    Grow(Candidate),
}

/// What has come of some tasks.
struct Grown {
    counts: SearchStage,
    found: Vec<FoundSchedule>,
    /// What can be tried with one fault more.
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

    fn add(&mut self, other: Self) {
        let SearchStage { schedules, violating, undecided, vacuous, is_whole, .. } = other.counts;
        self.counts.schedules += schedules;
        self.counts.violating += violating;
        self.counts.undecided += undecided;
        self.counts.vacuous += vacuous;
        self.counts.is_whole &= is_whole;
        self.found.extend(other.found);
        self.found = firsts(std::mem::take(&mut self.found));
        self.next.extend(other.next);
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

/// The first violations of each invariant, all of one size, the nearest level first.
fn firsts(found: Vec<FoundSchedule>) -> Vec<FoundSchedule> {
    let mut firsts: Vec<FoundSchedule> = Vec::new();
    for it in found {
        let mut same = firsts.iter().filter(|first| first.violation.is_of(&it.violation));
        let is_larger = same.clone().any(|first| first.candidate.size != it.candidate.size);
        if !is_larger && same.by_ref().count() < KEPT {
            firsts.push(it);
        }
    }
    firsts.sort_by_key(|it| it.violation.level);
    firsts
}

/// Does all tasks, on so many threads; what comes of them stands in their order.
fn grow_all<W: World>(
    world: &(impl Fn() -> W + Sync),
    base: &Base,
    tasks: &[Task],
    plan: &SearchPlan,
    keep: bool,
    progress: &BatchProgress,
) -> Result<Grown, RunError> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<Grown, RunError>>>> =
        tasks.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                let mut grower = Grower { world: world(), base, plan, keep, progress };
                while let Some((task, place)) = {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    tasks.get(nth).zip(done.get(nth))
                } {
                    let grown = grower.grow(task);
                    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(grown);
                }
            });
        }
    });
    let mut whole = Grown::new();
    for place in done {
        let grown = place.into_inner().unwrap_or_else(PoisonError::into_inner);
        whole.add(grown.unwrap_or_else(|| unreachable!("every task has been taken"))?);
    }
    Ok(whole)
}

/// One thread's share.
struct Grower<'a, W> {
    world: W,
    base: &'a Base,
    plan: &'a SearchPlan,
    keep: bool,
    progress: &'a BatchProgress,
}

impl<W: World> Grower<'_, W> {
    fn grow(&mut self, task: &Task) -> Result<Grown, RunError> {
        let mut grown = Grown::new();
        if self.progress.stop.load(Ordering::Relaxed) {
            grown.counts.is_whole = false;
            return Ok(grown);
        }
        match task {
            Task::Run(candidate) => self.try_out(candidate.clone(), &mut grown)?,
            Task::Grow(parent) => {
                for candidate in self.children(parent)? {
                    self.try_out(candidate, &mut grown)?;
                }
            }
        }
        Ok(grown)
    }

    /// The candidate with each fault more that can strike.
    fn children(&mut self, parent: &Candidate) -> Result<Vec<Candidate>, RunError> {
        let alphabet = Alphabet::of(self.base.whole(), self.plan.beyond);
        let scenario = Arc::new(self.base.scenario(parent));
        let run = self.world.run(&RunRequest::new(scenario, SEED))?;
        let places = places(&run.history, parent.faults.len());
        self.world.recycle(run);
        let faults = places.iter().flat_map(|place| alphabet.at(place, &parent.faults));
        let struck = faults.map(|fault| parent.with(fault));
        // It is there from the beginning, so it comes before every fault.
        let drops = if parent.count() == 0 { alphabet.drops() } else { Vec::new() };
        let drops = drops.into_iter().map(|it| Candidate { drop: Some(it), ..parent.clone() });
        Ok(struck.chain(drops).collect())
    }

    fn try_out(&mut self, candidate: Candidate, grown: &mut Grown) -> Result<(), RunError> {
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
            // Behind a fault that has struck nobody comes only what comes without it.
            let missed =
                |it: &Finding| matches!(it.verdict, Verdict::Vacuous(Vacuous::NeverStruck(_)));
            if self.keep && !findings.iter().any(missed) {
                grown.next.push(candidate);
            }
        } else {
            let found = |violation| FoundSchedule { candidate: candidate.clone(), violation };
            grown.found.extend(violations.into_iter().map(found));
            grown.found = firsts(std::mem::take(&mut grown.found));
        }
        Ok(())
    }
}
