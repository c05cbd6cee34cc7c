//! The connections of the control API at a time.
//!
//! Invariant: there are never more than so many, and nobody waits for a place: the connection that has
//! shown no request for the longest ends for one that is new. So clients that are slow, or say nothing,
//! are in nobody's way.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Connections at a time.
const MOST: usize = 64;

/// The connections there are.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    /// Counts connections and requests: what is later is higher.
    turns: u64,
    by_first_turn: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    /// When it was last heard of.
    last: u64,
    /// Nothing while it is about to begin.
    serving: Option<AbortHandle>,
}

/// The place of a connection. Dropped, it is free.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    first: u64,
}

impl Places {
    /// Serves a connection on a task of its own. Others make room for it.
    pub(super) fn serve<F>(self: &Arc<Self>, connection: impl FnOnce(Place) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let place = self.take();
        let first = place.first;
        let serving = tokio::spawn(connection(place)).abort_handle();
        // It may have ended already.
        if let Some(connection) = self.taken().by_first_turn.get_mut(&first) {
            connection.serving = Some(serving);
        }
    }

    fn take(self: &Arc<Self>) -> Place {
        let mut taken = self.taken();
        while taken.by_first_turn.len() >= MOST {
            let longest = taken.by_first_turn.iter().min_by_key(|(_, it)| it.last);
            let Some(first) = longest.map(|(first, _)| *first) else { break };
            let ended = taken.by_first_turn.remove(&first);
            if let Some(serving) = ended.and_then(|it| it.serving) {
                serving.abort();
            }
        }
        let first = taken.turn();
        taken.by_first_turn.insert(first, Connection { last: first, serving: None });
        Place { places: Arc::clone(self), first }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }
}

impl Place {
    /// Notes that a request has come.
    pub(super) fn heard(&self) {
        let mut taken = self.places.taken();
        let turn = taken.turn();
        if let Some(connection) = taken.by_first_turn.get_mut(&self.first) {
            connection.last = turn;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().by_first_turn.remove(&self.first);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn the_one_that_was_not_heard_of_for_longest_makes_room() {
        let places = Arc::new(Places::default());
        let (sender, mut places_of) = mpsc::unbounded_channel();
        let (ends, mut ended) = mpsc::unbounded_channel();
        struct Told(usize, mpsc::UnboundedSender<usize>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.1.send(self.0);
            }
        }
        let open = |number| {
            let (sender, told) = (sender.clone(), Told(number, ends.clone()));
            places.serve(|place| async move {
                let _told = told;
                let _ = sender.send(place);
                std::future::pending::<()>().await;
            });
        };
        let mut held = Vec::new();
        for number in 0..MOST {
            open(number);
            held.push(places_of.recv().await.unwrap());
        }
        held[0].heard();
        assert!(ended.try_recv().is_err());
        for number in [MOST, MOST + 1] {
            open(number);
            assert_eq!(ended.recv().await, Some(number - MOST + 1));
        }
        drop(held);
        assert!(places.taken().by_first_turn.len() <= 2, "a place that is left is free");
    }
}
