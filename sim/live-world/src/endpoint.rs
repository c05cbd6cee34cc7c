//! The Redis that a run is made against: embedded, started for the run, or somebody else's.
//!
//! An [`Endpoint`] owns its control connection, on which there are no faults, and the server if picklock has started
//! it. Several of them are a deployment.
//!
//! Invariant: an endpoint that has been opened was written to, read from and cleaned up with the very login and
//! database that the run's clients will use. What picklock has started ends with it, closed or dropped.

mod clock;
mod control;
mod info;
mod keys;
mod open;
mod preflight;
mod reach;
mod refusal;
mod url;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::{Reply, ServerError};
use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, IntoConnectionInfo};
use scenarios::result::ServerFacts;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinSet;

use self::control::{CallFailure, Cause, ControlConnection};
pub use self::info::CommandCounts;
pub use self::keys::{KeySpace, Removal};
pub use self::open::{Choice, EndpointError, Settings};
pub use self::refusal::Refusal;
use self::url::Login;
pub use self::url::{RedisUrl, UrlError};
use super::embedded::EmbeddedServer;
use super::server::{Password, PrivateServer, PrivateServerError};
use super::supervisor::{Signal, Supervisor};
use super::wire::command_of;
use fault_proxy::Upstream;

/// How long servers of our own may take to end before they are left to the supervisor.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// A server that a run can be made against. Dropping it ends what was started for it, in the background.
pub struct Endpoint {
    // Dropped in this order: the connection before its server.
    control: ControlConnection,
    owned: Owned,
    keys: KeySpace,
    addr: SocketAddr,
    facts: ServerFacts,
}

/// What ends with the endpoint.
enum Owned {
    Nothing,
    Embedded(EmbeddedServer),
    Server { server: Box<Mutex<PrivateServer>>, supervisor: Supervisor },
}

impl Endpoint {
    /// Facts about the server.
    pub fn server(&self) -> &ServerFacts {
        &self.facts
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The process that was started for the run, to be paused, killed and started again.
    pub async fn process(&self) -> Option<MutexGuard<'_, PrivateServer>> {
        match &self.owned {
            Owned::Server { server, .. } => Some(server.lock().await),
            Owned::Nothing | Owned::Embedded(_) => None,
        }
    }

    /// Stalls the server until it is [woken](Self::wake): then it carries out what has reached it meanwhile.
    ///
    /// # Errors
    /// [`PrivateServerError::NotRunning`] if picklock has not started it, or it has ended.
    pub(crate) async fn stall(&self) -> Result<(), PrivateServerError> {
        match &self.owned {
            Owned::Nothing => Err(PrivateServerError::not_ours()),
            Owned::Embedded(server) => {
                server.stall().await;
                Ok(())
            }
            Owned::Server { server, .. } => server.lock().await.stall().await,
        }
    }

    /// Lets the server go on.
    ///
    /// # Errors
    /// As [`stall`](Self::stall).
    pub(crate) async fn wake(&self) -> Result<(), PrivateServerError> {
        match &self.owned {
            Owned::Nothing => Err(PrivateServerError::not_ours()),
            Owned::Embedded(server) => {
                server.wake();
                Ok(())
            }
            Owned::Server { server, .. } => server.lock().await.signal(Signal::Cont),
        }
    }

    /// Whether picklock has started the server, so that its counts are the run's own.
    pub fn is_private(&self) -> bool {
        !matches!(self.owned, Owned::Nothing)
    }

    /// Whether it is within this process.
    pub fn is_embedded(&self) -> bool {
        matches!(self.owned, Owned::Embedded(_))
    }

    /// Where the run's keys lie.
    pub fn keys(&self) -> &KeySpace {
        &self.keys
    }

    /// Where the proxy's links lead.
    pub fn upstream(&self) -> Upstream {
        self.control.upstream.clone()
    }

    /// A client that connects to a link of the proxy at `link`, with this endpoint's login and
    /// database. Nothing is sent yet.
    ///
    /// On every new connection redis-rs sends `AUTH` where there is a password and `SELECT` where
    /// the database is not 0, each once and in one write; with `?protocol=resp3` it sends `HELLO 3`,
    /// with the password in it, in the place of `AUTH`. Nothing else: its `CLIENT SETINFO` is
    /// switched off. A server that does not know user names (before Redis 6) is sent the whole
    /// handshake a second time, without the name.
    pub fn client(&self, link: SocketAddr) -> redis::Client {
        client(link, &self.control.login)
    }

    /// The password of its clients, if it asks for one: for programs that log in by themselves.
    pub fn password(&self) -> Option<&str> {
        self.control.login.password.as_deref()
    }

    /// Sends a command on the control connection, on which there are no faults.
    ///
    /// # Errors
    /// [`CallError`]; after an error other than *refused* the next call makes a new connection.
    pub async fn command(&self, command: &Command) -> Result<Reply, CallError> {
        self.control.call(command).await.map_err(|failure| self.call_error(failure))
    }

    /// The same with the command of these words.
    pub(crate) async fn ask(&self, words: &[&str]) -> Result<Reply, CallError> {
        self.command(&command_of(words)).await
    }

    /// The raw replies to these commands, sent in one go on a connection of their own; fewer if
    /// something goes wrong. Passwords in them are replaced.
    pub async fn pipeline(&self, commands: &[Command]) -> Vec<Vec<u8>> {
        self.control.pipeline(commands).await
    }

    /// How often the server has carried out each command, by lower-case name without subcommand, since
    /// it started or its statistics were reset; none if it refuses INFO.
    ///
    /// It counts what scripts call, beside the EVAL itself, and counts neither a command that it
    /// rejected unread (READONLY, OOM, NOPERM, a wrong number of arguments) nor, yet, this INFO.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn command_stats(&self) -> Result<Option<CommandCounts>, CallError> {
        match self.control.call(&Command::new("INFO").arg("commandstats")).await {
            Ok(reply) => {
                let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default());
                Ok(Some(info::command_stats(&text)))
            }
            Err(CallFailure { sent: true, cause: Cause::Refused { .. } }) => Ok(None),
            Err(failure) => Err(self.call_error(failure)),
        }
    }

    /// How often each command was sent on the control connection so far, by lower-case name: these are
    /// subtracted from the server's counts to compare them with the proxy's.
    pub async fn own_commands(&self) -> BTreeMap<String, u64> {
        self.control.sent().await
    }

    /// Deletes what is left of the run: the known keys, as far as they lie under the run's prefix,
    /// and then whatever a search finds there. Others' keys are not touched.
    ///
    /// # Errors
    /// [`CallError`] where the server does not answer, or lets nothing be deleted.
    pub async fn remove_keys(&self, known: &[Vec<u8>]) -> Result<Removal, CallError> {
        let removed = keys::remove(&self.control, &self.keys, known).await;
        removed.map_err(|failure| self.call_error(failure))
    }

    /// Asks for an answer.
    ///
    /// # Errors
    /// There is none in time.
    pub async fn ping(&self) -> Result<(), CallError> {
        let answered = self.control.call(&Command::new("PING")).await;
        answered.map(drop).map_err(|failure| self.call_error(failure))
    }

    /// Ends what was started, and waits until nothing of it is left.
    pub async fn close(self) {
        Self::close_all([self]).await;
    }

    /// Ends what was started for all of these, and waits until nothing of it is left. Servers may share a
    /// supervisor, if nothing else has a handle of it.
    pub(crate) async fn close_all(endpoints: impl IntoIterator<Item = Self>) {
        let mut supervisors = Vec::new();
        let mut ending = JoinSet::new();
        for endpoint in endpoints {
            drop(endpoint.control);
            match endpoint.owned {
                Owned::Nothing => {}
                Owned::Embedded(server) => {
                    // Dropping it blocks on a thread, which a task must not.
                    ending.spawn_blocking(move || drop(server));
                }
                Owned::Server { server, supervisor } => {
                    let mut server = server.into_inner();
                    ending.spawn(async move {
                        // If this fails, the supervisor ends it, or has ended with it.
                        let _ = server.stop().await;
                    });
                    supervisors.push(supervisor);
                }
            }
        }
        let all = async {
            ending.join_all().await;
            // Only the last handle of each can wait for its end.
            while let Some(supervisor) = supervisors.pop() {
                if !supervisors.iter().any(|other| other.is(&supervisor)) {
                    supervisor.shutdown().await;
                }
            }
        };
        let _ = tokio::time::timeout(CLOSE_WITHIN, all).await;
    }

    /// The error if the server refused these commands of clients, the first of them with this answer.
    pub fn refused(&self, commands: &[String], said: &ServerError) -> EndpointError {
        let refusal = Refusal::of_clients(commands, said, &self.control.login, &self.keys);
        EndpointError::Refused { place: self.facts.origin.clone(), refusal }
    }

    fn call_error(&self, failure: CallFailure) -> CallError {
        failure.into_call_error(&self.control.login)
    }
}

/// A client that connects to a link of the proxy at `link` that leads to a server of ours with this
/// password. Nothing is sent yet.
pub(crate) fn private_client(link: SocketAddr, password: &Password) -> redis::Client {
    client(link, &Login::with(Some(password)))
}

fn client(link: SocketAddr, login: &Login) -> redis::Client {
    let addr = ConnectionAddr::Tcp(link.ip().to_string(), link.port());
    let info = addr.into_connection_info().map(|info| {
        info.set_redis_settings(login.settings())
            // Nagle's algorithm would hold back a request until the last one is acknowledged.
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
    });
    info.and_then(redis::Client::open).expect("an address needs no parsing")
}
