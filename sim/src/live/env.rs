//! What one client of a live run sees: real time and real connections, randomness of the seed.
//!
//! Invariant: the nth number a client draws depends on the seed and the client alone, and no task of
//! a client is forgotten: until [`LiveEnv::idle`] says so, something may still be releasing, renewing
//! or cleaning up. Deliberately absent: faults, which are the proxy's, and marks, which are the
//! workload's.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use picklock::env::{CallError, Env, Mark, Node};
use picklock::time::{Instant, WallTime};
use picklock::tokio_env::{TokioConn, TokioEnv, TokioOptions, TokioSubscription};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use scenarios::record::Observed;
use tokio::sync::watch;

use super::proxy::ClientId;

/// Tasks of a client that are still at work when they should be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client {client} still has {tasks} background tasks at work after {within:?}",
        client = client.0)]
pub struct StillBusy {
    /// Whose tasks.
    pub client: ClientId,
    /// How many.
    pub tasks: usize,
    /// How long they were waited for.
    pub within: Duration,
}

/// The environment of one client. Cloning gives another handle to the same client: its connections,
/// its stream of random numbers, its tasks.
#[derive(Clone)]
pub struct LiveEnv {
    client: ClientId,
    inner: TokioEnv,
    random: Arc<Mutex<Pcg64>>,
    running: watch::Sender<usize>,
    /// When the run began, by the clock that all clients of a process share.
    origin: Instant,
}

impl LiveEnv {
    /// The environment of `client`, whose way to `Node(n)` is the nth of `ways`: clients of the
    /// addresses of its proxy links, as [`Target::client`](super::target::Target::client) makes them.
    /// Nothing is sent yet.
    ///
    /// A connection that has been idle for a second is looked at with a PING before it is used
    /// again, which is sent or withdrawn; so PING cannot be counted.
    pub fn new(client: ClientId, seed: u64, ways: Vec<redis::Client>) -> Self {
        let inner = TokioEnv::from_clients(ways, TokioOptions::default());
        // Both are hashed, for neighbouring seeds and clients must not have related streams.
        let of_client = Pcg64::seed_from_u64(u64::from(client.0)).next_u64();
        let generator = Pcg64::seed_from_u64(seed ^ of_client);
        let running = watch::Sender::new(0);
        let random = Arc::new(Mutex::new(generator));
        Self { client, inner, random, running, origin: Instant::default() }
    }

    /// The same client in a run that began then.
    #[must_use]
    pub fn since(self, origin: Instant) -> Self {
        Self { origin, ..self }
    }

    /// Whose environment this is.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// How many tasks of this client are at work.
    pub fn tasks(&self) -> usize {
        *self.running.borrow()
    }

    /// Waits until no task of this client is at work: no watchdog, no release, no clean-up.
    ///
    /// # Errors
    /// [`StillBusy`] where some are after `within`; they go on.
    pub async fn idle(&self, within: Duration) -> Result<(), StillBusy> {
        let mut running = self.running.subscribe();
        let done = running.wait_for(|tasks| *tasks == 0);
        // The channel cannot have closed, for this handle is one of its senders.
        match tokio::time::timeout(within, done).await {
            Ok(_) => Ok(()),
            Err(_) => Err(StillBusy { client: self.client, tasks: self.tasks(), within }),
        }
    }
}

/// One task at work, from before it is spawned until it has ended, panicked or been dropped.
struct Running(watch::Sender<usize>);

impl Running {
    fn begin(counter: &watch::Sender<usize>) -> Self {
        counter.send_modify(|tasks| *tasks += 1);
        Self(counter.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|tasks| *tasks -= 1);
    }
}

impl Env for LiveEnv {
    type Conn = TokioConn;
    type Subscription = TokioSubscription;

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn wall(&self) -> WallTime {
        self.inner.wall()
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send {
        self.inner.sleep(span)
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let running = Running::begin(&self.running);
        self.inner.spawn(async move {
            // Held here, and not beside the task, so that it goes with a task that is never polled.
            let _running = running;
            task.await;
        });
    }

    fn connect(&self, node: Node) -> impl Future<Output = Result<TokioConn, CallError>> + Send {
        self.inner.connect(node)
    }

    fn subscribe(
        &self,
        node: Node,
        channel: &[u8],
    ) -> impl Future<Output = Result<TokioSubscription, CallError>> + Send {
        self.inner.subscribe(node, channel)
    }

    fn mark(&self, mark: Mark) {
        self.inner.mark(mark);
    }
}

impl Observed for LiveEnv {
    fn run_ns(&self) -> u64 {
        self.run_ns_at(self.now())
    }

    fn run_ns_at(&self, at: Instant) -> u64 {
        at.as_ns().saturating_sub(self.origin.as_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(client: u32, seed: u64) -> LiveEnv {
        LiveEnv::new(ClientId(client), seed, Vec::new())
    }

    fn draws(env: &LiveEnv) -> Vec<u64> {
        (0..8).map(|_| env.random()).collect()
    }

    #[test]
    fn a_seed_and_a_client_name_a_stream() {
        assert_eq!(draws(&env(3, 7)), draws(&env(3, 7)));
        let streams = [draws(&env(3, 7)), draws(&env(4, 7)), draws(&env(3, 8))];
        for (place, one) in streams.iter().enumerate() {
            for other in &streams[place + 1..] {
                assert!(one.iter().all(|number| !other.contains(number)), "{one:x?} {other:x?}");
            }
        }
    }

    #[test]
    fn clones_go_on_with_one_stream() {
        let whole = draws(&env(0, 1));
        let env = env(0, 1);
        let other = env.clone();
        let mixed: Vec<u64> =
            (0..8).map(|turn| if turn % 2 == 0 { env.random() } else { other.random() }).collect();
        assert_eq!(mixed, whole);
    }

    #[tokio::test]
    async fn idle_waits_for_the_last_task_also_of_clones() {
        let env = env(0, 1);
        env.idle(Duration::ZERO).await.unwrap();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let inner = env.clone();
        env.clone().spawn(async move {
            // A task that spawns the next: there is no moment without one in between.
            inner.clone().spawn(async move { drop(gone.await) });
        });
        let busy = env.idle(Duration::ZERO).await.unwrap_err();
        assert_eq!((busy.client, busy.tasks), (ClientId(0), 1));
        go.send(()).unwrap();
        env.idle(Duration::from_secs(30)).await.unwrap();
        assert_eq!(env.tasks(), 0);
    }

    #[tokio::test]
    async fn a_task_that_panics_is_over() {
        let env = env(0, 1);
        env.spawn(async { panic!("as a test") });
        env.idle(Duration::from_secs(30)).await.unwrap();
    }

    #[test]
    fn a_task_that_never_ran_is_over() {
        let env = env(0, 1);
        env.spawn(async {}); // There is no runtime.
        assert_eq!(env.tasks(), 0);
    }
}
