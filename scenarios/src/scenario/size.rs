//! How large a scenario may be: a count beyond these is a slip of the finger, or needs more than one machine.
//!
//! Invariant: what passes fits into the memory of one machine. The virtual world's budget grows with what a scenario
//! asks for, so these are the only limits to its size.

use std::time::Duration;

use history::fault::Swarm;

use super::error::{KeyError, wrong};
use super::{RegisterPart, Scenario, WorkloadPart};

/// Clients, and the tasks of all clients together.
pub const TASKS_MOST: u32 = 100_000;
/// From so many clients on a scenario is crowded.
pub(crate) const CROWD: u32 = 50;
/// Rounds of a task, and steps of its work.
const TURNS_MOST: u32 = 100_000;
/// Updates of all tasks together: a history of so many takes about a gigabyte.
const UPDATES_MOST: u64 = 1_000_000;
/// Faults of one kind that a swarm may plan for a schedule.
const STRIKES_MOST: u32 = 1_000;
/// Who may die at each call and comes back sooner begins anew for ever.
const COMES_BACK_LEAST: Duration = Duration::from_millis(1);

impl Scenario {
    /// How many tasks its clients have, all together, those that take the other lock included.
    pub fn tasks(&self) -> u64 {
        u64::from(self.clients)
            * (u64::from(self.workload.tasks()) + u64::from(self.workload.beside()))
    }

    /// Whether it has many clients: one schedule is as long as a hundred others, and a live run needs the whole machine.
    pub fn is_crowded(&self) -> bool {
        self.clients >= CROWD
    }

    /// Whether it is of a size that can be run.
    pub(super) fn check_size(&self) -> Result<(), KeyError> {
        check_clients("clients", self.clients)?;
        check_strikes("swarm", &self.swarm)?;
        let WorkloadPart::Register(register) = &self.workload else { return Ok(()) };
        let RegisterPart { rounds, tasks, beside, steps, .. } = *register;
        let counts = [
            ("tasks", tasks, TASKS_MOST),
            ("beside", beside, TASKS_MOST),
            ("steps", steps, TURNS_MOST),
            ("rounds", rounds, TURNS_MOST),
        ];
        for (key, count, most) in counts {
            at_most(&format!("workload.register.{key}"), key, count, most)?;
        }
        if self.tasks() > TASKS_MOST.into() {
            let key = if beside > tasks { "beside" } else { "tasks" };
            let why = format!("{} tasks of all clients: {TASKS_MOST} is the most", self.tasks());
            let help = "lower clients, or workload.register.tasks and beside";
            return wrong(format!("workload.register.{key}"), why, help);
        }
        // Each factor is at most 100,000, so this cannot overflow.
        let updates = self.tasks() * u64::from(rounds) * u64::from(steps);
        if updates > UPDATES_MOST {
            let key = if steps > rounds { "steps" } else { "rounds" };
            let why = format!(
                "{updates} updates (clients × tasks × rounds × steps): {UPDATES_MOST} is the most"
            );
            let help = "lower one of them, and run more seeds, as in --seeds 0..100";
            return wrong(format!("workload.register.{key}"), why, help);
        }
        Ok(())
    }
}

/// Whether so many clients can contend.
pub(super) fn check_clients(path: &str, clients: u32) -> Result<(), KeyError> {
    if clients == 0 {
        let why = "clients is 0: a scenario needs at least one client";
        return wrong(path, why, "1 is the least");
    }
    at_most(path, "clients", clients, TASKS_MOST)
}

/// Whether a task can make so many rounds.
pub(super) fn check_rounds(path: &str, rounds: u32) -> Result<(), KeyError> {
    at_most(path, "rounds", rounds, TURNS_MOST)
}

/// Whether a schedule can be struck as often as this swarm may plan.
pub(super) fn check_strikes(path: &str, swarm: &Swarm) -> Result<(), KeyError> {
    let comes_back = swarm.comes_back;
    if !comes_back.0.is_zero() && comes_back.0 < COMES_BACK_LEAST {
        let why = format!("comes_back is {comes_back}: 1ms is the least");
        return wrong(format!("{path}.comes_back"), why, "write a longer time");
    }
    let mut counts = swarm.counts().into_iter();
    counts.try_for_each(|(key, count)| at_most(&format!("{path}.{key}"), key, count, STRIKES_MOST))
}

fn at_most(path: &str, key: &str, count: u32, most: u32) -> Result<(), KeyError> {
    if count <= most {
        return Ok(());
    }
    wrong(path, format!("{key} is {count}: {most} is the most"), "write a smaller number")
}
