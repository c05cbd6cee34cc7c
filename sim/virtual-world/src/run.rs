//! One schedule after the other, in one world.
//!
//! Invariant: what comes of a schedule follows from the scenario, the seed and the choices, and from
//! nothing else: no clock, no thread, no place on the disk, no schedule before it. Deliberately
//! absent: judging.

use std::sync::Arc;
use std::task::Context;

use picklock::time::span_ns;
use scenarios::fault::Staged;
use scenarios::history::Journal;
use scenarios::recipe::BuildError;
use scenarios::scenario::Scenario;
use scenarios::sweep::Facts;
use scenarios::trial::{Naming, Trial};

use super::choices::Choices;
use super::dial::Purpose;
use super::env::VirtualEnv;
use super::tasks::{Wakers, Work};
use super::travel::Travel;
use super::world::{Turn, with};

/// What the names of all keys begin with: every world is its own.
const PREFIX: &str = "picklock:{virtual}:";
/// The world's name.
pub const WORLD: &str = "virtual";
/// The run itself, as a process.
const RUN: u32 = 0;
/// How long the clients may take before the heal, and at least again after it, beyond ten TTLs.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Runs schedules of one scenario, in this thread's world.
pub struct Runner {
    scenario: Scenario,
    /// Its staged faults.
    cues: Arc<[Staged]>,
    trial: Arc<Trial<VirtualEnv>>,
    travel: Arc<Travel>,
}

/// What has come of a schedule, beside its history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// What its history does not say.
    pub facts: Facts,
    /// What was chosen, where that was written down.
    pub taken: Vec<u32>,
}

impl Runner {
    /// Puts the scenario together.
    ///
    /// # Errors
    /// [`BuildError`] where its recipe cannot work with its parameters.
    pub fn new(scenario: &Scenario) -> Result<Self, BuildError> {
        let naming = Naming { world: WORLD, seed: 0, prefix: PREFIX, exact: true };
        let servers = servers(scenario);
        let trial = Arc::new(Trial::new(scenario, naming)?);
        let lags = (0..servers).map(|server| scenario.topology.lag(server));
        let travel = Travel::new(&scenario.network, scenario.clients + 1, servers).lagging(lags);
        let cues = scenario.faults.clone().into();
        Ok(Self { scenario: scenario.clone(), cues, trial, travel: Arc::new(travel) })
    }

    /// The history of the last schedule.
    pub fn journal(&self) -> &Journal {
        self.trial.journal()
    }

    /// Runs one schedule to its end.
    pub fn run(&mut self, seed: u64, choices: Choices) -> Schedule {
        let clients = self.scenario.clients;
        let journal = self.journal().clone();
        journal.reset(seed);
        with(|world| {
            let topology = self.scenario.topology();
            world.reset(choices, seed, clients + 1, servers(&self.scenario));
            world.equip(topology, self.scenario.software(), self.scenario.server.append_only);
            world.travel = Arc::clone(&self.travel);
            world.nemesis.write_to(journal);
            // As in the live worlds, nobody starts before everybody is connected.
            for process in 0..=clients {
                let resource = (topology.servers()..servers(&self.scenario)).next();
                for server in (0..topology.nodes()).chain(resource) {
                    world.open_conn(process, server, Purpose::Commands);
                }
            }
        });
        let schedule = self.play(clients);
        take_down();
        schedule
    }

    fn play(&self, clients: u32) -> Schedule {
        let ttl_ns = span_ns(self.trial.ttl());
        let patience_ns = ttl_ns.saturating_mul(10).saturating_add(PATIENCE_NS);
        let run = VirtualEnv::of(RUN);
        let trial = Arc::clone(&self.trial);
        let set_up = async move { trial.set_up(run).await };
        spawn(RUN, Box::pin(async move { drop(set_up.await) }));
        drive(u64::MAX);

        with(|world| {
            world.set_sail(self.scenario.topology());
            world.draw_swarm(&self.scenario.swarm, clients);
            world.set_stage(&self.cues);
        });
        for client in 1..=clients {
            spawn(client, Box::pin(Arc::clone(&self.trial).client(VirtualEnv::of(client), client)));
        }
        drive(patience_ns);
        with(super::world::World::heal);
        // Nothing strikes any more, so whoever lives for longer than any client can is stuck.
        let life_ns = span_ns(self.scenario.longest_life());
        drive(with(|world| world.now_ns).saturating_add(life_ns.max(patience_ns)));
        let stuck = with(|world| world.tasks.live());

        let trial = Arc::clone(&self.trial);
        spawn(RUN, Box::pin(async move { drop(trial.look_back(run).await) }));
        drive(with(|world| world.now_ns).saturating_add(patience_ns));
        with(|world| Schedule {
            facts: Facts { virtual_ns: world.now_ns, events: world.events, stuck, digest: None },
            taken: world.choices().taken().to_vec(),
        })
    }
}

/// How many servers there are: those of the topology and, behind them, the protected resource's own.
fn servers(scenario: &Scenario) -> u32 {
    scenario.topology().servers() + u32::from(scenario.resource().is_some())
}

pub(super) fn spawn(process: u32, work: Work) {
    let refused = with(|world| world.spawn(process, work));
    assert!(refused.is_none(), "a process that has just begun takes tasks");
}

/// Lets the world go on until nobody has anything left to do, or nothing happens before `end_ns`.
pub(super) fn drive(end_ns: u64) {
    let mut wakers = Wakers::take();
    let mut polled = None;
    loop {
        match with(|world| world.turn(polled.take(), end_ns)) {
            Turn::Poll(task, mut work) => {
                let state = work.as_mut().poll(&mut Context::from_waker(wakers.of(task)));
                polled = Some((task, work, state.is_ready()));
            }
            // Dropped while nobody looks at the world: what they hold may still act.
            Turn::Bury(left) => drop(left),
            Turn::Over => break,
        }
    }
    wakers.put_back();
}

/// Drops what is left of a schedule, in a world in which nothing has an effect any more.
pub(super) fn take_down() {
    let left: Vec<Work> = with(|world| {
        world.closed = true;
        let tasks = world.tasks.all();
        tasks.into_iter().filter_map(|(task, _)| world.tasks.end(task)).collect()
    });
    drop(left);
}

impl Drop for Runner {
    fn drop(&mut self) {
        take_down();
    }
}

#[cfg(test)]
mod tests;
