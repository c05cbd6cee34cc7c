//! Capabilities of a server that matter to locks, found by trying.
//!
//! Invariant: nothing is concluded from a version, and probing never fails: what has no answer is *unknown*. Only a key
//! of the run's own is touched, which is deleted afterwards or expires. Locks do not rely on this: they try for
//! themselves.

use std::collections::BTreeMap;

use picklock::command::Command;
use scenarios::result::Capable;

use super::endpoint::Endpoint;

/// How long the key lives if it cannot be deleted.
const TTL_MS: u64 = 10_000;
/// The value that the key holds, and a value that no key holds.
const HELD: &[u8] = b"held";
const OTHER: &[u8] = b"another";
/// The beginnings of errors that say that a command or option does not exist.
const ABSENT: [&[u8]; 5] =
    [b"unknown command", b"syntax error", b"unknown subcommand", b"wrong number", b"unsupported"];

/// Something that a server can or cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What.
    pub name: &'static str,
    /// Whether.
    pub can: Capable,
    /// What the server said if it refused.
    pub said: Option<String>,
}

/// A command, and how the answer of a server that supports it begins.
struct Probe {
    name: &'static str,
    command: Command,
    answers: &'static [&'static [u8]],
}

const NIL: &[&[u8]] = &[b"$-1\r\n", b"_\r\n"];
const NONE: &[&[u8]] = &[b":0\r\n"];

/// The probes, on a key that holds [`HELD`]. The last one changes the protocol of its connection.
fn probes(key: &[u8]) -> [Probe; 8] {
    let set = || Command::new("SET").arg(key).arg(OTHER);
    let probe = |name, command, answers| Probe { name, command, answers };
    [
        probe("SET IFEQ", set().arg("IFEQ").arg(OTHER).arg("PX").int(TTL_MS), NIL),
        probe("DELEX", Command::new("DELEX").arg(key).arg("IFEQ").arg(OTHER), NONE),
        probe("DELIFEQ", Command::new("DELIFEQ").arg(key).arg(OTHER), NONE),
        probe("SET NX GET", set().arg("NX").arg("GET").arg("PX").int(TTL_MS), &[b"$4\r\nheld\r\n"]),
        probe("Lua scripts", Command::new("EVAL").arg("return 1").arg("0"), &[b":1\r\n"]),
        probe(
            "FUNCTION",
            Command::new("FUNCTION").arg("LIST").arg("LIBRARYNAME").arg("picklock"),
            &[b"*"],
        ),
        probe("WAITAOF", Command::new("WAITAOF").arg("0").arg("0").arg("1"), &[b"*2\r\n"]),
        probe("RESP3", Command::new("HELLO").arg("3"), &[b"%"]),
    ]
}

/// Probes a server, in one round trip.
pub async fn of(endpoint: &Endpoint) -> Vec<Capability> {
    let key = endpoint.keys().key("capability");
    let probes = probes(&key);
    let set = Command::new("SET").arg(&key).arg(HELD).arg("PX").int(TTL_MS);
    let mut commands = vec![set];
    commands.extend(probes.iter().map(|probe| probe.command.clone()));
    // After all that touches the key, and before the protocol changes.
    commands.insert(probes.len(), Command::new("DEL").arg(&key));
    let answers = endpoint.pipeline(&commands).await;
    let at = |place: usize| {
        let behind = if place + 1 == probes.len() { 2 } else { 1 };
        answers.get(place + behind).map(Vec::as_slice)
    };
    let found = |(place, probe): (usize, &Probe)| probe.found(at(place));
    probes.iter().enumerate().map(found).collect()
}

/// The same without the servers' errors.
pub fn facts(found: &[Capability]) -> BTreeMap<String, Capable> {
    found.iter().map(|it| (it.name.to_owned(), it.can)).collect()
}

impl Probe {
    fn found(&self, answer: Option<&[u8]>) -> Capability {
        let (can, said) = match answer {
            None => (Capable::Unknown, None),
            Some(answer) if self.answers.iter().any(|it| answer.starts_with(it)) => {
                (Capable::Yes, None)
            }
            Some(error) if error.starts_with(b"-") || error.starts_with(b"!") => {
                let text = String::from_utf8_lossy(&error[1..]);
                let text = text.trim_end();
                match says_absent(text) {
                    true => (Capable::No, None),
                    false => (Capable::Refused, Some(text.to_owned())),
                }
            }
            // It understood the command differently.
            Some(_) => (Capable::No, None),
        };
        Capability { name: self.name, can, said }
    }
}

/// Whether an error says that there is no such command, or no such option.
fn says_absent(error: &str) -> bool {
    let lower = error.to_ascii_lowercase();
    let words = lower.split_once(' ').map_or(lower.as_str(), |(_code, words)| words);
    ABSENT.iter().any(|it| words.as_bytes().starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, answer: &str) -> (Capable, Option<String>) {
        let probes = probes(b"k");
        let probe = probes.iter().find(|it| it.name == name).unwrap();
        let found = probe.found(Some(answer.as_bytes()));
        (found.can, found.said)
    }

    #[test]
    fn only_the_right_answer_is_a_yes() {
        for (name, right, wrong) in [
            ("SET IFEQ", "$-1\r\n", "+OK\r\n"),
            ("DELEX", ":0\r\n", ":1\r\n"),
            ("DELIFEQ", ":0\r\n", "$-1\r\n"),
            ("SET NX GET", "$4\r\nheld\r\n", "$-1\r\n"),
            ("Lua scripts", ":1\r\n", ":0\r\n"),
            ("FUNCTION", "*0\r\n", "+OK\r\n"),
            ("WAITAOF", "*2\r\n:0\r\n:0\r\n", ":0\r\n"),
            ("RESP3", "%7\r\n", "*14\r\n"),
        ] {
            assert_eq!(found(name, right), (Capable::Yes, None), "{name}");
            assert_eq!(found(name, wrong), (Capable::No, None), "{name}");
        }
    }

    #[test]
    fn what_does_not_exist_is_distinguished_from_what_is_refused() {
        for absent in [
            "-ERR unknown command 'DELEX', with args beginning with: 'k' 'IFEQ' ",
            "-ERR syntax error",
            "-ERR Unknown subcommand or wrong number of arguments for 'LIST'. Try FUNCTION HELP.",
            "-ERR wrong number of arguments for 'set' command",
            "-NOPROTO unsupported protocol version",
        ] {
            assert_eq!(found("DELEX", &format!("{absent}\r\n")), (Capable::No, None), "{absent}");
        }
        let refused = |text: &str| (Capable::Refused, Some(text.to_owned()));
        for (error, said) in [
            ("-NOPERM User bob has no permissions\r\n", "NOPERM User bob has no permissions"),
            ("-ERR no unknown command is known here\r\n", "ERR no unknown command is known here"),
            ("!9\r\nERR never\r\n", "9\r\nERR never"),
        ] {
            assert_eq!(found("DELEX", error), refused(said));
        }
        let probes = probes(b"k");
        let silent = probes[0].found(None);
        assert_eq!((silent.can, silent.said), (Capable::Unknown, None));
    }
}
