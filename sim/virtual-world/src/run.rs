//! One schedule after the other, in one simulation.
//!
//! Invariant: the result of a schedule follows from the scenario, the seed and the choices, and from
//! nothing else: no clock, no thread, no place on the disk, no earlier schedule. Deliberately
//! absent: judging.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use history::fault::{Fault, Staged};
use history::{Head, Journal};
use picklock::time::span_ns;
use scenarios::distribution::Sampler;
use scenarios::recipe::BuildError;
use scenarios::scenario::Scenario;
use scenarios::sweep::Facts;
use scenarios::topology::Topology;
use scenarios::trial::{Naming, Trial};

use super::budget::Livelock;
use super::choices::Choices;
use super::driver::{close, drive, spawn};
use super::env::VirtualEnv;
use super::latency::LinkLatencies;
use super::network::Purpose;
use super::simulation::{ServersWitness, Simulation, WitnessedCommand, with};
use super::tasks::TaskFuture;
use super::time::now_ns;

/// The prefix of all keys. Every schedule has servers of its own, so it needs no seed.
const PREFIX: &str = "picklock:{virtual}:";
/// The same in a cluster: without a tag, so that a lock itself has to keep all its keys in one slot.
const PREFIX_UNTAGGED: &str = "picklock:virtual:";
/// The world's name.
pub const WORLD: &str = "virtual";
/// The run itself, as a process.
const RUN: u32 = 0;
/// How long the clients may take before the heal, and at least again after it, beyond ten TTLs.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Runs schedules of one scenario, in this thread's simulation.
pub struct Runner {
    scenario: Scenario,
    /// Its staged faults.
    cues: Arc<[Staged]>,
    trial: Arc<Trial<VirtualEnv>>,
    /// The head of each of its histories, without the seed.
    head: Head,
    latencies: Arc<LinkLatencies>,
    lags: Arc<[Sampler]>,
    lua_only: bool,
    stop: Option<Arc<AtomicBool>>,
}

/// The result of a schedule, beside its history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// What its history does not say.
    pub facts: Facts,
    /// The choices, if they were recorded.
    pub taken: Vec<u32>,
    /// The processes whose tasks were still waiting at the end, if any.
    pub stuck: Vec<u32>,
    /// The livelock, if it did not end by itself.
    pub livelock: Option<Livelock>,
    /// It was interrupted.
    pub interrupted: bool,
}

impl Runner {
    /// Puts the scenario together.
    ///
    /// # Errors
    /// [`BuildError`] if its recipe cannot work with its parameters.
    pub fn new(scenario: &Scenario) -> Result<Self, BuildError> {
        let is_cluster = matches!(scenario.topology(), Topology::Cluster { .. });
        let prefix = if is_cluster { PREFIX_UNTAGGED } else { PREFIX };
        let naming = Naming { world: WORLD, seed: 0, prefix, exact: true };
        let servers = servers(scenario);
        let trial = Arc::new(Trial::new(scenario, naming, Journal::of_thread)?);
        let head = trial.journal().look(|history| history.head.clone());
        let lags = (0..servers).map(|server| scenario.topology.lag(server).sampler()).collect();
        let latencies = LinkLatencies::new(&scenario.network, scenario.clients + 1, servers);
        let cues = scenario.faults.clone().into();
        let latencies = latencies.into();
        let (scenario, lua_only, stop) = (scenario.clone(), false, None);
        Ok(Self { scenario, cues, trial, head, latencies, lags, lua_only, stop })
    }

    /// The same; with `lua_only`, servers run every script in Lua, also one that could run natively.
    #[must_use]
    pub fn lua_only(mut self, lua_only: bool) -> Self {
        self.lua_only = lua_only;
        self
    }

    /// The same; a schedule ends early once this is true.
    #[must_use]
    pub fn interruptible(mut self, stop: Option<Arc<AtomicBool>>) -> Self {
        self.stop = stop;
        self
    }

    /// The history of the last schedule.
    pub fn journal(&self) -> &Journal {
        self.trial.journal()
    }

    /// The size of a waiting client's future, in bytes, without what it keeps elsewhere.
    pub fn client_bytes(&self) -> usize {
        size_of_val(&Arc::clone(&self.trial).client(VirtualEnv::of(1), 1))
    }

    /// Runs one schedule to its end.
    pub fn run(&mut self, seed: u64, choices: Choices) -> Schedule {
        let clients = self.scenario.clients;
        let journal = self.journal().clone();
        journal.reset(&self.head, seed);
        with(|sim| {
            let topology = self.scenario.topology();
            sim.reset(choices, seed, clients + 1, servers(&self.scenario));
            sim.budget.grant(&self.scenario);
            sim.budget.stop.clone_from(&self.stop);
            sim.beat.begin(&self.scenario, seed);
            let (software, append_only) =
                (self.scenario.software(), self.scenario.server.append_only);
            sim.servers.configure(topology, software, append_only, self.lua_only, &self.lags);
            sim.network.latencies = Arc::clone(&self.latencies);
            sim.nemesis.journal = Some(journal);
            // As in the live worlds, no client starts before all are connected.
            for process in 0..=clients {
                let resource = (topology.servers()..servers(&self.scenario)).next();
                for server in (0..topology.nodes()).chain(resource) {
                    sim.open_conn(process, server, Purpose::Commands);
                }
            }
        });
        let schedule = self.run_phases(clients);
        close();
        schedule
    }

    /// Runs one schedule to its end; also returns what the servers carried out, in order.
    pub fn run_witnessed(
        &mut self,
        seed: u64,
        choices: Choices,
    ) -> (Schedule, Vec<WitnessedCommand>) {
        with(|sim| sim.witness = Some(ServersWitness::default()));
        let schedule = self.run(seed, choices);
        let witness = with(|sim| sim.witness.take());
        (schedule, witness.map(|it| it.commands).unwrap_or_default())
    }

    /// Sets up, lets the clients work while faults strike, heals, waits for what is left, and looks back.
    fn run_phases(&self, clients: u32) -> Schedule {
        let ttl_ns = span_ns(self.trial.ttl());
        let patience_ns = ttl_ns.saturating_mul(10).saturating_add(PATIENCE_NS);
        let run = VirtualEnv::of(RUN);
        let trial = Arc::clone(&self.trial);
        spawn(RUN, Box::pin(async move { drop(trial.set_up(run).await) }));
        drive(u64::MAX);

        with(|sim| {
            let now_ns = sim.time.now_ns();
            let loses_power = self.scenario.faults.iter().any(|it| it.kind == Fault::PowerLoss);
            let topology = self.scenario.topology();
            sim.servers.start(topology, loses_power, now_ns, &mut sim.choices);
            sim.draw_swarm(&self.scenario.swarm);
            sim.set_stage(&self.cues);
        });
        let trial = Arc::clone(&self.trial);
        let begins = move |client| -> TaskFuture {
            Box::pin(Arc::clone(&trial).client(VirtualEnv::of(client), client))
        };
        for client in 1..=clients {
            spawn(client, begins(client));
        }
        with(|sim| sim.begins = Some(Box::new(begins)));
        drive(patience_ns);
        with(Simulation::heal);
        // Nothing strikes any more, so a task that takes longer than any client can is stuck.
        let life_ns = span_ns(self.scenario.longest_life());
        drive(now_ns().saturating_add(life_ns.max(patience_ns)));
        let stuck = with(|sim| sim.executor.tasks.all());
        let stuck: Vec<_> = stuck.into_iter().map(|(_, process)| process).collect();

        let trial = Arc::clone(&self.trial);
        spawn(RUN, Box::pin(async move { drop(trial.look_back(run).await) }));
        drive(now_ns().saturating_add(patience_ns));
        with(|sim| Schedule {
            facts: Facts {
                virtual_ns: now_ns(),
                events: sim.budget.events,
                stuck: stuck.len(),
                livelock: sim.budget.overrun_by().is_some(),
                digest: None,
            },
            taken: sim.choices.taken().to_vec(),
            stuck,
            livelock: sim.budget.overrun_by().cloned(),
            interrupted: sim.budget.interrupted,
        })
    }
}

/// How many servers there are: those of the topology and, after them, the protected resource's own.
fn servers(scenario: &Scenario) -> u32 {
    scenario.topology().servers() + u32::from(scenario.resource().is_some())
}

impl Drop for Runner {
    fn drop(&mut self) {
        close();
    }
}

#[cfg(test)]
mod tests;
