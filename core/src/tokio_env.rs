//! The environment of a service: tokio's timers and tasks, and Redis through redis-rs.
//!
//! Invariant: a call is *not sent* only if no connection could be made, if it was known to be closed, or if every
//! server that received the command has redirected it; *refused* only if a server answered an error. Every other
//! failure after a command was handed over is *indeterminate*. There are no retries, no reconnecting in mid-command
//! and no timeout for replies: the lock decides on those, and a client that did so by itself would repeat commands
//! that must not be repeated.

mod addr;
mod clock;
mod cluster;
mod health;
mod host;
mod listener;
mod runtimes;
mod sentinel;
mod server_conn;
mod slot_conn;
mod slot_owners;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Client, ConnectionInfo, IntoConnectionInfo, RedisError};
use tokio::runtime::Handle;

use crate::command::Command;
use crate::env::{CallError, Conn, Env, Node};
use crate::reply::Reply;
use crate::slot_keys::slot;
use crate::sync::lock;
use crate::time::{Instant, WallTime, span_ns};
use clock::monotonic;
use cluster::ClusterNodes;
use host::Host;
use listener::SubscribedOwner;
use runtimes::Runtimes;
use sentinel::Sentinels;
use server_conn::ServerConn;
use slot_conn::SlotConn;

pub use cluster::Cluster;
pub use listener::TokioSubscription;
pub use server_conn::TokioOptions;

/// The environment of a service. Cloning gives another handle to the same connections: one
/// multiplexed connection a node, shared by all locks, made when first needed and again after it
/// has broken. A runtime needs its timers and its I/O (`enable_all`), and tokio's clock must not be paused.
///
/// A task that is started outside a runtime, for example by a guard that is dropped there, runs in the latest runtime
/// in which the environment has connected and that has not ended.
///
/// Its monotonic clock does not count the time a machine is suspended (`CLOCK_MONOTONIC` on Linux):
/// a holder must not be suspended, or migrated for longer than its validity lasts. Timers have a
/// resolution of a millisecond and fire late rather than early.
#[derive(Clone)]
pub struct TokioEnv {
    shared: Arc<EnvShared>,
}

struct EnvShared {
    nodes: Vec<Arc<NodeSource>>,
    options: TokioOptions,
    runtimes: Runtimes,
}

/// Where a node is.
enum NodeSource {
    /// One server.
    At(Box<Host>),
    /// The current primary.
    Primary(Arc<Sentinels>),
    /// The current owner of this slot.
    Slot { nodes: Arc<ClusterNodes>, slot: u16, conn: Mutex<Option<Arc<SlotConn>>> },
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

    /// The environment with several servers, `Node(0)` the first, at URLs as [`open`](Self::open) takes them.
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// What redis-rs finds wrong with a URL.
    pub fn open_all<T: IntoConnectionInfo>(
        urls: impl IntoIterator<Item = T>,
    ) -> Result<Self, RedisError> {
        let clients = urls.into_iter().map(Client::open).collect::<Result<_, _>>()?;
        Ok(Self::from_clients(clients, TokioOptions::default()))
    }

    /// The environment with several servers, `Node(0)` the first.
    pub fn from_clients(clients: Vec<Client>, options: TokioOptions) -> Self {
        let endpoints =
            clients.into_iter().map(|client| NodeSource::At(Box::new(Host::new(client))));
        Self::of(endpoints.collect(), options)
    }

    /// The environment whose `Node(0)` is the primary that the sentinels know by this name: they are asked
    /// whenever a connection is made, and every second while it is used. `server` gives user, password, database
    /// and TLS for the primary; its address is not used. Nothing is sent yet.
    ///
    /// # Errors
    /// What redis-rs finds wrong with a URL, and if no sentinel is given.
    pub fn sentinel<T: IntoConnectionInfo>(
        sentinels: impl IntoIterator<Item = T>,
        name: &str,
        server: impl IntoConnectionInfo,
    ) -> Result<Self, RedisError> {
        let sentinels: Vec<Client> =
            sentinels.into_iter().map(Client::open).collect::<Result<_, _>>()?;
        if sentinels.is_empty() {
            let kind = redis::ErrorKind::InvalidClientConfig;
            return Err(RedisError::from((kind, "no sentinel is given")));
        }
        let options = TokioOptions::default();
        Ok(Self::from_sentinels(sentinels, name, server.into_connection_info()?, options))
    }

    /// As [`sentinel`](Self::sentinel), with these options for connections. Without sentinels nothing can be sent:
    /// every call fails as [`CallError::NotSent`].
    pub fn from_sentinels(
        sentinels: Vec<Client>,
        name: &str,
        server: ConnectionInfo,
        options: TokioOptions,
    ) -> Self {
        let sentinels = Arc::new(Sentinels::new(sentinels, name, server));
        Self::of(vec![NodeSource::Primary(sentinels)], options)
    }

    /// An environment with the servers of this one and then these: those of the locked resource, for example. It
    /// shares the connections of this one and its clones.
    #[must_use]
    pub fn beside(self, clients: Vec<Client>) -> Self {
        let shared = &self.shared;
        let others = clients.into_iter().map(|client| NodeSource::At(Box::new(Host::new(client))));
        let nodes = shared.nodes.iter().cloned().chain(others.map(Arc::new));
        Self::with_nodes(nodes.collect(), shared.options)
    }

    /// The environment of a lock on a cluster: `Node(0)` is the owner of the slot of `key`, also while and
    /// after the slot moves. Further keys of a lock are in the same slot.
    pub fn for_key(cluster: &Cluster, key: impl AsRef<[u8]>) -> Self {
        let nodes = Arc::clone(&cluster.nodes);
        let options = nodes.options;
        let slot = slot(key.as_ref());
        Self::of(vec![NodeSource::Slot { nodes, slot, conn: Mutex::new(None) }], options)
    }

    fn of(nodes: Vec<NodeSource>, options: TokioOptions) -> Self {
        Self::with_nodes(nodes.into_iter().map(Arc::new).collect(), options)
    }

    fn with_nodes(nodes: Vec<Arc<NodeSource>>, options: TokioOptions) -> Self {
        let runtimes = Runtimes::default();
        if let Ok(here) = Handle::try_current() {
            runtimes.add(here);
        }
        Self { shared: Arc::new(EnvShared { nodes, options, runtimes }) }
    }
}

/// Says where the servers are, and nothing of users and passwords.
impl fmt::Debug for TokioEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut nodes = f.debug_list();
        for node in &self.shared.nodes {
            match &**node {
                NodeSource::At(host) => nodes.entry(&format_args!("{}", host.peer())),
                NodeSource::Primary(sentinels) => nodes.entry(sentinels),
                NodeSource::Slot { nodes: cluster, slot, .. } => {
                    nodes.entry(&format_args!("slot {slot} of {cluster:?}"))
                }
            };
        }
        nodes.finish()
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
        match Handle::try_current().ok().or_else(|| self.shared.runtimes.latest()) {
            Some(runtime) => drop(runtime.spawn(task)),
            None => tracing::warn!("no runtime to run a task of the lock; its key goes by its ttl"),
        }
    }

    async fn connect(&self, node: Node) -> Result<TokioConn, CallError> {
        self.enter_runtime()?;
        let options = self.shared.options;
        let route = match self.endpoint(node)? {
            NodeSource::At(host) => ConnRoute::Direct(host.conn(options).await?),
            NodeSource::Primary(sentinels) => {
                let conn = sentinels.primary(options).await?.2;
                ConnRoute::Primary(conn, Arc::clone(sentinels), options)
            }
            NodeSource::Slot { nodes, slot, conn } => {
                let cached = lock(conn).clone();
                match cached {
                    Some(conn) if conn.is_usable().await => ConnRoute::Slot(conn),
                    _ => {
                        let begun = Arc::new(SlotConn::begin(nodes, *slot).await?);
                        *lock(conn) = Some(Arc::clone(&begun));
                        ConnRoute::Slot(begun)
                    }
                }
            }
        };
        Ok(TokioConn { route })
    }

    async fn subscribe(&self, node: Node, channel: &[u8]) -> Result<TokioSubscription, CallError> {
        self.enter_runtime()?;
        let options = self.shared.options;
        let (listener, owner) = match self.endpoint(node)? {
            NodeSource::At(host) => (host.listener(options).await?, None),
            NodeSource::Primary(sentinels) => {
                let (addr, host, _) = sentinels.primary(options).await?;
                let owner = SubscribedOwner::Primary(sentinels.at.subscribe(), addr);
                (host.listener(options).await?, Some(owner))
            }
            NodeSource::Slot { nodes, slot, .. } => {
                let (addr, _) = nodes.owner(*slot).await?;
                let listener = nodes.host(&addr)?.listener(options).await?;
                (listener, Some(SubscribedOwner::Slot(nodes.owners.subscribe(), *slot, addr)))
            }
        };
        listener.subscribe(channel, owner).await
    }

    /// A cluster forwards messages to every node, and a primary to its replicas.
    fn counts_listeners(&self, node: Node) -> bool {
        matches!(self.endpoint(node), Ok(NodeSource::At(_)))
    }
}

impl TokioEnv {
    /// Remembers the runtime in which it is called.
    ///
    /// # Errors
    /// [`CallError::NoRuntime`] outside a runtime.
    fn enter_runtime(&self) -> Result<(), CallError> {
        self.shared.runtimes.add(Handle::try_current().map_err(|_| CallError::NoRuntime)?);
        Ok(())
    }

    /// A timer of the current runtime; outside a runtime, of a remembered one.
    #[expect(clippy::disallowed_methods, reason = "this is the environment that sleeps")]
    fn timer(&self, span: Duration) -> tokio::time::Sleep {
        let outside = Handle::try_current().is_err();
        let remembered = outside.then(|| self.shared.runtimes.latest()).flatten();
        let _entered = remembered.as_ref().map(Handle::enter);
        tokio::time::sleep(span)
    }

    fn endpoint(&self, node: Node) -> Result<&NodeSource, CallError> {
        self.shared.nodes.get(usize::from(node.0)).map(|source| &**source).ok_or_else(|| {
            CallError::NotSent(format!("no server is configured as {node:?}").into())
        })
    }
}

/// A connection: to one server, or to the owner of a slot of a cluster.
#[derive(Clone)]
pub struct TokioConn {
    route: ConnRoute,
}

#[derive(Clone)]
enum ConnRoute {
    Direct(ServerConn),
    Primary(ServerConn, Arc<Sentinels>, TokioOptions),
    Slot(Arc<SlotConn>),
}

impl fmt::Debug for TokioConn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioConn").finish_non_exhaustive()
    }
}

impl Conn for TokioConn {
    fn gave_up(&self, silence: Duration) -> bool {
        match &self.route {
            ConnRoute::Direct(conn) | ConnRoute::Primary(conn, ..) => conn.gave_up(silence),
            ConnRoute::Slot(conn) => conn.gave_up(silence),
        }
    }

    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        match &self.route {
            ConnRoute::Direct(conn) => conn.call(&command).await.map_err(naming_cluster),
            ConnRoute::Primary(conn, sentinels, options) => {
                drop(sentinels.ask_again(*options)); // nobody waits for it
                conn.call(&command).await
            }
            ConnRoute::Slot(conn) => conn.call(&command).await,
        }
    }
}

/// The error of a server that was opened by itself. A redirection shows that it is a node of a cluster: then the error says what
/// to use instead.
fn naming_cluster(error: CallError) -> CallError {
    match error {
        CallError::Refused(mut refusal) if matches!(&*refusal.code, "MOVED" | "ASK") => {
            let message =
                format!("{} (this is a node of a cluster: use `Cluster`)", refusal.message);
            refusal.message = message.into();
            refusal.into()
        }
        other => other,
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
        let names = |why: &str| why.starts_with("127.0.0.1:1: ");
        assert!(
            matches!(&error, CallError::NotSent(why) if names(why)),
            "nobody is there: {error}"
        );
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

    /// A guard may be used anywhere.
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
    fn an_environment_with_other_handles_may_be_extended() {
        let url = |port| format!("redis://127.0.0.1:{port}/");
        let env = TokioEnv::open(url(1)).unwrap();
        let extended = env.clone().beside(vec![Client::open(url(2)).unwrap()]);
        assert!(env.endpoint(Node(1)).is_err());
        assert!(extended.endpoint(Node(1)).is_ok());
        let first = |env: &TokioEnv| Arc::clone(&env.shared.nodes[0]);
        assert!(Arc::ptr_eq(&first(&env), &first(&extended)), "they share connections");
    }

    #[test]
    fn a_primary_needs_a_sentinel() {
        let primary = |sentinels: &[&str]| {
            TokioEnv::sentinel(sentinels.to_vec(), "primary", "redis://any/").is_ok()
        };
        assert!(!primary(&[]));
        assert!(primary(&["redis://127.0.0.1:1/"]));
    }

    #[test]
    fn debug_says_where_servers_are_and_no_password() {
        let url = |port| format!("redis://user:secret@127.0.0.1:{port}/");
        let env = TokioEnv::open(url(1)).unwrap();
        let sentinel = TokioEnv::sentinel([url(2), url(3)], "primary", url(0)).unwrap();
        let cluster = TokioEnv::for_key(&Cluster::open([url(4)]).unwrap(), "{b}");
        let shown = format!("{env:?} {sentinel:?} {cluster:?}");
        let said =
            "[127.0.0.1:1] [primary of [127.0.0.1:2, 127.0.0.1:3]] [slot 3300 of [127.0.0.1:4]]";
        assert_eq!(shown, said);
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
