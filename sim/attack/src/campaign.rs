//! A campaign: first a run without faults, from which the lock's commands are learnt, then every plan.
//!
//! Invariant: plans are run several at a time, each in an arena of its own, and reported in their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use live_world::supervisor::Supervisor;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::arena::{self, Arena, Attack};
use crate::assessment::assess;
use crate::board::{VICTIM, WAITER};
use crate::clock::pause;
use crate::error::AttackError;
use crate::fault_story::StagedFault;
use crate::key_search;
use crate::known::Known;
use crate::lock_key::LockKey;
use crate::plan::{AttackPlan, Boundary, KILL_WAITER, Target, plans};
use crate::program;
use crate::protocol::Promises;
use crate::recovery;
use crate::report::{ATTACK_SCHEMA, AttackReport, NO_FAULT, PlanOutcome, PlanReport};
use crate::stage::{self, PlanRun};
use crate::transcript;
use crate::worker::{Worker, WorkerError};

/// How often a plan is tried while a busy machine disturbs it.
const TRIES_MOST: u32 = 4;

/// How often a lock that cannot be attacked is looked at.
const LEARN_TRIES: u32 = 2;
/// What the plans are worth if each run without faults was disturbed.
const DISTURBED: &str = "every run without a fault was disturbed, and the plans follow the last one: some may be missing, or strike \
                         elsewhere than they say; run again on a quieter machine, or with a longer --ttl";
/// How to lock with the TTL that was asked for.
const OWN_TTL: &str = "lock with PICKLOCK_TTL_MS, or name the lock's own TTL with --ttl";

/// Which plans are run, and how.
pub struct Campaign {
    /// Which of [`Learnt::plans`] are run.
    pub plans: Vec<AttackPlan>,
    /// Whether the run without faults is reported even if it shows nothing.
    pub faultless: bool,
    /// How often a plan that shows something is run.
    pub runs_each: u32,
    /// How many run at a time.
    pub jobs: usize,
    /// Counts the plans that are done.
    pub done: Arc<AtomicU64>,
    /// Turns true when no more plans are to be run.
    pub stopped: watch::Receiver<bool>,
}

/// A worker whose lock works without faults, and the plans for it.
pub struct Learnt {
    attack: Arc<Attack>,
    plans: Vec<AttackPlan>,
    known: Known,
    arena: Arena,
    /// What the run without faults has shown.
    faultless: PlanReport,
}

impl Learnt {
    /// The plans that `only` and `faults` select; an empty list selects all. A text in `only` selects the plans whose
    /// name it is, or whose name begins or ends with it.
    pub fn plans(&self, only: &[String], faults: &[String]) -> Vec<AttackPlan> {
        let is_meant = |plan: &&AttackPlan| {
            let is_fault = |it: &String| it == plan.fault.name();
            (only.is_empty() || only.iter().any(|it| plan.is_meant_by(it)))
                && (faults.is_empty() || faults.iter().any(is_fault))
        };
        self.plans.iter().filter(is_meant).cloned().collect()
    }

    /// The names that select no plan, whatever the fault.
    pub fn unknown<'a>(&self, only: &'a [String]) -> Vec<&'a str> {
        let is_known =
            |it: &String| it == NO_FAULT || self.plans.iter().any(|plan| plan.is_meant_by(it));
        only.iter().filter(|it| !is_known(it)).map(String::as_str).collect()
    }

    /// What there is to know about the plans.
    pub fn remarks(&self) -> &[String] {
        &self.faultless.remarks
    }

    /// Runs the plans.
    ///
    /// # Errors
    /// [`AttackError`]: the worker fails even without faults, or its answer cannot be read in one of the plans.
    pub async fn attack(
        self,
        supervisor: &Supervisor,
        campaign: &Campaign,
    ) -> Result<AttackReport, AttackError> {
        let Self { attack, known, mut arena, mut faultless, .. } = self;
        if campaign.runs_each > 1 && faultless.outcome > PlanOutcome::Held {
            faultless = several(&mut arena, &known, None, campaign.runs_each).await?;
        }
        let mut report = run(&attack, supervisor, campaign, known, arena).await?;
        if campaign.faultless || faultless.outcome > PlanOutcome::Held {
            report.plans.insert(0, faultless);
        }
        Ok(report)
    }
}

/// Runs the lock without faults, and learns the plans for it.
///
/// # Errors
/// [`AttackError`]: there is no server, or the worker fails.
pub async fn learn(attack: &Arc<Attack>, supervisor: &Supervisor) -> Result<Learnt, AttackError> {
    let mut arena = Arena::open(attack, supervisor, "attack-1").await?;
    if let Some(oracle) = &attack.oracle {
        let (plans, known, faultless) = program::learn(&mut arena, oracle).await?;
        return Ok(Learnt { attack: Arc::clone(attack), plans, known, arena, faultless });
    }
    // In the first run, scripts are not cached yet on either side.
    arena.prepare().await?;
    let promises = arena.workers[0].as_ref().map(|it| it.promises()).unwrap_or_default();
    rehearse(&mut arena, promises).await?;
    let mut tries = 1;
    let (known, boundaries, life, waits, mut faultless) = loop {
        let (staged, lesson) = match study(&mut arena, promises).await {
            // A busy machine may soon be less busy.
            Err(AttackError::NoLock(_)) if tries < LEARN_TRIES => {
                tries += 1;
                continue;
            }
            studied => studied?,
        };
        let Lesson { lock_key, boundaries, life, waits } = lesson;
        let known = Known { lock_key, promises, releases: true, took: Duration::ZERO };
        let faultless = assess(&arena, &known, None, staged).await;
        // What a disturbed run shows of a lock may be as wrong as what it shows of a plan.
        if !faultless.disturbed || tries >= TRIES_MOST {
            break (known, boundaries, life, waits, faultless);
        }
        tries += 1;
    };
    if faultless.disturbed {
        faultless.remarks.push(DISTURBED.to_owned());
    }
    if let Some(life) = life.filter(|life| *life < attack.ttl / 2 && !promises.outlives_ttl()) {
        faultless.remarks.push(arena::other_life(life, attack.ttl, OWN_TTL));
    }
    let attack = Arc::clone(attack);
    let mut plans = plans(&boundaries, arena.attack.nodes);
    // Of two clients nobody is left to wait behind the killed one.
    plans.extend((waits && attack.clients > WAITER).then_some(KILL_WAITER));
    Ok(Learnt { attack, plans, known, arena, faultless })
}

/// What a run without faults shows of a lock.
struct Lesson {
    lock_key: LockKey,
    boundaries: Vec<Boundary>,
    /// How long its key lives without renewal; none if it does not expire.
    life: Option<Duration>,
    /// Whether a rival waits for the lock until it is free.
    waits: bool,
}

/// Runs the lock without faults, and looks at what it does.
async fn study(arena: &mut Arena, promises: Promises) -> Result<(PlanRun, Lesson), AttackError> {
    let attack = Arc::clone(&arena.attack);
    arena.prepare().await?;
    let mut staged = stage::run(arena, None, promises).await;
    if let Some((_, error)) = staged.failures.pop() {
        return Err(error.into());
    }
    let sent = transcript::sent(&arena.wire_log().await, staged.start);
    let recorded = staged.recorder.so_far();
    if let Some(said) = recorded.refusal(VICTIM) {
        let worker = arena.workers[VICTIM as usize - 1].as_ref();
        let printed = worker.and_then(Worker::words_besides).unwrap_or_default();
        return Err(AttackError::NoLock(format!(
            "without any fault client {VICTIM} never got the lock, though it had got it before: at last it answered \
             `acquire` with `{said}`{printed}"
        )));
    }
    if sent.is_empty() {
        return Err(AttackError::NoLock(String::from(
            "your worker sent nothing to its Redis: it must connect to the address in REDIS_URL (or REDIS_HOST and \
             REDIS_PORT, with REDIS_PASSWORD)",
        )));
    }
    let is_silent = |node: &u16| sent.iter().all(|it| it.node != *node);
    if let Some(silent) = (0..attack.nodes).find(is_silent) {
        return Err(AttackError::NoLock(format!(
            "your worker sent nothing to server {silent}: a lock on {} servers finds their addresses in REDIS_URLS, \
             with commas between them",
            attack.nodes,
        )));
    }
    let lock_key = key_search::find(&attack, &sent, &recorded)?;
    let boundaries = transcript::learn(&sent, &recorded, &lock_key.name);
    // A key that outlives the hold in its value says nothing of it.
    let tells = |life: &Duration| !promises.stamps || *life <= attack.ttl;
    let life = transcript::life(&sent, &recorded, &lock_key.name).filter(tells);
    if let Some(life) = life {
        arena.set_life(life, OWN_TTL)?;
    }
    let waits = transcript::waits(&recorded, attack.ttl / 4);
    Ok((staged, Lesson { lock_key, boundaries, life, waits }))
}

/// Runs the lock without faults, so that caches are filled.
async fn rehearse(arena: &mut Arena, promises: Promises) -> Result<(), AttackError> {
    let run = stage::run(arena, None, promises).await;
    arena.rehearsed = true;
    run.failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error.into()))
}

async fn run(
    attack: &Arc<Attack>,
    supervisor: &Supervisor,
    campaign: &Campaign,
    known: Known,
    arena: Arena,
) -> Result<AttackReport, AttackError> {
    let known = Arc::new(known);
    let total = campaign.plans.len();
    let queue: VecDeque<(usize, AttackPlan)> = campaign.plans.iter().cloned().enumerate().collect();
    let queue = Arc::new(Mutex::new(queue));
    let runs_each = campaign.runs_each;
    let life = arena.life;
    let (server, world) = (arena.server_name(), arena.servers[0].world());
    let mut tasks = JoinSet::new();
    let mut first = Some(arena);
    for job in 1..=campaign.jobs.clamp(1, total.max(1)) {
        let arena = first.take();
        let (attack, supervisor, known) =
            (Arc::clone(attack), supervisor.clone(), Arc::clone(&known));
        let (queue, done) = (Arc::clone(&queue), Arc::clone(&campaign.done));
        let mut stopped = campaign.stopped.clone();
        tasks.spawn(async move {
            let mut arena = match arena {
                Some(arena) => arena,
                // The first arena is open, and runs the plans that this one would have run.
                None => match Arena::open(&attack, &supervisor, &format!("attack-{job}")).await {
                    Ok(arena) => arena,
                    Err(_) => return Ok(Vec::new()),
                },
            };
            (arena.life, arena.lock_key) = (life, known.lock_key.clone());
            let mut reports = Vec::new();
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some((place, plan)) = next else { break };
                let report = tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stopped| *stopped) => break,
                    report = several(&mut arena, &known, Some(&plan), runs_each) => report,
                };
                let report = match report {
                    Err(error) if error.is_of_every_plan() => return Err(error),
                    // One plan that fails must not cost the others.
                    Err(error) => {
                        arena.workers.iter_mut().for_each(|worker| *worker = None);
                        PlanReport::undecided(Some(&plan), error.to_string())
                    }
                    Ok(report) => report,
                };
                reports.push((place, report));
                done.fetch_add(1, Ordering::Relaxed);
            }
            arena.close().await;
            Ok(reports)
        });
    }
    let mut reports = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        let theirs = joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        match theirs {
            Ok(theirs) => reports.extend(theirs),
            Err(error) => {
                tasks.shutdown().await;
                return Err(error);
            }
        }
    }
    reports.sort_by_key(|(place, _)| *place);
    let plans: Vec<PlanReport> = reports.into_iter().map(|(_, report)| report).collect();
    Ok(AttackReport {
        schema: ATTACK_SCHEMA.to_owned(),
        command: attack.command.iter().map(|it| it.to_string_lossy().into_owned()).collect(),
        world: world.to_owned(),
        server,
        nodes: attack.nodes,
        clients: attack.clients,
        ttl_ms: u64::try_from(attack.ttl.as_millis()).unwrap_or(u64::MAX),
        lock_key: (!known.lock_key.name.is_empty())
            .then(|| String::from_utf8_lossy(&known.lock_key.name).into_owned()),
        oracle: attack.oracle.as_ref().map(|it| it.command.clone()),
        promises: known.promises,
        complete: plans.len() == total,
        plans,
    })
}

/// Runs a plan, `times` times if the first run shows something; reports the gravest outcome.
async fn several(
    arena: &mut Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
    times: u32,
) -> Result<PlanReport, AttackError> {
    let mut worst: Option<PlanReport> = None;
    let mut outcomes = Vec::new();
    for _ in 0..times.max(1) {
        let report = undisturbed(arena, known, plan, TRIES_MOST).await?;
        let shows_something = report.outcome >= PlanOutcome::Inconclusive;
        outcomes.push(report.outcome);
        if worst.as_ref().is_none_or(|worst| report.outcome > worst.outcome) {
            worst = Some(report);
        }
        // How often a plan shows nothing is of no interest.
        if outcomes.len() == 1 && !shows_something {
            break;
        }
    }
    let mut report = worst.expect("a plan is run at least once");
    let count = |outcomes: &[PlanOutcome]| u32::try_from(outcomes.len()).unwrap_or(u32::MAX);
    report.runs = count(&outcomes);
    outcomes.retain(|it| *it == report.outcome);
    report.shown = count(&outcomes);
    Ok(report)
}

/// Runs a plan until the machine does not disturb it and its fault meets something, `tries_most` times at most: a busy machine
/// may soon be less busy.
async fn undisturbed(
    arena: &mut Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
    tries_most: u32,
) -> Result<PlanReport, AttackError> {
    let mut report = once(arena, known, plan).await?;
    for _ in 1..tries_most {
        if !report.disturbed && report.outcome != PlanOutcome::Vacuous {
            break;
        }
        report = once(arena, known, plan).await?;
    }
    Ok(report)
}

async fn once(
    arena: &mut Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
) -> Result<PlanReport, AttackError> {
    if let (Some(oracle), Some(plan)) = (&Arc::clone(&arena.attack).oracle, plan) {
        return program::once(arena, known, oracle, plan).await;
    }
    arena.prepare().await?;
    if !arena.rehearsed {
        rehearse(arena, known.promises).await?;
        arena.prepare().await?;
    }
    if known.promises.renews {
        // Otherwise a timer of the hold before could renew the lock in place of the struck renewal.
        pause(arena.life).await;
    }
    // A struck server may have lost its scripts.
    arena.rehearsed = plan.is_none_or(|plan| plan.fault.target() != Target::Server);
    if let Some(plan) = plan {
        for server in arena.servers.iter_mut().take(plan.servers.into()) {
            server.get_ready(plan.fault).await?;
        }
    }
    let mut staged = stage::run(arena, plan, known.promises).await;
    let is_misspelt = |(_, error): &mut (u32, WorkerError)| error.is_misspelt();
    if let Some((_, error)) = staged.failures.extract_if(.., is_misspelt).next() {
        let plan = plan.map_or_else(|| NO_FAULT.to_owned(), AttackPlan::to_string);
        return Err(AttackError::Misspelt { plan, error });
    }
    let start = staged.start;
    let fault = StagedFault::new(plan, staged.struck, staged.healed, start);
    let mut report = assess(arena, known, plan, staged).await;
    if let Some((plan, fault)) = plan.zip(fault) {
        recovery::judge(arena, plan, fault, start, &mut report).await?;
    }
    Ok(report)
}
