//! What the server or this machine refused while clients were at work, and what that means for the run.
//!
//! Invariant: a command that was refused because of the server (a missing right, no memory, no disk, a replica) or for
//! want of a file descriptor never counts against the lock. Refusals that belong to locking, such as a script that is
//! not loaded yet, are not counted.

use std::collections::BTreeMap;

use history::{History, What};
use picklock::reply::ServerError;

use fault_proxy::descriptors::says_out_of_files;

/// Error codes of a server that would refuse any lock.
const OF_SERVER: [&str; 10] = [
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "WRONGPASS",
];
/// Part of the error of a script whose user may not run what the script calls; its code is only ERR.
const IN_SCRIPT: &str = "The user executing the script can't";

/// What the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The names of the commands, each once.
    pub(super) commands: Vec<String>,
    /// What it said first.
    pub(super) said: ServerError,
    /// How often it refused.
    pub(super) times: u64,
}

impl Refused {
    /// What the server of this history refused for reasons of its own.
    pub(super) fn of(history: &History) -> Option<Self> {
        let mut names = BTreeMap::new();
        let mut refused: Option<Self> = None;
        for event in &history.events {
            match event.what {
                What::Command { name, .. } => drop(names.insert(event.op, name)),
                What::Refused(why) if is_of_server(history.text(why)) => {
                    let found = refused.get_or_insert_with(|| Self {
                        commands: Vec::new(),
                        said: ServerError::from_line(history.text(why)),
                        times: 0,
                    });
                    let name = names.get(&event.op).map_or("", |name| history.text(*name));
                    if !found.commands.iter().any(|known| known == name) {
                        found.commands.push(name.to_owned());
                    }
                    found.times += 1;
                }
                _ => {}
            }
        }
        refused
    }

    /// Whether the reason is a right that the run's user lacks: it was lacking from the start.
    pub(super) fn is_denied(&self) -> bool {
        matches!(&*self.said.code, "NOAUTH" | "NOPERM" | "WRONGPASS")
            || self.said.message.contains(IN_SCRIPT)
    }
}

fn is_of_server(said: &str) -> bool {
    let code = said.split(' ').next().unwrap_or_default();
    OF_SERVER.contains(&code) || said.contains(IN_SCRIPT)
}

/// How many operations failed because this process had no file descriptor for a connection. Connections that the proxy
/// could not pass on are counted by the proxy itself.
pub(super) fn out_of_files(history: &History) -> u64 {
    let why = |what| match what {
        What::NotAcquired(why)
        | What::AcquireUnknown(why)
        | What::ReleaseUnknown(why)
        | What::Refused(why)
        | What::Unanswered(why)
        | What::NotTaken(why)
        | What::TakeUnknown { why, .. }
        | What::NotUpdated(why)
        | What::UpdateUnknown { why, .. } => Some(why),
        _ => None,
    };
    let said = history.events.iter().filter_map(|event| why(event.what));
    said.filter(|why| says_out_of_files(history.text(*why))).count() as u64
}

#[cfg(test)]
mod tests {
    use history::{Event, Head, Intent, Text, Touch};

    use super::*;

    fn history(refusals: &[(&str, &str)]) -> History {
        let mut history = History::new(Head::default());
        for (op, (command, why)) in (1..).zip(refusals) {
            let (name, why) = (history.texts.intern(command), history.texts.intern(why));
            let intent = Intent { touch: Touch::None, compares: false };
            let sent = What::Command { node: 0, name, key: name, intent };
            for what in [sent, What::Refused(why)] {
                history.events.push(Event { at_ns: 1, client: 1, acquisition: 1, op, what });
            }
        }
        history
    }

    #[test]
    fn errors_that_belong_to_locking_are_not_counted() {
        let usual = [
            ("EVALSHA", "NOSCRIPT No matching script."),
            ("SET", "ERR syntax error"),
            ("SET", "not sent: READONLY is only what it was told"),
        ];
        assert_eq!(Refused::of(&history(&usual)), None);
    }

    #[test]
    fn missing_rights_are_reported_with_every_command() {
        let said = "NOPERM this user has no permissions to run the 'evalsha' command";
        let usual = ("EVALSHA", "NOSCRIPT No matching script.");
        let refused = [("EVALSHA", said), usual, ("EVAL", said), ("EVAL", said)];
        let refused = Refused::of(&history(&refused)).unwrap();
        assert_eq!((refused.commands.join(" "), refused.times), ("EVALSHA EVAL".to_owned(), 3));
        assert!(refused.is_denied());
        let inside = "ERR The user executing the script can't run this command or subcommand";
        assert!(Refused::of(&history(&[("EVAL", inside)])).unwrap().is_denied());
    }

    #[test]
    fn a_server_that_accepts_no_writes_denies_no_right() {
        let refused = Refused::of(&history(&[("SET", "READONLY You can't write")])).unwrap();
        assert_eq!((&*refused.said.code, refused.is_denied()), ("READONLY", false));
    }

    #[test]
    fn only_operations_without_a_file_descriptor_count() {
        let mut history = History::new(Head::default());
        let mut say = |why: &str, what: fn(Text) -> What| {
            let what = what(history.texts.intern(why));
            history.events.push(Event { at_ns: 1, client: 1, acquisition: 1, op: 1, what });
        };
        let ran_out = "not sent: Too many open files (os error 24)";
        say(ran_out, What::NotAcquired);
        say("held by another", What::NotAcquired);
        say("pool not read: not sent: Too many open files (os error 24)", What::NotTaken);
        say("outcome unknown: Connection reset by peer (os error 104)", What::AcquireUnknown);
        say(ran_out, What::Released);
        assert_eq!(out_of_files(&history), 2);
    }
}
