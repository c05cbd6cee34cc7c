//! The world without faults in which a lock is explored, made from a recipe or a scenario.
//!
//! Invariant: nothing in it is drawn, so a schedule follows from its size and its faults. Every sound lock can meet its
//! limits on progress, if all faults are of the alphabet.

use std::sync::Arc;
use std::time::Duration;

use harness::world::{RunError, RunRequest, World};
use history::What;
use history::fault::Swarm;
use picklock::env::Phase;
use scenarios::distribution::Distribution;
use scenarios::recipe::Servers;
use scenarios::scenario::{
    LinkPart, NetworkPart, Overrides, RegisterPart, Scenario, ScenarioError, WorkloadPart,
};
use scenarios::span::Span;

use super::bounds::Size;
use super::candidate::Candidate;
use super::limits::{available_within, woken_within};

/// The seed of every schedule: of all that is drawn only the tokens are left.
pub const SEED: u64 = 1;
/// The small world of a recipe.
const SMALL: &str = include_str!("base.toml");
/// How much longer a message of each client takes than one of the client before it, so that their order is certain.
const LATENCY: Duration = Duration::from_millis(2);
/// How far a replica lags: long enough for a client that does not wait for it to go on before it follows.
const LAG: Duration = Duration::from_millis(10);

/// A world without faults.
#[derive(Clone, Debug)]
pub struct Base {
    scenario: Scenario,
    /// Whether the scenario keeps its own latencies and its own limits on progress.
    own: bool,
}

/// What was learnt of a recipe.
struct RecipeTraits {
    /// It renews its holds.
    renews: bool,
    /// It hands out fencing tokens.
    fences: bool,
}

/// Why there is no such world.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// The recipe is unknown, or cannot work in it.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// It cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Base {
    /// The small world of this recipe, on the servers that it is made for. A run shows whether the recipe renews its
    /// holds: then they last long enough to need that. If it hands out fencing tokens, the resource checks them.
    ///
    /// # Errors
    /// [`BaseError`].
    pub fn of_lock(lock: &str, world: &mut impl World) -> Result<Self, BaseError> {
        let overrides = Overrides { lock: Some(lock.to_owned()), ..Overrides::default() };
        let mut scenario = Scenario::parse("small-world", "small-world.toml", SMALL, &overrides)?;
        if scenario.about_lock().servers == Servers::Followed {
            scenario.topology.lag = Some(Distribution::Constant(Span(LAG)));
        }
        let long = Span(scenario.lock.ttl.0 * 3 / 2);
        let mut base = Self::without_faults(scenario.clone());
        base.change(|register| register.hold = long);
        let RecipeTraits { renews, fences } = base.learn(world)?;
        base.change(|register| {
            register.fenced = fences;
            if !renews {
                register.hold = scenario.hold();
            }
        });
        Ok(base)
    }

    /// This scenario without its faults: its TTL, servers and workload stay. No client renews by hand: if it was
    /// paused, it would rely on more than locks promise. The resource checks fencing tokens if there are any.
    ///
    /// # Errors
    /// [`RunError`] if it cannot be run.
    pub fn of_scenario(scenario: Scenario, world: &mut impl World) -> Result<Self, RunError> {
        let mut base = Self::without_faults(scenario);
        let fences = base.learn(world)?.fences;
        base.change(|register| {
            register.extends = false;
            register.fenced &= fences;
        });
        Ok(base)
    }

    fn without_faults(mut scenario: Scenario) -> Self {
        scenario.faults.clear();
        scenario.swarm = Swarm::default();
        scenario.search = None;
        scenario.unsearched = None;
        scenario.variants.clear();
        scenario.expect.clear();
        // They were measured under its own faults and with its own size.
        scenario.limits.clear();
        scenario.commands_within = None;
        // A lock that assumes that no write comes late is not judged by late writes.
        scenario.stale_writes = false;
        scenario.lock.jitter = Span::default();
        Self { scenario, own: false }
    }

    /// This scenario with its own limits, but with nothing drawn; its links have these latencies.
    pub(crate) fn of_run(mut scenario: Scenario, network: NetworkPart) -> Self {
        scenario.swarm = Swarm::default();
        scenario.search = None;
        scenario.unsearched = None;
        scenario.variants.clear();
        scenario.expect.clear();
        scenario.lock.jitter = Span::default();
        scenario.network = network;
        Self { scenario, own: true }
    }

    /// Changes the workload if it is a register.
    fn change(&mut self, change: impl FnOnce(&mut RegisterPart)) {
        if let WorkloadPart::Register(register) = &mut self.scenario.workload {
            change(register);
        }
    }

    /// What its recipe does in the smallest world.
    fn learn(&self, world: &mut impl World) -> Result<RecipeTraits, RunError> {
        let smallest = Candidate::calm(Size { clients: 2, rounds: 1 });
        let run = world.run(&RunRequest::new(Arc::new(self.scenario(&smallest)), SEED))?;
        let shows = |what: fn(&What) -> bool| run.history.events.iter().any(|it| what(&it.what));
        let learnt = RecipeTraits {
            renews: shows(|what| *what == What::Phase(Phase::RenewBeforeSend)),
            fences: shows(|what| matches!(what, What::Fence(_))),
        };
        world.recycle(run);
        Ok(learnt)
    }

    /// The recipe's name.
    pub fn lock(&self) -> &str {
        &self.scenario.lock.recipe
    }

    /// Whether it has no known flaw, so that it is judged by what it assumes.
    pub fn is_sound(&self) -> bool {
        self.scenario.about_lock().is_sound()
    }

    /// How many acquisitions of a client its workload has at most.
    pub fn rounds_most(&self) -> u32 {
        match self.scenario.workload {
            WorkloadPart::BonusPool(_) => 1,
            WorkloadPart::Register(_) => u32::MAX,
        }
    }

    /// This candidate as a scenario.
    pub fn scenario(&self, candidate: &Candidate) -> Scenario {
        let Candidate { size: Size { clients, rounds }, drop, faults } = candidate;
        let mut scenario = Scenario { clients: *clients, ..self.scenario.clone() };
        scenario.faults.clone_from(faults);
        if let WorkloadPart::Register(register) = &mut scenario.workload {
            register.rounds = *rounds;
            register.drop = *drop;
        }
        if self.own {
            scenario.network.link.retain(|it| it.client.is_none_or(|it| it <= *clients));
        } else {
            scenario.woken_within = Some(woken_within(&scenario, candidate));
            scenario.available_within = Some(available_within(&scenario, candidate));
            scenario.network = one_behind_the_other(*clients);
        }
        scenario
    }

    /// Its scenario, without the size of a candidate.
    pub const fn whole(&self) -> &Scenario {
        &self.scenario
    }
}

/// A network in which each client is further away than the one before it.
pub(crate) fn one_behind_the_other(clients: u32) -> NetworkPart {
    let latency = |client| Distribution::Constant(Span(LATENCY * client));
    let link = |client| LinkPart {
        client: Some(client),
        clients: None,
        server: None,
        latency: latency(client),
    };
    NetworkPart { latency: latency(1), link: (2..=clients).map(link).collect() }
}

/// The shortest latencies of the links of these clients, which become clients 1, 2 and so on.
pub(crate) fn least(scenario: &Scenario, numbers: &[u32]) -> NetworkPart {
    let servers = scenario.topology().servers() + u32::from(scenario.resource().is_some());
    let shortest = |client, server| {
        let ns = scenario.network.latency(client, server).sampler().at(0);
        Distribution::Constant(Span(Duration::from_nanos(ns)))
    };
    let mut network = NetworkPart { latency: shortest(0, 0), link: Vec::new() };
    for (client, number) in (1..).zip(numbers) {
        let of =
            |server, latency| LinkPart { client: Some(client), clients: None, server, latency };
        let nearest = shortest(*number, 0);
        if (1..servers).all(|server| shortest(*number, server) == nearest) {
            network.link.push(of(None, nearest));
        } else {
            let all = (0..servers).map(|server| of(Some(server), shortest(*number, server)));
            network.link.extend(all);
        }
    }
    network.link.retain(|it| it.latency != network.latency || it.server.is_some());
    network
}
