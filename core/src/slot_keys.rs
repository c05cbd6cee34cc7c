//! The names of the keys that a lock needs beside its own, in the same hash slot.
//!
//! Invariant: a slot key hashes as its lock's key does, by the rule of Redis Cluster: the text between the
//! first opening brace and the next closing one counts, unless it is empty. So a script that names both
//! keys runs on a cluster. That is checked of a key that the user has named, too, and on one server as
//! well: a lock that works there works on a cluster.

use crate::options::{OptionsError, check_key_len};

/// The part of a key that determines its slot.
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// The number of slots of a cluster.
const SLOTS: u16 = 16_384;

/// The hash slot of a key: CRC16 (XMODEM) of its tag.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let crc = hash_tag(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc >> 15 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % SLOTS
}

/// Checks a further key of the lock of `key` that the user has named.
///
/// # Errors
/// [`OptionsError`] where it is empty, too long, the lock's own, or in another slot.
pub(crate) fn check_slot_key(key: &[u8], other: &[u8]) -> Result<(), OptionsError> {
    check_key_len(other.len())?;
    if key == other {
        return Err(OptionsError::KeyTwice);
    }
    let (slot, other_slot) = (slot(key), slot(other));
    if slot != other_slot {
        return Err(OptionsError::OtherSlot { slot, other_slot });
    }
    Ok(())
}

/// The key with this name in the slot of `key`; it differs for each key and each name. That is why a key with
/// a tag and one without are joined to the name in different ways: otherwise `k` and `{k}` would share one.
///
/// # Errors
/// [`OptionsError::KeyAlone`] for a key with a closing brace and no tag: braces around it would end early.
pub(crate) fn slot_key(key: &[u8], name: &str) -> Result<Box<[u8]>, OptionsError> {
    let name = name.as_bytes();
    if hash_tag(key).len() < key.len() {
        return Ok([key, b".", name].concat().into());
    }
    if key.contains(&b'}') {
        return Err(OptionsError::KeyAlone);
    }
    Ok([b"{", key, b"}:", name].concat().into())
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_tag_is_the_one_of_redis() {
        for (key, tag) in [
            ("key", "key"),
            ("a{b}c", "b"),
            ("{b}", "b"),
            ("a{}c", "a{}c"),
            ("a{{b}}", "{b"),
            ("a{b", "a{b"),
            ("a}b{c}", "c"),
            ("foo{bar}{zap}", "bar"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    #[test]
    fn a_slot_key_contains_its_key_and_name() {
        let of = |key: &str| {
            slot_key(key.as_bytes(), "q").map(|it| String::from_utf8_lossy(&it).into_owned())
        };
        assert_eq!(of("key").as_deref(), Ok("{key}:q"));
        assert_eq!(of("a{b}c").as_deref(), Ok("a{b}c.q"));
        assert_eq!(of("a{b").as_deref(), Ok("{a{b}:q"));
        assert_eq!(of("a}b"), Err(OptionsError::KeyAlone));
        assert_eq!(of("a{}b"), Err(OptionsError::KeyAlone));
    }

    #[test]
    fn slots_are_those_of_a_cluster() {
        // As CLUSTER KEYSLOT answers.
        for (key, expected) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("bar", 5_061),
            ("a{foo}b", 12_182),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn a_named_key_is_in_the_slot_or_refused() {
        let check = |key: &str, other: &str| check_slot_key(key.as_bytes(), other.as_bytes());
        let elsewhere = |key: &str, other: &str| {
            let (slot, other_slot) = (slot(key.as_bytes()), slot(other.as_bytes()));
            Err(OptionsError::OtherSlot { slot, other_slot })
        };
        assert_eq!(check("key", "{key}:n"), Ok(()));
        assert_eq!(check("{a}key", "{a}"), Ok(()));
        // The slot counts and not the tag: these two share one.
        assert_eq!(slot(b"key"), slot(b"{key}"));
        assert_eq!(check("key", "n"), elsewhere("key", "n"));
        assert_eq!(check("{a}key", "{b}key"), elsewhere("{a}key", "{b}key"));
        // An empty tag is none, in either key.
        assert_eq!(check("{}key", "{}n"), elsewhere("{}key", "{}n"));
        assert_eq!(check("{}key", "{{}key}"), elsewhere("{}key", "{{}key}"));
        // Only the first pair of braces counts.
        assert_eq!(check("{a}{b}", "{a}n"), Ok(()));
        assert_eq!(check("{a}{b}", "{b}n"), elsewhere("{a}{b}", "{b}n"));
        assert_eq!(check("key", "key"), Err(OptionsError::KeyTwice));
        assert_eq!(check("key", ""), Err(OptionsError::KeyEmpty));
    }

    proptest! {
        #[test]
        fn no_two_keys_share_a_slot_key(one in "[a{}:.]{1,5}", other in "[a{}:.]{1,5}") {
            let of = |key: &str| slot_key(key.as_bytes(), "q");
            let braced = format!("{{{one}}}");
            for other in [&other, &braced] {
                if let (Ok(mine), Ok(its)) = (of(&one), of(other)) {
                    prop_assert_eq!(mine == its, one == *other, "{} and {}", one, other);
                }
            }
        }

        #[test]
        fn a_slot_key_shares_the_slot(key in "[ab{}]{1,8}") {
            if let Ok(other) = slot_key(key.as_bytes(), "q") {
                prop_assert_eq!(hash_tag(&other), hash_tag(key.as_bytes()));
                prop_assert_ne!(&*other, key.as_bytes());
            }
        }
    }
}
