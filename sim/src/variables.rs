//! The `PICKLOCK_*` variables behind the options.
//!
//! Invariant: an empty variable counts as unset, as in scripts and CI systems.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Arg, Command};

/// The command line without variables that are set but empty.
pub(super) fn without_blank(command: Command) -> Command {
    let without = |arg: Arg| {
        let is_blank = arg.get_env().and_then(std::env::var_os).is_some_and(|it| it.is_empty());
        if is_blank { arg.env(None::<&'static str>) } else { arg }
    };
    command.mut_args(without).mut_subcommands(without_blank)
}

/// The command line without variables that contradict an option in these words, which wins.
pub(super) fn without_contradicted(command: Command, words: &[OsString]) -> Command {
    // What follows is a worker's.
    let options = || words.iter().map(|it| it.to_string_lossy()).take_while(|it| it != "--");
    let is_spoken = |arg: &Arg| {
        let is = |word: &str| {
            let rest = word.strip_prefix("--")?.strip_prefix(arg.get_long()?)?;
            (rest.is_empty() || rest.starts_with('=')).then_some(())
        };
        options().any(|word| is(&word).is_some())
    };
    let mut contradicted = BTreeSet::new();
    for arg in command.get_arguments() {
        for other in command.get_arg_conflicts_with(arg) {
            match (is_spoken(arg), is_spoken(other)) {
                (true, false) => _ = contradicted.insert(other.get_id().clone()),
                (false, true) => _ = contradicted.insert(arg.get_id().clone()),
                _ => {}
            }
        }
    }
    let without = |arg: Arg| match contradicted.contains(arg.get_id()) {
        true => arg.env(None::<&'static str>),
        false => arg,
    };
    command.mut_args(without).mut_subcommands(|it| without_contradicted(it, words))
}

/// Names the variables that are set, to explain options not on the command line. Their values may be secrets and are
/// not printed.
pub(super) fn note(command: &Command) -> Option<String> {
    let is_set = |name: &OsString| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let names = command.get_arguments().filter_map(|arg| arg.get_env().map(OsString::from));
    let set: Vec<String> =
        names.filter(is_set).map(|name| name.to_string_lossy().into_owned()).collect();
    (!set.is_empty()).then(|| {
        let set = set.join(", ");
        format!("note: set in the environment: {set}; options on the command line override these")
    })
}
