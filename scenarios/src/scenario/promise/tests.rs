//! What is promised where, and that a promise grows with all that it depends on.

use super::*;
use crate::catalog;
use crate::scenario::Overrides;
use crate::scenario::tests::setting;

/// A shipped scenario with this lock, and more set.
fn scenario(name: &str, lock: &str, searched: bool, set: &[(&str, &str)]) -> Scenario {
    let overrides = Overrides { lock: Some(lock.to_owned()), searched, ..setting(set) };
    let text = catalog::text(name).unwrap();
    Scenario::parse(name, &format!("{name}.toml"), text, &overrides).unwrap()
}

fn promised(lock: &str, searched: bool, set: &[(&str, &str)]) -> Option<Option<u64>> {
    scenario("lost-reply", lock, searched, set).promise(false).map(|it| it.within_ns)
}

#[test]
fn what_a_story_asks_of_a_sound_lock_has_to_be_done() {
    for all in catalog::all().unwrap() {
        for lock in crate::matrix::locks() {
            let scenario = crate::matrix::Pair::scenario(&all.name, lock).unwrap();
            if !scenario.swarm.searched {
                assert_eq!(scenario.promise(false), None, "{} with {lock}", all.name);
            }
        }
    }
}

#[test]
fn a_recipe_with_a_flaw_has_to_do_what_is_asked() {
    let slow = [("network.latency", "5s")];
    assert_eq!(promised("polling", false, &slow), None);
    assert_eq!(promised("polling", true, &[]), None);
    assert_eq!(promised("none", false, &slow), None);
    assert_eq!(promised("single", false, &slow), Some(None));
}

#[test]
fn where_no_answer_comes_in_time_nothing_is_promised() {
    // The lock waits two seconds for an answer.
    let of = |latency| promised("single", false, &[("network.latency", latency)]);
    assert_eq!(of("1s"), Some(None), "a round trip takes as long");
    let just = of("999ms").expect("slower than what is asked").expect("it is promised");
    assert!(just > 8_000_000_000 && just < 20_000_000_000, "{just}");
    // As long as the network is far quicker than what is asked, the story stands as it is written.
    assert_eq!((of("487ms"), of("488ms").is_some()), (None, true));
    let slow = scenario("lost-reply", "single", false, &[("network.latency", "1s")]);
    let because = slow.promise(false).unwrap().because;
    assert!(because.contains("a round trip may take 2s"), "{because}");
    assert!(because.contains("waits 2s for an answer"), "{because}");
    // A validity that is over on arrival: of 10 ms, 7.9 are left, and the lock waits 3.3 for an answer.
    let short = [("lock.ttl", "10ms"), ("network.latency", "2ms")];
    assert_eq!(promised("single", false, &short), Some(None));
    assert_eq!(
        promised("single", false, &[("lock.ttl", "10ms"), ("network.latency", "1ms")]),
        None
    );
}

#[test]
fn one_slow_link_is_as_slow_as_a_slow_network() {
    let link = r#"[{ client = 1, latency = "5s" }]"#;
    assert_eq!(promised("single", false, &[("network.link", link)]), Some(None));
}

#[test]
fn a_promise_grows_with_all_that_it_depends_on() {
    let of = |set: &[(&str, &str)]| {
        promised("single", true, set).expect("more than is asked").expect("it is promised")
    };
    let plain = of(&[]);
    for more in [
        ("clients", "1000"),
        ("lock.ttl", "1h"),
        ("lock.retries", "40000"),
        ("lock.pause", "1s"),
        ("network.latency", "500ms"),
        ("search.swarm.lose_reply", "0.5"),
        ("search.swarm.crash", "0.01"),
        ("search.swarm.pause", r#"{ chance = 0.05, max = "3s" }"#),
        ("search.swarm.delay", r#"{ chance = 0.05, max = "3s" }"#),
        ("search.swarm.clock_step", "3s"),
    ] {
        assert!(of(&[more]) > plain, "{more:?}");
    }
    let cut = [("search.swarm.partitions", "2"), ("search.swarm.partition", "3s")];
    assert!(of(&cut) >= plain + 6_000_000_000);
    let in_line = promised("queue", true, &[]).unwrap().unwrap();
    // For two TTLs of 15 s.
    assert_eq!(in_line, plain + 30_000_000_000, "who is cut off at its head holds the others up");
}

#[test]
fn what_is_staged_by_chance_is_no_known_story() {
    let of = |kind: &str, chance: &str, more: &str| {
        let fault = format!("[{{ kind = \"{kind}\", at = {{ chance = {chance} }}{more} }}]");
        promised("single", false, &[("fault", &fault)])
    };
    let rarely = of("lose-reply", "0.01", "").expect("more than is asked").expect("promised");
    let often = of("lose-reply", "0.1", "").unwrap().unwrap();
    assert!(often > rarely, "{often} {rarely}");
    assert!(of("delay", "0.01", ", for = \"3s\"").unwrap().unwrap() > rarely + 3_000_000_000);
    assert!(of("crash", "0.01", "").unwrap().unwrap() > rarely, "a key is left behind");
    assert_eq!(of("lose-reply", "1.0", ""), None, "what always happens is known");
}

#[test]
fn so_many_in_a_row_and_no_more() {
    assert_eq!(in_a_row(0.0, 1e6), 0);
    assert_eq!((in_a_row(0.1, 2.0), in_a_row(0.1, 2e6)), (10, 16));
    assert_eq!(in_a_row(1.0, 1.0), MOST_IN_A_ROW, "it ends");
}

#[test]
fn a_life_is_longer_than_all_that_a_client_may_wait_for() {
    let life = |set: &[(&str, &str)]| scenario("lost-reply", "queue", true, set).longest_life();
    let plain = life(&[]);
    // Three rounds of 402 attempts, whose locks wait 100 ms and two seconds each.
    assert!(plain > Duration::from_millis(3 * 402 * 2_100), "{plain:?}");
    for more in [
        ("lock.ttl", "1h"),
        ("lock.retries", "500"),
        ("lock.pause", "1s"),
        ("network.latency", "5s"),
        ("workload.register.hold", "1s"),
        ("workload.register.rounds", "4"),
        ("workload.register.think", "1s"),
    ] {
        assert!(life(&[more]) > plain, "{more:?}");
    }
    assert_eq!(life(&[("clients", "1000")]), plain, "each gives up by itself");
}

#[test]
fn a_call_at_the_deadline_takes_a_round_trip_where_nothing_can_hold_it_up() {
    let overrun = |lock, searched, exact, set: &[(&str, &str)]| {
        scenario("time-is-up", lock, searched, set).overrun(exact)
    };
    let ms = Duration::from_millis;
    // Twice 50 ms and the grain, six times, and the grain.
    assert_eq!(overrun("single", false, true, &[]), Some(ms(607)));
    assert_eq!(
        overrun("single", true, true, &[]),
        Some(ms(607)),
        "the order of tasks holds nothing up"
    );
    let lost = [("search.swarm.lose_reply", "0.1")];
    assert_eq!(overrun("single", true, true, &lost), Some(ms(8_001)), "four call timeouts");
    assert_eq!(overrun("notify", true, true, &lost), Some(ms(10_001)), "and one to subscribe");
    assert_eq!(overrun("queue", true, true, &lost), Some(ms(10_001)));
    assert_eq!(overrun("redlock", false, true, &[]), Some(ms(4_001)), "two servers stand still");
    assert_eq!(overrun("single", false, false, &[]), Some(ms(9_000)), "and a machine may be busy");
    assert_eq!(overrun("single-wait", false, true, &[]), Some(ms(2_607)), "and for a replica");
    assert_eq!(overrun("polling", false, true, &[]), None);
    assert_eq!(scenario("lost-reply", "single", false, &[]).overrun(true), None, "no deadline");
}

#[test]
fn who_has_a_deadline_need_not_try_for_longer() {
    let tries = |deadline| {
        scenario("time-is-up", "single", false, &[("lock.deadline", deadline)]).tries_for()
    };
    assert_eq!(tries("2s"), Some(Duration::from_secs(1)));
    assert_eq!(
        tries("1h"),
        Some(Duration::from_secs(20)),
        "a thousand pauses of 40 ms, and half of that"
    );
}
