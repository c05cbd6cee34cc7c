//! A second, minimal environment: one thread, a clock of its own, a server without a network.
//!
//! Invariant: handles carry no state, so futures are `Send` while the world is not; events happen in
//! order of time and, at the same time, in the order in which they were asked for. It is the least
//! that [`Env`] can be; faults and choices belong to the virtual world.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node, Subscription};
use picklock::reply::{Reply, ServerError};
use picklock::time::{Instant, WallTime, span_ns};
use redis_model::model::{ConnectionId, Model};
use redis_model::options::ModelOptions;
use resp::Reply as Answer;
use scenarios::record::Observed;

/// One way, for every message.
const LATENCY: Duration = Duration::from_micros(700);
/// Where the server's wall clock stands in the beginning.
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

struct World {
    now_ns: u64,
    asked: u64,
    random: u64,
    model: Model,
    /// By connection for listening.
    heard: BTreeMap<ConnectionId, Heard>,
    timers: BTreeMap<(u64, u64), Waker>,
    tasks: Vec<Option<Task>>,
    born: Vec<Task>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn world<R>(act: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| act(world.as_mut().expect("a world is running")))
}

/// Runs a task and everything it spawns, in a new world, until nothing is left to happen.
pub(crate) fn run(seed: u64, task: impl Future<Output = ()> + Send + 'static) {
    WORLD.set(Some(World {
        now_ns: 0,
        asked: 0,
        random: seed,
        model: Model::new(ModelOptions::default()),
        heard: BTreeMap::new(),
        timers: BTreeMap::new(),
        tasks: Vec::new(),
        born: vec![Box::pin(task)],
    }));
    let ready: Arc<Mutex<VecDeque<usize>>> = Arc::default();
    loop {
        for task in world(|world| std::mem::take(&mut world.born)) {
            let place = world(|world| {
                world.tasks.push(Some(task));
                world.tasks.len() - 1
            });
            ready.lock().unwrap().push_back(place);
        }
        let next = ready.lock().unwrap().pop_front();
        if let Some(place) = next {
            poll(place, &ready);
            continue;
        }
        let Some(waker) = world(|world| {
            let ((at_ns, _), waker) = world.timers.pop_first()?;
            world.now_ns = at_ns;
            Some(waker)
        }) else {
            break;
        };
        waker.wake();
    }
    let unfinished = world(|world| world.tasks.iter().flatten().count());
    WORLD.set(None);
    assert_eq!(unfinished, 0, "a task waits for something that nobody will do");
}

fn poll(place: usize, ready: &Arc<Mutex<VecDeque<usize>>>) {
    let Some(mut task) = world(|world| world.tasks[place].take()) else { return };
    let waker = Waker::from(Arc::new(Rouse { place, ready: Arc::clone(ready) }));
    if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        world(|world| world.tasks[place] = Some(task));
    }
}

struct Rouse {
    place: usize,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Rouse {
    fn wake(self: Arc<Self>) {
        self.ready.lock().unwrap().push_back(self.place);
    }
}

/// A client of the world.
#[derive(Clone)]
pub(crate) struct BareEnv {
    conn: ConnectionId,
}

impl BareEnv {
    /// A new client, with its connection.
    pub(crate) fn new() -> Self {
        let now = WallTime::from_unix_ns(EPOCH_NS);
        Self { conn: world(|world| world.model.connect(now, "127.0.0.1:1")) }
    }
}

impl Env for BareEnv {
    type Conn = BareConn;
    type Subscription = BareSubscription;

    fn now(&self) -> Instant {
        Instant::from_ns(world(|world| world.now_ns))
    }

    fn wall(&self) -> WallTime {
        WallTime::from_unix_ns(EPOCH_NS + world(|world| world.now_ns))
    }

    async fn sleep(&self, span: Duration) {
        let end_ns = world(|world| world.now_ns.saturating_add(span_ns(span)));
        let mut key = None;
        poll_fn(|cx| {
            world(|world| {
                if world.now_ns >= end_ns {
                    return Poll::Ready(());
                }
                let key = *key.get_or_insert_with(|| {
                    world.asked += 1;
                    (end_ns, world.asked)
                });
                world.timers.insert(key, cx.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }

    fn random(&self) -> u64 {
        world(|world| {
            world.random = world.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            world.random ^ (world.random >> 29)
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        world(|world| world.born.push(Box::pin(task)));
    }

    async fn connect(&self, _node: Node) -> Result<BareConn, CallError> {
        Ok(BareConn { env: self.clone() })
    }

    /// Each subscription has a connection of its own.
    async fn subscribe(&self, node: Node, channel: &[u8]) -> Result<BareSubscription, CallError> {
        let ear = BareEnv::new();
        world(|world| drop(world.heard.insert(ear.conn, Heard::default())));
        let subscription = BareSubscription { ear };
        let conn = subscription.ear.connect(node).await?;
        conn.call(Command::new("SUBSCRIBE").arg(channel)).await?;
        Ok(subscription)
    }
}

impl Observed for BareEnv {
    fn run_ns(&self) -> u64 {
        self.now().as_ns()
    }

    fn run_ns_at(&self, at: Instant) -> u64 {
        at.as_ns()
    }

    /// Its tasks all belong to one process, which does not end.
    fn end_process(&self) {}

    fn is_gone(&self) -> bool {
        false
    }
}

/// What a connection for listening has heard, and who waits for more.
#[derive(Default)]
struct Heard {
    inbox: VecDeque<Box<[u8]>>,
    waiter: Option<Waker>,
}

/// A place in the audience of a channel.
pub(crate) struct BareSubscription {
    ear: BareEnv,
}

impl Subscription for BareSubscription {
    async fn next(&mut self) -> Result<Box<[u8]>, CallError> {
        poll_fn(|cx| {
            world(|world| {
                let heard = world.heard.get_mut(&self.ear.conn).expect("it goes with its handle");
                heard.waiter = Some(cx.waker().clone());
                heard.inbox.pop_front().map_or(Poll::Pending, |message| Poll::Ready(Ok(message)))
            })
        })
        .await
    }
}

impl Drop for BareSubscription {
    fn drop(&mut self) {
        let conn = self.ear.conn;
        WORLD.with_borrow_mut(|world| {
            if let Some(world) = world {
                world.heard.remove(&conn);
                world.model.disconnect(conn);
            }
        });
    }
}

/// Sends messages of channels on their way.
fn hand_out(env: &BareEnv) {
    let mut out = Vec::new();
    world(|world| world.model.drain_outbox(|session, message| out.push((session, message))));
    for (session, message) in out {
        let Answer::Push(parts) = message else { panic!("nobody waits for {message:?}") };
        let Some(Answer::Bulk(payload)) = parts.into_iter().nth(2) else { continue };
        let slow = env.clone();
        env.spawn(async move {
            slow.sleep(LATENCY).await;
            let waiter = world(|world| {
                let heard = world.heard.get_mut(&session)?;
                heard.inbox.push_back(payload.to_vec().into());
                heard.waiter.take()
            });
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        });
    }
}

/// The client's connection.
#[derive(Clone)]
pub(crate) struct BareConn {
    env: BareEnv,
}

/// Where the answer of a call is left, and who waits for it.
#[derive(Default)]
struct Slot {
    answer: Option<Result<Reply, CallError>>,
    waiter: Option<Waker>,
}

impl Conn for BareConn {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let slot: Arc<Mutex<Slot>> = Arc::default();
        let (env, theirs) = (self.env.clone(), Arc::clone(&slot));
        // What has been sent goes its way, whether or not the caller waits for it.
        self.env.spawn(async move {
            env.sleep(LATENCY).await;
            let answer = carry_out(&env, &command);
            hand_out(&env);
            env.sleep(LATENCY).await;
            let mut slot = theirs.lock().unwrap();
            slot.answer = Some(answer);
            if let Some(waiter) = slot.waiter.take() {
                waiter.wake();
            }
        });
        poll_fn(|cx| {
            let mut slot = slot.lock().unwrap();
            slot.waiter = Some(cx.waker().clone());
            slot.answer.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

fn carry_out(env: &BareEnv, command: &Command) -> Result<Reply, CallError> {
    let args: Vec<&[u8]> = command.args().collect();
    let now = env.wall();
    level(world(|world| world.model.execute(now, env.conn, &args)))
}

fn level(answer: Answer) -> Result<Reply, CallError> {
    match answer {
        Answer::Nil => Ok(Reply::Nil),
        Answer::Ok => Ok(Reply::Ok),
        Answer::Int(value) => Ok(Reply::Int(value)),
        Answer::Bulk(bytes) => Ok(Reply::bulk(&bytes)),
        Answer::Status(text) => Ok(Reply::Status(String::from_utf8_lossy(&text).into())),
        Answer::Array(items) => {
            Ok(Reply::Array(items.into_iter().map(level).collect::<Result<_, _>>()?))
        }
        Answer::Burst(_) => Ok(Reply::Ok),
        Answer::Error(fail) => {
            let line = String::from_utf8_lossy(fail.text()).into_owned();
            Err(CallError::Refused(ServerError::from_line(&line)))
        }
        other => panic!("no lock asks for {other:?}"),
    }
}
