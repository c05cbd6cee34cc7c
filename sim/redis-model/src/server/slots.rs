//! The hash slots of a cluster: whether the keys of a command are in one.
//!
//! Invariant: a server in cluster mode owns every slot here, so it redirects nobody, and refuses what has keys in
//! several slots, as redis-server's `getNodeByQuery` does. The lock library has the same arithmetic; it is under test
//! here, and what is wrong with it must not decide what is refused. Not modelled: the slots of a transaction all
//! together, and of keys that a script does not name.

use resp::ErrorReply;

use super::Request;
use super::table::CommandSpec;

/// The number of slots.
const SLOTS: u16 = 16_384;

/// Why a cluster refuses this command, if it does.
pub(crate) fn refusal(request: &Request<'_>, spec: &CommandSpec) -> Option<ErrorReply> {
    let mut slots = spec.keys.all(request.args).into_iter().map(slot);
    let first = slots.next()?;
    let is_split = slots.any(|other| other != first);
    is_split.then(|| ErrorReply::new("CROSSSLOT Keys in request don't hash to the same slot"))
}

/// CRC16 (XMODEM) of the part of a key that determines its slot.
fn slot(key: &[u8]) -> u16 {
    let crc = hash_tag(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc >> 15 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % SLOTS
}

/// What stands between the first opening brace and the next closing one, unless that is nothing.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_a_cluster() {
        // As CLUSTER KEYSLOT answers.
        let expected = [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("a{foo}b", 12_182),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("", 0),
        ];
        for (key, expected) in expected {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
