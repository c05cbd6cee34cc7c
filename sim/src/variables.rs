//! The `PICKLOCK_*` variables behind the options.
//!
//! Invariant: an empty variable counts as unset, as in scripts and CI systems.

use std::ffi::OsString;

use clap::Command;

/// The command line without variables that are set but empty.
pub(super) fn without_blank(command: Command) -> Command {
    let without = |arg: clap::Arg| {
        let is_blank = arg.get_env().and_then(std::env::var_os).is_some_and(|it| it.is_empty());
        if is_blank { arg.env(None::<&'static str>) } else { arg }
    };
    command.mut_args(without).mut_subcommands(without_blank)
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
