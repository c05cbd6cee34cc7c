//! Workload W in other simulators: the same lock, the same clients and the same Redis model, on their time and their
//! network. None of them records what happens, strikes with faults or judges.
//!
//! Invariant: one thread runs one simulation at a time; its Redis and its random numbers are the thread's own.

#![expect(clippy::disallowed_methods, reason = "tokio's time is what is compared with")]

use std::cell::RefCell;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Subscription};
use picklock::reply::{Reply, ServerError};
use picklock::time::{Instant, WallTime, span_ns};
use picklock::{Node, Options, Poll, Single};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use redis_model::model::{ConnectionId, Model};
use redis_model::options::ModelOptions;

pub mod paused;
pub mod turmoil;

/// How many clients, as in W.
const CLIENTS: u32 = 100;
const REDIS: Node = Node(0);
const TTL: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
const RETRIES: u32 = 5;
const HOLD: Duration = Duration::from_millis(2);
const LATENCY_LEAST: Duration = Duration::from_micros(200);
const LATENCY_MOST: Duration = Duration::from_millis(2);
/// Longer than anybody tries.
const PATIENCE: Duration = Duration::from_secs(60);
/// What every simulation begins at.
const EPOCH: WallTime = WallTime::from_unix_ns(1_700_000_000_000_000_000);

thread_local! {
    static SIMULATED: RefCell<Simulated> = RefCell::new(Simulated::new(0));
}

/// What a simulation has beside its clients.
struct Simulated {
    model: Model,
    random: Pcg64Mcg,
    commands: u64,
}

impl Simulated {
    fn new(seed: u64) -> Self {
        let mut model = Model::new(ModelOptions::default());
        let run = model.connect(EPOCH, "127.0.0.1:1");
        assert!(!model.execute(EPOCH, run, &[b"SET", b"pool", b"10"]).is_error());
        Self { model, random: Pcg64Mcg::seed_from_u64(seed), commands: 0 }
    }
}

fn with<R>(act: impl FnOnce(&mut Simulated) -> R) -> R {
    SIMULATED.with_borrow_mut(act)
}

/// Begins anew.
fn begin(seed: u64) {
    SIMULATED.set(Simulated::new(seed));
}

/// How many commands clients have sent since it began.
fn commands() -> u64 {
    with(|it| it.commands)
}

fn random() -> u64 {
    with(|it| it.random.next_u64())
}

/// One way to Redis or back.
fn latency() -> Duration {
    let range_ns = span_ns(LATENCY_MOST - LATENCY_LEAST);
    LATENCY_LEAST + Duration::from_nanos(random() % range_ns)
}

fn connect() -> ConnectionId {
    with(|it| it.model.connect(EPOCH, "127.0.0.1:1"))
}

fn wall(after: Duration) -> WallTime {
    WallTime::from_unix_ns(EPOCH.as_unix_ns() + span_ns(after))
}

/// Redis carries a command out, so long after the beginning.
fn execute(after: Duration, client: ConnectionId, args: &[&[u8]]) -> resp::Reply {
    with(|it| {
        it.commands += 1;
        it.model.execute(wall(after), client, args)
    })
}

/// What a client makes of a reply; the model gives these to what the lock and its clients send.
fn understood(reply: resp::Reply) -> Result<Reply, CallError> {
    match reply {
        resp::Reply::Nil => Ok(Reply::Nil),
        resp::Reply::Ok => Ok(Reply::Ok),
        resp::Reply::Int(value) => Ok(Reply::Int(value)),
        resp::Reply::Bulk(bytes) => Ok(Reply::bulk(&bytes)),
        resp::Reply::Error(error) => {
            let line = String::from_utf8_lossy(error.text()).into_owned();
            Err(CallError::Refused(ServerError::from_line(&line)))
        }
        other => panic!("nothing that is sent here is answered with {other:?}"),
    }
}

/// A client's environment on tokio's time, with its one connection.
#[derive(Clone)]
struct SimulatedEnv<C> {
    began: tokio::time::Instant,
    conn: C,
}

impl<C> SimulatedEnv<C> {
    fn new(conn: C) -> Self {
        Self { began: tokio::time::Instant::now(), conn }
    }
}

impl<C: Conn> Env for SimulatedEnv<C> {
    type Conn = C;
    type Subscription = Deaf;

    fn now(&self) -> Instant {
        Instant::from_ns(span_ns(self.began.elapsed()))
    }

    fn wall(&self) -> WallTime {
        wall(self.began.elapsed())
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(span)
    }

    fn random(&self) -> u64 {
        random()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    async fn connect(&self, _: Node) -> Result<C, CallError> {
        Ok(self.conn.clone())
    }

    async fn subscribe(&self, _: Node, _: &[u8]) -> Result<Deaf, CallError> {
        Ok(Deaf)
    }
}

/// Nobody publishes anything in W.
struct Deaf;

impl Subscription for Deaf {
    fn next(&mut self) -> impl Future<Output = Result<Box<[u8]>, CallError>> + Send {
        std::future::pending()
    }
}

/// What each client of W does: it tries six times to get the lock, and takes a prize where it has it.
async fn client<E: Env>(env: E) {
    let options = Options::builder(TTL).build().expect("these are options");
    let lock = Single::new(env.clone(), REDIS, *b"lock", options).expect("the key is one");
    let poll = Poll { base: PAUSE, jitter: PAUSE, max_retries: Some(RETRIES) };
    let Ok(guard) = lock.acquire(PATIENCE, poll).await else { return };
    let conn = env.connect(REDIS).await.expect("nothing fails here");
    let left = conn.call(Command::new("GET").arg(b"pool")).await.expect("nothing fails here");
    if left != Reply::bulk(b"0") {
        env.sleep(HOLD).await;
        conn.call(Command::new("DECR").arg(b"pool")).await.expect("nothing fails here");
    }
    let _released = guard.release().await;
}
