//! What single recipes are seen doing, schedule by schedule.

use std::collections::BTreeMap;

use history::{Answer, Stage, Touch};

use super::*;
use history::verdict::Verdict;

/// The commands of this name on the lock's key, or on none, with how each ended.
fn commands(history: &History, wanted: &str) -> Vec<(Event, Option<Event>)> {
    let mut ends = BTreeMap::new();
    let mut found = Vec::new();
    for event in &history.events {
        match event.what {
            What::Command { name, .. } if history.text(name) == wanted => found.push(*event),
            _ if event.op > 0 => drop(ends.insert(event.op, *event)),
            _ => {}
        }
    }
    let with_end = |it: Event| (it, ends.get(&it.op).copied().filter(|end| end.at_ns >= it.at_ns));
    found.into_iter().map(with_end).collect()
}

#[test]
fn what_a_transaction_did_is_known_when_it_is_over() {
    let history = history_of(&catalogued("long-job", "watch-multi", &[("lock.ttl", "5s")]), 1);
    let (deletes, execs) = (commands(&history, "DEL"), commands(&history, "EXEC"));
    assert_eq!((deletes.len(), execs.len()), (2, 2));
    for ((_, deleted), (_, executed)) in deletes.into_iter().zip(execs) {
        let (deleted, executed) = (deleted.unwrap(), executed.unwrap());
        let done = What::Answered { touch: Touch::Delete, answer: Answer::Int(1), found: 0 };
        assert_eq!(deleted.what, done);
        assert_eq!(deleted.at_ns, executed.at_ns);
        let nothing = What::Answered { touch: Touch::None, answer: Answer::List, found: 0 };
        assert_eq!(executed.what, nothing, "EXEC itself touches nothing");
    }
}

#[test]
fn what_was_queued_is_not_carried_out_where_the_key_has_changed() {
    let history = history_of(&catalogued("expiry-race", "watch-multi", &[]), 1);
    let dropped = commands(&history, "DEL").into_iter().filter_map(|(_, end)| match end?.what {
        What::Refused(why) => Some(history.text(why).to_owned()),
        _ => None,
    });
    assert_eq!(dropped.collect::<Vec<_>>(), ["a watched key has changed"]);
}

#[test]
fn the_articles_watchdog_renews_five_times_and_asks_for_more_each_time() {
    let history = history_of(&catalogued("long-job", "get-set-watchdog", &[]), 1);
    let first = history.events.iter().find(|it| it.what == What::Acquired).unwrap().acquisition;
    let asked = history.events.iter().filter_map(|it| match it.what {
        What::Command { intent, .. } if it.acquisition == first => match intent.touch {
            Touch::Overwrite(Some(ttl_ns)) => Some(ttl_ns / 1_000_000),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [400, 600, 800, 1_000, 1_200]);
}

/// Whether anybody slept through a release.
fn wake_up(history: &History) -> Verdict {
    let findings = checkers::judge(history, true);
    findings.into_iter().find(|it| it.name == "wake-up").unwrap().verdict
}

/// A client that polls looks after its pause, and one that listens when the TTL is over: whatever strikes, no
/// such client is blamed.
#[test]
fn nobody_is_called_asleep_who_only_pauses() {
    for (lock, within) in [("single", "101ms"), ("polling", "101ms"), ("notify", "1001ms")] {
        let scenario =
            catalogued("bonus-pool", lock, &[("woken_within", within), ("clients", "8")]);
        let mut runner = Runner::new(&scenario).unwrap();
        let mut held = 0;
        for seed in 0..100 {
            runner.run(seed, Choices::seeded(seed));
            let found = runner.journal().look(wake_up);
            assert_ne!(found.outcome(), Outcome::Violated, "{lock} {seed}: {found:?}");
            held += u32::from(found == Verdict::Held);
        }
        assert!(held > 20, "{lock}: {held}");
    }
}

/// No fault need be staged: latencies alone do it, sooner or later.
#[test]
fn a_wake_up_is_missed_without_any_fault() {
    let text = scenarios::catalog::text("missed-wakeup").unwrap();
    let (before, rest) = text.split_once("[[fault]]").unwrap();
    let (_, after) = rest.split_once("[[expect]]").unwrap();
    let text = format!("{before}[[expect]]{after}").replace("hold = \"100ms\"", "hold = \"2ms\"");
    let missed = |lock: &str| {
        let mut runner = Runner::new(&parsed(&text, Some(lock))).unwrap();
        let is_missed = |seed: &u64| {
            runner.run(*seed, Choices::seeded(*seed));
            runner.journal().look(wake_up).outcome() == Outcome::Violated
        };
        (0..100).filter(is_missed).count()
    };
    assert!(missed("notify-no-recheck") > 5);
    for lock in ["notify", "single", "polling"] {
        assert_eq!(missed(lock), 0, "{lock}");
    }
}

/// How many commands this many waiting clients send to the servers of the lock, all together.
fn load(lock: &str, waiters: u64) -> u64 {
    let clients = waiters.to_string();
    let history = history_of(&catalogued("polling-load", lock, &[("clients", &clients)]), 1);
    let of_lock = |node| !history.head.is_resource(node);
    let is_sent = |it: &&Event| {
        it.acquisition > 0 && matches!(it.what, What::Command { node, .. } if of_lock(node))
    };
    history.events.iter().filter(is_sent).count() as u64
}

/// The third article's point: every waiting client asks as often as there are others before it.
#[test]
fn polling_costs_the_square_of_those_who_wait_and_a_line_does_not() {
    for lock in ["polling", "single", "notify", "notify-no-recheck"] {
        let [few, many] = [25, 100].map(|waiters| load(lock, waiters));
        assert!(many > 12 * few && many < 18 * few, "{lock}: {few} and {many}");
        assert!(many > 50 * 100, "{lock}: {many}");
    }
    for waiters in [25, 100, 500] {
        let sent = load("queue", waiters);
        assert!((4 * waiters - 1..6 * waiters).contains(&sent), "{waiters}: {sent}");
    }
}

#[test]
fn who_does_not_look_again_sleeps_through_a_release() {
    let slept = |lock: &str| wake_up(&history_of(&catalogued("missed-wakeup", lock, &[]), 1));
    let Verdict::Violated(witness) = slept("notify-no-recheck") else { panic!("not violated") };
    // The client that slept, and the one that had freed the lock.
    assert_eq!((witness.clients, witness.occurrences), (vec![2, 1], 1));
    for lock in ["notify", "single", "polling"] {
        assert_ne!(slept(lock).outcome(), Outcome::Violated, "{lock}");
    }
}

/// What a recipe is seen to be answered, command by command, on each server that it may meet.
#[test]
fn compare_and_set_is_native_where_the_server_has_it() {
    let extends = Touch::Extend(200 * 1_000_000);
    for (software, extend, delete) in [
        (None, "SET", "DELEX"),
        (Some("redis-8.4"), "SET", "DELEX"),
        (Some("valkey-9"), "SET", "DELIFEQ"),
        (Some("redis-7.0"), "EVALSHA", "EVALSHA"),
    ] {
        let set: Vec<_> = software.map(|it| ("server.software", it)).into_iter().collect();
        let history = history_of(&catalogued("long-job", "native-cas", &set), 1);
        let done = |name: &str, wanted: Touch| {
            let ends = commands(&history, name).into_iter().filter_map(|(_, end)| end);
            let is =
                |it: &Event| matches!(it.what, What::Answered { touch, .. } if touch == wanted);
            ends.filter(is).count()
        };
        let [extended, deleted] = [done(extend, extends), done(delete, Touch::Delete)];
        assert!(extended >= 2 * 14 - 1, "{software:?}: {extended} renewals by {extend}");
        // A server that has never seen the script is sent it whole.
        assert_eq!(deleted + done("EVAL", Touch::Delete), 2, "{software:?}: releases by {delete}");
        let refused = history.events.iter().filter(|it| matches!(it.what, What::Refused(_)));
        assert_eq!(refused.count() == 0, delete == "DELEX", "{software:?}");
        for level in [Level::Key, Level::Belief, Level::Effect] {
            assert_eq!(outcome(&history, level), Outcome::Held, "{software:?}");
        }
    }
}

#[test]
fn a_lock_whose_time_has_passed_can_be_had_though_its_key_is_there() {
    // The last client dies with the lock.
    let set = [("clients", "1")];
    let probes = |lock: &str| {
        let history = history_of(&catalogued("crash-holder", lock, &set), 1);
        let probes = history.events.iter().filter_map(|it| match it.what {
            What::Probe(pttl_ms) => Some(pttl_ms),
            _ => None,
        });
        probes.collect::<Vec<_>>()
    };
    let stamped = probes("getset-timestamp");
    let (last, before) = stamped.split_last().unwrap();
    assert_eq!(*last, -2, "{stamped:?}");
    assert!(!before.is_empty() && before.is_sorted_by(|one, next| one > next), "{stamped:?}");
    assert!(before.iter().all(|left_ms| (0..=300).contains(left_ms)), "{stamped:?}");
    assert_eq!(probes("no-ttl"), [-1], "and one without a time cannot");
}

#[test]
fn a_release_without_its_script_is_told_so_and_leaves_the_key() {
    let history = history_of(&catalogued("script-flush", "evalsha-only", &[]), 1);
    let told = history.events.iter().filter_map(|it| match it.what {
        What::Released(text) => Some(history.text(text)),
        _ => None,
    });
    let told: Vec<&str> = told.collect();
    assert_eq!(told[0], "not released: the server has lost the script");
}

/// The release waits on its way until its own client has the lock once more, and not any other.
#[test]
fn a_late_release_ends_the_same_clients_next_hold() {
    let ownership = |lock: &str| {
        let history = history_of(&catalogued("same-client", lock, &[]), 1);
        let applied = history.events.iter().filter(|it| it.what == What::Acquired);
        let clients: Vec<u32> = applied.map(|it| it.client).collect();
        assert!(
            clients[0] == 1 && clients[1] != 1,
            "{lock}: others have it in between: {clients:?}"
        );
        checkers::check(&history, true).remove(0).verdict
    };
    let Verdict::Violated(witness) = ownership("client-token") else { panic!("not violated") };
    let summary =
        "client 1 deleted the lock's key with EVALSHA while another hold of its own had it";
    assert_eq!(witness.summary, summary);
    assert_eq!(ownership("polling"), Verdict::Held);
}

/// A client sends what it was about to send, dies, and sends nothing more.
#[test]
fn the_dead_are_silent() {
    for (name, lock) in
        [("crash-between", "single"), ("crash-between", "polling"), ("crash-holder", "polling")]
    {
        let history = history_of(&catalogued(name, lock, &[]), 1);
        let death = strikes(&history)[0];
        assert!(matches!(death.what, What::Fault { fault: Fault::Crash, .. }), "{name} {lock}");
        let after = history.events.iter().skip_while(|it| **it != death).skip(1);
        let theirs = after.filter(|it| it.client == death.client);
        for event in theirs {
            let stage = event.what.stage();
            assert!(matches!(stage, Stage::Info | Stage::Note), "{name} {lock}: {event:?}");
        }
        let acquired = |it: &&Event| it.what == What::Acquired && it.client == death.client;
        let acquired = history.events.iter().find(acquired).unwrap();
        assert!(acquired.at_ns <= death.at_ns, "{name} {lock}");
    }
}
