//! The command table: every command that the model knows.
//!
//! Invariant: this is the only list of commands; dispatch, COMMAND, INFO commandstats and the first keys
//! that a proxy asks for all read it. Its data are those of redis-server 7.0.15.

use std::sync::LazyLock;

use super::{
    algebra, bits, blocking, client, command, conditional, config, connection, expiry, functions,
    hashes, info, keys, lcs, lists, pubsub, random, rename, replication, scan, scripting, set,
    sets, strings, transactions, zrange, zsets,
};
use crate::server::CommandTable;

/// The table.
pub(crate) static TABLE: LazyLock<CommandTable> = LazyLock::new(|| {
    CommandTable::new(&[
        set::SPECS,
        strings::SPECS,
        keys::SPECS,
        expiry::SPECS,
        scan::SPECS,
        hashes::SPECS,
        lists::SPECS,
        blocking::SPECS,
        sets::SPECS,
        algebra::SPECS,
        bits::SPECS,
        lcs::SPECS,
        random::SPECS,
        rename::SPECS,
        conditional::SPECS,
        zsets::SPECS,
        zrange::SPECS,
        pubsub::SPECS,
        replication::SPECS,
        scripting::SPECS,
        functions::SPECS,
        transactions::SPECS,
        connection::SPECS,
        client::SPECS,
        config::SPECS,
        info::SPECS,
        command::SPECS,
    ])
});

#[cfg(test)]
mod tests {
    use history::Touch;
    use picklock::command::Command;
    use scenarios::recipe::KeyValue as LockValue;
    use scenarios::record::Dialect;

    use super::*;
    use crate::server::{CommandSpec, KeyPositions, Lookup, flag};

    #[test]
    fn names_are_found_in_any_case_and_subcommands_in_their_container() {
        let name = |args: &[&[u8]]| match TABLE.find(args) {
            Lookup::Command(place) => TABLE.line(place).full_name.clone(),
            Lookup::UnknownSubcommand => "unknown subcommand".to_owned(),
            Lookup::Unknown => "unknown".to_owned(),
        };
        assert_eq!(name(&[b"sEt"]), "set");
        assert_eq!(name(&[b"client", b"ID"]), "client|id");
        assert_eq!(name(&[b"client"]), "client");
        assert_eq!(name(&[b"client", b"nope"]), "unknown subcommand");
        assert_eq!(name(&[b"client|id"]), "unknown");
        assert_eq!(name(&[&[b'a'; 99]]), "unknown");
        assert!(TABLE.by_full_name(b"CONFIG|get").is_some());
        assert_eq!(TABLE.by_full_name(b"config|nope"), None);
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<_> = TABLE.lines().map(|(_, line)| line.full_name.as_str()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    /// A request of this row's arity, whose first key is `k`.
    fn request(spec: &CommandSpec) -> Command {
        let arity = usize::from(spec.arity.unsigned_abs());
        let words: &[&str] = match spec.keys {
            KeyPositions::Counted(1) => &["1", "k"],
            KeyPositions::Counted(_) => &["0", "1", "k"],
            KeyPositions::Range(2, ..) => &["0", "k"],
            _ => &["k"],
        };
        // What follows may be a value as well as a number of seconds.
        let words = words.iter().copied().chain(std::iter::repeat("10"));
        words.take(arity - 1).fold(Command::new(&spec.name.to_uppercase()), Command::arg)
    }

    #[test]
    fn histories_take_no_command_for_harmless_that_the_table_says_writes() {
        // They change a key's value, but neither its owner nor its expiry.
        const COUNTERS: [&str; 4] = ["incr", "decr", "incrby", "decrby"];
        let dialect = Dialect { value: LockValue::Token, ..Dialect::default() };
        let mut known = Vec::new();
        for (_, row) in TABLE.lines().filter(|(_, row)| !row.is_subcommand) {
            let (spec, command) = (row.spec, request(row.spec));
            let (key, intent) = dialect.intent(&command);
            let writes = spec.has(flag::WRITE) && !COUNTERS.contains(&spec.name);
            match intent.touch {
                Touch::Unknown => continue,
                Touch::None => assert!(!writes, "{command:?}"),
                _ => assert!(writes, "{command:?}"),
            }
            if spec.keys != KeyPositions::None {
                assert_eq!(Some(key), spec.keys.first(command.args()), "{command:?}");
            }
            known.push(spec.name);
        }
        for name in ["set", "get", "del", "pexpire", "delex", "incr"] {
            assert!(known.contains(&name), "{name}");
        }
    }
}
