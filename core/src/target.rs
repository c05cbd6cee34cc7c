//! What a lock locks: a key on a node, and the commands on it that any holder sends.
//!
//! Invariant: every call ends within the call timeout, and no command here touches a key that holds
//! another's token.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use crate::background::Background;
use crate::companion::{check_companion, companion};
use crate::counters::Counters;
use crate::env::{CallError, Conn, Env, Node};
use crate::line::Line;
use crate::link::{Link, Turn};
use crate::native::Native;
use crate::observe::KeyText;
use crate::options::{Counter, Options, OptionsError, check_key_len};
use crate::queue_scripts::LEAVE;
use crate::reply::Reply;
use crate::script::Script;
use crate::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND, DELETE_AND_TELL};
use crate::sync::Mutex;
use crate::time::{Instant, span_ms};
use crate::timeout::within;
use crate::token::OwnerToken;
use crate::validity::valid_after;

/// A key on a node, and how it is held.
pub(crate) struct Target<E: Env> {
    pub(crate) env: E,
    pub(crate) node: Node,
    pub(crate) key: Box<[u8]>,
    pub(crate) options: Options,
    /// Where a release is told, if it is.
    pub(crate) channel: Option<Box<[u8]>>,
    /// Where fencing tokens are counted, if they are.
    pub(crate) counter: Option<Box<[u8]>>,
    /// Where those stand who wait, if the lock is handed over.
    pub(crate) line: Option<Line>,
    /// What commands the server has that do without scripts, if they are wanted.
    pub(crate) native: Option<Arc<Native>>,
    pub(crate) counters: Counters,
    /// What is under way behind guards and acquisitions that have gone.
    pub(crate) background: Background,
    /// Whether the key has been seen to be a text, as a lock's is.
    pub(crate) is_text: Mutex<bool>,
}

/// What locks of one kind on one service may share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) counters: Counters,
    pub(crate) background: Background,
    pub(crate) native: Arc<Native>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            counters: Counters::default(),
            background: Background::default(),
            native: Arc::new(Native::new()),
        }
    }
}

/// What a command found under the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The caller's token, or its place in line: the command has done its work.
    Own,
    /// Nothing; or, where no script was asked, nothing of the caller's.
    Missing,
    /// Another's token.
    Other,
}

impl<E: Env> Target<E> {
    /// What these options say, with the keys that they need.
    ///
    /// # Errors
    /// [`OptionsError`] where the key cannot be used so.
    pub(crate) fn new(
        env: E,
        node: Node,
        key: impl Into<Box<[u8]>>,
        options: Options,
        common: Common,
    ) -> Result<Self, OptionsError> {
        let key = key.into();
        check_key_len(key.len())?;
        let channel = options.notifies().then(|| [b"picklock:", &key[..]].concat().into());
        let counter = match options.counter() {
            None => None,
            Some(Counter::Beside) => Some(companion(&key, "fence")?),
            Some(Counter::At(counter)) => {
                check_companion(&key, counter)?;
                Some(counter.clone())
            }
        };
        let Common { counters, background, native } = common;
        let native = options.is_native().then_some(native);
        Ok(Self {
            env,
            node,
            key,
            options,
            channel,
            counter,
            line: None,
            native,
            counters,
            background,
            is_text: Mutex::new(false),
        })
    }

    /// The end of validity of a request sent then.
    pub(crate) fn valid_until(&self, sent: Instant) -> Instant {
        self.valid_after(sent, Duration::ZERO)
    }

    /// The end of validity of what was granted then, `waited` after our clock saw something.
    pub(crate) fn valid_after(&self, from: Instant, waited: Duration) -> Instant {
        valid_after(from, waited, self.options.ttl(), self.options.drift())
    }

    /// Waits for `call`, at most the call timeout. Only for what may have been sent: running out
    /// of time leaves the outcome unknown.
    pub(crate) async fn answer<T>(
        &self,
        call: Pin<&mut impl Future<Output = Result<T, CallError>>>,
    ) -> Result<T, CallError> {
        let span = self.options.call_timeout();
        match within(&self.env, span, call).await {
            Some(answer) => answer,
            None => Err(CallError::Indeterminate(format!("no answer within {span:?}").into())),
        }
    }

    /// How long a connection may be silent before a call that has had no answer gives it up. Less than
    /// the call timeout, which begins to count before the connection is asked.
    pub(crate) fn patience(&self) -> Duration {
        self.options.call_timeout() / 2
    }

    /// A connection to the node, within the call timeout. Whatever goes wrong, the command that
    /// needed it was not sent.
    pub(crate) async fn connect(&self) -> Result<E::Conn, CallError> {
        let span = self.options.call_timeout();
        match within(&self.env, span, pin!(self.env.connect(self.node))).await {
            Some(Err(CallError::Indeterminate(reason))) => Err(CallError::NotSent(reason)),
            Some(answer) => answer,
            None => Err(CallError::NotSent(format!("no connection within {span:?}").into())),
        }
    }

    /// Gives the key up if it holds `token`: deletes it, or hands it over. Idempotent.
    pub(crate) async fn give_up(
        &self,
        link: &Link<E::Conn>,
        token: &OwnerToken,
    ) -> (Turn, Result<Found, CallError>) {
        let (key, token) = (&self.key[..], token.as_bytes());
        let (turn, answer) = match (&self.line, &self.channel) {
            (Some(line), _) => self.run(link, &LEAVE, &line.keys(key), &[token]).await,
            (None, Some(channel)) => {
                self.run(link, &DELETE_AND_TELL, &[key], &[token, channel]).await
            }
            (None, None) => match self.conn(link).await {
                Ok((turn, conn)) => self.heard(link, turn, &conn, self.delete(&conn, token)).await,
                Err(silence) => silence,
            },
        };
        (turn, answer.and_then(found))
    }

    /// Gives the key its whole TTL again if it holds `token`.
    pub(crate) async fn compare_and_extend(
        &self,
        link: &Link<E::Conn>,
        token: &OwnerToken,
    ) -> (Turn, Result<Found, CallError>) {
        let (turn, answer) = match self.conn(link).await {
            Ok((turn, conn)) => {
                self.heard(link, turn, &conn, self.extend(&conn, token.as_bytes())).await
            }
            Err(silence) => silence,
        };
        (turn, answer.and_then(found))
    }

    async fn delete(&self, conn: &E::Conn, token: &[u8]) -> Result<Reply, CallError> {
        if let Some(native) = &self.native
            && let Some(answer) = native.delete(conn, &self.key, token).await
        {
            return answer;
        }
        COMPARE_AND_DELETE.run(conn, &self.key, &[token]).await
    }

    async fn extend(&self, conn: &E::Conn, token: &[u8]) -> Result<Reply, CallError> {
        let ttl_ms = span_ms(self.options.ttl());
        if let Some(native) = &self.native
            && let Some(answer) = native.extend(conn, &self.key, token, ttl_ms).await
        {
            return answer;
        }
        let ttl = Decimal::new(ttl_ms);
        COMPARE_AND_EXTEND.run(conn, &self.key, &[token, ttl.as_bytes()]).await
    }

    /// Runs a script, within the call timeout.
    pub(crate) async fn run(
        &self,
        link: &Link<E::Conn>,
        script: &Script,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> (Turn, Result<Reply, CallError>) {
        match self.conn(link).await {
            Ok((turn, conn)) => {
                self.heard(link, turn, &conn, script.run_on(&conn, keys, args)).await
            }
            Err(silence) => silence,
        }
    }

    /// The connection that a link has now.
    async fn conn<T>(
        &self,
        link: &Link<E::Conn>,
    ) -> Result<(Turn, E::Conn), (Turn, Result<T, CallError>)> {
        link.conn(self).await.map_err(|error| (link.turn(), Err(error)))
    }

    /// Waits for a call on this connection of a link, at most the call timeout; one that has had no
    /// answer gives the connection up.
    async fn heard(
        &self,
        link: &Link<E::Conn>,
        turn: Turn,
        conn: &E::Conn,
        call: impl Future<Output = Result<Reply, CallError>>,
    ) -> (Turn, Result<Reply, CallError>) {
        let answer = self.answer(pin!(call)).await;
        match &answer {
            // It has become a replica. The hold may live on with whoever is primary now.
            Err(error) if error.has_code("READONLY") => link.broke(turn),
            Ok(_) | Err(CallError::Refused(_)) => {}
            Err(_) => {
                conn.gave_up(self.patience());
                link.broke(turn);
            }
        }
        (turn, answer)
    }

    /// The key as text, for logs.
    pub(crate) fn key_text(&self) -> impl fmt::Display + '_ {
        KeyText(&self.key)
    }
}

fn found(reply: Reply) -> Result<Found, CallError> {
    match reply {
        // Who stood in line for it has left the line.
        Reply::Int(1 | 2) => Ok(Found::Own),
        Reply::Int(0) => Ok(Found::Missing),
        Reply::Int(-1) => Ok(Found::Other),
        other => Err(unexpected(&other)),
    }
}

/// A reply that the command does not have: something between us and Redis has changed it, and
/// nothing is known.
pub(crate) fn unexpected(reply: &Reply) -> CallError {
    CallError::Indeterminate(format!("unexpected reply {reply:?}").into())
}

/// A decimal integer without allocation.
pub(crate) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    pub(crate) fn new(value: u64) -> Self {
        let mut decimal = Self { digits: [b'0'; 20], start: 20 };
        let mut rest = value;
        loop {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b"0123456789"[(rest % 10) as usize];
            rest /= 10;
            if rest == 0 {
                return decimal;
            }
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}
