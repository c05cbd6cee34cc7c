//! The run's own connection to its server: for queries, checks and cleaning up.
//!
//! Invariant: no fault is injected here, every wait has an end, and a password goes only to what has
//! answered like a Redis. A connection on which anything went wrong is never used again; the next
//! command makes a new one. No command is repeated.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::{Reply, ServerError};
use tokio::sync::Mutex;

use super::url::Login;
use crate::wire::{RespWire, WireError};
use fault_proxy::Upstream;

/// Why a command has no reply.
#[derive(Debug)]
pub(super) struct CallFailure {
    /// Whether the command was sent; if not, connecting or logging in failed.
    pub(super) sent: bool,
    pub(super) cause: Cause,
}

/// What went wrong.
#[derive(Debug)]
pub(super) enum Cause {
    /// No connection could be made.
    Connect(io::Error),
    /// No connection with TLS on it could be made.
    Tls(io::Error),
    /// The connection broke, or what answers is not a Redis.
    RespWire(WireError),
    /// No answer in time.
    Silent(Duration),
    /// The server answered this command with an error.
    Refused { command: String, error: ServerError },
}

impl CallFailure {
    /// The same for callers; `login` has the password that must not be shown.
    pub(super) fn into_call_error(self, login: &Login) -> CallError {
        let why = match self.cause {
            Cause::Refused { error, .. } => {
                let message = login.redact(&error.message).into();
                return CallError::Refused(ServerError { code: error.code, message });
            }
            Cause::Connect(error) | Cause::Tls(error) => error.to_string(),
            Cause::RespWire(error) => login.redact(&error.to_string()),
            Cause::Silent(within) => format!("no answer within {within:?}"),
        };
        if self.sent {
            CallError::Indeterminate(why.into())
        } else {
            CallError::NotSent(why.into())
        }
    }
}

/// The control connection. It is made when first needed, and again after it has broken.
pub(super) struct ControlConnection {
    pub(super) upstream: Upstream,
    pub(super) login: Login,
    answer_within: Duration,
    state: Mutex<ControlState>,
}

#[derive(Default)]
struct ControlState {
    wire: Option<RespWire>,
    /// How often each command was sent, by lower-case name.
    sent: BTreeMap<String, u64>,
}

impl ControlState {
    fn count(&mut self, command: &Command) {
        let name = String::from_utf8_lossy(command.name()).to_ascii_lowercase();
        *self.sent.entry(name).or_default() += 1;
    }
}

impl ControlConnection {
    pub(super) fn new(upstream: Upstream, login: Login, answer_within: Duration) -> Self {
        Self { upstream, login, answer_within, state: Mutex::default() }
    }

    pub(super) async fn sent(&self) -> BTreeMap<String, u64> {
        self.state.lock().await.sent.clone()
    }

    /// Sends a command and waits for its reply.
    pub(super) async fn call(&self, command: &Command) -> Result<Reply, CallFailure> {
        let mut state = self.state.lock().await;
        let wire = match state.wire.take() {
            Some(wire) => wire,
            None => {
                let made = self.open(&mut state).await;
                made.map_err(|cause| {
                    // One that has not logged in must not be used as if it had.
                    state.wire = None;
                    CallFailure { sent: false, cause }
                })?
            }
        };
        self.ask(&mut state, wire, command).await.map_err(|cause| CallFailure { sent: true, cause })
    }

    /// Sends commands in one go on a connection of their own, which is closed afterwards, because they may change
    /// its protocol. Gives the raw reply to each, without the password; fewer if something goes wrong.
    pub(super) async fn pipeline(&self, commands: &[Command]) -> Vec<Vec<u8>> {
        let mut state = self.state.lock().await;
        let kept = state.wire.take();
        let opened = self.open(&mut state).await;
        state.wire = kept;
        let Ok(mut wire) = opened else { return Vec::new() };
        commands.iter().for_each(|command| state.count(command));
        let mut frames = Vec::new();
        // The replies that came in time count.
        let _ = self.bounded(wire.pipeline(commands, &mut frames)).await;
        let redacted = |frame: Vec<u8>| match frame.first() {
            Some(b'-') => self.login.redact(&String::from_utf8_lossy(&frame)).into_bytes(),
            _ => frame,
        };
        frames.into_iter().map(redacted).collect()
    }

    /// Connects and logs in: PING, AUTH where there is a password, SELECT where the
    /// database is not 0.
    async fn open(&self, state: &mut ControlState) -> Result<RespWire, Cause> {
        let connecting = RespWire::connect(&self.upstream);
        let wire = self.bounded(connecting).await?.map_err(match self.upstream {
            Upstream::Tcp(_) => Cause::Connect,
            Upstream::Tls { .. } => Cause::Tls,
        })?;
        let has_password = self.login.password.is_some();
        match self.ask(state, wire, &Command::new("PING")).await {
            Ok(_) => {}
            // It is a Redis that requires a login.
            Err(Cause::Refused { error, .. })
                if has_password && matches!(&*error.code, "NOAUTH" | "NOPERM") => {}
            Err(cause) => return Err(cause),
        }
        if let Some(password) = &self.login.password {
            let auth = Command::new("AUTH");
            let auth = match &self.login.user {
                Some(user) => auth.arg(user).arg(password),
                None => auth.arg(password),
            };
            self.ask_again(state, &auth).await?;
        }
        if let Ok(database @ 1..) = u64::try_from(self.login.database) {
            self.ask_again(state, &Command::new("SELECT").int(database)).await?;
        }
        state.wire.take().ok_or(Cause::RespWire(WireError::Closed))
    }

    /// Sends a further command on the connection that has just been used.
    async fn ask_again(&self, state: &mut ControlState, command: &Command) -> Result<Reply, Cause> {
        let wire = state.wire.take().ok_or(Cause::RespWire(WireError::Closed))?;
        self.ask(state, wire, command).await
    }

    /// Sends a command on `wire`, which is kept only if an answer comes. So a future that is dropped in
    /// between leaves no connection behind whose next reply would belong to an earlier command.
    async fn ask(
        &self,
        state: &mut ControlState,
        mut wire: RespWire,
        command: &Command,
    ) -> Result<Reply, Cause> {
        state.count(command);
        let answer = self.bounded(wire.call(command)).await?.map_err(Cause::RespWire)?;
        state.wire = Some(wire);
        answer.map_err(|error| {
            let command = String::from_utf8_lossy(command.name()).into_owned();
            Cause::Refused { command, error }
        })
    }

    async fn bounded<T>(&self, work: impl Future<Output = T>) -> Result<T, Cause> {
        let within = self.answer_within;
        tokio::time::timeout(within, work).await.map_err(|_| Cause::Silent(within))
    }
}
