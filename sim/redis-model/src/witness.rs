//! What commands do to keys, seen from within: what a key held before and what it holds now.
//!
//! Invariant: what is reported is what happened, whatever command did it, inside scripts and transactions too. An
//! expiry is not reported: it follows from the life that was reported last. A value that is written as it was is no
//! overwrite; a hash or set is overwritten where nothing of it is left.

use std::collections::BTreeMap;

use history::Touch;
use picklock::time::WallTime;
use resp::Blob;

use super::model::Model;
use super::value::StoredValue;

/// What a command has done to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The database.
    pub db: u16,
    /// The key.
    pub key: Vec<u8>,
    /// What was done to it.
    pub touch: Touch,
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
        let mut changes = Vec::new();
        let mut change = |(db, key): &(u16, Blob), touch| {
            changes.push(KeyChange { db: *db, key: key.to_vec(), touch });
        };
        let mut seen = 0;
        model.each_key(|db, key, value, expires_at_ms| {
            seen += 1;
            // Compared where it lies: most commands leave most keys as they were.
            let place = (db, key.clone());
            let before = self.known.get(&place);
            let is_same =
                before.is_some_and(|it| it.value == *value && it.expires_at_ms == expires_at_ms);
            if is_same {
                return;
            }
            let now_known = KnownKey { value: value.clone(), expires_at_ms };
            match before.filter(|it| lives(it)) {
                None => change(&place, Touch::Create(life(&now_known))),
                Some(it) if it.value.is_replaced_by(value) => {
                    change(&place, Touch::Overwrite(life(&now_known)));
                }
                Some(it) if it.expires_at_ms != expires_at_ms => {
                    change(&place, Touch::Extend(life(&now_known).unwrap_or(u64::MAX)));
                }
                // An element of a collection: the key is as it was.
                Some(_) => {}
            }
            self.known.insert(place, now_known);
        });
        if seen < self.known.len() {
            self.known.retain(|place, key| {
                let is_there = model.has_key(place.0, &place.1);
                if !is_there && lives(key) {
                    change(place, Touch::Delete);
                }
                is_there
            });
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Submitted;
    use crate::options::ModelOptions;

    const MS: u64 = 1_000_000;

    /// What each of these lines has done, at its millisecond.
    fn changes(lines: &[(u64, &str)]) -> Vec<Vec<Touch>> {
        let mut model = Model::new(ModelOptions::default());
        let mut witness = KeyWitness::default();
        let wall = |ms: u64| WallTime::from_unix_ns((1_000_000 + ms) * MS);
        let client = model.connect(wall(0), "127.0.0.1:1");
        let mut touched = |(ms, line): &(u64, &str)| {
            let words: Vec<&[u8]> = line.split('|').map(str::as_bytes).collect();
            let reply = model.submit(wall(*ms), client, &words);
            assert!(matches!(reply, Submitted::Reply(_)), "{line}: {reply:?}");
            witness.look(&model, wall(*ms)).into_iter().map(|it| it.touch).collect()
        };
        lines.iter().map(&mut touched).collect()
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
            // The former one had expired, which is nobody's doing.
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
