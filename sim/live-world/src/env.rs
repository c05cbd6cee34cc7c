//! The environment of one client of a live run: real time and real connections, randomness from the seed.
//!
//! Invariant: the nth number that a client draws depends on the seed and the client alone. No task of a client is
//! forgotten: until [`LiveEnv::idle`] returns, one may still release, renew or clean up. A client that a fault has
//! stopped blocks at its next I/O; one that is gone does no further I/O and has no connections.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{CallError, Env, Mark, Node, Subscription};
use picklock::time::{Instant, WallTime};
use picklock::tokio_env::{TokioConn, TokioEnv, TokioOptions, TokioSubscription};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use scenarios::record::Observed;
use tokio::sync::watch;

use super::nemesis::{ClientControl, LiveNemesis};
use super::process::ClientProcess;
use fault_proxy::ClientId;

/// The environment of one client. Cloning gives another handle to the same client: its connections,
/// its stream of random numbers, its tasks.
#[derive(Clone)]
pub struct LiveEnv {
    client: ClientId,
    /// Empty once the client is gone: its connections end with the last task that has one.
    inner: Arc<Mutex<TokioEnv>>,
    /// Makes an environment without connections, for a client that has come back.
    anew: Arc<dyn Fn() -> TokioEnv + Send + Sync>,
    random: Arc<Mutex<Pcg64>>,
    running: watch::Sender<usize>,
    pub(super) process: Arc<ClientProcess>,
    /// Which nemesis observes its marks and requests.
    nemesis: Option<LiveNemesis>,
    /// When the run began, by the clock that all clients of a process share.
    origin: Instant,
}

impl LiveEnv {
    /// The environment of `client`, whose link to `Node(n)` is the nth of `links`: clients of the
    /// addresses of its proxy links, as [`Endpoint::client`](super::endpoint::Endpoint::client) makes them.
    /// Nothing is sent yet.
    ///
    /// A connection that has been idle for a second is checked with a PING before it is used again.
    /// The PING is sent or withdrawn, so PING cannot be counted.
    pub fn new(client: ClientId, seed: u64, links: Vec<redis::Client>) -> Self {
        let anew = move || TokioEnv::from_clients(links.clone(), TokioOptions::default());
        Self::over(client, seed, Arc::new(anew))
    }

    /// The environment of `client` over the environments that `anew` makes.
    pub(super) fn over(
        client: ClientId,
        seed: u64,
        anew: Arc<dyn Fn() -> TokioEnv + Send + Sync>,
    ) -> Self {
        let inner = anew();
        // Both are hashed, because neighbouring seeds and clients must not have related streams.
        let of_client = Pcg64::seed_from_u64(u64::from(client.0)).next_u64();
        let generator = Pcg64::seed_from_u64(seed ^ of_client);
        let running = watch::Sender::new(0);
        let random = Arc::new(Mutex::new(generator));
        let process = Arc::new(ClientProcess::new(inner.now(), inner.wall()));
        let (inner, origin) = (Arc::new(Mutex::new(inner)), Instant::default());
        Self { client, inner, anew, random, running, process, nemesis: None, origin }
    }

    /// The same client in a run that began then.
    #[must_use]
    pub fn since(self, origin: Instant) -> Self {
        Self { origin, ..self }
    }

    /// The same client, whose marks and requests this nemesis sees.
    pub(super) fn observed_by(self, nemesis: LiveNemesis) -> Self {
        Self { nemesis: Some(nemesis), ..self }
    }

    /// The same client, observed by no nemesis.
    pub(super) fn unobserved(&self) -> Self {
        Self { nemesis: None, ..self.clone() }
    }

    fn inner(&self) -> TokioEnv {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The machine's monotonic clock, which drifts for no client.
    fn machine_now(&self) -> Instant {
        self.inner().now()
    }

    /// Stops the client for `span`, as a pause of its process does.
    pub(crate) async fn stop_for(&self, span: Duration) {
        self.process.stop();
        self.inner().sleep(span).await;
        self.process.resume();
    }

    /// The client whose environment this is.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// How many tasks of this client are at work.
    pub fn tasks(&self) -> usize {
        *self.running.borrow()
    }

    /// Waits until no task of this client is at work: no watchdog, no release, no clean-up. False if some still are
    /// after `within`; they go on.
    pub async fn idle(&self, within: Duration) -> bool {
        let mut running = self.running.subscribe();
        let done = running.wait_for(|tasks| *tasks == 0);
        // The channel cannot have closed, because this handle is one of its senders.
        tokio::time::timeout(within, done).await.is_ok()
    }
}

impl ClientControl for LiveEnv {
    fn stop(&self) -> bool {
        self.process.stop()
    }

    fn resume(&self) {
        self.process.resume();
    }

    fn kill(&self, comes_back: bool) -> bool {
        let was_there = self.process.end(comes_back);
        if was_there {
            // Its tasks have handles of their own, and are dropped when they are polled next.
            let no_servers = TokioEnv::from_clients(Vec::new(), TokioOptions::default());
            *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = no_servers;
        }
        was_there
    }

    fn revive(&self) {
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = (self.anew)();
        self.process.revive();
    }

    fn block(&self) {
        self.process.block();
    }

    fn unblock(&self) {
        self.process.unblock();
    }

    fn set_drift(&self, ppm: i32) {
        self.process.clock().set_drift(self.machine_now().as_ns(), ppm);
    }

    fn step_clock(&self, by_ns: i64) {
        self.process.clock().step_wall(by_ns);
    }

    fn is_stopped(&self) -> bool {
        self.process.is_stopped()
    }

    fn is_busy(&self) -> bool {
        self.process.is_busy(self.tasks())
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
    type Subscription = LiveSubscription;

    fn now(&self) -> Instant {
        Instant::from_ns(self.process.clock().local(self.machine_now().as_ns()))
    }

    fn wall(&self) -> WallTime {
        WallTime::from_unix_ns(self.process.clock().wall(self.machine_now().as_ns()))
    }

    async fn sleep(&self, span: Duration) {
        let inner = self.inner();
        {
            let _timer = self.process.timer();
            inner.sleep(self.process.machine_span(inner.now(), span)).await;
        }
        self.process.running().await;
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if self.process.is_gone() {
            return;
        }
        let running = Running::begin(&self.running);
        let process = Arc::clone(&self.process);
        // Read now, and not at the first poll: by then its process may have ended.
        let ends = process.ends();
        self.inner().spawn(async move {
            // Held inside the task, so that it is dropped with a task that is never polled.
            let _running = running;
            let work = async {
                process.running().await;
                task.await;
            };
            process.unless_ended(ends, work).await;
        });
    }

    async fn connect(&self, node: Node) -> Result<TokioConn, CallError> {
        let inner = self.inner();
        let conn = inner.connect(node).await;
        self.process.running().await;
        conn
    }

    async fn subscribe(&self, node: Node, channel: &[u8]) -> Result<LiveSubscription, CallError> {
        let inner = self.inner();
        let inner = inner.subscribe(node, channel).await?;
        Ok(LiveSubscription { inner, pending: None, process: Arc::clone(&self.process) })
    }

    fn counts_listeners(&self, node: Node) -> bool {
        self.inner().counts_listeners(node)
    }

    fn mark(&self, mark: Mark) {
        if let Some(nemesis) = &self.nemesis {
            nemesis.marked(self.client.0, mark);
        }
    }
}

impl Observed for LiveEnv {
    fn run_ns(&self) -> u64 {
        self.machine_now().as_ns().saturating_sub(self.origin.as_ns())
    }

    fn run_ns_at(&self, at: Instant) -> u64 {
        self.process.clock().moment(at.as_ns()).saturating_sub(self.origin.as_ns())
    }

    fn end_process(&self) {
        self.process.end_tasks();
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = (self.anew)();
    }

    fn is_gone(&self) -> bool {
        self.process.is_gone()
    }

    async fn before_send(&self, node: Node, command: &Command) {
        if let Some(nemesis) = &self.nemesis {
            nemesis.about_to_send(self.client.0, node, command);
        }
        self.process.running().await;
    }

    async fn after_answer(&self) {
        self.process.running().await;
    }
}

/// A channel that a client listens to, unless it is stopped.
pub struct LiveSubscription {
    inner: TokioSubscription,
    /// A message that has arrived and has not been handed out yet.
    pending: Option<Result<Box<[u8]>, CallError>>,
    process: Arc<ClientProcess>,
}

impl Subscription for LiveSubscription {
    async fn next(&mut self) -> Result<Box<[u8]>, CallError> {
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.inner.next().await,
        };
        // Kept while the client is stopped, so that dropping this future loses no message.
        let kept = self.pending.insert(pending).clone();
        self.process.running().await;
        self.pending = None;
        kept
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
        assert!(env.idle(Duration::ZERO).await);
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let inner = env.clone();
        env.clone().spawn(async move {
            // A task that spawns the next: there is no moment without one in between.
            inner.clone().spawn(async move { drop(gone.await) });
        });
        assert!(!env.idle(Duration::ZERO).await);
        assert_eq!(env.tasks(), 1);
        go.send(()).unwrap();
        assert!(env.idle(Duration::from_secs(30)).await);
        assert_eq!(env.tasks(), 0);
    }

    #[tokio::test]
    async fn a_task_that_panics_is_over() {
        let env = env(0, 1);
        env.spawn(async { panic!("as a test") });
        assert!(env.idle(Duration::from_secs(30)).await);
    }

    #[test]
    fn a_task_that_never_ran_is_over() {
        let env = env(0, 1);
        env.spawn(async {}); // There is no runtime.
        assert_eq!(env.tasks(), 0);
    }
}
