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

fn has(name: &str, flag: u32) -> bool {
    let is_carrier = CARRIERS.iter().any(|carrier| name.eq_ignore_ascii_case(carrier));
    is_carrier
        || match TABLE.find(&[name.as_bytes()]) {
            Lookup::Command(place) => TABLE.spec(place).has(flag),
            Lookup::Unknown | Lookup::UnknownSubcommand => true,
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
}
