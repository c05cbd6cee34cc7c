//! The first key of any command of Redis, for programs that forward requests.
//!
//! Invariant: the command table says where a command that the model knows has its keys. Of the other commands,
//! only those are listed here whose first argument is no key.

use resp::frame::RequestFrame;

use crate::commands::table::TABLE;
use crate::server::{KeyPositions, Lookup, flag};

/// Commands that the model does not know and whose first argument is no key.
const OTHERS: [(KeyPositions, &str); 3] = [
    (
        KeyPositions::None,
        "ACL ASKING BGREWRITEAOF BGSAVE CLUSTER DEBUG FAILOVER LASTSAVE LATENCY LOLWUT MODULE PSYNC \
         READONLY READWRITE REPLCONF REPLICAOF SAVE SENTINEL SHUTDOWN SLAVEOF SLOWLOG SWAPDB SYNC WAITAOF",
    ),
    (KeyPositions::Range(2, 2, 1), "MEMORY OBJECT XGROUP XINFO"),
    (KeyPositions::After("streams"), "XREAD XREADGROUP"),
];

/// The first key, by the command's usual form; none where the command has no key.
pub fn first_key(request: RequestFrame<'_>) -> Option<&[u8]> {
    let name = request.arg(0).unwrap_or_default();
    let positions = match TABLE.find(&[name]) {
        // A channel of a shard stands where a key does, so that a cluster finds its slot.
        Lookup::Command(place) if TABLE.spec(place).has(flag::PUBSUB) => KeyPositions::None,
        Lookup::Command(place) => TABLE.spec(place).keys,
        Lookup::Unknown | Lookup::UnknownSubcommand => {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            let row = OTHERS.iter().find(|(_, names)| names.split(' ').any(is));
            row.map_or(KeyPositions::Range(1, 1, 1), |(positions, _)| *positions)
        }
    };
    positions.first(request.args())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_is_found_where_commands_have_it() {
        let key = |line: &str| {
            let line = format!("{line}\r\n");
            let key = first_key(RequestFrame::new(line.as_bytes()));
            key.map(|key| String::from_utf8_lossy(key).into_owned())
        };
        for (line, expected) in [
            ("DEL k l", Some("k")),
            ("evalsha abc 1 k v", Some("k")),
            ("EVAL script 0 v", None),
            ("PUBLISH c m", None),
            ("SPUBLISH c m", None),
            ("BITOP AND k l", Some("k")),
            ("BLMPOP 0 2 a b LEFT", Some("a")),
            ("XREAD COUNT 1 streams s $", Some("s")),
            ("OBJECT ENCODING k", Some("k")),
            ("cluster slots", None),
            ("GEOADD k 1 1 m", Some("k")),
            ("GET", None),
        ] {
            assert_eq!(key(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn no_command_of_the_model_is_listed_again() {
        for name in OTHERS.iter().flat_map(|(_, names)| names.split(' ')) {
            let is_unknown = matches!(TABLE.find(&[name.as_bytes()]), Lookup::Unknown);
            assert!(is_unknown, "the model knows {name}: take it out of `OTHERS`");
        }
    }
}
