//! Every command boundary of a lock, and the outcome of each fault that strikes there.
//!
//! A run without faults shows which commands a lock sends; then each of them is struck in each way, in a
//! run of its own. Whatever happens, every invariant is held and the second client gets its turn. The
//! exact outcomes are in `boundaries/<recipe>.txt`, a line per run, to be read and compared; a test that
//! finds another line prints the whole table.

use std::fmt::Write as _;

use history::{AcquireEnd, Acquisition, ReleaseEnd, Timeline, UpdateEnd};

use super::*;

const US_NS: u64 = 1_000;

/// Two clients, one of which is nearer to the server and so has the lock first. Its work takes two
/// renewals at a third of the TTL, and less than the TTL where nobody renews.
const SCENARIO: &str = r#"
title = "Every boundary"
story = "One client's lock is struck at one of its commands, while another waits."
source = "the ambiguity of every call"
properties = ["mutual exclusion", "no deadlock"]
clients = 2
[lock]
recipe = "single"
ttl = "600ms"
retries = 400
pause = "20ms"
jitter = "0ms"
[workload.register]
hold = "500ms"
[network]
latency = "1ms"
[[network.link]]
client = NEAR
latency = "100us"
[[expect]]
locks = ["*"]
key = "held"
belief = "held"
effect = "held"
progress = "held"
why = "a boundary is no excuse"
"#;

/// What strikes at a boundary.
const FAULTS: [&str; 9] = [
    "request lost",
    "reply lost",
    "request late",
    "reply late",
    "reset on the way there",
    "reset on the way back",
    "crash before sending",
    "crash, request under way",
    "crash, reply under way",
];

/// Whether the client that is struck comes first or waits.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    First,
    Waiting,
}

/// A command that client 1 sends for its lock.
struct Boundary {
    /// What it is for, which time, and what it is called.
    name: String,
    command: String,
    /// Which command of this name the client sends, counted with those to the register.
    nth: usize,
    /// When it is sent and answered, in nanoseconds after the clients have begun.
    sent_ns: u64,
    answered_ns: u64,
}

fn parse(lock: &str, role: Role, fault: &str) -> Scenario {
    let near = if role == Role::First { "1" } else { "2" };
    parsed(&format!("{}{fault}", SCENARIO.replace("NEAR", near)), Some(lock))
}

fn begun_ns(history: &History) -> u64 {
    history.events.iter().find(|it| it.what == What::Acquire).unwrap().at_ns
}

/// What client 1 sends for its lock when nothing disturbs it.
fn boundaries(lock: &str, role: Role, server: &str) -> Vec<Boundary> {
    let (_, history) = benign(&parse(lock, role, server));
    let begun_ns = begun_ns(&history);
    let (mut phase, mut turns) = ("", std::collections::BTreeMap::<&str, u32>::new());
    let (mut sent, mut found) = (Vec::new(), Vec::new());
    for event in history.events.iter().filter(|it| it.client == 1) {
        match event.what {
            What::Phase(at) => {
                let operation = at.name().split('.').next().unwrap_or_default();
                if at.name().ends_with(".before-send") {
                    *turns.entry(operation).or_default() += 1;
                }
                phase = operation;
            }
            What::Command { node, name, .. } => {
                let command = history.text(name).to_owned();
                sent.push(command.clone());
                if history.head.is_resource(node) {
                    continue;
                }
                let nth = sent.iter().filter(|it| **it == command).count();
                let is_end = |it: &&Event| it.op == event.op && it.at_ns > event.at_ns;
                let answered_ns = history.events.iter().find(is_end).unwrap().at_ns;
                let turn = turns.get(phase).copied().unwrap_or_default();
                found.push(Boundary {
                    name: format!("{phase} {turn}: {command}"),
                    command,
                    nth,
                    sent_ns: event.at_ns - begun_ns,
                    answered_ns: answered_ns - begun_ns,
                });
            }
            _ => {}
        }
    }
    found
}

/// The fault as the scenario file says it.
fn staged(boundary: &Boundary, fault: &str) -> String {
    let Boundary { command, nth, .. } = boundary;
    let at = |at_ns: u64| format!("at = {{ time = \"{at_ns}ns\" }}");
    let there = format!("at = {{ command = \"{command}\", nth = {nth} }}");
    let (kind, at, more) = match fault {
        "request lost" => ("lose-request", there, ""),
        "reply lost" => ("lose-reply", there, ""),
        // Longer than the TTL.
        "request late" => ("delay", there, "for = \"900ms\"\nways = \"there\""),
        "reply late" => ("delay", there, "for = \"900ms\"\nways = \"back\""),
        "reset on the way there" => ("reset", there, "ways = \"there\""),
        "reset on the way back" => ("reset", there, "ways = \"back\""),
        "crash before sending" => ("crash", there, ""),
        "crash, request under way" => ("crash", at(boundary.sent_ns + 50 * US_NS), ""),
        "crash, reply under way" => ("crash", at(boundary.answered_ns - 50 * US_NS), ""),
        other => panic!("{other}"),
    };
    format!("[[fault]]\nkind = \"{kind}\"\non = \"client 1\"\n{at}\n{more}\n")
}

/// What came of a client's acquisition, in words.
fn told(history: &History, it: &Acquisition, begun_ns: u64) -> String {
    let ms = |at_ns: u64| (at_ns - begun_ns) / MS_NS;
    let mut text = match it.end {
        Some((at_ns, AcquireEnd::Ok)) => format!("has it at {} ms", ms(at_ns)),
        Some((_, AcquireEnd::Fail(why))) => format!("does not get it: {}", history.text(why)),
        Some((_, AcquireEnd::Info(why))) => format!("does not know: {}", history.text(why)),
        None => "never knows".to_owned(),
    };
    if let Some(at_ns) = it.lost_ns {
        write!(text, ", loses it at {}", ms(at_ns)).unwrap();
    }
    match it.updates.first().and_then(|it| it.end) {
        Some((_, UpdateEnd::Ok(_))) => text += ", works",
        Some((_, UpdateEnd::Fail(why))) => write!(text, ", {}", history.text(why)).unwrap(),
        Some((_, UpdateEnd::Info(_))) => text += ", may have worked",
        None => {}
    }
    match it.released {
        Some((at_ns, ReleaseEnd::Ok(how))) => {
            write!(text, ", {} at {}", history.text(how), ms(at_ns)).unwrap();
        }
        Some((at_ns, ReleaseEnd::Info(_))) => {
            write!(text, ", unknown whether released at {}", ms(at_ns)).unwrap();
        }
        None => {}
    }
    if let Some(at_ns) = it.crashed_ns {
        write!(text, ", dies at {}", ms(at_ns)).unwrap();
    }
    text
}

/// A line for every fault at every boundary; `server` is the scenario's part of this name, or nothing.
fn table(lock: &str, role: Role, server: &str) -> String {
    let mut table = String::new();
    for boundary in boundaries(lock, role, server) {
        writeln!(table, "{}", boundary.name).unwrap();
        for fault in FAULTS {
            let staged = format!("{}{server}", staged(&boundary, fault));
            let (_, history) = benign(&parse(lock, role, &staged));
            let place = format!("{lock}, {}, {fault}", boundary.name);
            assert_eq!(strikes(&history).len(), 1, "{place}: struck once");
            for level in Level::ALL {
                let findings = checkers::check(&history, true);
                assert_eq!(outcome(&history, level), Outcome::Held, "{place}: {findings:#?}");
            }
            let (timeline, begun_ns) = (Timeline::of(&history), begun_ns(&history));
            let of = |client| timeline.acquisitions.iter().find(|it| it.client == client).unwrap();
            let (struck, other) = (of(1), of(2));
            let Some((had_ns, AcquireEnd::Ok)) = other.end else { panic!("{place}: {other:?}") };
            writeln!(
                table,
                "    {fault:<24} it {}; the other has it at {} ms",
                told(&history, struck, begun_ns),
                (had_ns - begun_ns) / MS_NS
            )
            .unwrap();
        }
    }
    table
}

fn compare(lock: &str, expected: &str) {
    let mut found = format!("coming first\n\n{}", table(lock, Role::First, ""));
    let (_, waits) = benign(&parse(lock, Role::Waiting, ""));
    // A client that waits by polling sends the same commands as the first client.
    if waits
        .events
        .iter()
        .any(|it| matches!(it.what, What::Command { name, .. } if waits.text(name) == "SUBSCRIBE"))
    {
        write!(found, "\nwaiting\n\n{}", table(lock, Role::Waiting, "")).unwrap();
    }
    assert!(found == expected, "boundaries/{lock}.txt says otherwise; found was:\n{found}");
}

/// The outcomes at every boundary. Redlock asks five servers at once: each is struck in its own run, and the others are
/// a quorum.
const OUTCOMES: [(&str, &str); 7] = [
    ("single", include_str!("boundaries/single.txt")),
    ("single-watchdog", include_str!("boundaries/single-watchdog.txt")),
    ("native-cas", include_str!("boundaries/native-cas.txt")),
    ("notify", include_str!("boundaries/notify.txt")),
    ("queue", include_str!("boundaries/queue.txt")),
    ("fenced", include_str!("boundaries/fenced.txt")),
    ("redlock", include_str!("boundaries/redlock.txt")),
];

#[test]
fn every_boundary_has_its_outcome() {
    std::thread::scope(|scope| {
        for (lock, expected) in OUTCOMES {
            scope.spawn(|| compare(lock, expected));
        }
    });
}

/// Where a command is refused another follows, and each of them may be struck.
#[test]
fn native_cas_holds_at_every_boundary_of_servers_that_have_less() {
    for (software, sent) in [("valkey-9", "DELIFEQ"), ("redis-7.0", "EVALSHA")] {
        let server = format!("[server]\nsoftware = \"{software}\"\n");
        let table = table("native-cas", Role::First, &server);
        for name in ["DELEX", sent] {
            assert!(table.contains(&format!("release 1: {name}\n")), "{software}:\n{table}");
        }
    }
}
