//! A scenario put together for one run: the same in every world.
//!
//! Invariant: nothing here knows which world it runs in. The world brings an environment for each
//! client and decides when it runs; the trial brings recipe, workload and history.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use history::{Declared, FOR_EVER, FORMAT, GONE, Head, Journal, What};
use picklock::Drift;
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node};
use picklock::reply::Reply;
use picklock::time::span_ns;

use crate::call::answered;
use crate::recipe::{self, About, BuildError, KeyValue, Params, Recipe, Servers, Validity};
use crate::record::{Dialect, Observed, Recorded};
use crate::scenario::{Scenario, WorkloadPart, commands_milli};
use crate::span::Span;
use crate::topology::Topology;
use crate::workload::{self, INITIAL, OtherLock, Process, Workload};

/// The server a lock on one key is kept on.
const NODE: Node = Node(0);
/// How much longer than its TTL the key of a free lock may stay.
const BOUND: Duration = Duration::from_secs(1);
/// The pause between two probes of the lock's key.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A scenario, put together for one run.
pub struct Trial<W: Observed> {
    about: &'static About,
    recipe: Arc<dyn Recipe<Recorded<W>>>,
    workload: Box<dyn Workload<W>>,
    other_lock: Option<Arc<OtherLock<W>>>,
    journal: Journal,
    dialect: Dialect,
    /// Tasks of each client.
    tasks: u32,
    lock_key: String,
    ttl: Duration,
    /// How many servers the lock is kept on.
    nodes: u16,
}

/// What a run is called, in its history and on the servers.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'a> {
    /// The world's name.
    pub world: &'a str,
    /// The seed of every number that is drawn.
    pub seed: u64,
    /// The prefix of all its keys.
    pub prefix: &'a str,
    /// Whether the time of an event is exact, as in virtual time.
    pub exact: bool,
}

impl Naming<'_> {
    fn lock_key(&self) -> String {
        format!("{}lock", self.prefix)
    }
}

impl<W: Observed> Trial<W> {
    /// Puts the scenario together. `journal` makes the journal of its history.
    ///
    /// # Errors
    /// [`BuildError::Options`] where the recipe cannot work with these parameters.
    pub fn new(
        scenario: &Scenario,
        naming: Naming<'_>,
        journal: impl FnOnce(Head) -> Journal,
    ) -> Result<Self, BuildError> {
        let about = recipe::about(&scenario.lock.recipe)?;
        let params = params(scenario, naming.lock_key());
        let head = head(scenario, about, &params, naming);
        let resource = scenario.resource().unwrap_or(NODE);
        Ok(Self {
            about,
            other_lock: OtherLock::of(&scenario.workload, about, &params, naming.prefix)?
                .map(Arc::new),
            nodes: lock_nodes(about, params.nodes),
            ttl: params.ttl,
            recipe: recipe::build(about.name, params)?,
            workload: workload::build(&scenario.workload, naming.prefix, resource),
            journal: journal(head),
            dialect: Dialect::of(about),
            tasks: scenario.workload.tasks(),
            lock_key: naming.lock_key(),
        })
    }

    /// The history being written.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The TTL of the lock's key.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The keys the run uses.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys = self.workload.keys();
        keys.push(self.lock_key.clone().into_bytes());
        // The counter of fencing tokens, which has no TTL.
        keys.push(format!("{}.fence", self.lock_key).into_bytes());
        keys.extend(self.keys_beside().into_iter().map(Vec::from));
        keys.extend(self.other_lock.iter().flat_map(|it| it.keys()));
        keys
    }

    /// Prepares the protected resource, on the run's own environment.
    ///
    /// # Errors
    /// What the server says.
    pub async fn set_up(&self, world: W) -> Result<(), CallError> {
        self.workload.set_up(&self.observe(world, 0)).await
    }

    /// Runs one client; clients are numbered from 1. All its tasks but one run in the background.
    pub async fn client(self: Arc<Self>, world: W, client: u32) {
        let env = self.observe(world.clone(), client);
        if let Some(other) = &self.other_lock {
            other.begin(&env);
        }
        let process = Process::begin(env, Arc::clone(&self.recipe));
        for _ in 1..self.tasks {
            let (trial, process) = (Arc::clone(&self), process.clone());
            world.spawn(async move { trial.workload.task(process).await });
        }
        self.workload.task(process).await;
    }

    /// After the last client: waits until the lock is free, and records what is left of the lock's other keys and of the
    /// resource.
    ///
    /// # Errors
    /// What the server says.
    pub async fn look_back(&self, world: W) -> Result<(), CallError> {
        let run = self.observe(world, 0);
        if self.about.locks {
            self.wait_for_lock(&run).await?;
        }
        for key in self.keys_beside() {
            let conn = run.connect(NODE).await?;
            answered(&run, pin!(conn.call(Command::new("PTTL").arg(&key)))).await?;
        }
        self.workload.look_back(&run).await
    }

    /// The keys that the lock may leave beside its own.
    fn keys_beside(&self) -> Vec<Box<[u8]>> {
        (self.about.keys_beside)(self.lock_key.as_bytes())
    }

    /// Probes the lock's key until it is gone, or has stayed longer than it may.
    async fn wait_for_lock(&self, run: &Recorded<W>) -> Result<(), CallError> {
        let end = run.now().after(self.ttl.saturating_add(BOUND));
        loop {
            let pttl_ms = self.look_at_lock(run).await?;
            run.note(What::Probe(pttl_ms));
            if pttl_ms < 0 || run.now() >= end {
                return Ok(());
            }
            run.sleep(LOOK_AGAIN).await;
        }
    }

    /// Milliseconds until the lock is free: the key's PTTL or, if its value says when the hold ends, by that. With several
    /// servers, until enough of them for a quorum no longer have the key.
    async fn look_at_lock(&self, run: &Recorded<W>) -> Result<i64, CallError> {
        let mut looks = Vec::with_capacity(usize::from(self.nodes));
        for node in 0..self.nodes {
            looks.push(self.look_at_key(run, Node(node)).await?);
        }
        // A key that never expires comes last.
        looks.sort_by_key(|pttl_ms| (*pttl_ms == FOR_EVER, *pttl_ms));
        Ok(looks[looks.len() / 2])
    }

    async fn look_at_key(&self, run: &Recorded<W>, node: Node) -> Result<i64, CallError> {
        let conn = run.connect(node).await?;
        let is_stamped = self.about.value == KeyValue::Stamp;
        let name = if is_stamped { "GET" } else { "PTTL" };
        let look = Command::new(name).arg(&self.lock_key);
        let answer = answered(run, pin!(conn.call(look))).await?;
        if !is_stamped {
            return Ok(answer.as_int().unwrap_or(FOR_EVER));
        }
        let now_ms = i64::try_from(run.wall().as_unix_ms()).unwrap_or(i64::MAX);
        Ok(match (answer.as_int(), answer) {
            (_, Reply::Nil) => GONE,
            (Some(stamp_ms), _) if stamp_ms < now_ms => GONE,
            (Some(stamp_ms), _) => stamp_ms - now_ms,
            (None, _) => FOR_EVER,
        })
    }

    fn observe(&self, world: W, client: u32) -> Recorded<W> {
        Recorded::new(world, self.journal.clone(), self.dialect, client)
    }
}

/// The parameters of the scenario's recipe.
fn params(scenario: &Scenario, lock_key: String) -> Params {
    Params {
        node: NODE,
        nodes: scenario.topology().nodes(),
        replicas: match scenario.topology() {
            Topology::Replicated { replicas } => replicas,
            _ => 0,
        },
        key: lock_key.into_bytes().into(),
        ttl: scenario.lock.ttl.0,
        drift: Drift::default(),
        retries: scenario.lock.retries,
        pause: scenario.lock.pause.0,
        jitter: scenario.lock.jitter.0,
        give_up: scenario.lock.give_up.map(|span| span.0),
        deadline: scenario.lock.deadline.map(|span| span.0),
        max_hold: scenario.lock.max_hold.map(|span| span.0),
    }
}

/// The head of the history: what checkers know of the run beside its events.
fn head(scenario: &Scenario, about: &About, params: &Params, naming: Naming<'_>) -> Head {
    let Naming { world, seed, exact, .. } = naming;
    let (prizes, register, fenced, stops) = match &scenario.workload {
        WorkloadPart::BonusPool(pool) => (Some(i64::from(pool.prizes)), None, false, false),
        WorkloadPart::Register(it) => (None, Some(INITIAL), it.fenced, it.stops),
    };
    // A lock without validity or with a known flaw does not promise to report a loss.
    let is_told = about.is_sound() && about.validity == Validity::Tracked;
    // A client that also renews by hand decides itself for how long.
    let by_hand = matches!(&scenario.workload, WorkloadPart::Register(it) if it.extends);
    let max_hold = scenario.lock.max_hold.filter(|_| about.renewed);
    let limits = scenario.limits(exact);
    Head {
        format: FORMAT.to_owned(),
        scenario: scenario.name.clone(),
        lock: about.name.to_owned(),
        tracked: about.validity == Validity::Tracked,
        locks: about.locks,
        stamped: about.value == KeyValue::Stamp,
        world: world.to_owned(),
        seed,
        clients: scenario.clients,
        lock_key: naming.lock_key(),
        ttl_ns: span_ns(params.ttl),
        margin_ns: span_ns(params.drift.over(params.ttl)),
        exact,
        late_ns: None,
        fair_within: about.fair,
        honest: about.is_sound(),
        tries_for_ns: scenario.tries_for().map(span_ns),
        fails_within_ns: scenario.fails_within(exact).map(span_ns),
        attempts_most: scenario.attempts_most(params),
        nodes: Some(lock_nodes(about, params.nodes)),
        cluster: matches!(scenario.topology(), Topology::Cluster { .. }),
        gives_up_ns: scenario.lock.give_up.map(Span::ns),
        deadline_ns: scenario.lock.deadline.map(Span::ns),
        overrun_ns: scenario.overrun(exact).map(span_ns),
        renewed: about.renewed && !(by_hand && max_hold.is_some()),
        longest_hold_ns: max_hold.filter(|_| !by_hand).map(Span::ns),
        stops: stops && is_told,
        commands_within_milli: limits.commands_within.map(commands_milli),
        available_within_ns: limits.available_within.map(Span::ns),
        woken_within_ns: limits.woken_within.map(Span::ns),
        promise: scenario.promise(exact),
        timely_writes: scenario.timely_writes(),
        prizes,
        register,
        fenced,
        resource: scenario.resource().map(|node| node.0),
        acquisitions: Some(scenario.acquisitions()),
        staged: scenario.faults.iter().map(Declared::from).collect(),
    }
}

/// How many of these servers the lock is kept on.
fn lock_nodes(about: &About, nodes: u32) -> u16 {
    match about.servers {
        Servers::Several => u16::try_from(nodes).unwrap_or(u16::MAX),
        Servers::One | Servers::Followed => 1,
    }
}
