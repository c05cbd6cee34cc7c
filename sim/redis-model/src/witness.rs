//! What commands do to keys, seen from within: what a key held before and what it holds now.
//!
//! Invariant: what is reported is what happened, whatever command did it, inside scripts and transactions too. An
//! expiry is not reported: it follows from the life that was reported last. A hash or set is overwritten if nothing of it
//! is left. Values alone do not tell a SET of the next number from an INCR, nor a SET of the same value from a PEXPIRE or
//! from nothing at all: the names of the key's events do.

use std::collections::BTreeMap;

use history::Touch;
use picklock::time::WallTime;
use resp::Blob;

use super::model::Model;
use super::server::notify::KeyspaceEvent;
use super::value::StoredValue;

/// The event of commands that write a field of a hash.
const SETS_FIELD: &str = "hset";
/// The event of INCR, DECR and similar commands.
const COUNTS: &str = "incrby";
/// Events of commands that write a whole value, whatever the key held before.
const WRITES: [&str; 4] = ["copy_to", "rename_to", "restore", "set"];
/// Events that leave the value as it was.
const LIVES: [&str; 2] = ["expire", "persist"];
/// Events of a key that is new, or that had expired before it was written.
const BEGINS: [&str; 2] = ["expired", "new"];
/// Events that remove entries of a collection. Redis deletes the key with its last entry.
const TAKES_OUT: [&str; 13] = [
    "hdel",
    "lpop",
    "lrem",
    "ltrim",
    "rpop",
    "spop",
    "srem",
    "zpopmax",
    "zpopmin",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
];

/// What a command has done to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The database.
    pub db: u16,
    /// The key.
    pub key: Vec<u8>,
    /// What was done to it as a whole.
    pub touch: Touch,
    /// What was done inside it.
    pub inside: InsideChange,
}

/// What a command has done inside a key that several clients may share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InsideChange {
    /// Nothing, or it wrote or deleted all of it.
    #[default]
    None,
    /// It wrote the value that the key held already. As a whole the key lives longer, or seems untouched: whether that
    /// renews a hold or overwrites one depends on who has the key.
    Rewritten,
    /// It wrote other values into fields that a hash had already.
    Fields {
        /// No value is what it was.
        all: bool,
    },
    /// It incremented or decremented a number.
    Counted {
        /// By how much; negative for a decrement.
        by: i64,
        /// What the number is now.
        now: i64,
    },
    /// Entries of a collection (fields, members, elements) came or went.
    Entries {
        /// Those that were not there before.
        added: Vec<Vec<u8>>,
        /// Those that are gone.
        removed: Vec<Vec<u8>>,
    },
}

/// Follows the keys of a model from command to command.
#[derive(Debug, Default)]
pub struct KeyWitness {
    known: BTreeMap<(u16, Blob), KnownKey>,
}

#[derive(Clone, Debug, PartialEq)]
struct KnownKey {
    value: StoredValue,
    expires_at_ms: Option<i64>,
}

impl KeyWitness {
    /// What has changed since the last look, by what was carried out at `now`.
    pub fn look(&mut self, model: &Model, now: WallTime) -> Vec<KeyChange> {
        let now_ms = i64::try_from(now.as_unix_ns() / 1_000_000).unwrap_or(i64::MAX);
        let lives = |key: &KnownKey| key.expires_at_ms.is_none_or(|at_ms| at_ms >= now_ms);
        let life = |key: &KnownKey| {
            key.expires_at_ms.map(|at_ms| {
                let left_ms = u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0);
                left_ms.saturating_mul(1_000_000)
            })
        };
        let events = model.take_key_events();
        let mut changes = Vec::new();
        let mut change = |(db, key): &(u16, Blob), touch, inside| {
            changes.push(KeyChange { db: *db, key: key.to_vec(), touch, inside });
        };
        let mut seen = 0;
        model.each_key(|db, key, value, expires_at_ms| {
            seen += 1;
            // Compared where it lies: most commands leave most keys as they were.
            let place = (db, key.clone());
            let before = self.known.get(&place);
            let is_same =
                before.is_some_and(|it| it.value == *value && it.expires_at_ms == expires_at_ms);
            if is_same && events.is_empty() {
                return;
            }
            let names = of_key(&events, &place);
            if is_same && !is_written(&names) {
                return;
            }
            let now_known = KnownKey { value: value.clone(), expires_at_ms };
            let before = before.filter(|it| lives(it));
            let inside = inside(before.map(|it| &it.value), value, &names);
            let touch = match before {
                None => Touch::Create(life(&now_known)),
                Some(it) if it.value.is_replaced_by(value) && !inside.is_count() => {
                    Touch::Overwrite(life(&now_known))
                }
                Some(it) if it.expires_at_ms != expires_at_ms => {
                    Touch::Extend(life(&now_known).unwrap_or(u64::MAX))
                }
                // A part of its value: the key is as it was.
                Some(_) => Touch::None,
            };
            if touch != Touch::None || inside != InsideChange::None {
                change(&place, touch, inside);
            }
            self.known.insert(place, now_known);
        });
        if seen < self.known.len() {
            self.known.retain(|place, key| {
                let is_there = model.has_key(place.0, &place.1);
                if !is_there && lives(key) {
                    let inside = match of_key(&events, place)[..] {
                        [.., last, "del"] if TAKES_OUT.contains(&last) => {
                            let removed = key.value.entries();
                            let removed = removed.into_iter().map(|it| it.to_vec()).collect();
                            InsideChange::Entries { added: Vec::new(), removed }
                        }
                        _ => InsideChange::None,
                    };
                    change(place, Touch::Delete, inside);
                }
                is_there
            });
        }
        changes
    }
}

impl InsideChange {
    fn is_count(&self) -> bool {
        matches!(self, Self::Counted { .. })
    }
}

/// What has happened to this key, in its order.
fn of_key(events: &[KeyspaceEvent], (db, key): &(u16, Blob)) -> Vec<&'static str> {
    events.iter().filter(|it| it.db == *db && it.key == *key).map(|it| it.name).collect()
}

/// Whether one of these events wrote a whole value.
fn is_written(events: &[&str]) -> bool {
    events.iter().any(|name| WRITES.contains(name))
}

/// What was done inside a key, according to the names of its events.
fn inside(before: Option<&StoredValue>, now: &StoredValue, events: &[&str]) -> InsideChange {
    if before == Some(now) && is_written(events) {
        return InsideChange::Rewritten;
    }
    if let Some(count) = now.count() {
        let is_count =
            |name: &&str| *name == COUNTS || LIVES.contains(name) || BEGINS.contains(name);
        let from = match before {
            Some(before) => before.count().filter(|_| !events.iter().any(|it| BEGINS.contains(it))),
            None => Some(0),
        };
        return match from {
            Some(from) if events.contains(&COUNTS) && events.iter().all(is_count) => {
                InsideChange::Counted { by: count.saturating_sub(from), now: count }
            }
            _ => InsideChange::None,
        };
    }
    // An element may stand in a list more than once.
    let mut added: Vec<&Blob> = now.entries();
    let mut removed = Vec::new();
    for entry in before.map(StoredValue::entries).unwrap_or_default() {
        match added.iter().position(|it| *it == entry) {
            Some(place) => drop(added.remove(place)),
            None => removed.push(entry.to_vec()),
        }
    }
    if added.is_empty() && removed.is_empty() {
        let all = before.and_then(|before| before.fields_rewritten(now));
        let all = all.filter(|_| events.contains(&SETS_FIELD));
        return all.map_or(InsideChange::None, |all| InsideChange::Fields { all });
    }
    InsideChange::Entries { added: added.into_iter().map(|it| it.to_vec()).collect(), removed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Submitted;
    use crate::options::ModelOptions;

    const MS: u64 = 1_000_000;

    /// What each of these lines has done to keys as a whole, at its millisecond.
    fn changes(lines: &[(u64, &str)]) -> Vec<Vec<Touch>> {
        let touches = |it: Vec<KeyChange>| it.into_iter().map(|it| it.touch).collect();
        looks(lines).into_iter().map(touches).collect()
    }

    fn looks(lines: &[(u64, &str)]) -> Vec<Vec<KeyChange>> {
        let mut model = Model::new(ModelOptions::default());
        let mut witness = KeyWitness::default();
        let wall = |ms: u64| WallTime::from_unix_ns((1_000_000 + ms) * MS);
        let client = model.connect(wall(0), "127.0.0.1:1");
        let mut touched = |(ms, line): &(u64, &str)| {
            let words: Vec<&[u8]> = line.split('|').map(str::as_bytes).collect();
            let reply = model.submit(wall(*ms), client, &words);
            assert!(matches!(reply, Submitted::Reply(_)), "{line}: {reply:?}");
            witness.look(&model, wall(*ms))
        };
        lines.iter().map(&mut touched).collect()
    }

    /// What these lines have done to their key, all in one millisecond: as a whole, and inside it.
    fn inside(lines: &[&str]) -> Vec<Option<(Touch, InsideChange)>> {
        let lines: Vec<(u64, &str)> = lines.iter().map(|line| (0, *line)).collect();
        let one = |mut it: Vec<KeyChange>| {
            assert!(it.len() <= 1, "{it:?}");
            it.pop().map(|it| (it.touch, it.inside))
        };
        looks(&lines).into_iter().map(one).collect()
    }

    #[test]
    fn a_number_is_counted_on_by_the_commands_that_count() {
        let script =
            "EVAL|redis.call('incr', KEYS[1]) return redis.call('pexpire', KEYS[1], 70)|1|c";
        let over = "EVAL|redis.call('set', KEYS[1], 8) return redis.call('incr', KEYS[1])|1|c";
        let found = inside(&[
            // The first look tells the model to write events down.
            "PING",
            "INCR|c",
            "INCR|c",
            "DECRBY|c|5",
            script,
            // By its values alone, this is an INCR.
            "SET|c|-1",
            "SET|c|0|KEEPTTL",
            over,
            "GETSET|c|10",
            "MULTI",
            "INCR|c",
            "INCR|c",
            "EXEC",
            "INCRBY|c|1700000000",
            "APPEND|c|1",
        ]);
        let counted = |by, now| InsideChange::Counted { by, now };
        let written = Some((Touch::Overwrite(None), InsideChange::None));
        let expected = [
            None,
            Some((Touch::Create(None), counted(1, 1))),
            Some((Touch::None, counted(1, 2))),
            Some((Touch::None, counted(-5, -3))),
            Some((Touch::Extend(70 * MS), counted(1, -2))),
            written.clone(),
            written.clone(),
            written.clone(),
            written.clone(),
            None,
            None,
            None,
            Some((Touch::None, counted(2, 12))),
            Some((Touch::None, counted(1_700_000_000, 1_700_000_012))),
            written,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_same_value_written_again_is_told_from_a_longer_life() {
        let over = "EVAL|redis.call('del', KEYS[1]) redis.call('set', KEYS[1], 1, 'px', 70)|1|k";
        let found = inside(&[
            "PING",
            "SET|k|1|PX|70",
            // By value and expiry alone, nothing happens.
            "SET|k|1|PX|70",
            "SET|k|1|NX|PX|70",
            "SET|k|1|PX|90",
            "PEXPIRE|k|70",
            over,
            "SET|other|1|PX|70",
            "COPY|other|k|REPLACE",
            "SET|k|1",
        ]);
        let rewritten = |touch| Some((touch, InsideChange::Rewritten));
        let life = |touch| Some((touch, InsideChange::None));
        let expected = [
            None,
            life(Touch::Create(Some(70 * MS))),
            rewritten(Touch::None),
            None,
            rewritten(Touch::Extend(90 * MS)),
            life(Touch::Extend(70 * MS)),
            rewritten(Touch::None),
            life(Touch::Create(Some(70 * MS))),
            rewritten(Touch::None),
            rewritten(Touch::Extend(u64::MAX)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn entries_of_a_collection_come_and_go() {
        let found = inside(&[
            "ZADD|z|1|one",
            "ZADD|z|2|two",
            "ZADD|z|3|two",
            "ZREM|z|one",
            "ZREMRANGEBYSCORE|z|-inf|+inf",
            "RPUSH|l|a|b|a",
            "LREM|l|1|a",
            "DEL|l",
            "HSET|h|one|1",
            "HINCRBY|h|one|1",
            "HDEL|h|one",
            "HSET|o|owner|a|beat|1",
            "HSET|o|beat|2",
            "HSET|o|beat|2",
            "HSET|o|owner|b|beat|3",
            "HSET|o|owner|c|waits|d",
        ]);
        let all = |names: &[&str]| names.iter().map(|it| it.as_bytes().to_vec()).collect();
        let entries = |added: &[&str], removed: &[&str]| InsideChange::Entries {
            added: all(added),
            removed: all(removed),
        };
        let expected = [
            Some((Touch::Create(None), entries(&["one"], &[]))),
            Some((Touch::None, entries(&["two"], &[]))),
            None,
            Some((Touch::None, entries(&[], &["one"]))),
            Some((Touch::Delete, entries(&[], &["two"]))),
            Some((Touch::Create(None), entries(&["a", "b", "a"], &[]))),
            Some((Touch::None, entries(&[], &["a"]))),
            // That deletes the key with all its entries.
            Some((Touch::Delete, InsideChange::None)),
            Some((Touch::Create(None), entries(&["one"], &[]))),
            None,
            Some((Touch::Delete, entries(&[], &["one"]))),
            Some((Touch::Create(None), entries(&["owner", "beat"], &[]))),
            Some((Touch::None, InsideChange::Fields { all: false })),
            None,
            Some((Touch::None, InsideChange::Fields { all: true })),
            Some((Touch::None, entries(&["waits"], &[]))),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_command_does_is_seen_whatever_it_is_called() {
        let script =
            "redis.call('set', KEYS[1], ARGV[1], 'px', 30) return redis.call('del', KEYS[2])";
        let eval = format!("EVAL|{script}|2|a|b|x");
        let takes =
            "redis.call('zrem', KEYS[1], 'one') return redis.call('zadd', KEYS[1], 3, 'two')";
        let take_over = format!("EVAL|{takes}|1|z");
        let found = changes(&[
            (0, "SET|k|v|NX|PX|100"),
            (1, "SET|k|w|NX|PX|100"),
            (2, "PEXPIRE|k|200"),
            (3, "SET|k|v|PX|300"),
            (4, "SET|k|w|PX|300"),
            (5, "PERSIST|k"),
            (6, "DEL|k"),
            (7, "HSET|b|f|1"),
            (8, "HINCRBY|b|f|1"),
            (9, "PEXPIRE|b|50"),
            (10, &eval),
            (41, "SET|a|y|NX|PX|7"),
            (42, "GET|a"),
            (43, "ZADD|z|1|one"),
            (44, "ZADD|z|2|one"),
            (45, &take_over),
        ]);
        let expected = [
            vec![Touch::Create(Some(100 * MS))],
            vec![],
            vec![Touch::Extend(200 * MS)],
            vec![Touch::Extend(300 * MS)],
            vec![Touch::Overwrite(Some(300 * MS))],
            vec![Touch::Extend(u64::MAX)],
            vec![Touch::Delete],
            vec![Touch::Create(None)],
            vec![],
            vec![Touch::Extend(50 * MS)],
            vec![Touch::Create(Some(30 * MS)), Touch::Delete],
            // The key before it had expired; no command did that.
            vec![Touch::Create(Some(7 * MS))],
            vec![],
            vec![Touch::Create(None)],
            vec![],
            vec![Touch::Overwrite(None)],
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_transaction_is_seen_when_it_is_carried_out() {
        let found = changes(&[(0, "MULTI"), (1, "SET|k|v"), (2, "PEXPIRE|k|9"), (3, "EXEC")]);
        let nothing: Vec<Touch> = Vec::new();
        let all = [nothing.clone(), nothing.clone(), nothing, vec![Touch::Create(Some(9 * MS))]];
        assert_eq!(found, all);
    }
}
