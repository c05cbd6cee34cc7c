//! The names of the keys that a lock needs beside its own, in the same hash slot.
//!
//! Invariant: a companion hashes as its key does, by the rule of Redis Cluster: what stands between
//! the first brace and the next closing one counts, unless that is nothing. So a script that names
//! both runs on a cluster, and a lock may live there. That holds for a companion the user has named,
//! too, and on one server as well: a lock that works there works on a cluster. Deliberately absent:
//! which node a slot is on.

use crate::options::{OptionsError, check_key_len};

/// The part of a key that decides its slot.
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// How many slots there are.
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

/// Checks a companion of `key` that the user has named.
///
/// # Errors
/// [`OptionsError`] where it is no key, the lock's own, or in another slot.
pub(crate) fn check_companion(key: &[u8], other: &[u8]) -> Result<(), OptionsError> {
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

/// The key of this name beside `key`: another for each of both. So a key that has a tag is not joined to
/// the name as one that is made into a tag, or `k` and `{k}` would meet in one.
///
/// # Errors
/// [`OptionsError::KeyAlone`] where no other key with that beginning shares its slot.
pub(crate) fn companion(key: &[u8], name: &str) -> Result<Box<[u8]>, OptionsError> {
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
    fn the_tag_is_what_redis_says_it_is() {
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
    fn a_companion_has_the_name_of_its_key_in_it() {
        let of = |key: &str| {
            companion(key.as_bytes(), "q").map(|it| String::from_utf8_lossy(&it).into_owned())
        };
        assert_eq!(of("key").as_deref(), Ok("{key}:q"));
        assert_eq!(of("a{b}c").as_deref(), Ok("a{b}c.q"));
        assert_eq!(of("a{b").as_deref(), Ok("{a{b}:q"));
        assert_eq!(of("a}b"), Err(OptionsError::KeyAlone));
        assert_eq!(of("a{}b"), Err(OptionsError::KeyAlone));
    }

    #[test]
    fn slots_are_those_of_a_cluster() {
        // What CLUSTER KEYSLOT says.
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
    fn a_companion_of_the_users_is_in_the_slot_or_refused() {
        let check = |key: &str, other: &str| check_companion(key.as_bytes(), other.as_bytes());
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
        // An empty tag is none, neither in the key nor in its companion.
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
        fn no_two_keys_share_a_companion(one in "[a{}:.]{1,5}", other in "[a{}:.]{1,5}") {
            let of = |key: &str| companion(key.as_bytes(), "q");
            let braced = format!("{{{one}}}");
            for other in [&other, &braced] {
                if let (Ok(mine), Ok(its)) = (of(&one), of(other)) {
                    prop_assert_eq!(mine == its, one == *other, "{} and {}", one, other);
                }
            }
        }

        #[test]
        fn a_companion_shares_the_slot(key in "[ab{}]{1,8}") {
            if let Ok(other) = companion(key.as_bytes(), "q") {
                prop_assert_eq!(hash_tag(&other), hash_tag(key.as_bytes()));
                prop_assert_ne!(&*other, key.as_bytes());
            }
        }
    }
}
