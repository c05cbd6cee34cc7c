//! One multiplexed connection to one server.
//!
//! Invariant: an error that the server answered is *refused*, and every other failure after a command was handed over
//! is *indeterminate*. No command is handed over to a connection that is known to be closed, as it is once the runtime has
//! ended in which it was made. Commands are written in the order of their first polls: there is room for any number of them,
//! and tokio lets their task go on (`unconstrained`), however much it has done. A broken connection stays broken:
//! [`Host`](super::host::Host) makes another.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, Pipeline, RedisError,
    RedisResult, Value,
};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::task::coop::unconstrained;

use super::health::Health;
use crate::command::Command;
use crate::env::CallError;
use crate::reply::{Reply, ServerError};

/// How connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokioOptions {
    /// How long a connection may take, handshake included. Default: two seconds. A call waits for it no longer than the
    /// call timeout of its lock; the next call finds it made, or under way.
    pub connect_timeout: Duration,
    /// How long redis-rs waits for a reply. Default: `None`, as the lock has its own call timeout. With it, calls of a guard
    /// panic outside a runtime.
    pub response_timeout: Option<Duration>,
}

impl Default for TokioOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(2), response_timeout: None }
    }
}

#[derive(Clone)]
pub(super) struct ServerConn {
    inner: MultiplexedConnection,
    health: Arc<Health>,
    _until_the_end: Arc<OwnedTask>,
}

/// A task that is aborted when this is dropped.
pub(super) struct OwnedTask(AbortHandle);

impl OwnedTask {
    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Dropped with its runtime. The task of redis-rs behind the connection is, too, and only that would send.
struct CloseWithRuntime(Arc<Health>);

impl Drop for CloseWithRuntime {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl ServerConn {
    pub(super) async fn open(client: &Client, options: TokioOptions) -> Result<Self, CallError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_pipeline_buffer_size(Semaphore::MAX_PERMITS)
            .set_response_timeout(options.response_timeout);
        let made = client.get_multiplexed_async_connection_with_config(&config).await;
        let made = made.map_err(|error| connect_error(client.get_connection_info(), error));
        let (inner, health) = (made?, Arc::<Health>::default());
        health.received();
        let closing = CloseWithRuntime(Arc::clone(&health));
        let until_the_end = OwnedTask::spawn(async move {
            let _closing = closing;
            pending::<()>().await;
        });
        Ok(Self { inner, health, _until_the_end: Arc::new(until_the_end) })
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.health, &other.health)
    }

    /// Whether it is known to be broken.
    pub(super) fn is_broken(&self) -> bool {
        self.health.broken.load(Ordering::Relaxed)
    }

    /// Hands no more commands over to it.
    pub(super) fn close(&self) {
        self.health.close();
    }

    /// Whether the server has refused a write, since this was asked last, as it has too few replicas.
    pub(super) fn lacked_replicas(&self) -> bool {
        self.health.lacks_replicas.swap(false, Ordering::Relaxed)
    }

    pub(super) async fn is_usable(&self) -> bool {
        if self.is_broken() || self.health.is_silent() {
            return false;
        }
        !self.health.is_idle() || self.is_open().await
    }

    /// Whether the task behind the connection still takes commands. It does not after the server has closed
    /// an idle connection, and finding that out with an acquisition would leave its outcome unknown. The PING
    /// is withdrawn before it is sent, or does nothing.
    pub(super) async fn is_open(&self) -> bool {
        let mut inner = self.inner.clone();
        let ping = redis::cmd("PING");
        let mut probe = pin!(unconstrained(inner.send_packed_command(&ping)));
        poll_fn(|cx| match probe.as_mut().poll(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(false),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Ready(true),
        })
        .await
    }

    /// Refuses to send on a connection that is known to be closed. redis-rs has the same error for that and for a
    /// connection that breaks after a command, so this must be known before. A connection that was in use a moment ago
    /// is not checked. This never waits: the command is handed over in the first poll of its call.
    async fn check_open(&self) -> Result<(), CallError> {
        let health = &self.health;
        if !health.is_closed() && (!health.is_idle() || self.is_open().await) {
            return Ok(());
        }
        health.close();
        Err(CallError::NotSent("the connection is closed".into()))
    }

    /// See [`Conn::gave_up`](crate::env::Conn::gave_up).
    pub(super) fn gave_up(&self, silence: Duration) -> bool {
        let given_up = self.health.is_silent_for(silence);
        if given_up {
            self.health.broken.store(true, Ordering::Relaxed);
        }
        given_up
    }

    pub(super) async fn call(&self, command: &Command) -> Result<Reply, CallError> {
        self.check_open().await?;
        let packed = packed(command);
        let mut inner = self.inner.clone();
        let _waiting = self.health.sent();
        let answer = unconstrained(inner.send_packed_command(&packed)).await;
        self.classify(answer)
    }

    /// Sends a command for a key that is being migrated to this node. ASKING applies to the next command of its
    /// connection, and others share this one, so both are written at once.
    pub(super) async fn call_asking(&self, command: &Command) -> Result<Reply, CallError> {
        self.check_open().await?;
        let mut both = Pipeline::with_capacity(2);
        both.add_command(redis::cmd("ASKING")).add_command(packed(command));
        let mut inner = self.inner.clone();
        let _waiting = self.health.sent();
        let answers = unconstrained(inner.send_packed_commands(&both, 0, 2)).await;
        self.classify(answers.map(|mut answers| answers.pop().unwrap_or(Value::Nil)))
    }

    fn classify(&self, answer: RedisResult<Value>) -> Result<Reply, CallError> {
        let answer = match answer {
            Ok(value) => reply(value),
            Err(error) => match server_error(&error) {
                Some(refusal) => Err(CallError::Refused(refusal)),
                None => {
                    // A timeout of redis-rs says nothing about the connection.
                    if !error.is_timeout() {
                        self.health.close();
                    }
                    return Err(CallError::Indeterminate(error.to_string().into()));
                }
            },
        };
        self.health.received();
        if answer.as_ref().is_err_and(|error| error.has_code("READONLY")) {
            // The server is a replica now: the next connect looks for the new primary.
            self.health.broken.store(true, Ordering::Relaxed);
        }
        if answer.as_ref().is_err_and(|error| error.has_code("NOREPLICAS")) {
            self.health.lacks_replicas.store(true, Ordering::Relaxed);
        }
        answer
    }
}

fn packed(command: &Command) -> Cmd {
    let mut packed = Cmd::new();
    for arg in command.args() {
        packed.arg(arg);
    }
    packed
}

fn reply(value: Value) -> Result<Reply, CallError> {
    match value {
        Value::ServerError(error) => Err(refusal(error.code(), error.details()).into()),
        other => flatten(other),
    }
}

/// A reply that is not itself an error. With an error *inside* (as in EXEC's), a part was not carried out, and of
/// the rest nothing is known.
fn flatten(value: Value) -> Result<Reply, CallError> {
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
            Reply::Array(items.into_iter().map(flatten).collect::<Result<_, _>>()?)
        }
        Value::Map(pairs) => {
            let flat = pairs.into_iter().flat_map(|(key, value)| [key, value]);
            Reply::Array(flat.map(flatten).collect::<Result<_, _>>()?)
        }
        Value::Attribute { data, .. } => flatten(*data)?,
        other => {
            return Err(CallError::Indeterminate(format!("unexpected reply {other:?}").into()));
        }
    })
}

/// The error of the server in this error, if it is one.
pub(super) fn server_error(error: &RedisError) -> Option<ServerError> {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            Some(refusal(error.code().unwrap_or("ERR"), error.detail()))
        }
        _ => None,
    }
}

fn refusal(code: &str, message: Option<&str>) -> ServerError {
    let message = message.unwrap_or_default();
    // Redis repeats the arguments of a command that it does not know: of a script, the token, which no log shows.
    let message = message.split(", with args beginning with").next().unwrap_or_default();
    of_script(message).unwrap_or_else(|| ServerError { code: code.into(), message: message.into() })
}

/// The error of a command in a script. Up to Redis 6.2 it comes with `ERR` and the place in the script in front of it,
/// and the command's own error code decides whether the refusal passes.
fn of_script(message: &str) -> Option<ServerError> {
    let (_, place) = message.strip_prefix("Error running script ")?.rsplit_once("@user_script:")?;
    let (_line, error) = place.split_once(": ")?;
    let error = ServerError::from_line(error.strip_prefix('-').unwrap_or(error));
    error.code.bytes().all(|byte| byte.is_ascii_uppercase()).then_some(error)
}

/// The error of an attempt to connect to `peer`, which it names.
pub(super) fn connect_error(peer: &ConnectionInfo, error: RedisError) -> CallError {
    match (error.kind(), server_error(&error)) {
        (_, Some(mut refusal)) => {
            // redis-rs drops the code of an answer to SELECT, and BUSY is the one that passes.
            if refusal.message.starts_with("Redis is busy") {
                refusal.code = "BUSY".into();
            }
            CallError::Refused(refusal)
        }
        // redis-rs drops the server's message here; this is the code that Redis uses. A server that is full looks alike.
        (ErrorKind::AuthenticationFailed, None) => CallError::Refused(ServerError {
            code: "WRONGPASS".into(),
            message: format!("{error}, or the server has too many clients").into(),
        }),
        (_, None) => {
            // A full server says so and closes, and redis-rs drops what it says.
            let closed = error.is_connection_dropped() && !error.is_connection_refusal();
            let hint = match closed {
                true => ": the server closed the connection, as one with too many clients does",
                false => "",
            };
            CallError::NotSent(format!("{}: {error}{hint}", peer.addr()).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener};
    use std::thread::JoinHandle;

    use redis::{IntoConnectionInfo as _, RedisConnectionInfo};

    use super::*;

    /// A server that accepts the greeting of redis-rs, reads so many commands more and closes the connection; and
    /// a connection to it.
    async fn closing(commands: usize) -> (ServerConn, JoinHandle<usize>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let (mut request, mut read) = ([0; 4096], 0);
            let mut greetings = 0;
            while greetings < 2 || read < commands {
                let len = peer.read(&mut request).unwrap();
                let words = String::from_utf8_lossy(&request[..len]).into_owned();
                greetings += words.matches("SETINFO").count();
                read += words.matches("DEL").count();
                let answers = "+OK\r\n".repeat(words.matches("SETINFO").count());
                peer.write_all(answers.as_bytes()).unwrap();
            }
            read
        });
        let client = Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
        (ServerConn::open(&client, TokioOptions::default()).await.unwrap(), server)
    }

    fn block_on(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work);
    }

    #[test]
    fn nothing_is_sent_behind_a_command_whose_connection_broke() {
        block_on(async {
            let (conn, server) = closing(1).await;
            let delete = Command::new("DEL").arg("k");
            let first = conn.call(&delete).await;
            assert!(matches!(first, Err(CallError::Indeterminate(_))), "{first:?}");
            assert_eq!(server.join().unwrap(), 1);
            for call in [conn.call(&delete).await, conn.call_asking(&delete).await] {
                assert!(matches!(call, Err(CallError::NotSent(_))), "{call:?}");
            }
        });
    }

    #[test]
    fn nothing_is_sent_on_a_connection_that_was_closed_while_idle() {
        block_on(async {
            let (conn, server) = closing(0).await;
            server.join().unwrap();
            // Until the task behind the connection has heard of it.
            while conn.is_open().await {
                tokio::task::yield_now().await;
            }
            conn.health.received_ns.store(0, Ordering::Relaxed);
            let call = conn.call(&Command::new("DEL").arg("k")).await;
            assert!(matches!(call, Err(CallError::NotSent(_))), "{call:?}");
            assert!(conn.is_broken());
        });
    }

    /// A server that greets each connection with an error and closes it.
    fn refusing(with: &'static str) -> ConnectionInfo {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(with.as_bytes()).unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            // Closing before all is read would reset the connection, and the client might not see why.
            while peer.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        });
        format!("redis://127.0.0.1:{port}/").into_connection_info().unwrap()
    }

    #[test]
    fn a_server_with_too_many_clients_is_asked_for_nothing_and_may_be_why() {
        block_on(async {
            let hints = |why: &str| why.contains("too many clients");
            let password = RedisConnectionInfo::default().set_password("secret");
            for login in [RedisConnectionInfo::default(), password.clone()] {
                let full = refusing("-ERR max number of clients reached\r\n");
                let full = Client::open(full.set_redis_settings(login)).unwrap();
                let opened = ServerConn::open(&full, TokioOptions::default()).await;
                assert!(matches!(&opened, Err(CallError::NotSent(why)) if hints(why)));
            }
            // To a client that sends nothing but the password, this is the answer to it.
            let full = refusing("-ERR max number of clients reached\r\n");
            let alone = password.set_skip_set_lib_name();
            let full = Client::open(full.set_redis_settings(alone)).unwrap();
            let opened = ServerConn::open(&full, TokioOptions::default()).await;
            assert!(matches!(&opened, Err(CallError::Refused(why)) if hints(&why.message)));
            // One that is not there.
            let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
            let gone = Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
            let opened = ServerConn::open(&gone, TokioOptions::default()).await;
            assert!(matches!(&opened, Err(CallError::NotSent(why)) if !hints(why)));
        });
    }

    /// As Redis 6.2.5 answers.
    #[test]
    fn an_error_in_a_script_has_the_code_of_its_command() {
        let script = "Error running script (call to f_620cd258c2c9): @user_script:1: ";
        let read = |error: &str| refusal("ERR", Some(&[script, error].concat())).to_string();
        let readonly = "READONLY You can't write against a read only replica.";
        assert_eq!(read(&format!("@user_script: 1: -{readonly}")), readonly);
        let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(read(wrong_type), wrong_type);
        let other = "@user_script: 1: The user executing the script can't run this command";
        assert_eq!(read(other), format!("ERR {script}{other}"));
        assert_eq!(refusal("ERR", Some("syntax error")).to_string(), "ERR syntax error");
    }

    #[test]
    fn replies_of_both_protocols_are_alike() {
        let map = Value::Map(vec![(Value::SimpleString("a".into()), Value::Double(1.5))]);
        let flat = Reply::Array(vec![Reply::Status("a".into()), Reply::bulk(b"1.5")]);
        assert_eq!(reply(map), Ok(flat));
        assert_eq!(reply(Value::Boolean(true)), Ok(Reply::Int(1)));
        assert_eq!(reply(Value::Okay), Ok(Reply::Ok));
        assert_eq!(reply(Value::Nil), Ok(Reply::Nil));
        let attribute = Value::Attribute { data: Box::new(Value::Int(7)), attributes: Vec::new() };
        assert_eq!(reply(attribute), Ok(Reply::Int(7)));
    }
}
