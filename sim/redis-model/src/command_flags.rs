//! What any command of Redis may do, for code that answers instead of a server.
//!
//! Invariant: of a command that the model does not know, anything is possible.

use crate::commands::table::TABLE;
use crate::server::{Lookup, flag};

/// Commands that do what others do.
const CARRIERS: [&str; 4] = ["EVAL", "EVALSHA", "EXEC", "FCALL"];

/// Whether it may change something, which a replica refuses.
pub fn may_write(name: &str) -> bool {
    has(name, flag::WRITE)
}

/// Whether it may take memory: a server that has none left refuses it.
pub fn may_take_memory(name: &str) -> bool {
    has(name, flag::DENYOOM)
}

/// Whether a server that loads its data refuses it.
pub fn may_find_loading(name: &str) -> bool {
    !is_flagged(name, flag::LOADING).unwrap_or(false)
}

/// Whether a server that runs a long script refuses it.
pub fn may_find_busy(name: &str) -> bool {
    !is_flagged(name, flag::ALLOW_BUSY).unwrap_or(false)
}

fn has(name: &str, flag: u32) -> bool {
    let is_carrier = CARRIERS.iter().any(|carrier| name.eq_ignore_ascii_case(carrier));
    is_carrier || is_flagged(name, flag).unwrap_or(true)
}

/// None of a command that is not known.
fn is_flagged(name: &str, flag: u32) -> Option<bool> {
    match TABLE.find(&[name.as_bytes()]) {
        Lookup::Command(place) => Some(TABLE.spec(place).has(flag)),
        Lookup::Unknown | Lookup::UnknownSubcommand => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_do_what_its_flags_say_and_a_script_anything() {
        for (name, writes, takes) in [
            ("get", false, false),
            ("SET", true, true),
            ("DEL", true, false),
            ("EXEC", true, true),
            ("evalsha", true, true),
            ("EVAL_RO", false, false),
            ("MULTI", false, false),
            ("GEOADD", true, true),
        ] {
            assert_eq!((may_write(name), may_take_memory(name)), (writes, takes), "{name}");
        }
    }

    #[test]
    fn some_commands_are_answered_whatever_the_server_does() {
        for (name, loading, busy) in [
            ("SET", true, true),
            ("EVALSHA", true, true),
            ("MULTI", false, false),
            ("WATCH", false, false),
            ("EXEC", false, true),
            ("TIME", false, true),
            ("NONSENSE", true, true),
        ] {
            assert_eq!((may_find_loading(name), may_find_busy(name)), (loading, busy), "{name}");
        }
    }
}
