//! The board of a plan: its progress, and the state that its tasks share.

#![expect(clippy::disallowed_methods, reason = "workers run in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use history::fault::Fault;
use picklock::time::span_ns;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::arena::Attack;
use crate::clock::now;
use crate::plan::{AttackPlan, LockStep};
use crate::protocol::Promises;
use crate::recorder::Recorder;

/// The client that a plan strikes.
pub(crate) const VICTIM: u32 = 1;
/// The client that is struck where a plan strikes one that waits for the lock.
pub(crate) const WAITER: u32 = 2;

/// How far a plan has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    /// How often each client has got the lock, by client from 0.
    pub(crate) acquired: Vec<u32>,
    /// How many rivals are at their work under the lock.
    pub(crate) working: u32,
    /// How many rivals ask for the lock, have it or release it.
    pub(crate) busy: u32,
    /// How often a rival has asked for the lock and was answered.
    pub(crate) tries: usize,
    /// The rivals leave the lock to the victim.
    pub(crate) aside: bool,
    /// How often rivals had got the lock when the fault struck.
    pub(crate) rivals_at_strike: u32,
    pub(crate) struck: Option<Instant>,
    /// When the fault was over.
    pub(crate) healed: Option<Instant>,
    pub(crate) victim: VictimState,
    /// If the victim is a copy: whether the server has carried out a command of it, beyond the handshake.
    pub(crate) spoken: bool,
    /// If the victim is a copy: whether its key has expired since the fault struck, and another client has the lock.
    pub(crate) outlived: bool,
    /// If the rivals are copies: how many of them have ended.
    pub(crate) gone: usize,
    /// The rivals are to stop.
    pub(crate) stop: bool,
    /// Since when they have asked for the lock, if none of them got it until they were told to stop.
    pub(crate) unserved: Option<Instant>,
}

/// Whether the victim has come to its end.
pub(crate) fn is_done(board: &Board) -> bool {
    board.victim == VictimState::Done
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum VictimState {
    #[default]
    Waiting,
    Holding,
    Done,
}

impl Board {
    /// How often others than the victim have got the lock.
    pub(crate) fn rivals(&self) -> u32 {
        self.acquired.iter().skip(1).sum()
    }

    /// Whether a rival has got the lock since the fault struck, and a rival works under it now.
    pub(crate) fn is_held_by_another(&self) -> bool {
        self.is_taken_over() && self.working > 0
    }

    /// Whether every rival has ended.
    pub(crate) fn has_no_rival_left(&self) -> bool {
        self.gone + 1 >= self.acquired.len()
    }

    /// Whether another has got the lock since the fault struck.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.struck.is_some() && self.rivals() > self.rivals_at_strike
    }
}

/// How long a rival has had the lock at least when the victim meets it: a renewal shows nothing in the millisecond in which
/// the key was made.
const MOMENT: Duration = Duration::from_millis(8);
/// How often this process measures how late it is itself.
const BEAT: Duration = Duration::from_millis(10);

/// Keeps measuring how late this process itself is.
pub(crate) async fn beat(stage: Arc<PlanStage>) {
    loop {
        stage.pass(BEAT).await;
    }
}

/// What every task of a plan shares.
pub(crate) struct PlanStage {
    pub(crate) attack: Arc<Attack>,
    /// How long the lock's key lives without renewal.
    pub(crate) life: Duration,
    pub(crate) plan: Option<AttackPlan>,
    pub(crate) board: watch::Sender<Board>,
    pub(crate) recorder: Recorder,
    /// The resource under the lock.
    pub(crate) register: AtomicI64,
    /// The longest delay of this process itself, in nanoseconds: a busy machine is not a fault of the plan.
    pub(crate) late_ns: AtomicU64,
    pub(crate) promises: Promises,
}

impl PlanStage {
    /// The stage of a plan that is about to begin; without a plan, of a run without faults.
    pub(crate) fn new(
        attack: Arc<Attack>,
        life: Duration,
        plan: Option<&AttackPlan>,
        promises: Promises,
    ) -> Self {
        let acquired = vec![0; attack.clients as usize];
        Self {
            attack,
            life,
            plan: plan.cloned(),
            board: watch::Sender::new(Board { acquired, ..Board::default() }),
            recorder: Recorder::default(),
            register: AtomicI64::new(0),
            late_ns: AtomicU64::new(0),
            promises,
        }
    }

    /// Waits until `is` is true of the board, for `span` at most; false if it did not become true.
    pub(crate) async fn until(&self, span: Duration, mut is: impl FnMut(&Board) -> bool) -> bool {
        let mut board = self.board.subscribe();
        let found = timeout(span, board.wait_for(|board| is(board))).await;
        matches!(found, Ok(Ok(_)))
    }

    /// Waits until a rival has got the lock since the fault struck and has worked under it for a moment, for `ttls` TTLs at
    /// most. Copies of a program may need longer, and work as briefly as they like: the limit is then `answer_within`, and a
    /// rival at work is enough.
    pub(crate) async fn another(&self, ttls: u32) {
        if self.attack.oracle.is_some() {
            let meets = |board: &Board| board.is_held_by_another() || board.has_no_rival_left();
            self.until(self.attack.answer_within, meets).await;
            return;
        }
        let at_work = async {
            loop {
                self.until(Duration::MAX, Board::is_held_by_another).await;
                let rivals = self.board.borrow().rivals();
                sleep(MOMENT).await;
                let board = self.board.borrow();
                if board.working > 0 && board.rivals() == rivals {
                    return;
                }
            }
        };
        // At the limit the plan goes on without a rival at work.
        let _ = timeout(self.ttl() * ttls, at_work).await;
    }

    /// Whether the plan strikes a command of this step.
    pub(crate) fn strikes_at(&self, step: LockStep) -> bool {
        let boundary = self.plan.as_ref().and_then(|plan| plan.boundary.as_ref());
        boundary.is_some_and(|boundary| boundary.step == step)
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.life
    }

    /// How long a plan waits for the victim: it gives up after six TTLs, and may then be busy with a last answer.
    pub(crate) fn patience(&self) -> Duration {
        self.ttl() * 6 + self.attack.answer_within
    }

    /// How long a client works under the lock, well within the TTL that it was told: an entry may end long before the key that
    /// it is in. Rivals work longer, so that a victim that comes back meets one at work.
    pub(crate) fn work(&self, client: u32) -> Duration {
        self.attack.ttl.mul_f64(if client == VICTIM { 0.15 } else { 0.4 })
    }

    /// Works for `span`, and notes by how much longer it took.
    pub(crate) async fn pass(&self, span: Duration) {
        let start = now();
        sleep(span).await;
        let late = start.elapsed().saturating_sub(span);
        let late_ns = span_ns(late);
        self.late_ns.fetch_max(late_ns, Ordering::Relaxed);
    }

    /// Notes that a fault strikes this client or, if `client` is 0, this server.
    pub(crate) fn strike(&self, client: u32, node: Option<u16>, fault: Fault) {
        let in_hold = self.board.borrow().victim == VictimState::Holding;
        self.recorder.fault(client, node, fault, in_hold);
        self.board.send_modify(|board| {
            board.struck.get_or_insert_with(now);
            board.rivals_at_strike = board.rivals();
        });
    }
}

#[cfg(test)]
mod tests {
    use live_world::endpoint::Choice;

    use super::*;

    /// A stage for two rivals and a TTL of a second, at which the fault has struck.
    fn struck() -> PlanStage {
        let attack = Attack {
            command: Vec::new(),
            server: Choice::Embedded,
            nodes: 1,
            clients: 3,
            ttl: Duration::from_secs(1),
            key: String::new(),
            lock_key: None,
            start_within: Duration::ZERO,
            answer_within: Duration::ZERO,
            oracle: None,
        };
        let life = attack.ttl;
        let stage = PlanStage::new(Arc::new(attack), life, None, Promises::default());
        stage.board.send_modify(|board| board.struck = Some(now()));
        stage
    }

    #[tokio::test(start_paused = true)]
    async fn the_victim_meets_a_rival_that_has_had_the_lock_for_a_moment() {
        let stage = struck();
        let begun = tokio::time::Instant::now();
        let rivals = async {
            for rival in [1, 2] {
                stage.board.send_modify(|board| board.acquired[rival] += 1);
                stage.board.send_modify(|board| board.working += 1);
                sleep(MOMENT * 7 / 8).await;
                if rival == 1 {
                    stage.board.send_modify(|board| board.working -= 1);
                }
            }
        };
        tokio::join!(stage.another(1), rivals);
        assert_eq!(
            begun.elapsed(),
            MOMENT * 2,
            "within the hold of the first, that of the second began"
        );
        stage.board.send_modify(|board| board.working = 0);
        let begun = tokio::time::Instant::now();
        stage.another(2).await;
        assert_eq!(begun.elapsed(), stage.ttl() * 2, "nobody is at work");
    }
}
