//! The environment of a service: tokio's timers and tasks, and Redis through redis-rs.
//!
//! Invariant: only a failed connect is *not sent*, and only an error the server answered is
//! *refused*; everything else that goes wrong after a command was handed over is *indeterminate*.
//! Deliberately absent: retries, reconnecting in mid-command and a timeout for replies. The lock
//! decides on those, and a client that did so by itself would repeat what must not be repeated.

mod listener;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, IntoConnectionInfo, RedisError, Value};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::command::Command;
use crate::env::{CallError, Conn, Env, Node};
use crate::reply::{Reply, ServerError};
use crate::time::{Instant, WallTime, span_ns};
use listener::Listener;

pub use listener::TokioSubscription;

/// A server that has been asked and has said nothing at all for this long is asked on a new
/// connection: a peer that vanished without a word is otherwise noticed only after minutes.
const SILENCE: Duration = Duration::from_secs(1);

/// A connection that has been idle for this long is looked at before it is used again.
const IDLE: Duration = Duration::from_secs(1);

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
    nodes: Vec<Server>,
    options: TokioOptions,
    /// Where tasks run that are spawned outside a runtime, as by a guard dropped there.
    runtime: OnceLock<Handle>,
}

struct Server {
    client: Client,
    cached: Mutex<Option<TokioConn>>,
    listener: Mutex<Option<Listener>>,
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
        let server =
            |client| Server { client, cached: Mutex::new(None), listener: Mutex::new(None) };
        let nodes = clients.into_iter().map(server).collect();
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

    #[expect(clippy::disallowed_methods, reason = "this is the environment that sleeps")]
    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
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
        let server = self.server(node)?;
        let mut cached = server.cached.lock().await;
        if let Some(conn) = &*cached
            && conn.is_usable().await
        {
            return Ok(conn.clone());
        }
        *cached = None;
        let options = self.shared.options;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(options.response_timeout);
        let made = server.client.get_multiplexed_async_connection_with_config(&config).await;
        let conn = TokioConn { inner: made.map_err(connect_error)?, health: Arc::default() };
        conn.health.heard();
        Ok(cached.insert(conn).clone())
    }

    async fn subscribe(&self, node: Node, channel: &[u8]) -> Result<TokioSubscription, CallError> {
        let server = self.server(node)?;
        let listener = {
            let mut cached = server.listener.lock().await;
            match &*cached {
                Some(listener) if listener.is_usable() => listener.clone(),
                _ => {
                    // Whoever still listens on one that has fallen silent is told that it is over.
                    *cached = None;
                    let span = self.shared.options.connect_timeout;
                    cached.insert(Listener::open(&server.client, span).await?).clone()
                }
            }
        };
        listener.subscribe(channel).await
    }
}

impl TokioEnv {
    /// The server of this node. Remembers the runtime on which it is first asked for.
    fn server(&self, node: Node) -> Result<&Server, CallError> {
        if let Ok(handle) = Handle::try_current() {
            self.shared.runtime.get_or_init(|| handle);
        }
        self.shared.nodes.get(usize::from(node.0)).ok_or_else(|| {
            CallError::NotSent(format!("no server is configured as {node:?}").into())
        })
    }
}

/// A multiplexed connection.
#[derive(Clone)]
pub struct TokioConn {
    inner: MultiplexedConnection,
    health: Arc<Health>,
}

/// What calls have found out about their connection; instants in nanoseconds, zero for never.
#[derive(Default)]
struct Health {
    broken: AtomicBool,
    /// When the first call was made that has had no word from the server since.
    asked_ns: AtomicU64,
    heard_ns: AtomicU64,
}

impl Health {
    fn asked(&self) {
        let now_ns = monotonic().as_ns();
        let _ = self.asked_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn heard(&self) {
        self.heard_ns.store(monotonic().as_ns(), Ordering::Relaxed);
        self.asked_ns.store(0, Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        self.is_silent_for(SILENCE)
    }

    fn is_silent_for(&self, span: Duration) -> bool {
        let asked_ns = self.asked_ns.load(Ordering::Relaxed);
        asked_ns != 0 && monotonic().since(Instant::from_ns(asked_ns)) >= span
    }

    fn is_idle(&self) -> bool {
        monotonic().since(Instant::from_ns(self.heard_ns.load(Ordering::Relaxed))) >= IDLE
    }
}

impl TokioConn {
    async fn is_usable(&self) -> bool {
        let health = &self.health;
        if health.broken.load(Ordering::Relaxed) || health.is_silent() {
            return false;
        }
        !health.is_idle() || self.is_open().await
    }

    /// Whether the task behind the connection still takes commands. After the server has closed an
    /// idle connection it does not, and to find that out with the acquisition itself would make an
    /// unknown outcome of it. The command is withdrawn before it is sent, or does nothing.
    async fn is_open(&self) -> bool {
        let mut inner = self.inner.clone();
        let ping = redis::cmd("PING");
        let mut probe = pin!(inner.send_packed_command(&ping));
        poll_fn(|cx| match probe.as_mut().poll(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(false),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Ready(true),
        })
        .await
    }
}

impl Conn for TokioConn {
    fn gave_up(&self, silence: Duration) -> bool {
        let given_up = self.health.is_silent_for(silence);
        if given_up {
            self.health.broken.store(true, Ordering::Relaxed);
        }
        given_up
    }

    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let mut packed = redis::Cmd::new();
        for arg in command.args() {
            packed.arg(arg);
        }
        let mut inner = self.inner.clone();
        self.health.asked();
        let answer = inner.send_packed_command(&packed).await;
        match answer {
            Ok(value) => {
                self.health.heard();
                reply(value)
            }
            Err(error) => match server_error(&error) {
                Some(refusal) => {
                    self.health.heard();
                    Err(CallError::Refused(refusal))
                }
                None => {
                    // A reply that redis-rs has timed out says nothing of the connection.
                    if !error.is_timeout() {
                        self.health.broken.store(true, Ordering::Relaxed);
                    }
                    Err(CallError::Indeterminate(error.to_string().into()))
                }
            },
        }
    }
}

/// Nanoseconds since the process first asked; one origin for every environment of the process, so
/// that their instants compare.
#[expect(clippy::disallowed_methods, reason = "this is the environment that reads the clock")]
fn monotonic() -> Instant {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    // Never zero, which stands for never above.
    let since = ORIGIN.get_or_init(std::time::Instant::now).elapsed();
    Instant::from_ns(span_ns(since).saturating_add(1))
}

fn reply(value: Value) -> Result<Reply, CallError> {
    match value {
        Value::ServerError(error) => Err(CallError::Refused(ServerError {
            code: error.code().into(),
            message: error.details().unwrap_or_default().into(),
        })),
        other => level(other),
    }
}

/// A reply that is not itself an error. An error *inside* one (as EXEC has them) says that a part
/// was not carried out, and nothing of the rest.
fn level(value: Value) -> Result<Reply, CallError> {
    Ok(match value {
        Value::Nil => Reply::Nil,
        Value::Okay => Reply::Ok,
        Value::Int(value) => Reply::Int(value),
        Value::Boolean(value) => Reply::Int(i64::from(value)),
        Value::BulkString(bytes) => Reply::bulk(&bytes),
        Value::SimpleString(text) => Reply::Status(text.into()),
        Value::VerbatimString { text, .. } => Reply::bulk(text.as_bytes()),
        Value::Double(value) => Reply::bulk(value.to_string().as_bytes()),
        Value::Array(items) | Value::Set(items) => {
            Reply::Array(items.into_iter().map(level).collect::<Result<_, _>>()?)
        }
        Value::Map(pairs) => {
            let flat = pairs.into_iter().flat_map(|(key, value)| [key, value]);
            Reply::Array(flat.map(level).collect::<Result<_, _>>()?)
        }
        Value::Attribute { data, .. } => level(*data)?,
        other => {
            return Err(CallError::Indeterminate(format!("unexpected reply {other:?}").into()));
        }
    })
}

/// The error of the server in this error, if it is one.
fn server_error(error: &RedisError) -> Option<ServerError> {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => Some(ServerError {
            code: error.code().unwrap_or("ERR").into(),
            message: error.detail().unwrap_or_default().into(),
        }),
        _ => None,
    }
}

fn connect_error(error: RedisError) -> CallError {
    match (error.kind(), server_error(&error)) {
        (_, Some(refusal)) => CallError::Refused(refusal),
        // Here redis-rs drops the server's own words; this is the code it has for it.
        (ErrorKind::AuthenticationFailed, None) => CallError::Refused(ServerError {
            code: "WRONGPASS".into(),
            message: error.to_string().into(),
        }),
        (_, None) => CallError::NotSent(error.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_both_protocols_are_levelled() {
        let map = Value::Map(vec![(Value::SimpleString("a".into()), Value::Double(1.5))]);
        let flat = Reply::Array(vec![Reply::Status("a".into()), Reply::bulk(b"1.5")]);
        assert_eq!(reply(map), Ok(flat));
        assert_eq!(reply(Value::Boolean(true)), Ok(Reply::Int(1)));
        assert_eq!(reply(Value::Okay), Ok(Reply::Ok));
        assert_eq!(reply(Value::Nil), Ok(Reply::Nil));
        let attribute = Value::Attribute { data: Box::new(Value::Int(7)), attributes: Vec::new() };
        assert_eq!(reply(attribute), Ok(Reply::Int(7)));
    }

    #[test]
    fn a_server_that_is_not_configured_is_not_sent_to() {
        let env = TokioEnv::open("redis://127.0.0.1:1/").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(env.connect(Node(1))).err().unwrap();
        assert!(matches!(error, CallError::NotSent(_)), "{error}");
        let error = runtime.block_on(env.connect(Node(0))).err().unwrap();
        assert!(matches!(error, CallError::NotSent(_)), "nobody listens there: {error}");
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
