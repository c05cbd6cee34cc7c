//! What a lock locks: a key on a node, and the commands on it that any holder sends.
//!
//! Invariant: every call ends within the call timeout, and no command here touches a key that holds
//! another's token.

use std::fmt;
use std::pin::{Pin, pin};
use std::time::Duration;

use crate::env::{CallError, Conn, Env, Node};
use crate::link::{Link, Turn};
use crate::options::Options;
use crate::reply::Reply;
use crate::script::Script;
use crate::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND};
use crate::time::{Instant, span_ms};
use crate::timeout::within;
use crate::token::OwnerToken;
use crate::validity::valid_until;

/// A key on a node, and how it is held.
pub(crate) struct Target<E: Env> {
    pub(crate) env: E,
    pub(crate) node: Node,
    pub(crate) key: Box<[u8]>,
    pub(crate) options: Options,
}

/// What a script found under the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The caller's token: the script has done its work.
    Own,
    /// Nothing.
    Missing,
    /// Another's token.
    Other,
}

impl<E: Env> Target<E> {
    /// The end of validity of a request sent then.
    pub(crate) fn valid_until(&self, sent: Instant) -> Instant {
        valid_until(sent, self.options.ttl(), self.options.drift())
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

    /// Deletes the key if it holds `token`. Idempotent.
    pub(crate) async fn compare_and_delete(
        &self,
        link: &Link<E::Conn>,
        token: &OwnerToken,
    ) -> (Turn, Result<Found, CallError>) {
        self.run(link, &COMPARE_AND_DELETE, &[token.as_bytes()]).await
    }

    /// Gives the key its whole TTL again if it holds `token`.
    pub(crate) async fn compare_and_extend(
        &self,
        link: &Link<E::Conn>,
        token: &OwnerToken,
    ) -> (Turn, Result<Found, CallError>) {
        let ttl = Decimal::new(span_ms(self.options.ttl()));
        self.run(link, &COMPARE_AND_EXTEND, &[token.as_bytes(), ttl.as_bytes()]).await
    }

    async fn run(
        &self,
        link: &Link<E::Conn>,
        script: &Script,
        args: &[&[u8]],
    ) -> (Turn, Result<Found, CallError>) {
        let (turn, conn) = match link.conn(self).await {
            Ok(current) => current,
            Err(error) => return (link.turn(), Err(error)),
        };
        let answer = self.answer(pin!(script.run(&conn, &self.key, args))).await.and_then(found);
        if answer.as_ref().is_err_and(|error| !matches!(error, CallError::Refused(_))) {
            conn.gave_up(self.patience());
            link.broke(turn);
        }
        (turn, answer)
    }

    /// The key as text, for logs.
    pub(crate) fn key_text(&self) -> impl fmt::Display + '_ {
        self.key.escape_ascii()
    }
}

fn found(reply: Reply) -> Result<Found, CallError> {
    match reply {
        Reply::Int(1) => Ok(Found::Own),
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
struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    fn new(value: u64) -> Self {
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

    fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}
