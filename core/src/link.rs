//! The connection of one acquisition, replaced when it has broken.
//!
//! Invariant: every answer comes with the [`Turn`] of the connection that gave it, and the first
//! turn is the connection on which the acquisition itself was sent. What is answered there was
//! carried out behind the acquisition; what a later turn answers may have overtaken it. An acquisition that
//! is still to be sent when somebody asks whether it was ([`Link::was_sent`]) never will be.
//! Deliberately absent: repeating a command, which only its caller can judge.

use std::future::{Future, poll_fn};
use std::pin::pin;

use crate::command::Command;
use crate::env::{CallError, Conn, Env};
use crate::reply::Reply;
use crate::target::Target;
use crate::time::Instant;
use crate::watched::Watched;

/// Which connection of a link: the first, or one that replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn(u32);

impl Turn {
    /// True where an answer proves that the acquisition has been carried out or never will be.
    pub(crate) fn is_behind_acquire(self) -> bool {
        self.0 == 0
    }
}

/// A connection that is made again after it has broken.
pub(crate) struct Link<C> {
    current: Watched<Current<C>>,
}

struct Current<C> {
    turn: u32,
    conn: Option<C>,
    acquisition: Acquisition,
}

/// How far the acquisition has come on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acquisition {
    /// It may still be sent.
    Ahead,
    /// It is being handed to the connection: what is called now might overtake it.
    Leaving,
    /// It was sent, then at the earliest.
    Sent(Option<Instant>),
    /// It surely never will be.
    Never,
}

impl<C: Conn> Link<C> {
    fn new(turn: u32, conn: Option<C>, acquisition: Acquisition) -> Self {
        Self { current: Watched::new(Current { turn, conn, acquisition }) }
    }

    /// A link whose first turn is the connection on which the acquisition was sent.
    pub(crate) fn on(conn: C) -> Self {
        Self::new(0, Some(conn), Acquisition::Sent(None))
    }

    /// A link that has no connection yet, to a node where the acquisition was sent on another.
    pub(crate) fn unconnected() -> Self {
        Self::new(1, None, Acquisition::Sent(None))
    }

    /// A link whose acquisition is still to be sent.
    pub(crate) fn ahead() -> Self {
        Self::new(1, None, Acquisition::Ahead)
    }

    /// Sends the acquisition on this connection, which becomes the first turn.
    ///
    /// # Errors
    /// As [`Conn::call`]; [`CallError::NotSent`] where somebody has asked already whether it was.
    pub(crate) async fn acquire(
        &self,
        conn: C,
        command: Command,
        sent: Instant,
    ) -> Result<Reply, CallError> {
        let leaves = self.current.with(|current| {
            let leaves = current.acquisition == Acquisition::Ahead;
            if leaves {
                (current.turn, current.conn) = (0, Some(conn.clone()));
                current.acquisition = Acquisition::Leaving;
            }
            leaves
        });
        if !leaves {
            return Err(CallError::NotSent("given up before it was sent".into()));
        }
        let mut call = pin!(conn.call(command));
        let mut leaving = true;
        poll_fn(|cx| {
            // Commands reach the server in the order of their first polls.
            let polled = call.as_mut().poll(cx);
            if std::mem::take(&mut leaving) {
                self.current.change(|current| {
                    current.acquisition = Acquisition::Sent(Some(sent));
                    ((), true)
                });
            }
            polled
        })
        .await
    }

    /// Whether the acquisition was sent, so that what is called from now on comes behind it. If not, it never
    /// will be.
    pub(crate) async fn was_sent(&self) -> bool {
        let looked = |current: &Current<C>| match current.acquisition {
            Acquisition::Ahead | Acquisition::Never => Some(false),
            Acquisition::Leaving => None,
            Acquisition::Sent(_) => Some(true),
        };
        self.withdraw();
        self.current.until(looked).await
    }

    /// Whether the acquisition was sent. If not, it may still be.
    pub(crate) fn is_sent(&self) -> bool {
        self.current.with(|current| matches!(current.acquisition, Acquisition::Sent(_)))
    }

    /// Sends the acquisition no more, unless it was sent: then it says on which connection, and when.
    pub(crate) fn withdraw(&self) -> Option<(C, Instant)> {
        self.current.with(|current| {
            if current.acquisition == Acquisition::Ahead {
                current.acquisition = Acquisition::Never;
            }
            match (current.acquisition, &current.conn) {
                (Acquisition::Sent(Some(sent)), Some(conn)) => Some((conn.clone(), sent)),
                _ => None,
            }
        })
    }

    /// The turn a call would be made on now.
    pub(crate) fn turn(&self) -> Turn {
        self.current.with(|current| Turn(current.turn))
    }

    /// The connection, made again if it has broken.
    pub(crate) async fn conn<E: Env<Conn = C>>(
        &self,
        target: &Target<E>,
    ) -> Result<(Turn, C), CallError> {
        let usable =
            |current: &mut Current<C>| current.conn.clone().map(|conn| (Turn(current.turn), conn));
        if let Some(current) = self.current.with(usable) {
            return Ok(current);
        }
        let made = target.connect().await?;
        Ok(self.current.with(|current| {
            // Two tasks may have connected at once; either connection serves both.
            let conn = current.conn.get_or_insert(made).clone();
            (Turn(current.turn), conn)
        }))
    }

    /// Says that a call on this turn has had no answer. The next call asks the environment, which
    /// gives the same connection again or a better one; as it cannot say which, the new turn no
    /// longer counts as the first.
    pub(crate) fn broke(&self, turn: Turn) {
        self.current.with(|current| {
            if current.turn == turn.0 {
                current.turn = current.turn.saturating_add(1);
                current.conn = None;
            }
        });
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;
    use crate::env::Node;
    use crate::testing::{Fault, MS, TestEnv, World};

    fn set() -> Command {
        Command::new("SET").arg("k").arg("token").arg("NX").arg("PX").int(1_000)
    }

    fn conn(world: &World) -> <TestEnv as Env>::Conn {
        world.block_on(world.env().connect(Node(0))).unwrap()
    }

    #[test]
    fn an_acquisition_that_somebody_has_asked_for_is_sent_no_more() {
        let world = World::new();
        let link = Link::ahead();
        assert!(!link.is_sent());
        assert!(!world.block_on(link.was_sent()));
        let conn = conn(&world);
        let answer = world.block_on(link.acquire(conn, set(), world.now()));
        assert!(matches!(answer, Err(CallError::NotSent(_))), "{answer:?}");
        assert_eq!((world.count("SET"), world.value("k")), (0, None));
        assert!(link.withdraw().is_none());
    }

    #[test]
    fn an_acquisition_that_has_left_is_on_the_first_turn() {
        let world = World::new();
        world.fault("SET", Fault::Delay { request: 5 * MS, reply: 5 * MS });
        let (link, conn, sent) = (Link::ahead(), conn(&world), world.now());
        let mut asking = Box::pin(link.acquire(conn, set(), sent));
        assert!(world.poll_and_drop(asking.as_mut()).is_none());
        assert!(link.is_sent() && world.block_on(link.was_sent()));
        assert!(link.turn().is_behind_acquire());
        assert!(link.withdraw().is_some_and(|(_, at)| at == sent));
        assert_eq!(world.block_on(asking), Ok(Reply::Ok));
    }
}
