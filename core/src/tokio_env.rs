//! The environment of a service: tokio's timers and tasks, and Redis through redis-rs.
//!
//! Invariant: a call is *not sent* only where no connection could be made, or where every server that
//! got it has led on to another; *refused* only where a server answered an error; everything else that
//! goes wrong after a command was handed over is *indeterminate*. Deliberately absent: retries,
//! reconnecting in mid-command and a timeout for replies. The lock decides on those, and a client that
//! did so by itself would repeat what must not be repeated.

mod cluster;
mod follow;
mod host;
mod listener;
mod sentinel;
mod wire;

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{Client, ConnectionInfo, IntoConnectionInfo, RedisError};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::command::Command;
use crate::companion::slot;
use crate::env::{CallError, Conn, Env, Node};
use crate::reply::Reply;
use crate::time::{Instant, WallTime, span_ns};
use cluster::Nodes;
use follow::Followed;
use host::Host;
use listener::Home;
use sentinel::Sentinels;
use wire::{Wire, monotonic};

pub use cluster::Cluster;
pub use listener::TokioSubscription;

/// How connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokioOptions {
    /// How long a connection may take, handshake included. Default: two seconds. The lock's own
    /// call timeout holds besides.
    pub connect_timeout: Duration,
    /// How long redis-rs waits for a reply. Default: `None`, for the lock times its calls itself.
    pub response_timeout: Option<Duration>,
}

impl Default for TokioOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(2), response_timeout: None }
    }
}

/// The environment of a service. Cloning gives another handle to the same connections: one
/// multiplexed connection a node, shared by all locks, made when first needed and again after it
/// has broken.
///
/// Its monotonic clock does not count the time a machine is suspended (`CLOCK_MONOTONIC` on Linux):
/// a holder must not be suspended, or migrated for longer than its validity lasts. Timers have a
/// grain of a millisecond and ring late rather than early.
#[derive(Clone)]
pub struct TokioEnv {
    shared: Arc<Shared>,
}

struct Shared {
    nodes: Vec<Place>,
    options: TokioOptions,
    /// Where tasks run that are spawned outside a runtime, as by a guard dropped there.
    runtime: OnceLock<Handle>,
}

/// Where a node is.
enum Place {
    /// One server.
    At(Host),
    /// Whoever is primary now.
    Primary(Sentinels),
    /// Whoever owns this slot now.
    Slot { nodes: Arc<Nodes>, slot: u16, conn: Mutex<Option<Arc<Followed>>> },
}

impl TokioEnv {
    /// The environment with one server, `Node(0)`, at a URL such as
    /// `redis://user:password@host:6379/0`; `rediss://` needs the feature `tls`. Nothing is sent yet.
    ///
    /// # Errors
    /// What redis-rs finds wrong with the URL.
    pub fn open(url: impl IntoConnectionInfo) -> Result<Self, RedisError> {
        Ok(Self::from_client(Client::open(url)?))
    }

    /// The environment with one server, `Node(0)`.
    pub fn from_client(client: Client) -> Self {
        Self::from_clients(vec![client], TokioOptions::default())
    }

    /// The environment with several servers, `Node(0)` the first.
    pub fn from_clients(clients: Vec<Client>, options: TokioOptions) -> Self {
        let places = clients.into_iter().map(|client| Place::At(Host::new(client)));
        Self::of(places.collect(), options)
    }

    /// The environment whose `Node(0)` is the primary that the sentinels know by this name, whoever it
    /// is: they are asked whenever a connection is made, and so after every failover. `server` says how
    /// the primary is spoken to (user, password, database, TLS); its address is not used. Nothing is
    /// sent yet.
    ///
    /// # Errors
    /// What redis-rs finds wrong with a URL.
    pub fn sentinel<T: IntoConnectionInfo>(
        sentinels: impl IntoIterator<Item = T>,
        name: &str,
        server: impl IntoConnectionInfo,
    ) -> Result<Self, RedisError> {
        let sentinels = sentinels.into_iter().map(Client::open).collect::<Result<_, _>>()?;
        let options = TokioOptions::default();
        Ok(Self::from_sentinels(sentinels, name, server.into_connection_info()?, options))
    }

    /// The same, with connections made in this way.
    pub fn from_sentinels(
        sentinels: Vec<Client>,
        name: &str,
        server: ConnectionInfo,
        options: TokioOptions,
    ) -> Self {
        Self::of(vec![Place::Primary(Sentinels::new(sentinels, name, server))], options)
    }

    /// The same with these servers beside it, `Node(1)` the first: those of what is locked, say.
    #[must_use]
    pub fn beside(self, clients: Vec<Client>) -> Self {
        let Ok(shared) = Arc::try_unwrap(self.shared) else {
            unreachable!("an environment that was just made has one handle")
        };
        let others = clients.into_iter().map(|client| Place::At(Host::new(client)));
        Self::of(shared.nodes.into_iter().chain(others).collect(), shared.options)
    }

    /// The environment of a lock on a cluster: `Node(0)` is whoever owns the slot of `key`, also while
    /// and after it moves. What other keys a lock needs beside its own lie in the same slot.
    pub fn for_key(cluster: &Cluster, key: impl AsRef<[u8]>) -> Self {
        let nodes = Arc::clone(&cluster.nodes);
        let options = nodes.options;
        let slot = slot(key.as_ref());
        Self::of(vec![Place::Slot { nodes, slot, conn: Mutex::new(None) }], options)
    }

    fn of(nodes: Vec<Place>, options: TokioOptions) -> Self {
        let shared = Shared { nodes, options, runtime: OnceLock::new() };
        if let Ok(handle) = Handle::try_current() {
            shared.runtime.get_or_init(|| handle);
        }
        Self { shared: Arc::new(shared) }
    }
}

impl Env for TokioEnv {
    type Conn = TokioConn;
    type Subscription = TokioSubscription;

    fn now(&self) -> Instant {
        monotonic()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the environment that reads the clock")]
    fn wall(&self) -> WallTime {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        WallTime::from_unix_ns(span_ns(since.unwrap_or_default()))
    }

    async fn sleep(&self, span: Duration) {
        self.timer(span).await;
    }

    #[expect(clippy::disallowed_methods, reason = "this is the environment that draws bits")]
    fn random(&self) -> u64 {
        getrandom::u64().expect("the operating system gives random bits")
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let here = Handle::try_current().ok();
        match here.as_ref().or_else(|| self.shared.runtime.get()) {
            Some(runtime) => drop(runtime.spawn(task)),
            None => tracing::warn!("no runtime to run a task of the lock; its key goes by its ttl"),
        }
    }

    async fn connect(&self, node: Node) -> Result<TokioConn, CallError> {
        self.inside()?;
        let options = self.shared.options;
        let way = match self.place(node)? {
            Place::At(host) => Way::Straight(host.wire(options).await?),
            Place::Primary(sentinels) => Way::Straight(sentinels.primary(options).await?.2),
            Place::Slot { nodes, slot, conn } => {
                let mut cached = conn.lock().await;
                match &*cached {
                    Some(conn) if conn.is_usable().await => Way::Followed(Arc::clone(conn)),
                    _ => {
                        *cached = None;
                        let begun = Followed::begin(nodes, *slot).await?;
                        Way::Followed(Arc::clone(cached.insert(Arc::new(begun))))
                    }
                }
            }
        };
        Ok(TokioConn { way })
    }

    async fn subscribe(&self, node: Node, channel: &[u8]) -> Result<TokioSubscription, CallError> {
        self.inside()?;
        let options = self.shared.options;
        let (listener, home) = match self.place(node)? {
            Place::At(host) => (host.listener(options).await?, None),
            Place::Primary(sentinels) => {
                let (addr, host, _) = sentinels.primary(options).await?;
                let home = Home::Primary(sentinels.at(), addr);
                (host.listener(options).await?, Some(home))
            }
            Place::Slot { nodes, slot, .. } => {
                let (addr, _) = nodes.owner(*slot).await?;
                let listener = nodes.host(&addr)?.listener(options).await?;
                (listener, Some(Home::Slot(nodes.owners(), *slot, addr)))
            }
        };
        listener.subscribe(channel, home).await
    }

    /// Every node of a cluster hears what one publishes, and a replica what its primary does.
    fn counts_listeners(&self, node: Node) -> bool {
        matches!(self.place(node), Ok(Place::At(_)))
    }
}

impl TokioEnv {
    /// Remembers the runtime in which it is first called.
    fn inside(&self) -> Result<(), CallError> {
        let handle = Handle::try_current().map_err(|_| CallError::NoRuntime)?;
        self.shared.runtime.get_or_init(|| handle);
        Ok(())
    }

    /// A timer of this runtime; outside of any, of the one that is remembered.
    #[expect(clippy::disallowed_methods, reason = "this is the environment that sleeps")]
    fn timer(&self, span: Duration) -> tokio::time::Sleep {
        let remembered = self.shared.runtime.get().filter(|_| Handle::try_current().is_err());
        let _inside = remembered.map(Handle::enter);
        tokio::time::sleep(span)
    }

    fn place(&self, node: Node) -> Result<&Place, CallError> {
        self.shared.nodes.get(usize::from(node.0)).ok_or_else(|| {
            CallError::NotSent(format!("no server is configured as {node:?}").into())
        })
    }
}

/// A connection: to one server, or to whoever owns a slot of a cluster.
#[derive(Clone)]
pub struct TokioConn {
    way: Way,
}

#[derive(Clone)]
enum Way {
    Straight(Wire),
    Followed(Arc<Followed>),
}

impl Conn for TokioConn {
    fn gave_up(&self, silence: Duration) -> bool {
        match &self.way {
            Way::Straight(wire) => wire.gave_up(silence),
            Way::Followed(conn) => conn.gave_up(silence),
        }
    }

    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        match &self.way {
            Way::Straight(wire) => wire.call(&command).await,
            Way::Followed(conn) => conn.call(&command).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_configured_is_not_sent_to() {
        let env = TokioEnv::open("redis://127.0.0.1:1/").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(env.connect(Node(1))).err().unwrap();
        assert!(matches!(error, CallError::NotSent(_)), "{error}");
        let error = runtime.block_on(env.connect(Node(0))).err().unwrap();
        assert!(matches!(error, CallError::NotSent(_)), "nobody listens there: {error}");
    }

    fn poll<F: Future>(work: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        work.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn without_a_runtime_it_is_an_error_and_no_panic() {
        let env = TokioEnv::open("redis://127.0.0.1:1/").unwrap();
        let none = |polled| matches!(polled, std::task::Poll::Ready(Some(CallError::NoRuntime)));
        let connecting = async { env.connect(Node(0)).await.err() };
        assert!(none(poll(std::pin::pin!(connecting))));
        let listening = async { env.subscribe(Node(0), b"c").await.err() };
        assert!(none(poll(std::pin::pin!(listening))));
    }

    /// A guard may be asked anywhere.
    #[test]
    fn a_timer_outside_of_a_runtime_is_one_of_the_runtime_that_was_used() {
        let env = TokioEnv::open("redis://127.0.0.1:1/").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert!(runtime.block_on(env.connect(Node(0))).is_err());
        let mut sleeping = Box::pin(env.sleep(Duration::from_millis(1)));
        assert!(poll(sleeping.as_mut()).is_pending());
        runtime.block_on(sleeping);
    }

    #[test]
    fn instants_of_two_environments_compare() {
        let open = || TokioEnv::open("redis://127.0.0.1:1/").unwrap();
        let (one, two) = (open(), open());
        let first = one.now();
        let second = two.now();
        assert!(first <= second && second <= one.now());
    }
}
