//! The connection of one acquisition, replaced when it has broken.
//!
//! Invariant: every call is made in one [`ConnEpoch`], that of its connection. Epoch 0 is the
//! connection on which the acquisition itself was sent, so what is answered there was carried out after
//! the acquisition; an answer of a later epoch may have overtaken it ([`LockConn::may_arrive`]). An
//! acquisition that is not yet sent when somebody asks whether it was ([`LockConn::was_sent`]) is never
//! sent. Nothing is repeated here: only the caller of a command can say whether that is safe.

use std::future::{Future, poll_fn};
use std::pin::pin;

use crate::command::Command;
use crate::env::{CallError, Conn};
use crate::reply::Reply;
use crate::time::Instant;
use crate::watch_cell::WatchCell;

/// Which of an acquisition's connections: the first, or one that replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnEpoch(u32);

impl ConnEpoch {
    /// True where an answer proves that the acquisition has been carried out or never will be.
    pub(crate) fn is_behind_acquire(self) -> bool {
        self.0 == 0
    }
}

/// A connection that is made again after it has broken.
pub(crate) struct LockConn<C> {
    state: WatchCell<LockConnState<C>>,
}

struct LockConnState<C> {
    epoch: ConnEpoch,
    conn: Option<C>,
    acquisition: SendState,
    /// Whether the acquisition has been answered.
    answered: bool,
}

/// Whether the acquisition has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    /// Not yet.
    Unsent,
    /// It is being handed to the connection: a command called now might overtake it.
    Sending,
    /// At this instant or later.
    Sent(Option<Instant>),
    /// It never will be.
    Withdrawn,
}

impl<C: Conn> LockConn<C> {
    fn new(epoch: u32, conn: Option<C>, acquisition: SendState) -> Self {
        let (epoch, answered) = (ConnEpoch(epoch), false);
        Self { state: WatchCell::new(LockConnState { epoch, conn, acquisition, answered }) }
    }

    /// For an acquisition that was sent on `conn`, which is epoch 0.
    pub(crate) fn on(conn: C) -> Self {
        Self::new(0, Some(conn), SendState::Sent(None))
    }

    /// For an acquisition that was sent on a connection which is not used again.
    pub(crate) fn unconnected() -> Self {
        Self::new(1, None, SendState::Sent(None))
    }

    /// For an acquisition that is still to be sent.
    pub(crate) fn unsent() -> Self {
        Self::new(1, None, SendState::Unsent)
    }

    /// Sends the acquisition on this connection, which becomes epoch 0.
    ///
    /// # Errors
    /// As [`Conn::call`]; [`CallError::NotSent`] where the acquisition has been withdrawn.
    pub(crate) async fn acquire(
        &self,
        conn: C,
        command: Command,
        sent: Instant,
    ) -> Result<Reply, CallError> {
        let sends = self.state.with(|state| {
            let sends = state.acquisition == SendState::Unsent;
            if sends {
                (state.epoch, state.conn) = (ConnEpoch(0), Some(conn.clone()));
                state.acquisition = SendState::Sending;
            }
            sends
        });
        if !sends {
            return Err(CallError::NotSent("given up before it was sent".into()));
        }
        let mut call = pin!(conn.call(command));
        let mut is_first_poll = true;
        let answer = poll_fn(|cx| {
            // Commands reach the server in the order of their first polls, so the acquisition counts as
            // sent only after its own: a release that saw it earlier could overtake it.
            let polled = call.as_mut().poll(cx);
            if std::mem::take(&mut is_first_poll) {
                self.state.change(|state| {
                    state.acquisition = SendState::Sent(Some(sent));
                    ((), true)
                });
            }
            polled
        })
        .await;
        if !answer.as_ref().is_err_and(CallError::is_indeterminate) {
            self.state.with(|state| state.answered = true);
        }
        answer
    }

    /// Whether the acquisition was sent, so that commands called from now on follow it. If not, it is
    /// withdrawn.
    pub(crate) async fn was_sent(&self) -> bool {
        let known = |state: &LockConnState<C>| match state.acquisition {
            SendState::Unsent | SendState::Withdrawn => Some(false),
            SendState::Sending => None,
            SendState::Sent(_) => Some(true),
        };
        self.withdraw();
        self.state.until(known).await
    }

    /// Whether the acquisition was sent. If not, it may still be.
    pub(crate) fn is_sent(&self) -> bool {
        self.state.with(|state| matches!(state.acquisition, SendState::Sent(_)))
    }

    /// Withdraws an acquisition that is not yet sent. For one that was: its connection, and when it was sent.
    pub(crate) fn withdraw(&self) -> Option<(C, Instant)> {
        self.state.with(|state| {
            if state.acquisition == SendState::Unsent {
                state.acquisition = SendState::Withdrawn;
            }
            match (state.acquisition, &state.conn) {
                (SendState::Sent(Some(sent)), Some(conn)) => Some((conn.clone(), sent)),
                _ => None,
            }
        })
    }

    /// When the acquisition was sent, if it may still be on its way: its connection has broken before it was answered.
    pub(crate) fn may_arrive(&self) -> Option<Instant> {
        self.state.with(|state| match state.acquisition {
            SendState::Sent(sent) if !state.answered && !state.epoch.is_behind_acquire() => sent,
            _ => None,
        })
    }

    /// The epoch a call would be made in now.
    pub(crate) fn epoch(&self) -> ConnEpoch {
        self.state.with(|state| state.epoch)
    }

    /// The connection, if it has not broken.
    pub(crate) fn usable(&self) -> Option<(ConnEpoch, C)> {
        self.state.with(|state| state.conn.clone().map(|conn| (state.epoch, conn)))
    }

    /// Puts `made` in the place of a connection that has broken; returns the connection to use.
    pub(crate) fn replace(&self, made: C) -> (ConnEpoch, C) {
        self.state.with(|state| {
            // Two tasks may have connected at once; either connection serves both.
            (state.epoch, state.conn.get_or_insert(made).clone())
        })
    }

    /// Notes that a call in this epoch had no answer. The next call asks the environment, which gives the
    /// same connection again or a new one; as it cannot say which, the new epoch is not 0 in either case.
    pub(crate) fn broke(&self, epoch: ConnEpoch) {
        self.state.with(|state| {
            if state.epoch == epoch {
                state.epoch.0 = state.epoch.0.saturating_add(1);
                state.conn = None;
            }
        });
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;
    use crate::env::{Env, Node};
    use crate::testing::{Fault, MS, TestEnv, World};

    fn set() -> Command {
        Command::new("SET").arg("k").arg("token").arg("NX").arg("PX").int(1_000)
    }

    fn conn(world: &World) -> <TestEnv as Env>::Conn {
        world.block_on(world.env().connect(Node(0))).unwrap()
    }

    #[test]
    fn an_acquisition_that_was_asked_about_is_withdrawn() {
        let world = World::new();
        let lock_conn = LockConn::unsent();
        assert!(!lock_conn.is_sent());
        assert!(!world.block_on(lock_conn.was_sent()));
        let conn = conn(&world);
        let answer = world.block_on(lock_conn.acquire(conn, set(), world.now()));
        assert!(matches!(answer, Err(CallError::NotSent(_))), "{answer:?}");
        assert_eq!((world.count("SET"), world.value("k")), (0, None));
        assert!(lock_conn.withdraw().is_none());
    }

    #[test]
    fn an_acquisition_that_was_sent_is_in_epoch_0() {
        let world = World::new();
        world.fault("SET", Fault::Delay { request: 5 * MS, reply: 5 * MS });
        let (lock_conn, conn, sent) = (LockConn::unsent(), conn(&world), world.now());
        let mut asking = Box::pin(lock_conn.acquire(conn, set(), sent));
        assert!(world.poll_and_drop(asking.as_mut()).is_none());
        assert!(lock_conn.is_sent() && world.block_on(lock_conn.was_sent()));
        assert!(lock_conn.epoch().is_behind_acquire());
        assert!(lock_conn.withdraw().is_some_and(|(_, at)| at == sent));
        assert_eq!(world.block_on(asking), Ok(Reply::Ok));
    }
}
