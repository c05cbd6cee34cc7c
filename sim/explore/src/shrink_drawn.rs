//! Shrinks a schedule that was drawn: takes away clients and rounds, drawn and staged faults, and then choices.
//!
//! Invariant: every step is run, and kept only if the same invariant is violated at the same level, and if one client
//! harms another, or itself, as before. Which client a fault strikes counts only once the fault is staged.

use std::ops::Range;
use std::sync::Arc;

use harness::world::{ChoicePlan, Run, RunError, RunRequest, World};
use history::fault::{Chance, Staged, Strike, Whom};
use scenarios::scenario::{Scenario, WorkloadPart};
use scenarios::span::Span;

use super::base::{least, one_behind_the_other};
use super::bounds::{Bounds, Size};
use super::violation::Violation;

/// In a smaller world the drawn choices no longer fit, so they are drawn again, from this many seeds beside its own.
const SEEDS: u64 = 40;
/// The largest of the small worlds that are tried.
const SMALL: Bounds = Bounds { clients: 5, rounds: 3, faults: 0 };

/// A schedule that was drawn, and what it violates.
#[derive(Clone, Debug)]
pub struct DrawnSchedule {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The seed of what clients draw for themselves.
    pub seed: u64,
    /// The choices; after their end every choice is benign.
    pub choices: Arc<[u32]>,
    /// What is violated.
    pub violation: Violation,
}

impl DrawnSchedule {
    /// How it is run again.
    pub fn request(&self) -> RunRequest {
        let choices = ChoicePlan::Listed(Arc::clone(&self.choices));
        RunRequest { choices, ..RunRequest::new(Arc::clone(&self.scenario), self.seed) }
    }

    /// How many of its choices are not benign.
    pub fn harmful(&self) -> usize {
        self.choices.iter().filter(|choice| **choice != 0).count()
    }

    /// The schedule of this request if it violates the same, with its choices up to the last that is not benign.
    fn tried(
        &self,
        world: &mut impl World,
        request: &RunRequest,
    ) -> Result<Option<Self>, RunError> {
        let run = world.run(request)?;
        let same =
            Violation::all(&run.findings(), &[]).iter().any(|it| it.is_like(&self.violation));
        let choices = benign_end(&run);
        world.recycle(run);
        Ok(same.then(|| Self {
            scenario: Arc::clone(&request.scenario),
            seed: request.seed,
            choices,
            violation: self.violation.clone(),
        }))
    }
}

/// Shrinks it until no step helps any more, or `is_over` says that there is no time left.
///
/// # Errors
/// [`RunError`] where a schedule cannot be run.
pub fn shrink_drawn(
    world: &mut impl World,
    schedule: &DrawnSchedule,
    is_over: impl Fn() -> bool,
) -> Result<DrawnSchedule, RunError> {
    let smallest = in_a_smaller_world(world, schedule, &is_over)?;
    let smallest = with_less_drawn(world, smallest, &is_over)?;
    let smallest = with_fewer_staged(world, smallest, &is_over)?;
    with_fewer_choices(world, smallest, &is_over)
}

/// Without the kinds of drawing that the violation does not need.
fn with_less_drawn(
    world: &mut impl World,
    mut smallest: DrawnSchedule,
    is_over: &impl Fn() -> bool,
) -> Result<DrawnSchedule, RunError> {
    for calm in CALMER {
        let calmer = Arc::new(calm(&smallest.scenario));
        if calmer == smallest.scenario || is_over() {
            continue;
        }
        let same = RunRequest { scenario: Arc::clone(&calmer), ..smallest.request() };
        let found = match smallest.tried(world, &same)? {
            None => drawn_anew(world, &smallest, &calmer, is_over)?,
            found => found,
        };
        smallest = found.unwrap_or(smallest);
    }
    Ok(smallest)
}

/// Without the staged faults that the violation does not need.
fn with_fewer_staged(
    world: &mut impl World,
    mut smallest: DrawnSchedule,
    is_over: &impl Fn() -> bool,
) -> Result<DrawnSchedule, RunError> {
    // From the end, so that the numbers of earlier faults stay.
    for place in (0..smallest.scenario.faults.len()).rev() {
        if is_over() {
            break;
        }
        let mut fewer = Scenario::clone(&smallest.scenario);
        fewer.faults.remove(place);
        let request = RunRequest { scenario: Arc::new(fewer), ..smallest.request() };
        smallest = smallest.tried(world, &request)?.unwrap_or(smallest);
    }
    Ok(smallest)
}

/// Leaves out blocks of choices, or makes them benign: the whole list first, then blocks of half the size.
fn with_fewer_choices(
    world: &mut impl World,
    mut smallest: DrawnSchedule,
    is_over: &impl Fn() -> bool,
) -> Result<DrawnSchedule, RunError> {
    let mut size = smallest.choices.len();
    while size > 0 {
        let mut from = smallest.choices.len();
        while from > 0 && !is_over() {
            let range = from.saturating_sub(size)..from;
            from = range.start;
            for list in [without(&smallest.choices, &range), benign(&smallest.choices, &range)] {
                let Some(list) = list else { continue };
                let choices = ChoicePlan::Listed(list.into());
                let request = RunRequest { choices, ..smallest.request() };
                if let Some(smaller) = smallest.tried(world, &request)?
                    && measure(&smaller.choices) < measure(&smallest.choices)
                {
                    from = from.min(smaller.choices.len());
                    smallest = smaller;
                    break;
                }
            }
        }
        size /= 2;
    }
    Ok(smallest)
}

/// The smallest world in which one of some seeds violates the same; this world if none does.
fn in_a_smaller_world(
    world: &mut impl World,
    schedule: &DrawnSchedule,
    is_over: &impl Fn() -> bool,
) -> Result<DrawnSchedule, RunError> {
    let whole = &schedule.scenario;
    let (clients, rounds) = (whole.clients, whole.workload.rounds());
    for size in SMALL.sizes() {
        if size.clients > clients
            || size.rounds > rounds
            || (size.clients, size.rounds) == (clients, rounds)
        {
            continue;
        }
        let Some(scenario) = smaller(whole, size) else { continue };
        if let Some(smaller) = drawn_anew(world, schedule, &Arc::new(scenario), is_over)? {
            return Ok(smaller);
        }
    }
    Ok(schedule.clone())
}

/// The same violation in this scenario, by the first of some seeds that shows it.
fn drawn_anew(
    world: &mut impl World,
    schedule: &DrawnSchedule,
    scenario: &Arc<Scenario>,
    is_over: &impl Fn() -> bool,
) -> Result<Option<DrawnSchedule>, RunError> {
    for seed in std::iter::once(schedule.seed).chain(1..=SEEDS) {
        if is_over() {
            break;
        }
        let request = RunRequest::new(Arc::clone(scenario), seed);
        let request = RunRequest { choices: ChoicePlan::Recorded, ..request };
        if let Some(found) = schedule.tried(world, &request)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The steps by which less is drawn, one after the other.
const CALMER: [fn(&Scenario) -> Scenario; 17] = [
    |whole| with(whole, |it| it.network = one_behind_the_other(it.clients)),
    |whole| {
        let everybody: Vec<u32> = (1..=whole.clients).collect();
        with(whole, |it| it.network = least(whole, &everybody))
    },
    |whole| with(whole, |it| it.lock.jitter = Span::default()),
    |whole| with(whole, |it| it.swarm.order = false),
    |whole| with(whole, |it| it.swarm.pause = Strike::default()),
    |whole| with(whole, |it| it.swarm.crash = Chance::default()),
    |whole| with(whole, |it| it.swarm.delay = Strike::default()),
    |whole| with(whole, |it| it.swarm.lose_request = Chance::default()),
    |whole| with(whole, |it| it.swarm.lose_reply = Chance::default()),
    |whole| with(whole, |it| it.swarm.reset = Chance::default()),
    |whole| with(whole, |it| it.swarm.refuse = Chance::default()),
    |whole| with(whole, |it| it.swarm.partitions = 0),
    |whole| with(whole, |it| it.swarm.drift_ppm = 0),
    |whole| {
        with(whole, |it| (it.swarm.clock_step, it.swarm.client_clock_step) = Default::default())
    },
    |whole| with(whole, |it| it.swarm.script_flush = false),
    |whole| with(whole, |it| it.swarm.server_stalls = 0),
    |whole| {
        with(whole, |it| {
            (it.swarm.failovers, it.swarm.power_losses, it.swarm.server_crashes) = (0, 0, 0);
        })
    },
];

fn with(whole: &Scenario, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut changed = whole.clone();
    change(&mut changed);
    changed
}

/// The scenario with fewer clients and rounds; none if a fault names a client that would be missing.
fn smaller(scenario: &Scenario, size: Size) -> Option<Scenario> {
    let is_there = |it: &Staged| match it.on {
        Some(Whom::Client(client)) => client <= size.clients,
        _ => true,
    };
    if !scenario.faults.iter().all(is_there) {
        return None;
    }
    let mut smaller = Scenario { clients: size.clients, ..scenario.clone() };
    let links = &mut smaller.network.link;
    links.retain(|it| it.client.is_none_or(|it| it <= size.clients));
    links.retain(|it| it.clients.is_none_or(|it| it.first <= size.clients));
    for range in links.iter_mut().filter_map(|it| it.clients.as_mut()) {
        range.last = range.last.min(size.clients);
    }
    if let WorkloadPart::Register(register) = &mut smaller.workload {
        register.rounds = size.rounds;
    }
    Some(smaller)
}

/// How large a list of choices is: the choices that are not benign, and then its length.
fn measure(choices: &[u32]) -> (usize, usize) {
    (choices.iter().filter(|choice| **choice != 0).count(), choices.len())
}

/// The choices up to the last that is not benign.
fn benign_end(run: &Run) -> Arc<[u32]> {
    let last = run.choices.iter().rposition(|choice| *choice != 0);
    run.choices[..last.map_or(0, |last| last + 1)].into()
}

/// The list without these.
fn without(choices: &[u32], range: &Range<usize>) -> Option<Vec<u32>> {
    let end = range.end.min(choices.len());
    (range.start < end).then(|| [&choices[..range.start], &choices[end..]].concat())
}

/// The list in which these are benign.
fn benign(choices: &[u32], range: &Range<usize>) -> Option<Vec<u32>> {
    let end = range.end.min(choices.len());
    let strays = choices.get(range.start..end)?.iter().any(|choice| *choice != 0);
    strays.then(|| {
        let mut list = choices.to_vec();
        list[range.start..end].fill(0);
        list
    })
}
