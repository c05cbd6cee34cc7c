//! Every violation of the catalogue: the command to blame stands in its story, with the fault behind a key
//! that was left, and whoever is accused of harm is the one that answers show to have done it.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict, Witness, WitnessStep};
use history::{Event, History, What};
use scenarios::catalog;
use scenarios::matrix::{Pair, locks};
use scenarios::scenario::Scenario;
use virtual_world::{Choices, Runner};

/// Violations by a key that somebody left.
const STALLS: [&str; 2] = ["availability", "deadlock-freedom"];

/// What a run of this pair violates, and its history.
fn violations(
    scenario: &str,
    lock: &str,
    seed: u64,
) -> (History, BTreeMap<&'static str, (Level, Witness)>) {
    let mut runner = Runner::new(&Pair::scenario(scenario, lock).unwrap()).unwrap();
    runner.run(seed, Choices::seeded(seed));
    let history = runner.journal().history();
    let violated = checkers::check(&history, true).into_iter();
    let violated = violated.filter_map(|Finding { name, level, verdict }| match verdict {
        Verdict::Violated(witness) => Some((name, (level, witness))),
        _ => None,
    });
    let violated = violated.collect();
    (history, violated)
}

/// When a command was last heard of, and whose it was.
fn last_heard(history: &History, op: u32) -> &Event {
    history.events.iter().rfind(|event| event.op == op).expect("an operation of the history")
}

fn told_at(witness: &Witness, event: &Event) -> Vec<String> {
    let of_it = witness.story.iter();
    let of_it = of_it.filter(|line| line.at_ns == event.at_ns && line.client == event.client);
    of_it.map(|line| line.text.clone()).collect()
}

/// What is told of a command without an answer that did harm: when it arrived, which is within the hold that it harmed.
fn told_late(witness: &Witness, event: &Event) -> Vec<String> {
    let (victim, lines) = (witness.clients[0], witness.story.iter());
    let has = |it: &&WitnessStep| it.client == victim && it.text.starts_with("has the lock");
    let held_ns = lines.clone().rfind(has).map_or(u64::MAX, |line| line.at_ns);
    let is_late = |it: &&WitnessStep| {
        let says = it.text.contains("arrives only now") || it.text.contains("is never answered, ");
        says && it.client == event.client && it.at_ns >= held_ns
    };
    lines.filter(is_late).map(|line| line.text.clone()).collect()
}

/// What the story of this violation leaves out.
fn left_out(history: &History, name: &str, level: Level, witness: &Witness) -> Vec<String> {
    let mut left_out = Vec::new();
    for op in &witness.accused {
        let event = last_heard(history, *op);
        let told = match event.what {
            What::Answered { .. } => told_at(witness, event),
            _ if level != Level::Key || witness.accused.len() > 1 => told_at(witness, event),
            _ => told_late(witness, event),
        };
        let names_victim = told.iter().any(|text| text.contains("the key of "));
        let named = level != Level::Key || witness.accused.len() > 1 || names_victim;
        if told.is_empty() || !named {
            left_out.push(format!("{name}: operation {op} of client {}", event.client));
        }
    }
    // Where no key was left no command is to blame. A server that was down is told; that a waiter slept on is told by
    // `wake-up` alone, where a scenario asks for it, and not yet by `availability`.
    let down = witness.story.iter().any(|it| it.client == 0 && it.text.contains("the server"));
    let asleep = history.head.lock == "notify-no-recheck" && name == "availability";
    if name == "ownership" && witness.accused.is_empty()
        || STALLS.contains(&name) && witness.accused.is_empty() && !down && !asleep
    {
        left_out.push(format!("{name}: who did it"));
    }
    // Who left a key because it died, or was struck before, is told to have been.
    for op in witness.accused.iter().filter(|_| level == Level::Progress) {
        let left = last_heard(history, *op);
        let faults = history.events.iter().filter(|it| it.client == left.client);
        let mut faults = faults
            .filter(|it| matches!(it.what, What::Fault { fault, .. } if fault != Fault::Drift));
        let last_ns = witness.steps.last().map_or(0, |step| step.at_ns);
        let first_ns = witness.steps.first().map_or(0, |step| step.at_ns);
        let within = |it: &&Event| (first_ns..=last_ns).contains(&it.at_ns);
        if faults.clone().any(|it| within(&it))
            && !faults.any(|it| !told_at(witness, it).is_empty())
        {
            left_out.push(format!("{name}: what struck client {}", left.client));
        }
    }
    if witness.story.len() > 12 {
        left_out.push(format!("{name}: nothing, but it has {} lines", witness.story.len()));
    }
    left_out
}

#[test]
fn every_story_of_the_catalogue_has_the_command_to_blame() {
    let (mut missing, mut stalls) = (Vec::new(), 0);
    for (scenario, _) in catalog::ALL {
        for lock in locks() {
            let (history, violated) = violations(scenario, lock, 1);
            for (name, (level, witness)) in violated {
                stalls += usize::from(STALLS.contains(&name));
                let left_out = left_out(&history, name, level, &witness);
                missing.extend(left_out.into_iter().map(|it| format!("{scenario} {lock}: {it}")));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
    assert!(stalls > 20, "{stalls} stalls have a key that was left");
}

#[test]
fn of_two_that_overwrite_at_once_the_one_that_found_the_others_value_is_accused() {
    for seed in 1..=6 {
        let (history, violated) = violations("getset-race", "getset-timestamp", seed);
        let (_, witness) = &violated["ownership"];
        let [op] = witness.accused[..] else { panic!("{seed}: {}", witness.summary) };
        let What::Answered { found, .. } = last_heard(&history, op).what else { panic!("{seed}") };
        let [victim, culprit] = witness.clients[..] else { panic!("{seed}") };
        assert_eq!(last_heard(&history, found).client, victim, "{seed}: {}", witness.summary);
        assert_eq!(last_heard(&history, op).client, culprit, "{seed}: {}", witness.summary);
    }
}

#[test]
fn who_stood_still_is_accused_and_not_whom_its_harm_led_to_harm_others() {
    for seed in 1..=12 {
        let (history, violated) = violations("gc-pause", "del-release", seed);
        let paused = |it: &&Event| matches!(it.what, What::Fault { fault: Fault::Pause, .. });
        let paused = history.events.iter().find(paused).expect("it is staged").client;
        let (_, witness) = &violated["ownership"];
        assert_eq!(witness.clients[1], paused, "{seed}: {}", witness.summary);
        let told = witness.story.iter().any(|line| line.text.starts_with("stands still"));
        assert!(told, "{seed}: {:?}", witness.story);
    }
}

#[test]
fn a_stall_is_told_with_its_cause() {
    for (scenario, lock, name, lines) in [
        (
            "lost-reply",
            "polling",
            "availability",
            ["is sent a reply that is lost", "the key that is left"],
        ),
        (
            "ghost-renewal",
            "get-set-watchdog",
            "availability",
            ["one of its messages is late", "the key that is left"],
        ),
        ("crash-between", "setnx-expire", "deadlock-freedom", ["dies", "its key is left"]),
        ("missed-wakeup", "notify-no-recheck", "wake-up", ["stands still", "the key is deleted"]),
    ] {
        for seed in 1..=6 {
            let (_, violated) = violations(scenario, lock, seed);
            let (_, witness) = &violated[name];
            for line in lines {
                let told = witness.story.iter().any(|it| it.text.contains(line));
                assert!(told, "{scenario} {lock} {seed}: {line}: {:?}", witness.story);
            }
        }
    }
}

/// The story of what this run violates.
fn story_of(scenario: &Scenario, seed: u64, name: &str) -> Vec<String> {
    let mut runner = Runner::new(scenario).unwrap();
    runner.run(seed, Choices::seeded(seed));
    let findings = checkers::check(&runner.journal().history(), true).into_iter();
    let mut witnesses = findings.filter_map(|it| match it.verdict {
        Verdict::Violated(witness) if it.name == name => Some(witness),
        _ => None,
    });
    let story = witnesses.next().expect("it is violated").story;
    story.into_iter().map(|it| format!("{} {}", it.client, it.text)).collect()
}

/// Whether these are lines of the story, in this order.
fn tells(story: &[String], lines: &[&str]) -> bool {
    let mut told = story.iter();
    lines.iter().all(|line| told.any(|it| it.contains(line)))
}

#[test]
fn what_becomes_of_a_key_is_told_as_it_was() {
    for (scenario, lock, seed, name, lines, not) in [
        (
            "keys-flushed",
            "exists-then-set",
            359,
            "mutual-exclusion",
            &["1 has the lock: its key may be overwritten already"][..],
            "expired already",
        ),
        (
            "key-evicted",
            "evalsha-only",
            2949,
            "mutual-exclusion",
            &["1 has the lock: its key lives", "0 evicts the lock's key", "1 its key is gone"],
            "gone already",
        ),
        (
            "older-server",
            "getset-timestamp",
            1734,
            "mutual-exclusion",
            &["1 has the lock: its stamp is valid", "3 deletes the key of client 1"],
            "its key is gone",
        ),
        (
            "growing-ttl",
            "get-set-watchdog",
            4149,
            "availability",
            &["3 SET on the lock is answered: the key is set, to live 3 s", "3 its key is left"],
            "the key is set, to live for ever",
        ),
        (
            "refused-release",
            "setnx-expire",
            584,
            "availability",
            &["1 SETNX on the lock is answered", "1 its key is left"],
            "expires",
        ),
        (
            "split-brain",
            "no-ttl",
            3049,
            "deadlock-freedom",
            &["2 has the lock", "0 has a replica take the place", "2 its key is left"],
            "2 writes 3 to the register",
        ),
        (
            "clock-step",
            "notify",
            2320,
            "mutual-exclusion",
            &[
                "4 has the lock: its key lives",
                "0 lets the server's clock jump",
                "4 its key is gone",
                "5 has the lock: its key lives",
            ],
            "5 its key is gone",
        ),
        // ROWS
    ] {
        let story = story_of(&Pair::scenario(scenario, lock).unwrap(), seed, name);
        let is_so = tells(&story, lines) && story.iter().all(|it| !it.contains(not));
        assert!(is_so, "{scenario} {lock} {seed}: {story:#?}");
    }
}

#[test]
fn pauses_before_and_behind_a_lost_update_do_not_hide_it() {
    let scenario = Pair::searched("stale-write", "watch-multi").unwrap();
    let story = story_of(&scenario, 2_043, "no-lost-update");
    let lines = [
        "7 has the lock",
        "7 stands still",
        "7 its key expires",
        "8 has the lock",
        "8 writes 11 to the register",
        "7 writes 11 to the register",
    ];
    assert!(tells(&story, &lines), "{story:#?}");
    assert_eq!(story.iter().filter(|it| it.contains("is answered: 10")).count(), 2, "{story:#?}");
}
