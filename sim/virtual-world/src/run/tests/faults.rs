//! Staged faults and those of servers: each strikes where the scenario says, and is put right.

use std::collections::BTreeMap;

use history::fault::{FaultKeys, Strikes, Use};
use picklock::env::Phase;
use scenarios::scenario::WorkloadPart;

use super::*;

/// The pool with three clients, no swarm, and this in the end of its file.
fn scenario(lock: &str, more: &str) -> Scenario {
    let pool = scenarios::catalog::text("bonus-pool").unwrap();
    let (before, rest) = pool.split_once("[swarm]").unwrap();
    let (_, after) = rest.split_once("[[expect]]").unwrap();
    let text = format!("{before}[[expect]]{after}\n{more}");
    let overrides =
        Overrides { lock: Some(lock.to_owned()), clients: Some(3), ..Overrides::default() };
    Scenario::parse("staged", "staged.toml", &text, &overrides).unwrap()
}

/// The same with a TTL that others outlast.
fn brief(lock: &str, more: &str) -> Scenario {
    let mut scenario = scenario(lock, more);
    scenario.lock.ttl = "150ms".parse().unwrap();
    scenario
}

/// One schedule in which nothing happens but what is staged.
fn run(scenario: &Scenario) -> (Schedule, History) {
    let ran = benign(scenario);
    let all_up = with(|sim| (0..sim.servers.count()).all(|server| sim.servers[server].serves()));
    assert!(all_up, "all serve again");
    ran
}

/// The one strike there is.
fn strike(history: &History) -> Event {
    let strikes = strikes(history);
    assert_eq!(strikes.len(), 1, "{strikes:?}");
    assert_eq!(staged(strikes[0]), Some(0), "it is the first that is staged");
    strikes[0]
}

fn staged(event: Event) -> Option<u16> {
    let What::Fault { staged, .. } = event.what else { unreachable!() };
    staged
}

fn phases(history: &History, phase: Phase) -> Vec<Event> {
    let phases = history.events.iter().filter(|it| it.what == What::Phase(phase));
    phases.copied().collect()
}

fn in_hold(event: Event) -> bool {
    matches!(event.what, What::Fault { in_hold: true, .. })
}

#[test]
fn a_phase_is_met_at_its_nth_coming() {
    for nth in [1, 2] {
        let fault = format!(
            "[[fault]]\nkind = \"pause\"\nat = {{ phase = \"hold\", nth = {nth} }}\nfor = \"70ms\"\n"
        );
        let (_, history) = run(&scenario("single", &fault));
        let (struck, holds) = (strike(&history), phases(&history, Phase::Hold));
        let met = holds[nth - 1];
        assert_eq!((struck.at_ns, struck.client), (met.at_ns, met.client));
        assert!(in_hold(struck));
        let theirs = |it: &&Event| it.client == met.client && it.at_ns > met.at_ns;
        let next = history.events.iter().find(theirs).unwrap();
        assert_eq!(next.at_ns, met.at_ns + 70 * MS_NS, "it stood still for so long");
    }
}

#[test]
fn a_phase_of_a_client_that_is_named_is_its_own() {
    let fault = "[[fault]]\nkind = \"crash\"\non = \"client 2\"\nat = { phase = \"hold\" }\n";
    let (_, history) = run(&scenario("single", fault));
    let struck = strike(&history);
    assert_eq!(struck.client, 2);
    let after = |it: &&Event| it.client == 2 && it.at_ns > struck.at_ns;
    assert_eq!(history.events.iter().filter(after).count(), 0, "the dead do nothing");
    assert_eq!(outcome(&history, Level::Belief), Outcome::Held);
}

#[test]
fn a_client_that_comes_back_begins_anew_under_its_number() {
    let fault = "[[fault]]\nkind = \"crash\"\non = \"client 2\"\nat = { phase = \"hold\" }\n\
                 comes_back = \"70ms\"\n";
    let (_, history) = run(&brief("single", fault));
    let struck = strike(&history);
    let What::Fault { for_ns, .. } = struck.what else { unreachable!() };
    assert_eq!(for_ns, 70 * MS_NS);
    let after = |it: &&Event| it.client == 2 && it.at_ns > struck.at_ns;
    let next = history.events.iter().find(after).unwrap();
    assert_eq!((next.what, next.at_ns), (What::Acquire, struck.at_ns + 70 * MS_NS));
    assert!(history.events.iter().filter(after).any(|it| it.what == What::Acquired));
    assert_eq!(outcome(&history, Level::Belief), Outcome::Held);
    // It comes back even if all other clients are done before.
    let (_, history) = run(&brief("single", &fault.replace("70ms", "1h")));
    let next = history.events.iter().filter(|it| it.what == What::Acquire && it.client == 2);
    assert_eq!(next.count(), 2);
}

#[test]
fn a_command_is_met_before_it_goes_out() {
    let fault = "[[fault]]\nkind = \"pause\"\non = \"holder\"\nat = { command = \"decr\" }\n\
                 for = \"70ms\"\n";
    let (_, history) = run(&scenario("single", fault));
    let struck = strike(&history);
    assert!(in_hold(struck));
    let sent = |it: &&Event| match it.what {
        What::Command { name, .. } => history.text(name) == "DECR" && it.client == struck.client,
        _ => false,
    };
    let decr = history.events.iter().find(sent).unwrap();
    assert_eq!(decr.at_ns, struck.at_ns, "the client means to send it then");
    let answered = |it: &&Event| it.op == decr.op && it.at_ns > decr.at_ns;
    let answer = history.events.iter().find(answered).unwrap();
    assert!(answer.at_ns >= struck.at_ns + 70 * MS_NS, "and does so after its pause");
}

#[test]
fn what_comes_after_a_phase_comes_so_much_later() {
    for (after, ns) in [("", 0), (", after = \"1ns\"", 1), (", after = \"3ms\"", 3 * MS_NS)] {
        let at = format!("at = {{ phase = \"hold\", nth = 2{after} }}\n");
        let fault = format!("[[fault]]\nkind = \"script-flush\"\n{at}");
        let (_, history) = run(&scenario("single", &fault));
        let second = phases(&history, Phase::Hold)[1];
        assert_eq!(strike(&history).at_ns, second.at_ns + ns);
    }
    // The holder is determined when the fault is due: by then it is the next one.
    let fault = "[[fault]]\nkind = \"pause\"\non = \"holder\"\n\
                 at = { phase = \"release.before-delete\", after = \"30ms\" }\nfor = \"70ms\"\n";
    let (_, history) = run(&scenario("single", fault));
    let holders = phases(&history, Phase::AcquireApplied);
    let struck = strike(&history);
    assert_eq!((struck.at_ns, struck.client), (holders[1].at_ns, holders[1].client));
}

#[test]
fn a_time_is_met_on_time_and_a_holder_is_waited_for() {
    let fault = "[[fault]]\nkind = \"pause\"\non = \"client 3\"\nat = { time = \"1ms\" }\n\
                 for = \"70ms\"\n";
    let (_, history) = run(&scenario("single", fault));
    let start_ns = history.events.iter().find(|it| it.client > 0).unwrap().at_ns;
    assert_eq!(strike(&history).at_ns, start_ns + MS_NS);
    let fault =
        "[[fault]]\nkind = \"pause\"\non = \"holder\"\nat = { time = \"0s\" }\nfor = \"7ms\"\n";
    let (_, history) = run(&scenario("single", fault));
    let (struck, holder) = (strike(&history), phases(&history, Phase::AcquireApplied)[0]);
    assert_eq!((struck.at_ns, struck.client), (holder.at_ns, holder.client));
}

#[test]
fn a_refusal_that_lasts_meets_all_that_is_sent() {
    let fault = "[[fault]]\nkind = \"refuse\"\nat = { phase = \"hold\" }\nfor = \"200ms\"\nerror = \"loading\"\n";
    let (_, history) = run(&scenario("single", fault));
    let all = strikes(&history);
    let (begin_ns, end_ns) = (all[0].at_ns, phases(&history, Phase::Hold)[0].at_ns + 200_000_000);
    let refused = |it: &&Event| match it.what {
        What::Refused(why) => history.texts.get(why).starts_with("LOADING"),
        _ => false,
    };
    let refused: Vec<&Event> = history.events.iter().filter(refused).collect();
    assert_eq!(refused.len(), all.len());
    let clients: BTreeMap<u32, ()> = refused.iter().map(|it| (it.client, ())).collect();
    assert!(clients.len() > 1, "who has come to the place is not the only one: {clients:?}");
    assert!(all.iter().all(|it| (begin_ns..end_ns + 5_000_000).contains(&it.at_ns)));
    let answered = |it: &&Event| matches!(it.what, What::Answered { .. });
    let within = |it: &&Event| (begin_ns + 5_000_000..end_ns).contains(&it.at_ns);
    assert_eq!(history.events.iter().filter(answered).filter(within).count(), 0);
    // If the fault names a client (`on`), it meets no other.
    let (_, history) = run(&scenario("single", &fault.replace("at =", "on = \"holder\"\nat =")));
    let all = strikes(&history);
    assert!(all.iter().all(|it| it.client == all[0].client), "{all:?}");
}

#[test]
fn a_chance_is_met_as_often_as_it_says() {
    let fault = |chance: &str| {
        format!("[[fault]]\nkind = \"delay\"\nat = {{ chance = {chance} }}\nfor = \"1ms\"\n")
    };
    let commands = |history: &History, is_struck: fn(&str) -> bool| {
        let sent = history.events.iter().filter(|it| it.client > 0).filter(|it| match it.what {
            What::Command { name, .. } => is_struck(history.texts.get(name)),
            _ => false,
        });
        sent.count()
    };
    let always = run(&scenario("single", &fault("1.0"))).1;
    assert_eq!(strikes(&always).len(), commands(&always, |_| true));
    let sets = run(&scenario("single", &fault("1.0, command = \"set\""))).1;
    assert_eq!(strikes(&sets).len(), commands(&sets, |name| name == "SET"));
    assert!(commands(&sets, |name| name == "SET") > 1, "again and again");
    assert_eq!(strikes(&run(&scenario("single", &fault("0.5"))).1).len(), 0, "0 is benign");
    let mut runner = Runner::new(&scenario("single", &fault("0.5"))).unwrap();
    runner.run(3, Choices::seeded(3));
    assert!(!strikes(&runner.journal().history()).is_empty());
}

/// What a fault of this kind needs, and the way and the end of one that may have one, as a scenario writes it.
fn takes(fault: Fault) -> String {
    let FaultKeys { lasts, by, ppm, ways, error, comes_back, .. } = fault.takes();
    let needs = |takes, line| if takes == Use::Needs { line } else { "" };
    let may = |takes, line| if takes == Use::No { "" } else { line };
    let whose_clock = match fault.strikes() {
        Strikes::Either if by == Use::Needs => "on = \"primary\"\n",
        Strikes::Either => "on = \"holder\"\n",
        _ => "",
    };
    [
        needs(lasts, "for = \"50ms\"\n"),
        needs(by, "by = \"-50ms\"\n"),
        needs(ppm, "ppm = -500\n"),
        may(ways, "ways = \"back\"\n"),
        needs(error, "error = \"oom\"\n"),
        may(comes_back, "comes_back = \"50ms\"\n"),
        whose_clock,
    ]
    .concat()
}

#[test]
fn every_kind_strikes_once_meets_a_hold_and_is_put_right() {
    // Nothing else is kept under the key of a lock that is held.
    let is_foreign = |it: &Fault| matches!(it, Fault::ForeignKey | Fault::ForeignList);
    for fault in Fault::ALL.into_iter().filter(|it| !is_foreign(it)) {
        let rest = takes(fault);
        for lock in ["single", "polling"] {
            let more = format!(
                "[topology]\nkind = \"replicated\"\n[server]\nappend_only = \"everysec\"\n\
                 [[fault]]\nkind = \"{}\"\nat = {{ phase = \"hold\" }}\n{rest}",
                fault.name()
            );
            let scenario = scenario(lock, &more);
            let (schedule, history) = run(&scenario);
            let struck = strike(&history);
            let What::Fault { fault: kind, node, .. } = struck.what else { unreachable!() };
            assert_eq!(kind, fault);
            assert!(in_hold(struck), "{fault:?}");
            // Scripts are forgotten by all servers.
            let of_one_server =
                scenario.faults[0].whom().is_server() && fault != Fault::ScriptFlush;
            assert_eq!(node, of_one_server.then_some(0), "{fault:?}");
            assert_eq!(outcome(&history, Level::Key), Outcome::Held, "{fault:?}");
            assert!(
                history.events.iter().any(|it| matches!(it.what, What::PoolLeft(_)))
                    || fault.loses_keys(),
                "{fault:?}"
            );
            let (again, same) = run(&scenario);
            assert_eq!((again, same), (schedule, history), "{fault:?}");
        }
    }
}

#[test]
fn something_else_is_kept_under_the_key_of_a_lock_that_is_free() {
    for kind in ["foreign-key", "foreign-list"] {
        let fault = |phase: &str| {
            format!(
                "[[fault]]\nkind = \"{kind}\"\nat = {{ phase = \"{phase}\" }}\nfor = \"70ms\"\n"
            )
        };
        let (_, history) = run(&scenario("single", &fault("acquire.before-send")));
        let (struck, first) = (strike(&history), phases(&history, Phase::AcquireApplied)[0]);
        assert!(first.at_ns > struck.at_ns + 70 * MS_NS, "{kind}");
        assert_eq!(outcome(&history, Level::Key), Outcome::Held, "{kind}");
        let (_, history) = run(&scenario("single", &fault("hold")));
        assert!(strikes(&history).is_empty(), "{kind}: the lock is held");
    }
}

#[test]
fn what_was_kept_under_the_key_is_cleared_away_and_nothing_else() {
    for kind in ["foreign-key", "foreign-list"] {
        let kept = format!(
            "[[fault]]\nkind = \"{kind}\"\nat = {{ phase = \"acquire.before-send\" }}\nfor = \"100ms\"\n"
        );
        // Client 1 has the lock when the other value was to go, and stands still for longer than that.
        let flush = "[[fault]]\nkind = \"flush\"\nat = { time = \"50ms\" }\n\
                     [[fault]]\nkind = \"pause\"\nat = { phase = \"hold\" }\nfor = \"300ms\"\n";
        let (_, history) = run(&scenario("single", &format!("{kept}{flush}")));
        let [first, second] = phases(&history, Phase::AcquireApplied)[..2] else { panic!() };
        assert!(first.at_ns < 100 * MS_NS && second.at_ns > first.at_ns + 300 * MS_NS, "{kind}");
        assert_eq!(outcome(&history, Level::Belief), Outcome::Held, "{kind}");
        // A server that is down at that moment comes back without it.
        let crash =
            "[[fault]]\nkind = \"server-crash\"\nat = { time = \"50ms\" }\nfor = \"200ms\"\n";
        let crashed = format!("{kept}{crash}[server]\nappend_only = \"always\"\n");
        let (_, history) = run(&scenario("single", &crashed));
        assert!(phases(&history, Phase::AcquireApplied)[0].at_ns > 250 * MS_NS, "{kind}");
        assert_eq!(outcome(&history, Level::Progress), Outcome::Held, "{kind}");
    }
}

#[test]
fn a_pause_lasts_until_another_has_the_lock_or_at_most_so_long() {
    let pause = "[[fault]]\nkind = \"pause\"\non = \"holder\"\nat = { command = \"DECR\" }\n\
                 until = { phase = \"release.before-send\" }\n";
    let (_, history) = run(&brief("polling", &format!("{pause}for = \"5s\"\n")));
    let struck = strike(&history);
    assert!(matches!(struck.what, What::Fault { for_ns: 0, .. }), "five seconds are its limit");
    let other = phases(&history, Phase::ReleaseBeforeSend);
    let other = other.iter().find(|it| it.client != struck.client).unwrap();
    assert!(other.at_ns > struck.at_ns + 100 * MS_NS, "only after its TTL could another get it");
    let theirs = |it: &&Event| it.client == struck.client && it.at_ns > struck.at_ns;
    let next = history.events.iter().find(theirs).unwrap();
    assert!(next.at_ns >= other.at_ns && next.at_ns < other.at_ns + 10 * MS_NS);
    assert_eq!(outcome(&history, Level::Belief), Outcome::Violated);
    assert_eq!(outcome(&history, Level::Effect), Outcome::Violated);
    let (_, history) = run(&brief("polling", &format!("{pause}for = \"30ms\"\n")));
    assert_eq!(outcome(&history, Level::Effect), Outcome::Held, "too short to do harm");
}

#[test]
fn a_message_is_held_until_another_has_the_lock() {
    // The request, or its reply, of the first holder's decrement.
    for ways in ["there", "back"] {
        let fault = format!(
            "[[fault]]\nkind = \"delay\"\non = \"holder\"\nat = {{ command = \"DECR\" }}\n\
             ways = \"{ways}\"\nuntil = {{ phase = \"acquire.applied\" }}\nfor = \"1900ms\"\n"
        );
        let (_, history) = run(&brief("polling", &fault));
        let struck = strike(&history);
        let other = phases(&history, Phase::AcquireApplied);
        let other = other.iter().find(|it| it.at_ns > struck.at_ns).unwrap();
        let decr = history.events.iter().find(
            |it| matches!(it.what, What::Command { name, .. } if history.text(name) == "DECR"),
        );
        let op = decr.unwrap().op;
        let answer = history.events.iter().rfind(|it| it.op == op).unwrap();
        assert!(answer.at_ns > other.at_ns && answer.at_ns < other.at_ns + 10 * MS_NS, "{ways}");
    }
}

#[test]
fn a_lost_reply_leaves_an_orphan_and_a_lost_request_none() {
    for (kind, orphan) in [("lose-reply", true), ("lose-request", false)] {
        let fault = format!(
            "[[fault]]\nkind = \"{kind}\"\non = \"client 1\"\nat = {{ command = \"SET\" }}\n"
        );
        let (_, history) = run(&scenario("polling", &fault));
        assert_eq!(strike(&history).client, 1);
        let mut got = phases(&history, Phase::AcquireApplied).into_iter();
        let first = got.next().map(|it| it.at_ns);
        let orphaned = first.is_none_or(|at_ns| at_ns > 900 * MS_NS);
        assert_eq!(orphaned, orphan, "{kind}: {first:?}");
    }
}

#[test]
fn clocks_run_off_by_exactly_what_is_staged() {
    let at = |more: &str| {
        let fault = format!("[[fault]]\nat = {{ time = \"0s\" }}\n{more}\n");
        let (_, history) = run(&scenario("single", &fault));
        let now_ns = with(|sim| sim.time.now_ns());
        let struck_ns = strike(&history).at_ns;
        let shift = |clock: harness::clock::Clock| {
            let epoch_ns = 1_700_000_000_000_000_000_i64;
            i64::try_from(clock.wall(now_ns)).unwrap() - epoch_ns - i64::try_from(now_ns).unwrap()
        };
        let (client, server) =
            with(|sim| (shift(sim.processes[1].clock), shift(sim.servers[0].clock)));
        (client, server, i64::try_from(now_ns - struck_ns).unwrap())
    };
    let (client, server, _) = at("kind = \"clock-step\"\non = \"client 1\"\nby = \"-5s\"");
    assert_eq!((client, server), (-5_000_000_000, 0));
    let (client, server, _) = at("kind = \"clock-step\"\non = \"server 0\"\nby = \"5s\"");
    assert_eq!((client, server), (0, 5_000_000_000));
    let (client, server, passed_ns) = at("kind = \"drift\"\non = \"client 1\"\nppm = 1000");
    assert_eq!((client, server), (passed_ns / 1000, 0));
    let (client, server, passed_ns) = at("kind = \"drift\"\non = \"primary\"\nppm = 1000");
    assert_eq!((client, server), (0, passed_ns / 1000));
}

#[test]
fn a_failover_is_a_violation_of_belief_and_not_of_the_key() {
    let lost = "[topology]\nkind = \"replicated\"\nlag = { min = \"2s\", max = \"2s\" }\n\
                [[fault]]\nkind = \"failover\"\nat = { time = \"30ms\" }\nfor = \"30ms\"\n";
    let scenario = |lock, more: &str| {
        let mut scenario = scenario(lock, more);
        let WorkloadPart::BonusPool(pool) = &mut scenario.workload else { unreachable!() };
        pool.hold = "400ms".parse().unwrap();
        scenario
    };
    for lock in ["single", "polling"] {
        let (_, history) = run(&scenario(lock, lost));
        assert!(in_hold(strike(&history)));
        assert_eq!(outcome(&history, Level::Key), Outcome::Held, "{lock}: server-lost");
        assert_eq!(outcome(&history, Level::Belief), Outcome::Violated, "{lock}");
        // If the replica has the grant, nothing is lost.
        let prompt = lost.replace("2s", "1ms");
        let (_, history) = run(&scenario(lock, &prompt));
        assert_eq!(outcome(&history, Level::Belief), Outcome::Held, "{lock}");
    }
}

#[test]
fn the_swarm_draws_faults_of_servers_and_sound_locks_stay_sound_at_the_key() {
    let swarm = "[topology]\nkind = \"replicated\"\nreplicas = 2\nlag = { min = \"1ms\", max = \"20ms\" }\n\
                 [server]\nappend_only = \"everysec\"\n\
                 [swarm]\norder = true\nfailovers = 2\nfailover = \"100ms\"\npower_losses = 2\n\
                 power_loss = \"100ms\"\nserver_crashes = 2\nserver_crash = \"100ms\"\n\
                 server_stalls = 2\nserver_stall = \"300ms\"\ncrash = 0.005\ncomes_back = \"300ms\"\n\
                 client_clock_step = \"1s\"\nwithin = \"200ms\"\n\
                 pause = { chance = 0.02, max = \"50ms\" }\nlose_reply = 0.01\n";
    let mut scenario = scenario("single", swarm);
    scenario.clients = 20;
    let mut runner = Runner::new(&scenario).unwrap();
    let mut met = BTreeMap::<Fault, u32>::new();
    for seed in 0..150 {
        let schedule = runner.run(seed, Choices::seeded(seed).recorded());
        assert_eq!(schedule.facts.stuck, 0, "seed {seed}");
        let history = runner.journal().history();
        assert_ne!(outcome(&history, Level::Key), Outcome::Violated, "seed {seed}");
        for strike in strikes(&history) {
            let What::Fault { fault, .. } = strike.what else { unreachable!() };
            *met.entry(fault).or_default() += u32::from(in_hold(strike));
        }
        if seed < 5 {
            runner.run(seed, Choices::listed(schedule.taken));
            assert!(runner.journal().history() == history, "the choices replay it, seed {seed}");
        }
    }
    assert!(met.contains_key(&Fault::ClockStep), "of clients: {met:?}");
    for fault in [Fault::Failover, Fault::PowerLoss, Fault::ServerCrash] {
        assert!(met.get(&fault).is_some_and(|&times| times > 0), "{fault:?}: {met:?}");
    }
}
