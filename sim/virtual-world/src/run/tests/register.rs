//! The register in the virtual world: round after round, and out of reach of every fault.

use std::collections::BTreeMap;

use history::fault::Whom;
use history::{AcquireEnd, Declared, ReleaseEnd, Timeline, Touch, UpdateEnd};
use picklock::env::Phase;

use super::*;

#[test]
fn every_client_makes_its_rounds_and_no_step_is_lost() {
    let set = [
        ("clients", "3"),
        ("workload.register.rounds", "4"),
        ("workload.register.hold", "5ms"),
        ("workload.register.think", "30ms"),
    ];
    for lock in ["single", "single-watchdog", "polling"] {
        let history = history_of(&catalogued("long-job", lock, &set), 3);
        let timeline = Timeline::of(&history);
        assert_eq!(history.head.acquisitions, Some(12));
        assert_eq!(timeline.register_left.unwrap().1, 12, "{lock}");
        let mut rounds = BTreeMap::<u32, Vec<_>>::new();
        for it in &timeline.acquisitions {
            let [update] = it.updates[..] else { panic!("{lock}: {it:?}") };
            let (written_ns, end) = update.end.unwrap();
            assert!(matches!(end, UpdateEnd::Ok(update) if update.written == update.read + 1));
            assert!(written_ns - update.invoke_ns >= 5 * MS_NS, "it works in between");
            rounds.entry(it.client).or_default().push((it.invoke_ns, it.released.unwrap().0));
        }
        assert_eq!(rounds.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        for (client, rounds) in rounds {
            assert_eq!(rounds.len(), 4, "{lock}: client {client}");
            for pair in rounds.windows(2) {
                assert_eq!(pair[1].0, pair[0].1 + 30 * MS_NS, "{lock}: client {client} pauses");
            }
        }
    }
}

/// A false alarm: what a client had been told before its work, it took for the last look at the validity.
#[test]
fn who_has_renewed_by_hand_looks_again_before_it_writes() {
    // The end of the validity is over when it has been renewed, works, and stands still.
    let pause = r#"[{ kind = "pause", on = "holder", at = { phase = "renew.before-send", after = "20ms" }, for = "700ms" }]"#;
    let set = [("fault", pause), ("workload.register.steps", "5")];
    for lock in ["single", "fenced", "queue"] {
        let (_, history) = benign(&catalogued("by-hand", lock, &set));
        assert_eq!(strikes(&history).len(), 1, "{lock}");
        for level in [Level::Belief, Level::Effect] {
            assert_eq!(outcome(&history, level), Outcome::Held, "{lock} {level:?}");
        }
    }
}

#[test]
fn only_who_renews_by_itself_claims_that_a_hold_has_a_longest() {
    let claims = |lock, set: &[(&str, &str)]| {
        let (_, History { head, .. }) = benign(&catalogued("hanging-job", lock, set));
        (head.longest_hold_ns.is_some(), head.renewed)
    };
    for lock in ["single-watchdog", "native-cas", "redlock-watchdog"] {
        assert_eq!(claims(lock, &[]), (true, true), "{lock}");
    }
    for lock in ["single", "fenced", "queue"] {
        assert_eq!(claims(lock, &[]), (false, false), "{lock}");
    }
    let by_hand = [("workload.register.extends", "true"), ("workload.register.stops", "false")];
    assert_eq!(claims("single-watchdog", &by_hand), (false, false), "its clients say how long");
}

#[test]
fn what_is_dropped_is_of_unknown_outcome_every_second_time() {
    for lock in ["single", "queue", "redlock", "polling"] {
        let history = history_of(&catalogued("dropped", lock, &[]), 1);
        let mut bytes = Vec::new();
        history::write(&history, &mut bytes).unwrap();
        assert!(history::read(&*bytes).is_ok(), "{lock}: it is well-formed");
        let mut rounds = BTreeMap::<u32, u32>::new();
        let (mut acquisitions, mut guards) = (0, 0);
        for it in &Timeline::of(&history).acquisitions {
            let round = rounds.entry(it.client).or_default();
            let is_dropped = round.is_multiple_of(2);
            *round += 1;
            match (it.end, it.released) {
                (Some((at_ns, AcquireEnd::Info(why))), None) => {
                    assert!(is_dropped, "{lock}: {it:?}");
                    assert_eq!(history.text(why), "dropped before it had ended");
                    assert_eq!(at_ns, it.invoke_ns + 30 * MS_NS);
                    acquisitions += 1;
                }
                (Some((_, AcquireEnd::Ok)), Some((_, ReleaseEnd::Info(why)))) => {
                    let (kept, dropped) = ("dropped half-way", "dropped without a release");
                    assert_eq!(
                        history.text(why),
                        if is_dropped { dropped } else { kept },
                        "{lock}: {it:?}"
                    );
                    guards += u32::from(is_dropped);
                }
                // The key that it leaves behind keeps others from the lock until its TTL is over.
                (Some((_, AcquireEnd::Fail(_))), None) if lock == "polling" => {
                    assert!(!is_dropped, "{lock}: {it:?}");
                }
                other => panic!("{lock}: {other:?}"),
            }
        }
        assert_eq!(acquisitions + guards, 12, "{lock}: three of each client");
        assert!(acquisitions > 0 && guards > 0, "{lock}: {acquisitions}, {guards}");
    }
}

/// Clients that talk to it are stopped and killed; but what they send to it arrives, in time.
#[test]
fn no_fault_touches_the_registers_server() {
    let swarm = "\
        order = true\npause = { chance = 0.02, max = \"50ms\" }\ncrash = 0.02\n\
        delay = { chance = 0.05, max = \"50ms\" }\nlose_request = 0.02\nlose_reply = 0.02\n\
        reset = 0.02\npartitions = 3\npartition = \"2s\"\ndrift_ppm = 1000\nclock_step = \"5s\"\n\
        script_flush = true\nserver_crashes = 2\nserver_crash = \"500ms\"\npower_losses = 2\n\
        power_loss = \"500ms\"\nwithin = \"1s\"\n";
    let topologies = [
        "",
        "[topology]\nkind = \"replicated\"\nreplicas = 2\nlag = { min = \"1ms\", max = \"20ms\" }\n",
        "[topology]\nkind = \"independent\"\nnodes = 3\n",
    ];
    for (topology, node) in topologies.into_iter().zip([1, 1, 3]) {
        let mut swarm = swarm.to_owned();
        if topology.contains("replicated") {
            swarm += "failovers = 2\nfailover = \"500ms\"\n";
        }
        let text = scenarios::catalog::text("long-job").unwrap();
        let file = format!("{topology}[server]\nappend_only = \"everysec\"\n[swarm]\n{swarm}");
        let text = format!("{text}\n{file}").replace("clients = 2", "clients = 5");
        let text = text.replace("hold = \"1s\"", "hold = \"20ms\"\nrounds = 3");
        let scenario = parsed(&text, None);
        let mut struck = BTreeMap::<Fault, u32>::new();
        let mut answered = 0;
        for seed in 0..60 {
            let history = history_of(&scenario, seed);
            assert_eq!(history.head.resource, Some(node));
            let (mut stopped, mut crashed) = ([false; 6], [false; 6]);
            for event in &history.events {
                if let What::Fault { fault, .. } = event.what {
                    *struck.entry(fault).or_default() += 1;
                    let client = event.client as usize;
                    stopped[client] |= fault == Fault::Pause;
                    crashed[client] |= fault == Fault::Crash;
                }
            }
            for it in Timeline::of(&history).commands.iter().filter(|it| it.node == node) {
                let client = it.client as usize;
                let Some((done_ns, ..)) = it.answer else {
                    assert!(crashed[client], "{topology} {seed}: {it:?}");
                    continue;
                };
                answered += 1;
                // One round trip, and another one before it if the client has to connect.
                let prompt = done_ns - it.invoke_ns <= 8 * MS_NS;
                assert!(prompt || stopped[client], "{topology} {seed}: {it:?}");
            }
        }
        assert!(answered > 500, "{topology}: {answered}");
        let expected = if topology.contains("replicated") { 13 } else { 12 };
        assert_eq!(struck.len(), expected, "{topology}: every fault has struck: {struck:?}");
    }
}

#[test]
fn the_head_and_the_strike_say_what_was_staged() {
    let history = history_of(&catalogued("failover", "single", &[]), 1);
    let of_server =
        Declared { kind: Fault::Failover, on: Whom::Primary, in_hold: true, subscribes: false };
    assert_eq!(history.head.staged, [of_server]);
    assert_eq!(history.head.acquisitions, Some(10));
    let text = scenarios::catalog::text("crash-holder").unwrap();
    let more = "[[fault]]\nkind = \"lose-reply\"\non = \"client 3\"\nat = { command = \"SET\" }\n\
                [[fault]]\nkind = \"pause\"\nat = { time = \"99s\" }\nfor = \"1s\"\n";
    let text = format!("{text}\n{more}");
    let history = history_of(&parsed(&text, None), 1);
    let declared = |kind, on, in_hold| Declared { kind, on, in_hold, subscribes: false };
    let expected = [
        declared(Fault::Crash, Whom::Holder, true),
        declared(Fault::LoseReply, Whom::Client(3), false),
        declared(Fault::Pause, Whom::Any, false),
    ];
    assert_eq!(history.head.staged, expected);
    let strikes = history.events.iter().filter_map(|it| match it.what {
        What::Fault { fault, staged, .. } => Some((staged, fault)),
        _ => None,
    });
    let mut strikes: Vec<_> = strikes.collect();
    strikes.sort_unstable();
    let expected = [(Some(0), Fault::Crash), (Some(1), Fault::LoseReply)];
    assert_eq!(strikes, expected, "the third never struck");
}

/// The first article counts on a renewal at every third of the TTL.
#[test]
fn a_long_job_is_renewed_at_every_third_of_the_ttl() {
    let history = history_of(&catalogued("long-job", "single-watchdog", &[]), 5);
    let timeline = Timeline::of(&history);
    for acquisition in [1, 2] {
        let renewed = timeline.commands.iter().filter(|it| {
            let extends = it.done().is_some_and(|(_, touch)| matches!(touch, Touch::Extend(_)));
            it.acquisition == acquisition && extends
        });
        let renewed = renewed.count();
        // The first comes before an interval is over.
        assert!((15..=16).contains(&renewed), "{renewed} renewals in five TTLs");
    }
}

/// The second article: with a TTL, a dead holder delays nobody for longer than that.
#[test]
fn after_a_holders_death_the_lock_is_had_within_its_ttl_and_a_retry() {
    for lock in ["single", "single-watchdog", "polling"] {
        for seed in 0..20 {
            let history = history_of(&catalogued("crash-holder", lock, &[]), seed);
            let crash = strikes(&history)[0];
            let after = |it: &&Event| it.at_ns > crash.at_ns && it.what == What::Acquired;
            let next = history.events.iter().find(after).unwrap();
            let waited_ns = next.at_ns - crash.at_ns;
            // The pause before a retry, its jitter, and the messages.
            let most_ns = (300 + 50 + 50 + 4) * MS_NS;
            assert!(waited_ns > 250 * MS_NS && waited_ns <= most_ns, "{lock} {seed}: {waited_ns}");
        }
    }
}

/// A fault that is staged there meets the client between its last look at the lock and its write.
#[test]
fn the_phase_before_a_write_comes_right_before_it() {
    for (name, lock) in [("gc-pause", "single"), ("bonus-pool", "single"), ("gc-pause", "none")] {
        let history = history_of(&catalogued(name, lock, &[]), 2);
        let is = |it: &&Event| it.what == What::Phase(Phase::HoldBeforeWrite);
        let phase = *history.events.iter().find(is).unwrap();
        let mut theirs = history.events.iter().filter(|it| it.acquisition == phase.acquisition);
        assert!(theirs.any(|it| *it == phase));
        let next = theirs.next().unwrap();
        let What::Command { name, .. } = next.what else { panic!("{next:?}") };
        assert!(matches!(history.text(name), "SET" | "DECR"), "{}", history.text(name));
    }
}

/// What is staged for a client's next message waits for one to the lock.
#[test]
fn a_staged_fault_of_messages_passes_the_register_by() {
    for kind in ["kind = \"lose-request\"", "kind = \"reset\"", "kind = \"delay\"\nfor = \"70ms\""]
    {
        let text = scenarios::catalog::text("crash-holder").unwrap();
        let text = text.replace("kind = \"crash\"", kind);
        let history = history_of(&parsed(&text, None), 1);
        let strike = strikes(&history)[0];
        let timeline = Timeline::of(&history);
        let struck = timeline.acquisitions.iter().find(|it| it.client == strike.client).unwrap();
        assert!(strike.at_ns >= struck.release_ns.unwrap(), "{kind}: {strike:?}");
        assert_eq!(timeline.register_left.unwrap().1, 4, "{kind}");
    }
}

#[test]
fn a_second_lock_is_taken_and_is_no_business_of_the_first() {
    for about in scenarios::recipe::ALL.into_iter().filter(|about| about.is_sound()) {
        let scenario = catalogued("two-locks", about.name, &[]);
        let history = history_of(&scenario, 3);
        let grants = |key: &str, of_nobody: bool| {
            let of = |it: &&Event| match it.what {
                What::Command { key: found, intent, .. } => {
                    let makes = matches!(intent.touch, Touch::Create(_));
                    makes
                        && history.text(found).ends_with(key)
                        && (it.acquisition == 0) == of_nobody
                }
                _ => false,
            };
            history.events.iter().filter(of).count()
        };
        assert!(grants(":other", true) >= 12 && grants(":lock", false) >= 12, "{}", about.name);
        assert_eq!((grants(":other", false), grants(":lock", true)), (0, 0), "{}", about.name);
        let acquired = history.events.iter().filter(|it| it.what == What::Acquired).count();
        assert_eq!(acquired, 12, "{}", about.name);
        let marked = |it: &&Event| it.client != 0 && matches!(it.what, What::Phase(_));
        let mut marks = history.events.iter().filter(marked);
        assert!(marks.all(|it| it.acquisition != 0), "{}", about.name);
    }
}
