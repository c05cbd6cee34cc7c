//! Stages a plan for programs that take no orders: copies run beside each other, and the fault strikes client 1.
//!
//! Invariant: client 1 starts first, so that it sends the same commands as in the run without faults. The others start
//! once client 1 has the lock's key, has met its fault or has ended, or one TTL after its first command. Nothing else
//! is done to them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fault_proxy::{Gate, Link};
use live_world::program::{Program, ProgramRoom};
use tokio::task::JoinSet;

use crate::arena::{Arena, Oracle};
use crate::board::{Board, PlanStage, VICTIM, VictimState, beat};
use crate::clock::{now, pause};
use crate::copy::{CopyEnd, ProgramCopy};
use crate::error::AttackError;
use crate::key_watch::KeyWatch;
use crate::plan::{AttackPlan, LockStep};
use crate::protocol::Promises;
use crate::stage::{arm, direct};

/// So many times as long at most a copy has to end, however long it waits for a processor: it may be what keeps all busy.
const WAITED_MOST: u32 = 4;
/// How often to look how long a copy has waited for a processor: what it has started may have ended in between.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The result of a plan's run, before it is judged.
pub(crate) struct CopiesRun {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) stage: Arc<PlanStage>,
    /// When the fault struck.
    pub(crate) struck: Option<Instant>,
    /// When the fault was over.
    pub(crate) healed: Option<Instant>,
    /// Whether another client got the lock while the fault lasted.
    pub(crate) taken_over: bool,
    /// How long each copy had to end once the fault was over, the time aside in which it waited for a processor.
    pub(crate) end_within: Duration,
    /// Why the fault cannot be staged here.
    pub(crate) not_stageable: Option<String>,
    /// How each copy has ended, by client.
    pub(crate) ends: Vec<CopyEnd>,
    /// The directory that the copies shared.
    pub(crate) room: Arc<ProgramRoom>,
}

/// Runs all copies to their end, with one plan or without a fault. The server is empty. Without a fault all have ended after
/// `took`, as far as that is known.
pub(crate) async fn run(
    arena: &mut Arena,
    oracle: &Oracle,
    plan: Option<&AttackPlan>,
    key: Option<&[u8]>,
    took: Duration,
) -> Result<CopiesRun, AttackError> {
    arena.proxy.rules().clear();
    // Nothing that earlier programs left behind may show up in this run.
    arena.links.iter().flatten().for_each(Link::reset_connections);
    arena.proxy.log().take();
    arena.servers[0].log.clear();
    let stage =
        Arc::new(PlanStage::new(Arc::clone(&arena.attack), arena.life, plan, Promises::default()));
    let start = now();
    let gate = Gate::shut();
    arm(&stage, arena.proxy.rules(), &gate, LockStep::Run);
    let mut helpers = JoinSet::new();
    let (log, proxy) = (arena.servers[0].log.clone(), arena.proxy.log());
    let watch = KeyWatch::new(Arc::clone(&stage), log, proxy, key.map(<[u8]>::to_vec));
    helpers.spawn(watch.follow());
    helpers.spawn(beat(Arc::clone(&stage)));
    let room = Arc::new(ProgramRoom::new(&arena.supervisor));
    let supervisor = &arena.supervisor;
    let command = &arena.attack.command;
    let variables = |client: u32, link: &Link| arena.variables(client as usize, &[link.addr()]);
    let theirs = variables(VICTIM, &arena.links[0][0]);
    let first = ProgramCopy::start(supervisor, VICTIM, command, theirs, &room).await?;
    let process = first.process();
    let end_within = oracle.end_within + took;
    let mut copies = JoinSet::new();
    for (client, link) in (VICTIM + 1..).zip(&arena.links[0][1..]) {
        let (stage, room, supervisor) = (Arc::clone(&stage), Arc::clone(&room), supervisor.clone());
        let variables = variables(client, link);
        copies.spawn(async move {
            first_has_come(&stage).await;
            let command = &stage.attack.command;
            let copy = ProgramCopy::start(&supervisor, client, command, variables, &room).await?;
            let limit = overdue(&stage, copy.process(), end_within);
            let end = copy.ended_before(limit).await;
            stage.board.send_modify(|board| board.gone += 1);
            Ok::<_, AttackError>(end)
        });
    }
    let observed = Arc::clone(&stage);
    copies.spawn(async move {
        let limit = overdue(&observed, first.process(), end_within);
        let end = first.ended_before(limit).await;
        observed.board.send_modify(|board| board.victim = VictimState::Done);
        Ok(end)
    });
    let not_stageable = direct(&stage, arena, &process, &gate).await;
    let taken_over = stage.board.borrow().is_taken_over();
    let mut ends = Vec::new();
    while let Some(ended) = copies.join_next().await {
        if let Ok(end) = ended {
            ends.push(end?);
        }
    }
    ends.sort_by_key(|end| end.client);
    helpers.shutdown().await;
    arena.proxy.rules().clear();
    let (struck, healed) = {
        let board = stage.board.borrow();
        (board.struck, board.healed)
    };
    let end = now();
    Ok(CopiesRun {
        start,
        end,
        stage,
        struck,
        healed,
        taken_over,
        end_within,
        not_stageable,
        ends,
        room,
    })
}

impl CopiesRun {
    /// The longest delay of picklock itself.
    pub(crate) fn late(&self) -> Duration {
        Duration::from_nanos(self.stage.late_ns.load(Ordering::Relaxed))
    }
}

/// Returns when this process has had `left` to end since the fault was over. What it waited for a processor does not count:
/// that is the machine's doing.
async fn overdue(stage: &PlanStage, process: Arc<Program>, mut left: Duration) {
    stage.until(Duration::MAX, |board| board.healed.is_some()).await;
    let mut before = process.run_delays();
    while !left.is_zero() {
        let begun = now();
        pause(left.min(LOOK_EVERY)).await;
        let delays = process.run_delays();
        let waited = delays.longest_since(&before);
        let passed = begun.elapsed();
        left = left.saturating_sub(passed.saturating_sub(waited).max(passed / WAITED_MOST));
        before = delays;
    }
}

/// Returns when the other clients may start.
async fn first_has_come(stage: &PlanStage) {
    let is_over = |board: &Board| board.struck.is_some() || board.victim == VictimState::Done;
    stage.until(Duration::MAX, |board| board.spoken || is_over(board)).await;
    stage.until(stage.ttl(), |board| board.acquired[0] > 0 || is_over(board)).await;
}
