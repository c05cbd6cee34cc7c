//! Stages one plan: the victim locks, the fault strikes, and rivals ask for the lock meanwhile.
//!
//! Invariant: a plan waits for events (the rule struck, another client has the lock, a process is stopped), and each
//! wait has a limit. The only fixed durations are those that concern the lock itself: its TTL, and how long work takes.

#![expect(clippy::disallowed_methods, reason = "workers run in real time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use fault_proxy::{Action, ClientId, Gate, Occurrence, Rule, RuleHandle, Side};
use history::fault::Fault;
use live_world::program::Program;
use picklock::env::Node;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::arena::Arena;
use crate::board::{Board, PlanStage, VICTIM, VictimState, WAITER, beat, is_done};
use crate::client::{acquire, release, work};
use crate::clock::now;
use crate::plan::{AttackFault, AttackPlan, Boundary, LockStep, Target};
use crate::protocol::Promises;
use crate::recorder::Recorder;
use crate::recovery;
use crate::strikes::{strike_process, strike_servers};
use crate::worker::{Worker, WorkerError};

/// A hold that is to end within the TTL ends after this part of it.
const WITHIN: f64 = 0.6;
/// How often rivals get the lock where they can: the first may have stood before what keeps the others from it.
const GRANTS: u32 = 2;
/// How long a client waits between two attempts.
const RETRY: Duration = Duration::from_millis(8);

/// The result of a plan's run, before it is judged.
pub(crate) struct PlanRun {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) recorder: Recorder,
    pub(crate) register: i64,
    /// The longest delay of this process itself.
    pub(crate) late: Duration,
    /// When the fault struck what it was meant for.
    pub(crate) struck: Option<Instant>,
    /// When the fault was over.
    pub(crate) healed: Option<Instant>,
    /// Why the fault cannot be staged here.
    pub(crate) not_stageable: Option<String>,
    /// Workers that failed, by client, and why.
    pub(crate) failures: Vec<(u32, WorkerError)>,
    /// Since when the rivals have asked for the lock, if none of them got it again.
    pub(crate) unserved: Option<Instant>,
}

/// Runs one plan; without a plan, the same without a fault.
pub(crate) async fn run(
    arena: &mut Arena,
    plan: Option<&AttackPlan>,
    promises: Promises,
) -> PlanRun {
    let stage = Arc::new(PlanStage::new(Arc::clone(&arena.attack), arena.life, plan, promises));
    let start = now();
    let mut workers: Vec<Worker> = arena.workers.iter_mut().filter_map(Option::take).collect();
    let waits = plan.is_some_and(|plan| plan.fault.target() == Target::Waiter);
    let process = workers[if waits { WAITER } else { VICTIM } as usize - 1].process();
    let rivals = workers.split_off(1);
    let victim = workers.remove(0);
    let mut beating = JoinSet::new();
    beating.spawn(beat(Arc::clone(&stage)));
    let mut tasks = JoinSet::new();
    for (client, worker) in (VICTIM + 1..).zip(rivals) {
        let stage = Arc::clone(&stage);
        tasks.spawn(async move { (client, rival(&stage, client, worker).await) });
    }
    let arming = Arc::clone(arena.proxy.rules());
    let gate = Gate::shut();
    let theirs = (Arc::clone(&stage), gate.clone());
    tasks.spawn(async move {
        let (stage, gate) = theirs;
        let arm = |step| arm(&stage, &arming, &gate, step);
        let left = self::victim(&stage, victim, arm).await;
        stage.board.send_modify(|board| board.victim = VictimState::Done);
        (VICTIM, left)
    });
    let not_stageable = direct(&stage, arena, &process, &gate).await;
    wind_down(&stage).await;
    let mut failures = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let Ok((client, left)) = done else { continue };
        match left {
            Ok(worker) => arena.workers[client as usize - 1] = Some(worker),
            Err(error) => failures.push((client, error)),
        }
    }
    arena.proxy.rules().clear();
    let is_changed =
        plan.is_some_and(|plan| matches!(plan.fault.target(), Target::Process | Target::Holder));
    if is_changed {
        // A struck process is not like a new one.
        arena.workers[0] = None;
    } else if let Some(victim) = &mut arena.workers[0] {
        // After an ambiguous outcome, a worker may still be busy with it.
        victim.spent = stage.recorder.has_unknown(VICTIM);
    }
    beating.shutdown().await;
    let stage = Arc::into_inner(stage).expect("every task has ended");
    let Board { struck, healed, unserved, .. } = stage.board.borrow().clone();
    let register = stage.register.into_inner();
    let late = Duration::from_nanos(stage.late_ns.into_inner());
    let recorder = stage.recorder;
    PlanRun {
        start,
        end: now(),
        recorder,
        register,
        late,
        struck,
        healed,
        not_stageable,
        failures,
        unserved,
    }
}

/// Adds the proxy rules of the plan, as the victim comes to this step.
pub(crate) fn arm(stage: &Arc<PlanStage>, rules: &fault_proxy::Rules, gate: &Gate, step: LockStep) {
    let Some(AttackPlan { boundary: Some(boundary), fault, servers }) = &stage.plan else { return };
    if boundary.step != step {
        return;
    }
    let Boundary { command, nth, .. } = boundary;
    let (action, told) = match *fault {
        AttackFault::LoseRequest => (Action::Drop(Side::Request), Some(Fault::LoseRequest)),
        AttackFault::LoseReply => (Action::Drop(Side::Reply), Some(Fault::LoseReply)),
        AttackFault::LateRequest | AttackFault::LateAgain => {
            (Action::Hold(Side::Request, gate.clone()), Some(Fault::Delay))
        }
        AttackFault::LateReply => (Action::Hold(Side::Reply, gate.clone()), Some(Fault::Delay)),
        AttackFault::ResetBefore => (Action::Reset(Side::Request), Some(Fault::Reset)),
        AttackFault::ResetAfter if step == LockStep::Release => {
            (Action::Hold(Side::Reply, gate.clone()), Some(Fault::Reset))
        }
        AttackFault::ResetAfter => (Action::Reset(Side::Reply), Some(Fault::Reset)),
        AttackFault::Stop | AttackFault::OldToken => {
            (Action::Hold(Side::Reply, gate.clone()), Some(Fault::Pause))
        }
        // The request must arrive as early as without a fault, so the reply is held instead.
        AttackFault::Kill => (Action::Hold(Side::Reply, gate.clone()), Some(Fault::Crash)),
        AttackFault::ClockForward | AttackFault::ClockBack => {
            (Action::Hold(Side::Request, gate.clone()), Some(Fault::ClockStep))
        }
        other => match other.error() {
            Some(error) => (Action::Refuse(error.text().into()), None),
            None => return,
        },
    };
    for node in 0..*servers {
        let observed = Arc::clone(stage);
        let rule = Rule::new(action.clone()).client(ClientId(VICTIM)).node(Node(node));
        let rule = rule.command(command).when(Occurrence::Nth(*nth)).tell(move || match told {
            Some(told) => observed.strike(VICTIM, None, told),
            // The history has the refusal itself.
            None => observed.board.send_modify(|board| {
                board.struck.get_or_insert_with(now);
                board.rivals_at_strike = board.rivals();
            }),
        });
        let _: RuleHandle = rules.add(rule);
    }
}

/// Carries out the parts of a fault that no proxy rule can do, and ends it; returns why it cannot be staged, if so.
pub(crate) async fn direct(
    stage: &PlanStage,
    arena: &mut Arena,
    process: &Program,
    gate: &Gate,
) -> Option<String> {
    let mut problem = None;
    if let Some(fault) = stage.plan.as_ref().map(|plan| plan.fault) {
        wait_for_place(stage, fault).await;
        problem = match fault.target() {
            Target::Message => {
                await_effect(stage, arena, fault).await;
                None
            }
            Target::Process | Target::Holder | Target::Waiter => {
                strike_process(stage, process, gate, fault).await
            }
            Target::Server if is_done(&stage.board.borrow()) => None,
            Target::Server => strike_servers(stage, arena, fault).await,
        };
    }
    heal(stage, gate).await;
    problem
}

/// Waits until the victim has come to where the fault strikes, or to its end.
async fn wait_for_place(stage: &PlanStage, fault: AttackFault) {
    let is_there = |board: &Board| match fault.target() {
        Target::Message | Target::Process => board.struck.is_some(),
        Target::Holder | Target::Waiter | Target::Server => board.victim == VictimState::Holding,
    };
    stage.until(stage.patience(), |board| is_there(board) || is_done(board)).await;
}

/// A rule of the proxy has struck a message: waits until others have met the effect.
async fn await_effect(stage: &PlanStage, arena: &Arena, fault: AttackFault) {
    let ttl = stage.ttl();
    match fault {
        AttackFault::LateRequest | AttackFault::LateReply => {
            stage.until(ttl.mul_f64(1.1), |board| board.outlived).await;
            stage.another(2).await;
        }
        AttackFault::LateAgain => {
            // If the victim waits for the reply, this wait ends early enough for it to answer.
            let has_again = |board: &Board| board.acquired[0] > 1;
            stage.until(ttl * 4, |board| has_again(board) || is_done(board)).await;
            stage.board.send_modify(|board| {
                board.rivals_at_strike = board.rivals();
                board.struck = board.struck.filter(|_| has_again(board));
            });
        }
        AttackFault::ResetAfter if stage.strikes_at(LockStep::Release) => {
            // The lock is free: a victim that retries its release should meet the next holder.
            stage.until(ttl / 4, Board::is_held_by_another).await;
            let servers = stage.plan.as_ref().map_or(1, |plan| plan.servers);
            for links in arena.links.iter().take(servers.into()) {
                links[0].reset_connections();
            }
        }
        _ => {}
    }
}

/// Ends the fault: lets go what the proxy has held back.
async fn heal(stage: &PlanStage, gate: &Gate) {
    // Nothing that was held back arrives before the fault is over.
    let healed = now();
    gate.open();
    stage.board.send_modify(|board| board.healed = Some(healed));
    if stage.board.borrow().aside {
        let has_it = |board: &Board| board.acquired[0] > 0 || is_done(board);
        stage.until(stage.ttl(), has_it).await;
        stage.board.send_modify(|board| board.aside = false);
    }
}

/// Waits for the victim, and stops the rivals.
async fn wind_down(stage: &PlanStage) {
    stage.until(stage.patience(), is_done).await;
    // Each rival gets the lock once more, or at least has the time for it.
    let (since, before) = (now(), stage.board.borrow().clone());
    let each_again = |board: &Board| {
        board.acquired.iter().zip(&before.acquired).skip(1).all(|(now, before)| now > before)
    };
    stage.until(stage.ttl() * 2, each_again).await;
    let limit = stage.attack.answer_within * recovery::ANSWERS;
    let mut is_unserved = false;
    if may_be_unserved(stage.plan.as_ref(), before.acquired[0] > 0) {
        for grants in 1..=GRANTS {
            let is_served = |board: &Board| board.rivals() >= before.rivals() + grants;
            is_unserved = is_unserved || !stage.until(limit, is_served).await;
        }
    }
    stage.board.send_modify(|board| {
        board.unserved = is_unserved.then_some(since);
        board.stop = true;
    });
}

/// Whether a plan shows this. What strikes a server may strike every client. Without a fault, `had`: the victim had the lock.
fn may_be_unserved(plan: Option<&AttackPlan>, had: bool) -> bool {
    plan.map_or(had, |plan| plan.fault.target() != Target::Server)
}

/// The victim: gets the lock, works under it, and releases it; in some plans once more.
async fn victim(
    stage: &PlanStage,
    mut worker: Worker,
    arm: impl Fn(LockStep),
) -> Result<Worker, WorkerError> {
    arm(LockStep::Acquire);
    hold(stage, &mut worker, &arm, keep(stage)).await?;
    let fault = stage.plan.as_ref().map(|plan| plan.fault);
    let comes_again = fault.is_some_and(AttackFault::comes_again);
    if comes_again && stage.board.borrow().struck.is_some() {
        if fault.is_some_and(AttackFault::steps_clock) {
            // By a clock that is ahead the lock of another has ended: so the victim first meets one that has it.
            stage.until(stage.ttl() / 2, Board::is_held_by_another).await;
        }
        hold(stage, &mut worker, &|_| (), keep_again(stage)).await?;
    }
    Ok(worker)
}

/// Has the victim get the lock, work under it and release it. Gives up if it does not get it within six TTLs.
async fn hold(
    stage: &PlanStage,
    worker: &mut Worker,
    arm: &impl Fn(LockStep),
    keep: impl Future<Output = ()>,
) -> Result<(), WorkerError> {
    let begun = now();
    let end = begun + stage.ttl() * 6;
    let steps_clock = stage.plan.as_ref().is_some_and(|plan| plan.fault.steps_clock());
    loop {
        let attempt = stage.recorder.attempt(VICTIM);
        let is_held = acquire(stage, &attempt, worker).await?;
        // If rivals get the lock before the victim every time, its changed clock is not tested: so they stand aside.
        if steps_clock {
            let is_outrun = !is_held && now() >= begun + stage.ttl() * 2;
            stage.board.send_modify(|board| board.aside = is_outrun);
        }
        if is_held {
            arm(LockStep::Hold);
            stage.board.send_modify(|board| board.victim = VictimState::Holding);
            work(stage, &attempt, worker, keep).await?;
            arm(LockStep::Release);
            return release(stage, &attempt, worker).await;
        }
        if now() >= end {
            stage.board.send_modify(|board| board.aside = false);
            return Ok(());
        }
        sleep(RETRY).await;
    }
}

/// Returns when the second hold was long enough: the late request has come and a rival has got the lock, or a rival has
/// asked for the lock.
async fn keep_again(stage: &PlanStage) {
    let ttl = stage.ttl();
    let tries = stage.board.borrow().tries;
    if stage.plan.as_ref().is_some_and(|plan| plan.fault == AttackFault::LateAgain) {
        stage.until(ttl / 4, |board| board.healed.is_some()).await;
        stage.until(ttl / 4, Board::is_taken_over).await;
    }
    stage.pass(stage.work(VICTIM)).await;
    if stage.plan.as_ref().is_some_and(|plan| plan.fault.steps_clock()) {
        // Each rival may have begun to ask before the victim got the lock: such tries do not count.
        let has_come = |board: &Board| board.tries >= tries + board.acquired.len();
        stage.until(ttl / 4, has_come).await;
    }
}

/// Returns when the victim has held the lock for as long as its plan needs.
async fn keep(stage: &PlanStage) {
    let ttl = stage.ttl();
    let (in_hold, at_renewal) = match &stage.plan {
        Some(AttackPlan { boundary: None, .. }) => (true, false),
        Some(AttackPlan { boundary: Some(boundary), .. }) => {
            (false, boundary.step == LockStep::Hold)
        }
        None => (false, false),
    };
    match () {
        () if in_hold => {
            let begun = now();
            stage.until(ttl * 6, |board| board.healed.is_some()).await;
            let forgets = stage.plan.as_ref().is_some_and(|plan| plan.fault.forgets());
            let is_forgotten = |plan: &AttackPlan| plan.forgets(stage.attack.quorum());
            // Long enough for a rival to get the lock, but within its TTL where most servers remember it.
            let span = match () {
                () if stage.promises.outlives_ttl() => ttl / 2,
                () if stage.plan.as_ref().is_some_and(is_forgotten) => ttl / 2,
                () if forgets => ttl.mul_f64(WITHIN).saturating_sub(begun.elapsed()),
                () => Duration::ZERO,
            };
            stage.until(span, Board::is_taken_over).await;
        }
        () if at_renewal => {
            stage.until(ttl * 3, |board| board.struck.is_some()).await;
            // Until the effect of the last renewal is over, and a rival has got the lock.
            stage.until(ttl.mul_f64(1.5), Board::is_taken_over).await;
        }
        // Long enough to show how the lock is renewed.
        () if stage.plan.is_none() => {
            sleep(ttl.mul_f64(if stage.promises.outlives_ttl() { 1.4 } else { 0.5 })).await
        }
        () => stage.pass(stage.work(VICTIM)).await,
    }
}

/// A rival asks for the lock once, and works under it if it gets it; true if it did.
async fn turn(stage: &PlanStage, client: u32, worker: &mut Worker) -> Result<bool, WorkerError> {
    let attempt = stage.recorder.attempt(client);
    let is_held = acquire(stage, &attempt, worker).await?;
    stage.board.send_modify(|board| board.tries += 1);
    if is_held {
        stage.board.send_modify(|board| board.working += 1);
        let worked = work(stage, &attempt, worker, stage.pass(stage.work(client))).await;
        stage.board.send_modify(|board| board.working -= 1);
        worked?;
        release(stage, &attempt, worker).await?;
    }
    Ok(is_held)
}

/// A rival: asks for the lock again and again, from when the victim has it until it is told to stop.
async fn rival(stage: &PlanStage, client: u32, mut worker: Worker) -> Result<Worker, WorkerError> {
    let begins = |board: &Board| {
        board.struck.is_some() || board.victim != VictimState::Waiting || board.stop
    };
    stage.until(Duration::MAX, begins).await;
    if stage.attack.nodes > 1 {
        // The victim's commands to the other servers are still on their way.
        sleep(stage.ttl().mul_f64(0.05)).await;
    }
    while !stage.board.borrow().stop {
        stage.until(Duration::MAX, |board| !board.aside || board.stop).await;
        stage.board.send_modify(|board| board.busy += 1);
        let turn = turn(stage, client, &mut worker).await;
        stage.board.send_modify(|board| board.busy -= 1);
        let is_held = turn?;
        if is_held {
            // A rival that asks again at once might get the lock every time, and the others never.
            let before = stage.board.borrow().acquired[client as usize - 1];
            let others = |board: &Board| board.acquired.iter().sum::<u32>() - before;
            let then = others(&stage.board.borrow());
            stage.until(stage.ttl() / 2, |board| board.stop || others(board) > then).await;
        }
        sleep(RETRY).await;
    }
    Ok(worker)
}
