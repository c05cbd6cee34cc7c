//! A lock on one Redis server: `SET key token NX PX ttl`, released by compare-and-delete.
//!
//! Invariant: an acquisition ends in a guard, in *surely not*, or in a clean-up that removes what it
//! may have left, also when its future is dropped half-way. Deliberately absent: anything against a
//! failover or a power loss of that server, which may forget a lock it has granted.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::cleanup::Cleanup;
use crate::command::Command;
use crate::env::{CallError, Conn, Env, Mark, Node, Phase};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::lease::Lease;
use crate::link::Link;
use crate::lock::NotAcquired;
use crate::options::{Options, OptionsError, check_key_len};
use crate::reply::Reply;
use crate::target::{Target, unexpected};
use crate::time::{Instant, span_ms};
use crate::timeout::{First, race};
use crate::token::OwnerToken;
use crate::validity::is_valid;
use crate::wait::Poll;

/// A lock on one key of one server. Cloning gives another handle to the same lock.
pub struct Single<E: Env> {
    target: Arc<Target<E>>,
}

impl<E: Env> Single<E> {
    /// The lock of this key on this node. Nothing is sent yet.
    ///
    /// # Errors
    /// [`OptionsError::KeyEmpty`] and [`OptionsError::KeyTooLong`].
    pub fn new(
        env: E,
        node: Node,
        key: impl Into<Box<[u8]>>,
        options: Options,
    ) -> Result<Self, OptionsError> {
        let key = key.into();
        check_key_len(key.len())?;
        Ok(Self { target: Arc::new(Target { env, node, key, options }) })
    }

    /// Tries once. Takes at most one call timeout for a connection and one for the answer.
    ///
    /// Dropping the future in mid-call counts as an unknown outcome: what it may have taken is
    /// released in the background.
    ///
    /// # Errors
    /// See [`NotAcquired`]; never [`NotAcquired::Deadline`].
    pub async fn try_acquire(&self) -> Result<Guard<E>, NotAcquired> {
        self.attempt().await.map_err(|failed| failed.error)
    }

    /// Tries until `deadline` has passed or the retries of `poll` are used up, pausing in between.
    /// An attempt under way at the deadline is let finish, for cutting it off would turn a likely
    /// answer into an unknown one; it is bounded by the call timeout.
    ///
    /// Every attempt has an owner token of its own, so that no late command of one attempt can touch
    /// what the next one holds. After an attempt of unknown outcome, the next begins when its
    /// clean-up has had an answer: before that the caller might only find its own orphan.
    ///
    /// # Errors
    /// [`NotAcquired::Deadline`] with the end of the last attempt; that end itself where the retries
    /// are used up; a refusal that time does not change (a wrong password) at once.
    pub async fn acquire(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        let end = self.target.env.now().after(deadline);
        let mut retries = poll.max_retries;
        let mut open = None;
        loop {
            let failed = match self.attempt().await {
                Ok(guard) => return Ok(guard),
                Err(failed) => failed,
            };
            if let (Some(cleanup), NotAcquired::Unknown(error)) = (&failed.cleanup, &failed.error) {
                open = Some((Arc::clone(cleanup), error.clone()));
            }
            if !failed.error.may_pass() || retries == Some(0) {
                return Err(whole_truth(failed.error, open));
            }
            retries = retries.map(|retries| retries - 1);
            if !self.wait(failed.cleanup, end, poll).await {
                return Err(NotAcquired::Deadline {
                    last: Box::new(whole_truth(failed.error, open)),
                });
            }
        }
    }

    /// Waits for the next attempt; false where there is no time for one.
    async fn wait(&self, cleanup: Option<Arc<Cleanup>>, end: Instant, poll: Poll) -> bool {
        let env = &self.target.env;
        let left = end.since(env.now());
        if left.is_zero() {
            return false;
        }
        env.mark(Mark::Phase(Phase::Wait));
        if let Some(cleanup) = cleanup
            && let First::Right(()) = race(pin!(cleanup.answered()), pin!(env.sleep(left))).await
        {
            return false;
        }
        // Where the pause would outlast the deadline, the last attempt is made at the deadline.
        let left = end.since(env.now());
        env.sleep(poll.pause(env.random()).min(left)).await;
        true
    }

    async fn attempt(&self) -> Result<Guard<E>, Failed> {
        let target = &self.target;
        let env = &target.env;
        let conn = target.connect().await.map_err(Failed::surely)?;
        let token = OwnerToken::draw(env);
        env.mark(Mark::Phase(Phase::AcquireBeforeSend));
        let sent = env.now();
        let flight = Flight { target, conn: &conn, token: &token, sent, landed: false };
        let answer = target.answer(pin!(conn.call(self.command(&token)))).await;
        match answer {
            Ok(Reply::Ok) => {}
            Ok(Reply::Nil) => return Err(flight.missed(NotAcquired::Held)),
            Ok(other) => return Err(flight.astray(unexpected(&other).into())),
            Err(error) if error.is_indeterminate() => return Err(flight.astray(error.into())),
            Err(error) => return Err(flight.missed(error.into())),
        }
        env.mark(Mark::Phase(Phase::AcquireApplied));
        let valid_until = target.valid_until(sent);
        if !is_valid(env.now(), valid_until) {
            return Err(flight.astray(NotAcquired::TooLate));
        }
        flight.land();
        tracing::debug!(key = %target.key_text(), "lock acquired");
        let (hold, link) = (Hold::new(valid_until), Link::on(conn));
        Ok(Guard::new(Lease { target: Arc::clone(target), token, sent, hold, link }))
    }

    fn command(&self, token: &OwnerToken) -> Command {
        Command::new("SET")
            .arg(&self.target.key)
            .arg(token)
            .arg("NX")
            .arg("PX")
            .int(span_ms(self.target.options.ttl()))
    }
}

/// The end of an attempt, or the unknown end of an earlier one that is still being looked after.
fn whole_truth(error: NotAcquired, open: Option<(Arc<Cleanup>, CallError)>) -> NotAcquired {
    match open {
        Some((cleanup, unknown)) if !cleanup.is_settled() => NotAcquired::Unknown(unknown),
        _ => error,
    }
}

/// An attempt that gave no guard, and the clean-up it has left running.
struct Failed {
    error: NotAcquired,
    cleanup: Option<Arc<Cleanup>>,
}

impl Failed {
    fn surely(error: impl Into<NotAcquired>) -> Self {
        Self { error: error.into(), cleanup: None }
    }
}

/// An acquisition that has been sent. Dropped before it has landed, as it is with its future, its
/// outcome is unknown and a clean-up goes after it.
struct Flight<'a, E: Env> {
    target: &'a Arc<Target<E>>,
    conn: &'a E::Conn,
    token: &'a OwnerToken,
    sent: Instant,
    landed: bool,
}

impl<E: Env> Flight<'_, E> {
    /// Its outcome is known and leaves nothing behind.
    fn land(mut self) {
        self.landed = true;
    }

    /// It surely has not taken the lock.
    fn missed(self, error: NotAcquired) -> Failed {
        tracing::debug!(key = %self.target.key_text(), %error, "lock not acquired");
        self.land();
        Failed::surely(error)
    }

    /// It may have taken the lock, but the caller does not have it.
    fn astray(mut self, error: NotAcquired) -> Failed {
        tracing::warn!(key = %self.target.key_text(), %error, "lock not acquired; cleaning up");
        self.landed = true;
        Failed { error, cleanup: Some(self.clean_up()) }
    }

    fn clean_up(&self) -> Arc<Cleanup> {
        Cleanup::start(self.target, self.conn, self.token, self.sent)
    }
}

impl<E: Env> Drop for Flight<'_, E> {
    fn drop(&mut self) {
        if !self.landed {
            tracing::debug!(key = %self.target.key_text(), "acquisition dropped in mid-call; cleaning up");
            // The task goes on by itself; nobody is left to wait for it.
            let _cleanup = self.clean_up();
        }
    }
}

impl<E: Env> Clone for Single<E> {
    fn clone(&self) -> Self {
        Self { target: Arc::clone(&self.target) }
    }
}

impl<E: Env> fmt::Debug for Single<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single")
            .field("node", &self.target.node)
            .field("key", &format_args!("{}", self.target.key_text()))
            .field("options", &self.target.options)
            .finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
