//! Every thread interleaving of what guard, watchdog, waiter and release share.
//!
//! Invariant: a model is bounded, so a lost wake-up shows as a deadlock and not as a hang. The real
//! watchdog and the real guard are modelled too, over an environment whose server answers at once
//! and whose clock stands still: the wait for a renewal is over at once, for as many renewals as the
//! model asks for, and no other sleep ever is.

use std::future::{Future, pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::sync::Mutex;
use loom::thread::{self, JoinHandle, Thread};

use crate::command::Command;
use crate::env::{CallError, Conn, Env, Mark, Node, Phase, Subscription};
use crate::guard::Guard;
use crate::held_lock::HeldLock;
use crate::lock::{Lost, Released};
use crate::lock_conn::LockConn;
use crate::options::{Options, Renewal};
use crate::reply::Reply;
use crate::scripts::COMPARE_AND_DELETE;
use crate::shared_hold::{HoldStatus, SharedHold};
use crate::sync::lock;
use crate::target::{LockContext, LockTarget, WaitMode};
use crate::time::{Instant, WallTime};
use crate::token::OwnerToken;

/// Differs from every other span that core sleeps for.
const EVERY: Duration = Duration::from_millis(250);

const fn at(ns: u64) -> Instant {
    Instant::from_ns(ns)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls on this thread; a wake-up that is lost leaves it parked, which loom reports as a deadlock.
fn block_on<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// A hold until 100, and what another thread does with it.
fn beside<T: 'static>(
    act: impl FnOnce(&SharedHold) -> T + Send + 'static,
) -> (Arc<SharedHold>, JoinHandle<T>) {
    let hold = Arc::new(SharedHold::new(at(100)));
    let theirs = Arc::clone(&hold);
    (hold, thread::spawn(move || act(&theirs)))
}

#[test]
fn loom_a_waiter_hears_of_a_loss_whenever_it_begins_to_wait() {
    loom::model(|| {
        let (hold, waiter) = beside(|hold| block_on(hold.over()));
        hold.lose(Lost::TakenByOther);
        waiter.join().unwrap();
    });
}

#[test]
fn loom_every_waiter_hears_of_a_loss_even_beside_one_that_leaves() {
    loom::model(|| {
        let (hold, waiter) = beside(|hold| block_on(hold.over()));
        let theirs = Arc::clone(&hold);
        let leaver = thread::spawn(move || {
            let mut over = Box::pin(theirs.over());
            let _ = over.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        });
        hold.lose(Lost::KeyGone);
        waiter.join().unwrap();
        leaver.join().unwrap();
    });
}

#[test]
fn loom_a_renewal_and_the_end_of_validity_agree() {
    loom::model(|| {
        let (hold, renewal) = beside(|hold| hold.extend(at(200), at(99)));
        // Another thread's clock has reached the end.
        let seen = hold.look(at(100));
        let renewed = renewal.join().unwrap();
        match seen.status {
            HoldStatus::Held(until) => {
                assert_eq!((until, renewed.status), (at(200), HoldStatus::Held(at(200))));
            }
            HoldStatus::Lost(why) => {
                assert_eq!((why, renewed.status), (Lost::ValidityEnded, seen.status));
                assert_eq!(hold.valid_until(), at(100), "never extended after it was lost");
            }
            HoldStatus::Releasing => unreachable!("nobody releases"),
        }
    });
}

#[test]
fn loom_one_of_two_losers_tells_the_world() {
    loom::model(|| {
        let (hold, notice) = beside(|hold| hold.lose(Lost::TakenByOther).newly_lost);
        let ran_out = hold.look(at(100)).newly_lost;
        assert_ne!(ran_out, notice.join().unwrap());
    });
}

#[test]
fn loom_one_of_two_releases_is_carried_out() {
    loom::model(|| {
        let (hold, other) = beside(SharedHold::begin_release);
        let mine = hold.begin_release();
        assert_ne!(mine, other.join().unwrap());
    });
}

/// Threads for tasks, a server that says yes, and a clock that stands still.
#[derive(Clone)]
struct LoomEnv {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// How many renewals are still to come due.
    renewals: Mutex<u32>,
    extends: Mutex<u32>,
    deletes: Mutex<u32>,
    marks: Mutex<Vec<Mark>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Clone)]
struct LoomConn(LoomEnv);

impl LoomEnv {
    fn new(renewals: u32) -> Self {
        let shared = Shared { renewals: Mutex::new(renewals), ..Shared::default() };
        Self { shared: Arc::new(shared) }
    }

    fn guard(&self) -> Guard<Self> {
        let renewal = Renewal { every: EVERY, max_hold: None };
        let options =
            Options::builder(Duration::from_millis(900)).renewal(renewal).build().unwrap();
        let context = LockContext::default();
        let (env, key) = (self.clone(), Box::from(*b"k"));
        let target = LockTarget::new(env, Node(0), key, WaitMode::Poll, options, context).unwrap();
        let valid_until = target.valid_until(at(0));
        Guard::new(HeldLock {
            token: OwnerToken::draw(self),
            target: Arc::new(target),
            sent: at(0),
            hold: SharedHold::new(valid_until),
            lock_conn: Arc::new(LockConn::on(LoomConn(self.clone()))),
            fence: None,
            other_nodes: Vec::new(),
        })
    }

    /// Waits for every task; one that never ends is a deadlock.
    fn join(&self) {
        loop {
            let Some(handle) = lock(&self.shared.threads).pop() else { return };
            handle.join().unwrap();
        }
    }

    fn marked(&self, mark: Mark) -> usize {
        lock(&self.shared.marks).iter().filter(|marked| **marked == mark).count()
    }

    fn deletes(&self) -> u32 {
        *lock(&self.shared.deletes)
    }
}

impl Env for LoomEnv {
    type Conn = LoomConn;
    type Subscription = Silence;

    fn now(&self) -> Instant {
        at(0)
    }

    fn wall(&self) -> WallTime {
        WallTime::from_unix_ns(0)
    }

    async fn sleep(&self, span: Duration) {
        let over = span == EVERY && {
            let mut renewals = lock(&self.shared.renewals);
            let over = *renewals > 0;
            *renewals = renewals.saturating_sub(1);
            over
        };
        if !over {
            pending::<()>().await;
        }
    }

    /// The first renewal comes after a whole interval.
    fn random(&self) -> u64 {
        u64::MAX
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = thread::spawn(move || block_on(task));
        lock(&self.shared.threads).push(handle);
    }

    fn connect(&self, _node: Node) -> impl Future<Output = Result<LoomConn, CallError>> + Send {
        ready(Ok(LoomConn(self.clone())))
    }

    fn subscribe(
        &self,
        _node: Node,
        _channel: &[u8],
    ) -> impl Future<Output = Result<Silence, CallError>> + Send {
        ready(Ok(Silence))
    }

    fn mark(&self, mark: Mark) {
        lock(&self.shared.marks).push(mark);
    }
}

/// Nobody ever says anything.
struct Silence;

impl Subscription for Silence {
    fn next(&mut self) -> impl Future<Output = Result<Box<[u8]>, CallError>> + Send {
        pending()
    }
}

impl Conn for LoomConn {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let deletes = command.get(1) == Some(COMPARE_AND_DELETE.sha1().as_bytes());
        let shared = &self.0.shared;
        *lock(if deletes { &shared.deletes } else { &shared.extends }) += 1;
        Ok(Reply::Int(1))
    }
}

#[test]
fn loom_a_drop_stops_the_watchdog_and_releases_once() {
    model(BOUND, || {
        let env = LoomEnv::new(0);
        drop(env.guard());
        env.join();
        assert_eq!(env.deletes(), 1);
        assert_eq!(env.marked(Mark::Phase(Phase::ReleaseBeforeSend)), 1);
        assert_eq!(env.marked(Mark::Lost), 0);
    });
}

#[test]
fn loom_a_release_beside_a_renewal_ends_both() {
    sometimes(BOUND, || {
        let env = LoomEnv::new(1);
        let guard = env.guard();
        assert_eq!(block_on(guard.release()), Released::Released);
        env.join();
        assert_eq!(env.deletes(), 1);
        assert_eq!(env.marked(Mark::Lost), 0);
        let renewals = *lock(&env.shared.extends);
        renewals == 1
    });
}

#[test]
fn loom_a_release_comes_behind_the_acquisition_or_there_is_none() {
    sometimes(None, || {
        let env = LoomEnv::new(0);
        let lock_conn = Arc::new(LockConn::unsent());
        let late = {
            let (lock_conn, conn) = (Arc::clone(&lock_conn), LoomConn(env.clone()));
            thread::spawn(move || {
                block_on(lock_conn.acquire(conn, Command::new("SET"), at(0))).is_ok()
            })
        };
        let was_sent = block_on(lock_conn.was_sent());
        // What is called from here on must not have overtaken it.
        let called = *lock(&env.shared.extends) == 1;
        assert_eq!(was_sent, called);
        assert_eq!(late.join().unwrap(), was_sent);
        assert_eq!(*lock(&env.shared.extends) == 1, was_sent, "never after somebody has asked");
        was_sent
    });
}

/// For models of three threads: so many preemptions find what they can do to each other.
const BOUND: Option<usize> = Some(3);

fn model(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(body);
}

/// A model whose body says whether it has come to something. Some interleavings must and some must not, or the
/// model says nothing.
fn sometimes(preemptions: Option<usize>, body: impl Fn() -> bool + Sync + Send + 'static) {
    let counts = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let seen = Arc::clone(&counts);
    model(preemptions, move || {
        seen[usize::from(body())].fetch_add(1, Ordering::Relaxed);
    });
    let [never, ever] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(ever > 0 && never > 0, "in {ever} runs, and not in {never}");
}
