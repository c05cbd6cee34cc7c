//! Two servers that stand for one: during a split brain the holder of the lock stays with the old primary, and the others
//! are with the new one.
//!
//! Invariant: commands of one of the two have nothing to do with the key of the other.

use super::Exchange;
use crate::fault::Fault;
use crate::{Event, Head, Texts, Touch, What};

/// Marks the number of a server that has been replaced, and of the one that took its place.
const OLD: u16 = 1 << 14;
const NEW: u16 = 1 << 15;

/// The server by the number that clients know it by.
pub fn server(node: u16) -> u16 {
    node & !(OLD | NEW)
}

/// The new primary in the place of this one.
pub(crate) fn new_primary(node: u16) -> Option<u16> {
    (node & OLD != 0).then(|| server(node) | NEW)
}

/// What a server is called.
pub fn server_name(node: u16) -> String {
    match node {
        _ if node & OLD != 0 => "old primary".to_owned(),
        _ if node & NEW != 0 => "new primary".to_owned(),
        _ => format!("server {node}"),
    }
}

/// Tells apart the two servers of a split brain, by whose commands they are.
pub fn split_primaries(exchanges: &mut [Exchange], head: &Head, texts: &Texts, events: &[Event]) {
    let split = events.iter().find_map(|event| match event.what {
        What::Fault { fault: Fault::SplitBrain, node, for_ns, .. } => {
            Some((node?, event.at_ns, event.at_ns.saturating_add(for_ns)))
        }
        _ => None,
    });
    let Some((node, from_ns, until_ns)) = split else { return };
    let is_here = |it: &Exchange| it.node == node && it.is_of_lock(head, texts);
    let made = exchanges.iter().filter(|it| {
        let makes = matches!(it.touch(), Touch::Create(_) | Touch::Overwrite(_));
        is_here(it) && makes && it.is_certain() && it.done_ns <= from_ns
    });
    let Some(holder) = made.max_by_key(|it| it.done_ns).map(|it| it.client) else { return };
    for it in exchanges.iter_mut().filter(|it| is_here(it)) {
        let is_old = it.sent_ns < from_ns || it.client == holder && it.sent_ns < until_ns;
        it.node |= if is_old { OLD } else { NEW };
    }
}
