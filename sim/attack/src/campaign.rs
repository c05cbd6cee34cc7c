//! A campaign: first a run without faults, from which the lock's commands are learnt, then every plan.
//!
//! Invariant: plans are run several at a time, each in an arena of its own, and reported in their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use live_world::supervisor::Supervisor;
use picklock::command::Command;
use picklock::reply::Reply;
use scenarios::history::{FORMAT, Head, History, What};
use scenarios::span::rounded;
use scenarios::verdict::{Level, Outcome};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::arena::{Arena, Attack};
use crate::board::VICTIM;
use crate::clock::{now, pause};
use crate::error::AttackError;
use crate::judgement::{Judged, PlanEvidence, judge};
use crate::plan::{AttackPlan, Target, plans};
use crate::protocol::Promises;
use crate::recorder::{Claim, ClaimOf, RecordedEvent, Recorder};
use crate::report::{ATTACK_SCHEMA, AttackReport, NO_FAULT, PlanOutcome, PlanReport};
use crate::stage::{self, PlanRun};
use crate::transcript::{self, Phases, TracedCommand};

/// How far an expiry may be off: the grain of Redis's clock, and how late it may be noticed.
const MARGIN: Duration = Duration::from_millis(2);
/// So many times as long as asked for a key may live: some libraries count in whole seconds.
const LIFE_MOST: u32 = 4;
/// So often is a plan tried that the machine itself disturbs.
const TRIES_MOST: u32 = 4;
/// So much of a key's life may this process itself be late, and work of others last.
const LATE_MOST: f64 = 0.15;
const WORK_MOST: f64 = 0.75;
/// How often the lock's key is looked at when everybody has done.
const PROBE_EVERY: Duration = Duration::from_millis(10);

/// Which plans are run, and how.
pub struct Campaign {
    /// Which of [`Learnt::plans`] are run.
    pub plans: Vec<AttackPlan>,
    /// Whether the run without faults is reported even if it shows nothing.
    pub faultless: bool,
    /// How often a plan that shows something is run.
    pub again: u32,
    /// How many run at a time.
    pub jobs: usize,
    /// Counts the plans that are done.
    pub done: Arc<AtomicU64>,
    /// Turns true when no more plans are to be run.
    pub stopped: watch::Receiver<bool>,
}

/// A worker whose lock works where nothing goes wrong, and the plans for it.
pub struct Learnt {
    attack: Arc<Attack>,
    plans: Vec<AttackPlan>,
    known: Known,
    arena: Arena,
    /// What the run without faults has shown.
    faultless: PlanReport,
}

impl Learnt {
    /// The plans for this worker whose name is one of these, begins with it, or ends with it, and whose fault is one of
    /// those; without names all.
    pub fn plans(&self, only: &[String], faults: &[String]) -> Vec<AttackPlan> {
        let is_meant = |plan: &&AttackPlan| {
            let name = plan.to_string();
            let fits = |only: &String| {
                let (begins, ends) = (format!("{only}."), format!(".{only}"));
                name == *only || name.starts_with(&begins) || name.ends_with(&ends)
            };
            let is_fault = |it: &String| it == plan.fault.name();
            (only.is_empty() || only.iter().any(fits))
                && (faults.is_empty() || faults.iter().any(is_fault))
        };
        self.plans.iter().filter(is_meant).cloned().collect()
    }

    /// Runs the plans.
    ///
    /// # Errors
    /// [`AttackError`]: no further server, or a worker that is of no use even without faults.
    pub async fn attack(
        self,
        supervisor: &Supervisor,
        campaign: &Campaign,
    ) -> Result<AttackReport, AttackError> {
        let Self { attack, known, mut arena, mut faultless, .. } = self;
        if campaign.again > 1 && faultless.outcome > PlanOutcome::Held {
            faultless = several(&mut arena, &known, None, campaign.again).await?;
        }
        let mut report = run(&attack, supervisor, campaign, known, arena).await?;
        if campaign.faultless || faultless.outcome >= PlanOutcome::Api {
            report.plans.insert(0, faultless);
        }
        Ok(report)
    }
}

/// Runs the lock without faults, and learns the plans for it.
///
/// # Errors
/// [`AttackError`]: no server, or the worker is of no use.
pub async fn learn(attack: &Arc<Attack>, supervisor: &Supervisor) -> Result<Learnt, AttackError> {
    let mut arena = Arena::open(attack, supervisor, "attack-1").await?;
    // The first time, scripts are not cached yet, on either side.
    arena.prepare().await?;
    let promises = arena.workers[0].as_ref().map(|it| it.promises()).unwrap_or_default();
    rehearse(&mut arena, promises).await?;
    arena.prepare().await?;
    let mut staged = stage::run(&mut arena, None, promises).await;
    if let Some((_, error)) = staged.failures.pop() {
        return Err(error.into());
    }
    arena.server.catch_up().await;
    let commands = arena.server.log.commands();
    let sent = transcript::sent(&arena.proxy.log(), &commands, staged.start);
    let recorded = staged.recorder.so_far();
    if sent.is_empty() {
        return Err(AttackError::NoLock(String::from(
            "your worker sent nothing to its Redis: it must connect to the address in REDIS_URL (or REDIS_HOST and \
             REDIS_PORT, with REDIS_PASSWORD)",
        )));
    }
    let (boundaries, keys) = transcript::learn(&sent, &recorded);
    let named = arena.attack.key.as_bytes();
    let is_named = |key: &&Vec<u8>| key.windows(named.len()).any(|it| it == named);
    let Some(lock_key) = keys.iter().find(is_named).or(keys.first()).cloned() else {
        return Err(AttackError::NoLock(String::from(
            "your worker created no key when it was told to acquire: a lock in Redis has one while it is held",
        )));
    };
    if let Some(life) = transcript::life(&sent, &recorded, &lock_key) {
        if life > attack.ttl * LIFE_MOST {
            return Err(AttackError::NoLock(format!(
                "the lock's key lives {}, where {} were asked for: lock with PICKLOCK_TTL_MS, or name the lock's own \
                 TTL with --ttl",
                rounded(nanos(life)),
                rounded(nanos(attack.ttl)),
            )));
        }
        arena.life = life.max(attack.ttl);
    }
    let known = Known { lock_key, promises };
    let mut faultless = assess(&arena, &known, None, staged).await;
    for _ in 1..TRIES_MOST {
        if faultless.disturbed {
            faultless = once(&mut arena, &known, None).await?;
        }
    }
    let attack = Arc::clone(attack);
    Ok(Learnt { attack, plans: plans(&boundaries), known, arena, faultless })
}

/// Runs the lock without faults, so that whatever is cached is.
async fn rehearse(arena: &mut Arena, promises: Promises) -> Result<(), AttackError> {
    let run = stage::run(arena, None, promises).await;
    arena.rehearsed = true;
    run.failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error.into()))
}

/// What a run without faults has shown of a lock.
struct Known {
    lock_key: Vec<u8>,
    promises: Promises,
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
    let again = campaign.again;
    let life = arena.life;
    let (server, world) = (arena.server.name(), arena.server.world());
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
                None => Arena::open(&attack, &supervisor, &format!("attack-{job}")).await?,
            };
            arena.life = life;
            let mut reports = Vec::new();
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some((place, plan)) = next else { break };
                let report = tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stopped| *stopped) => break,
                    report = several(&mut arena, &known, Some(&plan), again) => report,
                };
                // One plan that fails must not cost the others.
                let report = report.unwrap_or_else(|error| {
                    arena.workers.iter_mut().for_each(|worker| *worker = None);
                    PlanReport::undecided(Some(&plan), error.to_string())
                });
                reports.push((place, report));
                done.fetch_add(1, Ordering::Relaxed);
            }
            arena.workers.clear();
            arena.server.close().await;
            Ok::<_, AttackError>(reports)
        });
    }
    let mut reports = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        if let Ok(theirs) = joined {
            reports.extend(theirs?);
        }
    }
    reports.sort_by_key(|(place, _)| *place);
    let plans: Vec<PlanReport> = reports.into_iter().map(|(_, report)| report).collect();
    Ok(AttackReport {
        schema: ATTACK_SCHEMA.to_owned(),
        command: attack.command.iter().map(|it| it.to_string_lossy().into_owned()).collect(),
        world: world.to_owned(),
        server,
        clients: attack.clients,
        ttl_ms: u64::try_from(attack.ttl.as_millis()).unwrap_or(u64::MAX),
        lock_key: String::from_utf8_lossy(&known.lock_key).into_owned(),
        promises: known.promises,
        complete: plans.len() == total,
        plans,
    })
}

/// Runs a plan, and so many times in all as long as it shows something; reports the gravest.
async fn several(
    arena: &mut Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
    times: u32,
) -> Result<PlanReport, AttackError> {
    let mut worst: Option<PlanReport> = None;
    let mut outcomes = Vec::new();
    for _ in 0..times.max(1) {
        let mut tries = 1;
        let report = loop {
            let report = once(arena, known, plan).await?;
            // A busy machine may be less so in a moment.
            if !report.disturbed || tries == TRIES_MOST {
                break report;
            }
            tries += 1;
        };
        let shows_something = report.outcome >= PlanOutcome::Inconclusive;
        outcomes.push(report.outcome);
        if worst.as_ref().is_none_or(|worst| report.outcome > worst.outcome) {
            worst = Some(report);
        }
        // How often nothing is shown nobody asks.
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

async fn once(
    arena: &mut Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
) -> Result<PlanReport, AttackError> {
    arena.prepare().await?;
    if !arena.rehearsed {
        rehearse(arena, known.promises).await?;
        arena.prepare().await?;
    }
    if known.promises.renews {
        // Timers of the hold before it could do what the struck renewal should have done.
        pause(arena.life).await;
    }
    // Its scripts are gone then.
    arena.rehearsed = plan.is_none_or(|plan| plan.fault.target() != Target::Server);
    let staged = stage::run(arena, plan, known.promises).await;
    Ok(assess(arena, known, plan, staged).await)
}

/// What a plan has shown that has just been staged; without one, the run without faults.
async fn assess(
    arena: &Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
    staged: PlanRun,
) -> PlanReport {
    probe(arena, &known.lock_key, &staged.recorder).await;
    let is_seen = arena.server.catch_up().await;
    let (trace, judged) = judged(arena, known, plan, &staged);
    let PlanTrace { history, divergence, phases, claims, sent } = trace;
    let Judged { mut levels, mut findings, mut doubts } = judged;
    let divergence = match is_seen {
        true => divergence,
        false => Some(String::from("the witness has not seen all that the server carried out")),
    };
    let diverged = divergence.is_some();
    if let Some(why) = divergence {
        // Without a witness that can be trusted nothing is known of the key.
        findings.retain(|it| it.level != Level::Key && !it.invariant.ends_with("-is-true"));
        levels.retain(|(level, _)| *level != Level::Key);
        levels.push((Level::Key, Outcome::Inconclusive));
        doubts.push(why);
    }
    let of = |level| {
        let outcomes = levels.iter().filter(|(it, _)| *it == level).map(|(_, outcome)| *outcome);
        scenarios::verdict::worst(outcomes)
    };
    let disturbed = disturbed(known, plan, &staged, &phases, (&claims, &sent), arena.life);
    let gravest = findings.iter().map(|it| it.severity).max();
    let (outcome, why) = match (staged.not_stageable, gravest) {
        (Some(why), _) => (PlanOutcome::NotStageable, Some(why)),
        (None, _) if disturbed.is_some() => (PlanOutcome::Inconclusive, disturbed.clone()),
        (None, _) if plan.is_some() && !staged.struck => {
            (PlanOutcome::Vacuous, Some(String::from("the command did not come again")))
        }
        (None, Some(severity)) => (severity.into(), None),
        (None, None) if !doubts.is_empty() && of(Level::Key) == Outcome::Inconclusive => {
            (PlanOutcome::Inconclusive, Some(doubts.join("; ")))
        }
        (None, None) => (PlanOutcome::Held, None),
    };
    let findings = match outcome {
        PlanOutcome::NotStageable | PlanOutcome::Vacuous | PlanOutcome::Inconclusive => Vec::new(),
        _ => findings,
    };
    PlanReport {
        outcome,
        key: of(Level::Key),
        why,
        findings,
        disturbed: disturbed.is_some() || diverged,
        history,
        ..PlanReport::undecided(plan, String::new())
    }
}

/// How a busy machine has spoilt a plan, if it has: what follows from that is not the lock's doing.
fn disturbed(
    known: &Known,
    plan: Option<&AttackPlan>,
    staged: &PlanRun,
    phases: &[Phases],
    (claims, sent): (&[Claim], &[TracedCommand]),
    life: Duration,
) -> Option<String> {
    if staged.late > life.mul_f64(LATE_MOST) {
        let late = rounded(nanos(staged.late));
        return Some(format!("the machine was too busy: picklock itself was late by {late}"));
    }
    for claim in claims.iter().filter(|it| it.of == ClaimOf::Acquired && it.client != VICTIM) {
        let took = sent.iter().filter(|it| it.client == claim.client);
        let took = took.filter_map(|it| Some((it.seen.as_ref()?.at, &it.seen.as_ref()?.changes)));
        let is_within = |at: &Instant| (claim.asked..=claim.answered).contains(at);
        let created = took.filter(|(at, changes)| !changes.is_empty() && is_within(at));
        let late = created.map(|(at, _)| claim.answered.saturating_duration_since(at)).min();
        if let Some(late) = late.filter(|late| *late > life.mul_f64(LATE_MOST)) {
            let (client, late) = (claim.client, rounded(nanos(late)));
            return Some(format!(
                "the machine was too busy: client {client} had the lock for {late} before it said so"
            ));
        }
    }
    // A server that is away delays everybody, and a lock that is renewed may be held for longer.
    let is_away = plan.is_some_and(|plan| plan.fault.target() == Target::Server);
    if known.promises.outlives_ttl() || is_away {
        return None;
    }
    let worked = |it: &&Phases| it.client != VICTIM;
    let spans = phases
        .iter()
        .filter(worked)
        .filter_map(|it| Some((it.client, it.release?.saturating_duration_since(it.acquired?))));
    let (client, longest) = spans.max_by_key(|(_, span)| *span)?;
    (longest > life.mul_f64(WORK_MOST)).then(|| {
        let longest = rounded(nanos(longest));
        format!("the machine was too busy: client {client} held the lock for {longest} instead of a moment")
    })
}

/// What was seen of a plan.
struct PlanTrace {
    history: History,
    divergence: Option<String>,
    phases: Vec<Phases>,
    claims: Vec<Claim>,
    sent: Vec<TracedCommand>,
}

/// The history of a plan, and what it shows.
fn judged(
    arena: &Arena,
    known: &Known,
    plan: Option<&AttackPlan>,
    staged: &PlanRun,
) -> (PlanTrace, Judged) {
    let commands = arena.server.log.commands();
    let sent: Vec<TracedCommand> = transcript::sent(&arena.proxy.log(), &commands, staged.start);
    let recorded = staged.recorder.take();
    let phases = transcript::phases(&recorded);
    let (claims, validities) = (recorded.claims.clone(), recorded.validities.clone());
    let mut granted = recorded.events.iter().filter(|it| it.what == What::Acquired);
    let is_bounded = |it: &RecordedEvent| validities.iter().any(|at| at.2 == it.acquisition);
    let head = Head {
        format: FORMAT.to_owned(),
        scenario: match plan {
            Some(plan) => format!("attack/{plan}"),
            None => format!("attack/{NO_FAULT}"),
        },
        lock: arena
            .attack
            .command
            .first()
            .map(|it| it.to_string_lossy().into_owned())
            .unwrap_or_default(),
        // Only where every hold has one does a belief end with it.
        tracked: !validities.is_empty() && granted.all(is_bounded),
        locks: true,
        world: arena.server.world().to_owned(),
        clients: arena.attack.clients,
        lock_key: String::from_utf8_lossy(&known.lock_key).into_owned(),
        ttl_ns: nanos(arena.life),
        margin_ns: nanos(MARGIN),
        register: Some(0),
        ..Head::default()
    };
    let mut history = transcript::history(head, recorded, &sent, staged.start);
    if let Some(last) = history.events.last() {
        let (at_ns, what) = (last.at_ns, What::RegisterLeft(staged.register));
        history.events.push(scenarios::history::Event {
            at_ns,
            client: 0,
            acquisition: 0,
            op: 0,
            what,
        });
    }
    let shown = PlanEvidence {
        plan,
        promises: known.promises,
        history: &history,
        sent: &sent,
        phases: &phases,
        claims: &claims,
        validities: &validities,
        failures: &staged.failures,
        start: staged.start,
        end: staged.end,
    };
    let judged = judge(&shown);
    let divergence = transcript::divergence(&sent);
    (PlanTrace { history, divergence, phases, claims, sent }, judged)
}

/// Looks at the lock's key until it is gone, or should be.
async fn probe(arena: &Arena, lock_key: &[u8], recorder: &Recorder) {
    let ask = Command::new("PTTL").arg(lock_key);
    let end = now() + arena.life * 2;
    loop {
        let answer = arena.server.endpoint.command(&ask).await;
        if let Ok(Reply::Int(pttl_ms)) = answer {
            recorder.note(What::Probe(pttl_ms));
            // It has gone, or never will.
            if pttl_ms < 0 {
                return;
            }
        }
        if now() >= end {
            return;
        }
        pause(PROBE_EVERY).await;
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
