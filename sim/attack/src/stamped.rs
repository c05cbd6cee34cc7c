//! Keys that outlive a hold and whose values say when it ends (the promise `stamps`).
//!
//! Invariant: such a key counts as living for a TTL from when it was written. A later write overwrites nothing, and an
//! earlier one of the same client renews the key.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use history::Touch;
use picklock::time::span_ns;
use redis_model::witness::InsideChange;

use crate::transcript::TracedCommand;

/// A key outlives a hold if it lives longer by more than this part of it.
const OUTLIVES: u64 = 4;

/// Has the lock's key live for `life` from each write.
pub(crate) fn apply(sent: &mut [TracedCommand], key: &[u8], life: Duration) {
    let mut commands: Vec<&mut TracedCommand> =
        sent.iter_mut().filter(|it| it.seen.is_some()).collect();
    commands.sort_by_key(|it| it.seen.as_ref().map(|seen| seen.at));
    let ttl_ns = span_ns(life);
    // What expires much later than a hold ends has its expiry to be cleared away by.
    let outlives = |ns: Option<u64>| ns.is_none_or(|ns| ns > ttl_ns + ttl_ns / OUTLIVES);
    // By server: the holder, and until when it holds the key.
    let mut holds: BTreeMap<u16, (u32, Instant)> = BTreeMap::new();
    for command in commands {
        let (node, client) = (command.node, command.client);
        let Some(seen) = &mut command.seen else { continue };
        let at = seen.at;
        for change in seen.changes.iter_mut().filter(|it| it.key == key) {
            let last = holds.get(&node).map(|it| it.0);
            let hold = last.filter(|_| holds.get(&node).is_some_and(|it| it.1 > at));
            match change.touch {
                Touch::Create(ns) | Touch::Overwrite(ns) if outlives(ns) => {
                    change.touch = match hold {
                        None => Touch::Create(Some(ttl_ns)),
                        Some(holder) if holder == client => Touch::Extend(ttl_ns),
                        Some(_) => Touch::Overwrite(Some(ttl_ns)),
                    };
                    holds.insert(node, (client, at + life));
                }
                Touch::Extend(ns) if last == Some(client) && outlives(Some(ns)) => {
                    change.touch = match hold {
                        None => Touch::None,
                        Some(_) => Touch::Extend(ttl_ns),
                    };
                    if hold.is_some() {
                        holds.insert(node, (client, at + life));
                    }
                }
                // Its client writes into its value, such as the time of a heartbeat.
                Touch::None
                    if last == Some(client)
                        && matches!(change.inside, InsideChange::Fields { .. }) =>
                {
                    change.touch = match hold {
                        None => Touch::Create(Some(ttl_ns)),
                        Some(_) => Touch::Extend(ttl_ns),
                    };
                    holds.insert(node, (client, at + life));
                }
                Touch::Delete => {
                    // The hold was over, so nothing was left to delete.
                    if hold.is_none() {
                        change.touch = Touch::None;
                    }
                    holds.remove(&node);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use redis_model::witness::KeyChange;

    use super::*;
    use crate::clock::now;

    const MS: u64 = 1_000_000;

    /// What these touches of a key count as, each by a client at a millisecond. A hold lasts 100 ms.
    fn counted(touches: &[(u64, u32, Touch)]) -> Vec<Touch> {
        let start = now();
        let command = |(ms, client, touch): &(u64, u32, Touch)| {
            let at = start + Duration::from_millis(*ms);
            let change =
                KeyChange { db: 0, key: b"k".to_vec(), touch: *touch, inside: InsideChange::None };
            TracedCommand::carried_out(*client, at, "SET", vec![change])
        };
        let mut sent: Vec<TracedCommand> = touches.iter().map(command).collect();
        apply(&mut sent, b"k", Duration::from_millis(100));
        sent.iter().map(|it| it.seen.as_ref().unwrap().changes[0].touch).collect()
    }

    #[test]
    fn a_heartbeat_in_a_part_of_the_value_renews_ones_own_key() {
        let start = now();
        let beats = |ms, client, touch| {
            let inside = InsideChange::Fields { all: false };
            let change = KeyChange { db: 0, key: b"k".to_vec(), touch, inside };
            let at = start + Duration::from_millis(ms);
            TracedCommand::carried_out(client, at, "HSET", vec![change])
        };
        let mut sent = [
            beats(0, 1, Touch::Create(None)),
            beats(90, 1, Touch::None),
            beats(91, 2, Touch::None),
            beats(189, 1, Touch::None),
            beats(300, 1, Touch::None),
        ];
        apply(&mut sent, b"k", Duration::from_millis(100));
        let found = sent.map(|it| it.seen.unwrap().changes[0].touch);
        let (made, longer) = (Touch::Create(Some(100 * MS)), Touch::Extend(100 * MS));
        assert_eq!(found, [made, longer, Touch::None, longer, made]);
    }

    #[test]
    fn a_key_that_never_expires_lives_for_a_ttl() {
        let found = counted(&[
            (0, 1, Touch::Create(None)),
            (50, 1, Touch::Overwrite(None)),
            (149, 2, Touch::Overwrite(None)),
            (250, 1, Touch::Overwrite(None)),
            (300, 1, Touch::Delete),
            (400, 2, Touch::Create(None)),
            (501, 2, Touch::Delete),
        ]);
        let ttl = 100 * MS;
        let expected = [
            Touch::Create(Some(ttl)),
            Touch::Extend(ttl),
            Touch::Overwrite(Some(ttl)),
            Touch::Create(Some(ttl)),
            Touch::Delete,
            Touch::Create(Some(ttl)),
            Touch::None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_key_that_expires_only_later_lives_for_a_ttl() {
        let late = 300 * MS;
        let found = counted(&[
            (0, 1, Touch::Create(Some(late))),
            (90, 1, Touch::Extend(late)),
            (189, 2, Touch::Overwrite(Some(late))),
            (290, 1, Touch::Overwrite(Some(late))),
            (391, 1, Touch::Extend(late)),
            (392, 2, Touch::Create(Some(125 * MS))),
            (492, 2, Touch::Overwrite(Some(126 * MS))),
        ]);
        let ttl = 100 * MS;
        let expected = [
            Touch::Create(Some(ttl)),
            Touch::Extend(ttl),
            Touch::Overwrite(Some(ttl)),
            Touch::Create(Some(ttl)),
            Touch::None,
            Touch::Create(Some(125 * MS)),
            Touch::Create(Some(ttl)),
        ];
        assert_eq!(found, expected);
    }
}
