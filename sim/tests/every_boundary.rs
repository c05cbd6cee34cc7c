//! Every command of acquire, renew and release, met by every fault: what becomes of the lock.
//!
//! The commands are those that a client sends in a run without faults; each is then lost on its way
//! there or back, delayed beyond the TTL, met by a reset or by the death of its client. Whatever the
//! client may be told, nobody else is ever harmed, and the lock is to be had again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scenarios::history::{History, What};
use scenarios::judge::{Circumstances, judge};
use scenarios::scenario::{Overrides, Scenario};
use scenarios::verdict::{Level, Outcome};
use sim::virtual_time::{Choices, Runner};

const FAULTS: [(&str, &str); 5] = [
    ("lose-request", ""),
    ("lose-reply", ""),
    ("delay", "for = \"400ms\"\n"),
    ("reset", ""),
    ("crash", ""),
];

/// Two clients, of whom the nearer comes first; client 1 is the one that is met.
fn scenario(lock: &str, nearer: u32, fault: &str) -> Scenario {
    let text = format!(
        "title = \"t\"\nstory = \"s\"\nsource = \"s\"\nproperties = [\"no deadlock\"]\n\
         clients = 2\n\
         [lock]\nrecipe = \"{lock}\"\nttl = \"200ms\"\nretries = 200\npause = \"20ms\"\n\
         [workload.register]\nhold = \"90ms\"\n\
         [network]\nlatency = \"1ms\"\n\
         [[network.link]]\nclient = {nearer}\nlatency = \"100us\"\n\
         {fault}\
         [[expect]]\nlocks = [\"*\"]\nkey = \"held\"\nbelief = \"held\"\neffect = \"held\"\n\
         progress = \"held\"\nwhy = \"w\"\n"
    );
    Scenario::parse("boundary", "boundary.toml", &text, &Overrides::default()).unwrap()
}

/// A command of client 1: its name, which of that name it is, and what it belongs to.
type Boundary = (String, u32, &'static str);

/// What client 1 sends to the server of the lock in a run without faults.
fn boundaries(history: &History) -> Vec<Boundary> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut all = Vec::new();
    let mut part = "acquire";
    for event in history.events.iter().filter(|event| event.client == 1) {
        match event.what {
            What::Acquired => part = "renew",
            What::Release => part = "release",
            What::Command { node, name, .. } => {
                let name = history.texts.get(name).to_owned();
                let count = counts.entry(name.clone()).or_default();
                *count += 1;
                if node == 0 {
                    all.push((name, *count, part));
                }
            }
            _ => {}
        }
    }
    all
}

/// What client 1 was told.
fn told(history: &History) -> String {
    let mut told = Vec::new();
    for event in history.events.iter().filter(|event| event.client == 1) {
        match event.what {
            What::Acquired => told.push("acquired"),
            What::NotAcquired(_) => told.push("not acquired"),
            What::AcquireUnknown(_) => told.push("acquisition unknown"),
            What::Lost => told.push("lost"),
            What::Updated(_) => told.push("wrote"),
            What::NotUpdated(_) => told.push("wrote nothing"),
            What::Released(how) => told.push(match history.texts.get(how) {
                "released" => "released",
                "already expired" => "already expired",
                _ => "taken by another",
            }),
            What::ReleaseUnknown(_) => told.push("release unknown"),
            _ => {}
        }
    }
    if told.is_empty() { "nothing".to_owned() } else { told.join(", ") }
}

/// Runs it, and says what client 1 was told; nobody may be harmed, and client 2 must have its way.
fn run(lock: &str, nearer: u32, fault: &str) -> (String, Vec<Boundary>) {
    let mut runner = Runner::new(&scenario(lock, nearer, fault)).unwrap();
    let schedule = runner.run(1, Choices::listed(Vec::new()));
    runner.journal().look(|history| {
        let place = format!("{lock}, client {nearer} first\n{fault}");
        assert_eq!(schedule.facts.stuck, 0, "{place}");
        let struck = history.events.iter().any(|it| matches!(it.what, What::Fault { .. }));
        assert_eq!(struck, !fault.is_empty(), "{place}");
        let result = judge(history, Circumstances { complete: true, ..Circumstances::default() });
        for level in [Level::Key, Level::Belief, Level::Effect, Level::Progress] {
            // Who dies before the other comes leaves nobody to contend with.
            let outcome = result.level(level);
            let vacuous = outcome == Outcome::Inconclusive && fault.contains("crash");
            assert!(outcome == Outcome::Held || vacuous, "{place}{level:?}: {result:#?}");
        }
        let other = history.events.iter().filter(|it| it.client == 2);
        let wrote = other.filter(|it| matches!(it.what, What::Updated(_))).count();
        assert_eq!(wrote, 1, "the other has its way: {place}");
        (told(history), boundaries(history))
    })
}

/// Every boundary of a lock, a line each.
fn table(lock: &str) -> String {
    let mut table = String::new();
    for (nearer, who) in [(1, "first"), (2, "waiting")] {
        let (_, boundaries) = run(lock, nearer, "");
        for (name, nth, part) in boundaries {
            for (fault, span) in FAULTS {
                let staged = format!(
                    "[[fault]]\nkind = \"{fault}\"\non = \"client 1\"\n\
                     at = {{ command = \"{name}\", nth = {nth} }}\n{span}"
                );
                let (told, _) = run(lock, nearer, &staged);
                writeln!(table, "{who} {part} {name} {nth} {fault}: {told}").unwrap();
            }
        }
    }
    table
}

fn check(lock: &str, expected: &str) {
    let found = table(lock);
    let (found, expected): (Vec<&str>, Vec<&str>) =
        (found.lines().collect(), expected.lines().collect());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{lock}");
    }
    assert_eq!(found.len(), expected.len(), "{lock}: {found:#?}");
}

#[test]
fn single_with_a_watchdog_at_every_boundary() {
    check("single-watchdog", include_str!("every_boundary/single-watchdog.txt"));
}

#[test]
fn notify_at_every_boundary() {
    check("notify", include_str!("every_boundary/notify.txt"));
}

#[test]
fn queue_at_every_boundary() {
    check("queue", include_str!("every_boundary/queue.txt"));
}
