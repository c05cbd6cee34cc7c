//! Stages a plan for programs that are told nothing: all copies run at once, and the fault strikes client 1.
//!
//! Invariant: client 1 comes first, so that what a run without faults has shown comes again: nothing of the others gets
//! to the server until it has the lock's key, has met its fault or has ended, or a TTL has passed since it was heard of.

#![expect(clippy::disallowed_methods, reason = "programs run in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fault_proxy::{Cut, Gate, Link};
use live_world::program::ProgramRoom;
use live_world::supervisor::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::arena::Arena;
use crate::board::{Board, PlanStage, VICTIM, VictimState};
use crate::clock::now;
use crate::copy::{CopyEnd, ProgramCopy};
use crate::error::AttackError;
use crate::key_watch::KeyWatch;
use crate::oracle::Oracle;
use crate::plan::{AttackPlan, LockStep};
use crate::recorder::Recorder;
use crate::stage::{arm, direct};

/// How often is looked how late this process itself is.
const BEAT: Duration = Duration::from_millis(10);

/// What came of a plan, before it is judged.
pub(crate) struct CopiesRun {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) stage: Arc<PlanStage>,
    /// When the fault met what it was meant for.
    pub(crate) struck: Option<Instant>,
    /// Whether another got the lock while it lasted.
    pub(crate) taken_over: bool,
    /// Why the fault cannot be staged here.
    pub(crate) not_stageable: Option<String>,
    /// How each copy has ended, by client.
    pub(crate) ends: Vec<CopyEnd>,
    /// What they have left besides what is on the server.
    pub(crate) room: ProgramRoom,
}

/// Runs all copies to their end, with one plan or without a fault. The server is empty.
pub(crate) async fn run(
    arena: &mut Arena,
    oracle: &Oracle,
    plan: Option<&AttackPlan>,
    key: Option<&[u8]>,
) -> Result<CopiesRun, AttackError> {
    arena.proxy.rules().clear();
    arena.proxy.log().take();
    arena.server.log.clear();
    let clients = arena.attack.clients as usize;
    let board = Board { acquired: vec![0; clients], ..Board::default() };
    let stage = Arc::new(PlanStage {
        attack: Arc::clone(&arena.attack),
        life: arena.life,
        plan: plan.cloned(),
        board: watch::Sender::new(board),
        recorder: Recorder::default(),
        register: AtomicI64::new(0),
        late_ns: AtomicU64::new(0),
        renews: false,
    });
    let start = now();
    let gate = Gate::shut();
    arm(&stage, arena.proxy.rules(), &gate, LockStep::Run);
    let rivals: Vec<Link> = arena.links.iter().skip(1).cloned().collect();
    rivals.iter().for_each(|link| link.cut(Cut::Requests));
    let room = ProgramRoom::new(&arena.supervisor);
    let mut helpers = JoinSet::new();
    let (log, proxy) = (arena.server.log.clone(), arena.proxy.log());
    let watch = KeyWatch::new(Arc::clone(&stage), log, proxy, key.map(<[u8]>::to_vec));
    helpers.spawn(watch.follow());
    helpers.spawn(admit(Arc::clone(&stage), rivals.clone()));
    let beating = Arc::clone(&stage);
    helpers.spawn(async move {
        loop {
            beating.pass(BEAT).await;
        }
    });
    let (mut copies, mut processes) = (JoinSet::new(), Vec::new());
    for (client, link) in (VICTIM..).zip(&arena.links) {
        let variables = arena.variables(client as usize, link.addr());
        let command = &arena.attack.command;
        let copy = ProgramCopy::start(&arena.supervisor, client, command, variables, &room).await?;
        processes.push(copy.process());
        let stage = Arc::clone(&stage);
        copies.spawn(async move {
            let end = copy.ended().await;
            if client == VICTIM {
                stage.board.send_modify(|board| board.victim = VictimState::Done);
            }
            end
        });
    }
    let not_stageable = match plan {
        Some(_) => direct(&stage, arena, &processes[0], &gate).await,
        None => None,
    };
    let taken_over = stage.board.borrow().is_taken_over();
    let mut ends = Vec::new();
    let _ = timeout(oracle.end_within, async {
        while let Some(end) = copies.join_next().await {
            ends.extend(end);
        }
    })
    .await;
    let running = processes.iter().filter(|process| process.is_running());
    running.for_each(|process| process.signal(Signal::Kill));
    while let Some(end) = copies.join_next().await {
        ends.extend(end.map(|end| CopyEnd { overdue: true, ..end }));
    }
    ends.sort_by_key(|end| end.client);
    helpers.shutdown().await;
    rivals.iter().for_each(|link| link.cut(Cut::None));
    arena.proxy.rules().clear();
    let struck = stage.board.borrow().struck;
    Ok(CopiesRun { start, end: now(), stage, struck, taken_over, not_stageable, ends, room })
}

impl CopiesRun {
    /// By how much picklock itself was late at most.
    pub(crate) fn late(&self) -> Duration {
        Duration::from_nanos(self.stage.late_ns.load(Ordering::Relaxed))
    }
}

/// Lets the others get to the server once client 1 has come first.
async fn admit(stage: Arc<PlanStage>, rivals: Vec<Link>) {
    let is_over = |board: &Board| board.struck.is_some() || board.victim == VictimState::Done;
    stage.until(Duration::MAX, |board| board.spoken || is_over(board)).await;
    stage.until(stage.ttl(), |board| board.acquired[0] > 0 || is_over(board)).await;
    rivals.iter().for_each(|link| link.cut(Cut::None));
}
