//! The names of the keys that a lock needs beside its own, in the same hash slot.
//!
//! Invariant: a companion hashes as its key does, by the rule of Redis Cluster: what stands between
//! the first brace and the next closing one counts, unless that is nothing. So a script that names
//! both runs on a cluster, and a lock may live there. Deliberately absent: the slot's number.

use crate::options::OptionsError;

/// The part of a key that decides its slot.
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// The key of this suffix beside `key`.
///
/// # Errors
/// [`OptionsError::KeyAlone`] where no other key with that beginning shares its slot.
pub(crate) fn companion(key: &[u8], suffix: &str) -> Result<Box<[u8]>, OptionsError> {
    let suffix = suffix.as_bytes();
    if hash_tag(key).len() < key.len() {
        return Ok([key, suffix].concat().into());
    }
    if key.contains(&b'}') {
        return Err(OptionsError::KeyAlone);
    }
    Ok([b"{", key, b"}", suffix].concat().into())
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
            companion(key.as_bytes(), ":q").map(|it| String::from_utf8_lossy(&it).into_owned())
        };
        assert_eq!(of("key").as_deref(), Ok("{key}:q"));
        assert_eq!(of("a{b}c").as_deref(), Ok("a{b}c:q"));
        assert_eq!(of("a{b").as_deref(), Ok("{a{b}:q"));
        assert_eq!(of("a}b"), Err(OptionsError::KeyAlone));
        assert_eq!(of("a{}b"), Err(OptionsError::KeyAlone));
    }

    proptest! {
        #[test]
        fn a_companion_shares_the_slot(key in "[ab{}]{1,8}") {
            if let Ok(other) = companion(key.as_bytes(), ":q") {
                prop_assert_eq!(hash_tag(&other), hash_tag(key.as_bytes()));
                prop_assert_ne!(&*other, key.as_bytes());
            }
        }
    }
}
