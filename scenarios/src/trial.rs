//! A scenario put together for one run: the same in every world.
//!
//! Invariant: nothing here knows which world it runs in. The world brings an environment for each
//! client and decides when it runs; the trial brings recipe, workload and history.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use picklock::Drift;
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node};

use crate::call::answered;
use crate::history::{Declared, FORMAT, Head, Journal, What};
use crate::recipe::{self, About, BuildError, Params, Recipe, Validity};
use crate::record::{Observed, Recorded, Scripts};
use crate::scenario::{Scenario, WorkloadPart};
use crate::topology::Topology;
use crate::workload::{self, INITIAL, Workload};

/// The server a lock on one key is kept on.
const NODE: Node = Node(0);
/// How much longer than its TTL a lock nobody holds may stay.
const BOUND: Duration = Duration::from_secs(1);
/// How long between two looks at the lock's key.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A scenario, put together for one run.
pub struct Trial<W: Observed> {
    about: &'static About,
    recipe: Box<dyn Recipe<Recorded<W>>>,
    workload: Box<dyn Workload<W>>,
    journal: Journal,
    scripts: Scripts,
    lock_key: String,
    ttl: Duration,
}

/// What names a run.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'a> {
    /// The world's name.
    pub world: &'a str,
    /// What every drawn number follows from.
    pub seed: u64,
    /// What the names of all its keys begin with.
    pub prefix: &'a str,
    /// Whether an event's time is the very moment it happened.
    pub exact: bool,
}

impl<W: Observed> Trial<W> {
    /// The scenario, put together.
    ///
    /// # Errors
    /// [`BuildError::Options`] where the recipe cannot work with these parameters.
    pub fn new(scenario: &Scenario, naming: Naming<'_>) -> Result<Self, BuildError> {
        let Naming { world, seed, prefix, exact } = naming;
        let about = recipe::list::about(&scenario.lock.recipe)?;
        let lock_key = format!("{prefix}lock");
        let drift = Drift::default();
        let ttl = scenario.lock.ttl.0;
        let params = Params {
            node: NODE,
            nodes: scenario.topology().nodes(),
            replicas: match scenario.topology() {
                Topology::Replicated { replicas } => replicas,
                Topology::Standalone | Topology::Independent { .. } => 0,
            },
            key: lock_key.clone().into_bytes().into(),
            ttl,
            drift,
            retries: scenario.lock.retries,
            pause: scenario.lock.pause.0,
            jitter: scenario.lock.jitter.0,
        };
        let (prizes, register, fenced) = match &scenario.workload {
            WorkloadPart::BonusPool(pool) => (Some(i64::from(pool.prizes)), None, false),
            WorkloadPart::Register(register) => (None, Some(INITIAL), register.fenced),
        };
        let resource = scenario.resource();
        let head = Head {
            format: FORMAT.to_owned(),
            scenario: scenario.name.clone(),
            lock: about.name.to_owned(),
            tracked: about.validity == Validity::Tracked,
            locks: about.locks,
            world: world.to_owned(),
            seed,
            clients: scenario.clients,
            lock_key: lock_key.clone(),
            ttl_ns: picklock::time::span_ns(ttl),
            margin_ns: picklock::time::span_ns(drift.over(ttl)),
            exact,
            available_within_ns: scenario.available_within.map(|it| picklock::time::span_ns(it.0)),
            prizes,
            register,
            fenced,
            resource: resource.map(|node| node.0),
            acquisitions: Some(scenario.acquisitions()),
            staged: scenario.faults.iter().map(Declared::from).collect(),
        };
        Ok(Self {
            about,
            recipe: recipe::list::build(about.name, params)?,
            workload: workload::build(&scenario.workload, prefix, resource.unwrap_or(NODE)),
            journal: Journal::new(head),
            scripts: (about.scripts)().into(),
            lock_key,
            ttl,
        })
    }

    /// The history being written.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// How long the lock's key lives.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The keys the run uses.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys = self.workload.keys();
        keys.push(self.lock_key.clone().into_bytes());
        keys
    }

    /// Prepares the protected resource, on the run's own environment.
    ///
    /// # Errors
    /// What the server says.
    pub async fn set_up(&self, world: W) -> Result<(), CallError> {
        self.workload.set_up(&self.observe(world, 0)).await
    }

    /// What one client does; clients are numbered from 1.
    pub async fn client(self: Arc<Self>, world: W, client: u32) {
        self.workload.client(&self.observe(world, client), &*self.recipe).await;
    }

    /// After the last client: waits until the lock could be acquired, and looks at what is left.
    ///
    /// # Errors
    /// What the server says.
    pub async fn look_back(&self, world: W) -> Result<(), CallError> {
        let run = self.observe(world, 0);
        if self.about.locks {
            self.wait_for_lock(&run).await?;
        }
        self.workload.look_back(&run).await
    }

    /// Looks at the lock's key until it is gone, cannot go, or has overstayed.
    async fn wait_for_lock(&self, run: &Recorded<W>) -> Result<(), CallError> {
        let end = run.now().after(self.ttl.saturating_add(BOUND));
        loop {
            let conn = run.connect(NODE).await?;
            let look = Command::new("PTTL").arg(&self.lock_key);
            let pttl_ms = answered(run, pin!(conn.call(look))).await?.as_int().unwrap_or(-1);
            run.note(What::Probe(pttl_ms));
            if pttl_ms < 0 || run.now() >= end {
                return Ok(());
            }
            run.sleep(LOOK_AGAIN).await;
        }
    }

    fn observe(&self, world: W, client: u32) -> Recorded<W> {
        Recorded::new(world, self.journal.clone(), Arc::clone(&self.scripts), client)
    }
}
