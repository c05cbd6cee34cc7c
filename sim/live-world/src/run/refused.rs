//! What the server or this machine refused while clients were at work, and what that means for the run.
//!
//! Invariant: a command that was refused because of the server (a missing right, a command that it does not have, no
//! memory, no disk, a replica) or for want of a file descriptor never counts against the lock. Refusals that belong to
//! locking, such as NOSCRIPT, are not counted, and neither are refusals that a fault of the run has injected.

use std::collections::BTreeMap;

use history::fault::{ErrorAnswer, Fault};
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
/// What a server says of a command that it does not have, or that was renamed.
const UNKNOWN: &str = "ERR unknown command";
/// Commands that locks try if a server may have them, and can do without.
const NEW_ONES: [&str; 2] = ["DELEX", "DELIFEQ"];

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
    /// What the server of this history itself refused.
    pub(super) fn of(history: &History) -> Option<Self> {
        let mut names = BTreeMap::new();
        let mut refused: Option<Self> = None;
        // By client: how many injected refusals it has not received yet.
        let mut injected: BTreeMap<u32, u32> = BTreeMap::new();
        for event in &history.events {
            match event.what {
                What::Fault { fault: Fault::Refuse, .. } => {
                    *injected.entry(event.client).or_default() += 1;
                }
                What::Refused(why)
                    if is_injectable(history.text(why))
                        && injected.get(&event.client).is_some_and(|left| *left > 0) =>
                {
                    injected.entry(event.client).and_modify(|left| *left -= 1);
                }
                What::Command { name, .. } => drop(names.insert(event.op, name)),
                What::Refused(why) => {
                    let name = names.get(&event.op).map_or("", |name| history.text(*name));
                    if !is_of_server(name, history.text(why)) {
                        continue;
                    }
                    let found = refused.get_or_insert_with(|| Self {
                        commands: Vec::new(),
                        said: ServerError::from_line(history.text(why)),
                        times: 0,
                    });
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

    /// Whether the reason is a right that the run's user lacks, or a command that the server lacks, from the start.
    pub(super) fn is_denied(&self) -> bool {
        matches!(&*self.said.code, "NOAUTH" | "NOPERM" | "WRONGPASS")
            || self.said.message.contains(IN_SCRIPT)
            || self.said.to_string().starts_with(UNKNOWN)
    }
}

/// Whether a fault may have answered this. NOSCRIPT is an ordinary answer.
fn is_injectable(said: &str) -> bool {
    ErrorAnswer::of(said).is_some_and(|it| it != ErrorAnswer::Noscript)
}

fn is_of_server(name: &str, said: &str) -> bool {
    let code = said.split(' ').next().unwrap_or_default();
    OF_SERVER.contains(&code) || said.contains(IN_SCRIPT) || is_missing(name, said)
}

/// Whether the server does not have a command that every lock may rely on.
fn is_missing(name: &str, said: &str) -> bool {
    said.starts_with(UNKNOWN) && !NEW_ONES.contains(&name)
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
            ("DELEX", "ERR unknown command 'DELEX', with args beginning with: "),
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
    fn what_a_fault_answers_in_its_place_is_not_the_servers() {
        let said = "OOM command not allowed when used memory > 'maxmemory'.";
        let fault = |client| Event {
            at_ns: 1,
            client,
            acquisition: 1,
            op: 0,
            what: What::Fault {
                fault: Fault::Refuse,
                node: None,
                for_ns: 0,
                in_hold: false,
                staged: None,
            },
        };
        let struck = |client, refusals: &[(&str, &str)]| {
            let mut history = history(refusals);
            history.events.insert(1, fault(client));
            Refused::of(&history).map(|it| it.times)
        };
        assert_eq!(struck(1, &[("SET", said)]), None);
        assert_eq!(struck(2, &[("SET", said)]), Some(1), "another was struck");
        assert_eq!(struck(1, &[("SET", said), ("SET", said)]), Some(1), "once");
        let unknown = "ERR unknown command 'EVALSHA', with args beginning with: ";
        let refused = Refused::of(&history(&[("EVALSHA", unknown)])).unwrap();
        assert!(refused.is_denied());
        assert_eq!(struck(1, &[("EVALSHA", unknown), ("SET", said)]), Some(1));
        let usual = ("EVALSHA", "NOSCRIPT No matching script.");
        assert_eq!(struck(1, &[usual, ("EVAL", said)]), None);
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
