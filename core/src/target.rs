//! What a lock locks: a key on a node, and the commands on it that any holder sends.
//!
//! Invariant: every call ends within the call timeout, and no command here touches a key that holds
//! another acquisition's token.

use std::fmt::{self, Write};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::command::Decimal;
use crate::counters::Counters;
use crate::env::{CallError, Conn, Env, Node};
use crate::lock::NotAcquired;
use crate::lock_conn::{ConnEpoch, LockConn};
use crate::native::Native;
use crate::options::{Counter, Options, OptionsError, check_key_len};
use crate::queue_scripts::LEAVE;
use crate::reply::Reply;
use crate::script::Script;
use crate::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND, DELETE_AND_TELL};
use crate::slot_keys::{check_slot_key, slot_key};
use crate::time::{Instant, span_ms};
use crate::timeout::within;
use crate::token::OwnerToken;
use crate::validity::valid_after;
use crate::wait_queue::WaitQueue;

/// A key on a node, and how it is held. It displays as its key, for logs.
pub(crate) struct LockTarget<E: Env> {
    pub(crate) env: E,
    pub(crate) node: Node,
    pub(crate) key: Box<[u8]>,
    pub(crate) options: Options,
    pub(crate) waiting: WaitMode,
    /// The key that counts fencing tokens, if holds have them.
    pub(crate) fence_counter: Option<Box<[u8]>>,
    /// The server's compare-and-set commands, if they are used in place of scripts.
    native: Option<Arc<Native>>,
    /// Count what it and the locks that share them have done, and their tasks that are running in the background.
    pub(crate) counters: Counters,
    /// Whether the key has been seen to hold a string, as a lock's does, and never since to be without a TTL. It only saves
    /// a GET, so it needs neither a mutex nor a memory ordering.
    pub(crate) is_string: AtomicBool,
}

/// How clients wait for the key, which decides how it is released.
pub(crate) enum WaitMode {
    /// They poll; a release deletes the key.
    Poll,
    /// They sleep; a release deletes the key and publishes that on this channel.
    Notify(Box<[u8]>),
    /// They queue; a release hands the key to the first of them.
    Queue(WaitQueue),
}

/// What locks of one kind on one service may share.
#[derive(Clone, Default)]
pub(crate) struct LockContext {
    pub(crate) counters: Counters,
    /// What is known of the server's compare-and-set commands; none for a lock that does not share that.
    pub(crate) native: Option<Arc<Native>>,
}

/// The owner of the token that a command found under the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOwner {
    /// The caller: the command has done its work.
    Own,
    /// There was no token; or a native command has compared, which only tells that it is not the caller's.
    Missing,
    /// Another's.
    Other,
    /// The caller was in the wait queue, and has left it. A holder whose server has forgotten the grant is there again.
    Waiting {
        /// Whether the key was another's, or missing.
        taken: bool,
    },
}

impl<E: Env> LockTarget<E> {
    /// A lock with these options, and with the further keys that they need.
    ///
    /// # Errors
    /// [`OptionsError`] where the key is empty or too long, or the fence counter is in another slot.
    pub(crate) fn new(
        env: E,
        node: Node,
        key: Box<[u8]>,
        waiting: WaitMode,
        options: Options,
        context: LockContext,
    ) -> Result<Self, OptionsError> {
        check_key_len(key.len())?;
        let fence_counter = match options.counter() {
            None => None,
            Some(Counter::Beside) => Some(slot_key(&key, "fence")?),
            Some(Counter::At(counter)) => {
                check_slot_key(&key, counter)?;
                Some(counter.clone())
            }
        };
        let LockContext { counters, native } = context;
        let native = options.is_native().then(|| native.unwrap_or_default());
        Ok(Self {
            env,
            node,
            key,
            options,
            waiting,
            fence_counter,
            native,
            counters,
            is_string: AtomicBool::new(false),
        })
    }

    /// Runs `work` as a counted background task; `what` names it in the log.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.counters.spawn(&self.env, Arc::clone(self), what, work);
    }

    /// The end of validity of a request sent at `sent`.
    pub(crate) fn valid_until(&self, sent: Instant) -> Instant {
        self.valid_after(sent, Duration::ZERO)
    }

    /// The end of validity of a grant that counts from `from`, `waited` after its request was sent.
    pub(crate) fn valid_after(&self, from: Instant, waited: Duration) -> Instant {
        valid_after(from, waited, self.options.ttl(), self.options.drift())
    }

    /// Waits for `call`, at most the call timeout. Only for commands that may have been sent: a
    /// timeout leaves the outcome unknown.
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

    /// How long a connection may be silent before a call without an answer abandons it. Less than
    /// the call timeout, which starts before the command is handed to the connection.
    pub(crate) fn silence_limit(&self) -> Duration {
        self.options.call_timeout() / 2
    }

    /// A connection to the node, within the call timeout. Every error is *not sent* or *refused*: the
    /// command that needed the connection has not left.
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
        lock_conn: &LockConn<E::Conn>,
        token: &OwnerToken,
    ) -> Result<KeyOwner, CallError> {
        let (key, token) = (&self.key[..], token.as_bytes());
        let answer = match &self.waiting {
            WaitMode::Queue(queue) => self.run(lock_conn, &LEAVE, &queue.keys(key), &[token]).await,
            WaitMode::Notify(channel) => {
                self.run(lock_conn, &DELETE_AND_TELL, &[key], &[token, channel]).await
            }
            WaitMode::Poll => {
                let (epoch, conn) = self.conn(lock_conn).await?;
                self.answer_or_abandon(lock_conn, epoch, &conn, self.delete(&conn, token)).await
            }
        };
        answer.and_then(key_owner)
    }

    /// Whether a release with this error may have given the key up. A script that publishes gives it up before that, and
    /// publishing may not be permitted.
    pub(crate) fn may_have_given_up(&self, error: &CallError) -> bool {
        let publishes = !matches!(self.waiting, WaitMode::Poll);
        error.is_indeterminate() || (publishes && !NotAcquired::from(error.clone()).may_pass())
    }

    /// Sets the key's expiry to a whole TTL from now if it holds `token`. What was not sent, as the server had closed the
    /// connection, is sent on a new one, which takes no longer in all: one call timeout to connect, and one for the answer.
    pub(crate) async fn compare_and_extend(
        &self,
        lock_conn: &LockConn<E::Conn>,
        token: &OwnerToken,
    ) -> Result<KeyOwner, CallError> {
        let (began, was_connected) = (self.env.now(), lock_conn.usable().is_some());
        let extended = self.extend_once(lock_conn, token).await;
        if !was_connected || !matches!(extended, Err(CallError::NotSent(_))) {
            return extended;
        }
        let span = self.options.call_timeout().saturating_mul(2);
        let left = span.saturating_sub(self.env.now().since(began));
        // Boxed: this is rare, and otherwise the future of every renewal would have room for two.
        let mut again = Box::pin(self.extend_once(lock_conn, token));
        let silent = || CallError::Indeterminate(format!("no answer within {span:?}").into());
        within(&self.env, left, again.as_mut()).await.unwrap_or_else(|| Err(silent()))
    }

    async fn extend_once(
        &self,
        lock_conn: &LockConn<E::Conn>,
        token: &OwnerToken,
    ) -> Result<KeyOwner, CallError> {
        let (epoch, conn) = self.conn(lock_conn).await?;
        let extended = self.extend(&conn, token.as_bytes());
        self.answer_or_abandon(lock_conn, epoch, &conn, extended).await.and_then(key_owner)
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
        lock_conn: &LockConn<E::Conn>,
        script: &Script,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Reply, CallError> {
        let (epoch, conn) = self.conn(lock_conn).await?;
        self.answer_or_abandon(lock_conn, epoch, &conn, script.run_on(&conn, keys, args)).await
    }

    /// The connection of an acquisition, made again if it has broken.
    async fn conn(&self, lock_conn: &LockConn<E::Conn>) -> Result<(ConnEpoch, E::Conn), CallError> {
        match lock_conn.usable() {
            Some(usable) => Ok(usable),
            None => Ok(lock_conn.replace(self.connect().await?)),
        }
    }

    /// Waits for a call, at most the call timeout; one without an answer abandons its connection.
    async fn answer_or_abandon(
        &self,
        lock_conn: &LockConn<E::Conn>,
        epoch: ConnEpoch,
        conn: &E::Conn,
        call: impl Future<Output = Result<Reply, CallError>>,
    ) -> Result<Reply, CallError> {
        let answer = self.answer(pin!(call)).await;
        match &answer {
            // The server is a replica now, or cut off from its own. The hold may live on at the new primary.
            Err(error) if error.has_code("READONLY") || error.has_code("NOREPLICAS") => {
                lock_conn.broke(epoch);
            }
            Ok(_) | Err(CallError::Refused(_)) => {}
            Err(_) => {
                conn.gave_up(self.silence_limit());
                lock_conn.broke(epoch);
            }
        }
        answer
    }
}

/// The key as text: invalid UTF-8 is replaced, and control characters are escaped.
impl<E: Env> fmt::Display for LockTarget<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.key.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter.is_control() {
                    true => write!(f, "{}", letter.escape_default())?,
                    false => f.write_char(letter)?,
                }
            }
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

fn key_owner(reply: Reply) -> Result<KeyOwner, CallError> {
    match reply {
        Reply::Int(1) => Ok(KeyOwner::Own),
        Reply::Int(code @ (2 | 3)) => Ok(KeyOwner::Waiting { taken: code == 2 }),
        Reply::Int(0) => Ok(KeyOwner::Missing),
        Reply::Int(-1) => Ok(KeyOwner::Other),
        other => Err(CallError::unexpected(&other)),
    }
}
