//! Slots for concurrent connections of the control API.
//!
//! Invariant: the number is bounded and nobody waits: a new connection replaces the one idle for longest, so slow or
//! silent clients block no one.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Connections at a time.
const MOST: usize = 64;

/// The connections there are.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlots(Mutex<SlotTable>);

#[derive(Debug, Default)]
struct SlotTable {
    /// Counts connections and requests: what is later is higher.
    turns: u64,
    by_first_turn: BTreeMap<u64, SlotEntry>,
}

#[derive(Debug)]
struct SlotEntry {
    /// When it was last heard of.
    last: u64,
    /// Nothing while it is about to begin.
    serving: Option<AbortHandle>,
}

/// The place of a connection. Dropped, it is free.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    first: u64,
}

impl ConnectionSlots {
    /// Serves a connection on a task of its own. Others make room for it.
    pub(super) fn serve<F>(self: &Arc<Self>, connection: impl FnOnce(ConnectionSlot) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let slot = self.take();
        let first = slot.first;
        let serving = tokio::spawn(connection(slot)).abort_handle();
        // It may have ended already.
        if let Some(connection) = self.taken().by_first_turn.get_mut(&first) {
            connection.serving = Some(serving);
        }
    }

    fn take(self: &Arc<Self>) -> ConnectionSlot {
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
        taken.by_first_turn.insert(first, SlotEntry { last: first, serving: None });
        ConnectionSlot { slots: Arc::clone(self), first }
    }

    fn taken(&self) -> MutexGuard<'_, SlotTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    fn turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }
}

impl ConnectionSlot {
    /// Notes that a request has come.
    pub(super) fn heard(&self) {
        let mut taken = self.slots.taken();
        let turn = taken.turn();
        if let Some(connection) = taken.by_first_turn.get_mut(&self.first) {
            connection.last = turn;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.taken().by_first_turn.remove(&self.first);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn the_one_that_was_not_heard_of_for_longest_makes_room() {
        let slots = Arc::new(ConnectionSlots::default());
        let (sender, mut places_of) = mpsc::unbounded_channel();
        let (ends, mut ended) = mpsc::unbounded_channel();
        struct EndNotice(usize, mpsc::UnboundedSender<usize>);
        impl Drop for EndNotice {
            fn drop(&mut self) {
                let _ = self.1.send(self.0);
            }
        }
        let open = |number| {
            let (sender, told) = (sender.clone(), EndNotice(number, ends.clone()));
            slots.serve(|slot| async move {
                let _told = told;
                let _ = sender.send(slot);
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
        assert!(slots.taken().by_first_turn.len() <= 2, "a slot that is left is free");
    }
}
