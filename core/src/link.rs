//! The connection of one acquisition, replaced when it has broken.
//!
//! Invariant: every answer comes with the [`Turn`] of the connection that gave it, and the first
//! turn is the connection on which the acquisition itself was sent. What is answered there was
//! carried out behind the acquisition; what a later turn answers may have overtaken it.
//! Deliberately absent: repeating a command, which only its caller can judge.

use crate::env::{CallError, Env};
use crate::sync::{Mutex, lock};
use crate::target::Target;

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
    current: Mutex<Current<C>>,
}

struct Current<C> {
    turn: u32,
    conn: Option<C>,
}

impl<C: Clone> Link<C> {
    /// A link whose first turn is the connection on which the acquisition was sent.
    pub(crate) fn on(conn: C) -> Self {
        Self { current: Mutex::new(Current { turn: 0, conn: Some(conn) }) }
    }

    /// A link that has no connection yet, to a node on which nothing was sent.
    pub(crate) fn unconnected() -> Self {
        Self { current: Mutex::new(Current { turn: 1, conn: None }) }
    }

    /// The turn a call would be made on now.
    pub(crate) fn turn(&self) -> Turn {
        Turn(lock(&self.current).turn)
    }

    /// The connection, made again if it has broken.
    pub(crate) async fn conn<E: Env<Conn = C>>(
        &self,
        target: &Target<E>,
    ) -> Result<(Turn, C), CallError> {
        if let Some(current) = self.usable() {
            return Ok(current);
        }
        let made = target.connect().await?;
        let mut current = lock(&self.current);
        // Two tasks may have connected at once; either connection serves both.
        let conn = current.conn.get_or_insert(made).clone();
        Ok((Turn(current.turn), conn))
    }

    /// Says that a call on this turn has had no answer. The next call asks the environment, which
    /// gives the same connection again or a better one; as it cannot say which, the new turn no
    /// longer counts as the first.
    pub(crate) fn broke(&self, turn: Turn) {
        let mut current = lock(&self.current);
        if current.turn == turn.0 {
            current.turn = current.turn.saturating_add(1);
            current.conn = None;
        }
    }

    fn usable(&self) -> Option<(Turn, C)> {
        let current = lock(&self.current);
        current.conn.clone().map(|conn| (Turn(current.turn), conn))
    }
}
