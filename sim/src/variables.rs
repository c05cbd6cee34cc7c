//! The `PICKLOCK_*` variables behind the options.
//!
//! Invariant: an empty variable counts as unset, as in scripts and CI systems.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::builder::{BoolishValueParser, TypedValueParser as _};
use clap::{Arg, Command};

/// The command line without variables that are set but empty.
pub(super) fn without_blank(command: Command) -> Command {
    let without = |arg: Arg| {
        let is_blank = arg.get_env().and_then(std::env::var_os).is_some_and(|it| it.is_empty());
        if is_blank { arg.env(None::<&'static str>) } else { arg }
    };
    command.mut_args(without).mut_subcommands(without_blank)
}

/// The command line without variables, for words that say everything.
pub(super) fn without_any(command: Command) -> Command {
    command.mut_args(|arg| arg.env(None::<&'static str>)).mut_subcommands(without_any)
}

/// The command line without variables that contradict an option in these words, which wins.
pub(super) fn without_contradicted(command: Command, words: &[OsString]) -> Command {
    let is_spoken = |arg: &Arg| arg.get_long().is_some_and(|option| is_spoken(words, option));
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

/// The options of this subcommand that variables set and these words do not, as words.
pub(super) fn spelt_out(command: Command, subcommand: &str, words: &[OsString]) -> Vec<OsString> {
    let command = without_contradicted(without_blank(command), words);
    let mut spelt = Vec::new();
    for arg in command.find_subcommand(subcommand).into_iter().flat_map(Command::get_arguments) {
        let Some((option, value)) = arg.get_long().zip(arg.get_env().and_then(std::env::var_os))
        else {
            continue;
        };
        if is_spoken(words, option) {
            continue;
        }
        let takes_value = arg.get_action().takes_values();
        if takes_value
            || BoolishValueParser::new().parse_ref(&command, Some(arg), &value).is_ok_and(|is| is)
        {
            spelt.push(format!("--{option}").into());
            spelt.extend(takes_value.then_some(value));
        }
    }
    spelt
}

/// Whether this option is among these words, those of a worker left out.
fn is_spoken(words: &[OsString], option: &str) -> bool {
    let mut options = words.iter().map(|it| it.to_string_lossy()).take_while(|it| it != "--");
    options.any(|word| {
        let rest = word.strip_prefix("--").and_then(|it| it.strip_prefix(option));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })
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
