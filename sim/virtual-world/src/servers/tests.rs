//! What servers keep, lose and replicate, as clients see it.

use std::sync::Arc;
use std::time::Duration;

use harness::injector::{Injector, ServerFault};
use picklock::env::{CallError, Conn, Env, Node};
use picklock::reply::Reply as ClientReply;
use scenarios::distribution::Distribution;
use scenarios::span::Span;

use super::super::env::VirtualEnv;
use super::super::network::Purpose;
use super::super::simulation::with;
use super::super::tests::{
    MS, MS_NS, TestWorld, ask, network, said, say, set, task, until, value_at,
};
use super::*;

const LAG: Duration = Duration::from_millis(10);

fn replicated(replicas: u32) -> Topology {
    Topology::Replicated { replicas }
}

/// Begins a simulation without faults or latency, with three processes and these servers.
fn fleet(topology: Topology, append_only: AppendOnly) -> TestWorld {
    with(|sim| {
        sim.reset(Choices::listed(Vec::new()), 7, 3, topology.servers());
        let lags = vec![Distribution::Constant(Span(LAG)).sampler(); 3].into();
        sim.servers.configure(topology, Software::default(), append_only, false, &lags);
        sim.network.latencies = Arc::default();
        for process in 0..3 {
            for node in 0..topology.nodes() {
                sim.open_conn(process, node, Purpose::Commands);
            }
        }
        sim.servers.start(topology, false, 0, &mut sim.choices);
    });
    TestWorld
}

fn put(key: &'static str) -> Command {
    Command::new("SET").arg(key).arg("v")
}

/// A client that sets a key, at the moment.
fn write(process: u32, key: &'static str) {
    task(process, async move { drop(ask(VirtualEnv::of(process), put(key)).await) });
}

fn end(server: u32, ending: Termination) {
    with(|sim| sim.stop_server(server, ending));
}

fn restart(server: u32) {
    with(|sim| sim.start_server(server));
}

#[test]
fn an_unreplicated_write_is_gone_after_promotion_and_a_replicated_one_is_not() {
    for (crash_ns, survives) in [(10 * MS_NS - 1, false), (10 * MS_NS + 1, true)] {
        let _world = fleet(replicated(1), AppendOnly::Off);
        task(1, async { drop(ask(VirtualEnv::of(1), set(1000 * MS)).await) });
        until(crash_ns);
        end(0, Termination::Killed);
        until(20 * MS_NS);
        with(|sim| sim.promote(None));
        assert_eq!(with(|sim| sim.servers.primary), 1);
        assert_eq!(
            value_at(1, b"k").is_some(),
            survives,
            "the lag is 10 ms, the crash is at {crash_ns}"
        );
        // Another client, led to the new primary, gets the lock only if that has forgotten it.
        task(2, async move {
            let reply = ask(VirtualEnv::of(2), set(1000 * MS)).await;
            say(format!("{reply:?}"));
        });
        until(30 * MS_NS);
        assert_eq!(said()[0].1, if survives { "Nil" } else { "Ok" });
    }
}

#[test]
fn the_old_primary_comes_back_as_a_replica_with_the_new_ones_data() {
    let _world = fleet(replicated(1), AppendOnly::Off);
    write(1, "old");
    until(5 * MS_NS);
    end(0, Termination::Killed);
    with(|sim| sim.promote(None));
    write(2, "new");
    until(10 * MS_NS);
    restart(0);
    assert!(value_at(0, b"new").is_some() && value_at(0, b"old").is_none(), "resynchronised");
    write(2, "newer");
    until(19 * MS_NS);
    assert!(value_at(0, b"newer").is_none(), "it lags");
    until(20 * MS_NS + 1);
    assert!(value_at(0, b"newer").is_some(), "and follows");
    // And may be promoted in its turn.
    end(1, Termination::Killed);
    with(|sim| sim.promote(None));
    assert_eq!(with(|sim| sim.servers.primary), 0);
}

#[test]
fn the_most_advanced_replica_takes_over_unless_another_is_named() {
    for (to, successor) in [(None, 2), (Some(1), 1), (Some(0), 2)] {
        let _world = fleet(replicated(2), AppendOnly::Off);
        end(1, Termination::Killed);
        write(1, "k");
        until(15 * MS_NS);
        // Server 1 comes back, takes a snapshot, and misses what comes after.
        restart(1);
        until(16 * MS_NS);
        with(|sim| {
            let feed = sim.servers.feeds.iter_mut().find(|feed| feed.replica == 1);
            feed.unwrap().stream.arrives_ns = 500 * MS_NS;
        });
        write(1, "later");
        until(30 * MS_NS);
        end(0, Termination::Killed);
        with(|sim| sim.promote(to));
        assert_eq!(with(|sim| sim.servers.primary), successor);
        assert_eq!(value_at(successor, b"later").is_some(), successor == 2);
    }
}

#[test]
fn without_a_replica_the_old_primary_comes_back() {
    let _world = fleet(replicated(1), AppendOnly::Off);
    end(1, Termination::Killed);
    end(0, Termination::Killed);
    assert!(with(|sim| sim.servers.successor(None).is_none()));
    with(|sim| sim.promote(None));
    assert!(with(|sim| sim.servers.primary == 0 && sim.servers[0].is_up()));
}

#[test]
fn wait_is_answered_by_the_acknowledgements() {
    let _world = fleet(replicated(1), AppendOnly::Off);
    task(1, async move {
        let conn = VirtualEnv::of(1).connect(Node(0)).await.unwrap();
        conn.call(put("k")).await.unwrap();
        for (replicas, timeout_ms) in [(1, 0), (2, 5)] {
            let wait = Command::new("WAIT").int(replicas).int(timeout_ms);
            let reply = conn.call(wait).await.unwrap();
            say(format!("{reply:?}"));
        }
    });
    until(100 * MS_NS);
    let said = said();
    assert_eq!(said[0], (20 * MS_NS, "Int(1)".to_owned()), "there and back");
    assert_eq!(said[1].1, "Int(1)", "no second replica, whatever the patience");
    assert!((25 * MS_NS..=26 * MS_NS).contains(&said[1].0), "{}", said[1].0);
}

#[test]
fn a_server_that_crashes_breaks_its_connections_and_refuses_new_ones_until_it_is_back() {
    let _world = fleet(Topology::Standalone, AppendOnly::Off);
    task(1, async move {
        let env = VirtualEnv::of(1);
        let conn = env.connect(Node(0)).await.unwrap();
        let pop = Command::new("BLPOP").arg("queue").arg("0");
        say(format!("{:?}", conn.call(pop).await.unwrap_err()));
        say(format!("{:?}", env.connect(Node(0)).await.unwrap_err()));
        env.sleep(10 * MS).await;
        say(format!("{:?}", ask(env, put("k")).await));
    });
    until(5 * MS_NS);
    end(0, Termination::Killed);
    until(10 * MS_NS);
    restart(0);
    until(20 * MS_NS);
    let said = said();
    assert!(said[0].1.starts_with("Indeterminate") && said[0].0 == 5 * MS_NS, "{said:?}");
    assert!(said[1].1.starts_with("NotSent") && said[1].0 == 5 * MS_NS, "{said:?}");
    assert_eq!(said[2], (15 * MS_NS, "Ok".to_owned()));
}

#[test]
fn a_server_without_power_is_silent_until_it_is_back() {
    let _world = fleet(Topology::Standalone, AppendOnly::Off);
    network("1ms");
    for process in [1, 2] {
        task(process, async move {
            let env = VirtualEnv::of(process);
            let conn = env.connect(Node(0)).await.unwrap();
            env.sleep((process - 1) * MS).await;
            let answer: Result<ClientReply, CallError> = conn.call(put("k")).await;
            say(format!("{process} {answer:?}"));
            ask(env, put("k")).await;
            say(format!("{process} again"));
        });
    }
    // The first request has been carried out and its answer is on its way; the second is not there yet.
    until(MS_NS + MS_NS / 2);
    end(0, Termination::PowerLoss);
    until(700 * MS_NS);
    assert!(said().is_empty());
    restart(0);
    until(3_000 * MS_NS);
    let said = said();
    for (place, client) in [(0, "1 Err(Indeterminate"), (1, "2 Err(Indeterminate")] {
        assert!(said[place].1.starts_with(client) && said[place].0 == 700 * MS_NS, "{said:?}");
    }
    assert_eq!(said.len(), 4, "both are served again: {said:?}");
}

/// Whether each of two keys is there after an end and a restart: the first was set at 100 ms, the
/// other at 1100 ms, and the end comes at `at_ns`.
fn after(append_only: AppendOnly, ending: Termination, at_ns: u64) -> [bool; 2] {
    let _world = fleet(Topology::Standalone, append_only);
    until(100 * MS_NS);
    write(1, "a");
    if at_ns > 1_100 * MS_NS {
        until(1_100 * MS_NS);
        write(1, "b");
    }
    until(at_ns);
    end(0, ending);
    until(at_ns + 50 * MS_NS);
    restart(0);
    [value_at(0, b"a").is_some(), value_at(0, b"b").is_some()]
}

#[test]
fn power_loss_takes_exactly_the_unsynced_tail() {
    let everysec = |at_ns| after(AppendOnly::Everysec, Termination::PowerLoss, at_ns);
    assert_eq!(everysec(1_000 * MS_NS - 1), [false, false], "within the second");
    assert_eq!(everysec(1_000 * MS_NS + 1), [true, false], "the second is over");
    assert_eq!(everysec(1_500 * MS_NS), [true, false], "the tail is gone, and only the tail");
    assert_eq!(everysec(2_000 * MS_NS - 1), [true, false]);
    assert_eq!(everysec(2_000 * MS_NS + 1), [true, true], "and the next second");
    let loss = |append_only| after(append_only, Termination::PowerLoss, 1_500 * MS_NS);
    assert_eq!(loss(AppendOnly::Always), [true, true]);
    assert_eq!(loss(AppendOnly::Unsynced), [false, false]);
    assert_eq!(loss(AppendOnly::Off), [false, false]);
}

#[test]
fn a_server_that_crashes_keeps_what_it_has_written() {
    let crash = |append_only| after(append_only, Termination::Killed, 1_500 * MS_NS);
    for append_only in [AppendOnly::Everysec, AppendOnly::Always, AppendOnly::Unsynced] {
        assert_eq!(crash(append_only), [true, true], "{append_only:?}");
    }
    assert_eq!(crash(AppendOnly::Off), [false, false]);
}

#[test]
fn a_server_syncs_by_its_own_clock() {
    for (ppm, synced) in [(0, true), (-1_000, false)] {
        let _world = fleet(Topology::Standalone, AppendOnly::Everysec);
        with(|sim| sim.servers[0].clock.set_drift(0, ppm));
        until(100 * MS_NS);
        write(1, "a");
        until(1_000 * MS_NS + 1);
        end(0, Termination::PowerLoss);
        restart(0);
        assert_eq!(value_at(0, b"a").is_some(), synced, "{ppm} ppm");
    }
}

/// A client that tries to make a key with this TTL, and reports the answer.
fn attempt(process: u32, ttl: Duration) {
    task(process, async move {
        let reply = ask(VirtualEnv::of(process), set(ttl)).await;
        say(format!("{process} {reply:?}"));
    });
}

#[test]
fn a_server_that_stands_still_then_does_all_it_was_sent_in_order_and_by_its_clock() {
    let _world = fleet(Topology::Standalone, AppendOnly::Everysec);
    network("1ms");
    write(1, "other");
    attempt(2, 30 * MS);
    until(5 * MS_NS);
    assert_eq!(said(), [(2 * MS_NS, "2 Ok".to_owned())]);
    let stall = ServerFault::Stall { for_ns: 50 * MS_NS };
    with(|sim| sim.strike_server(None, stall));
    attempt(2, 1000 * MS);
    until(10 * MS_NS);
    attempt(1, 1000 * MS);
    // A server that is stalled already is not struck again.
    with(|sim| sim.strike_server(None, stall));
    until(54 * MS_NS);
    assert!(said().is_empty(), "nobody is answered");
    until(100 * MS_NS);
    let said = said();
    assert_eq!(said, [(56 * MS_NS, "2 Ok".to_owned()), (56 * MS_NS, "1 Nil".to_owned())]);
}

#[test]
fn a_server_that_is_killed_while_it_stands_still_forgets_what_it_was_sent() {
    let _world = fleet(Topology::Standalone, AppendOnly::Everysec);
    write(1, "synced");
    until(100 * MS_NS);
    with(|sim| sim.strike_server(None, ServerFault::Stall { for_ns: 5_000 * MS_NS }));
    task(2, async {
        let conn = VirtualEnv::of(2).connect(Node(0)).await.unwrap();
        say(format!("{:?}", conn.call(put("k")).await.unwrap_err()));
    });
    until(2_000 * MS_NS);
    end(0, Termination::Killed);
    restart(0);
    until(2_001 * MS_NS);
    assert!(said()[0].1.starts_with("Indeterminate"));
    assert!(value_at(0, b"k").is_none() && value_at(0, b"synced").is_some());
    write(1, "later");
    // It syncs once a second again.
    until(4_000 * MS_NS);
    end(0, Termination::PowerLoss);
    restart(0);
    assert!(value_at(0, b"later").is_some());
    assert!(with(|sim| sim.servers[0].serves()));
}

#[test]
fn two_primaries_grant_what_each_does_not_know_of_and_one_forgets_it() {
    let _world = fleet(replicated(2), AppendOnly::Off);
    write(1, "before");
    until(15 * MS_NS);
    let split = ServerFault::SplitBrain { to: Some(2), keeps: 1, for_ns: 50 * MS_NS };
    with(|sim| sim.strike_server(None, split));
    assert_eq!(with(|sim| sim.servers.primary), 2);
    for process in [1, 2] {
        attempt(process, 1000 * MS);
    }
    write(1, "old");
    until(40 * MS_NS);
    assert_eq!(said().iter().map(|it| it.1.as_str()).collect::<Vec<_>>(), ["1 Ok", "2 Ok"]);
    assert!(value_at(0, b"old").is_some() && value_at(1, b"old").is_none());
    assert!([0, 1, 2].iter().all(|server| value_at(*server, b"before").is_some()));
    // Once it has stepped down, there is one again, and it knows of the second alone.
    until(70 * MS_NS);
    assert!(value_at(0, b"old").is_none());
    attempt(1, 1000 * MS);
    until(80 * MS_NS);
    assert_eq!(said()[0].1, "1 Nil");
    // And the old primary is a replica that may be promoted in its turn.
    end(2, Termination::Killed);
    with(|sim| sim.promote(Some(0)));
    assert_eq!(with(|sim| sim.servers.primary), 0);
}

#[test]
fn independent_servers_are_nodes_of_their_own() {
    let _world = fleet(Topology::Independent { nodes: 3 }, AppendOnly::Off);
    task(1, async move {
        let env = VirtualEnv::of(1);
        for node in 0..4 {
            let answer = match env.connect(Node(node)).await {
                Ok(conn) => format!("{:?}", conn.call(set(1000 * MS)).await),
                Err(error) => error.to_string(),
            };
            say(answer);
        }
    });
    until(MS_NS);
    end(1, Termination::Killed);
    let said = said();
    let told: Vec<&str> = said.iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(told, ["Ok(Ok)", "Ok(Ok)", "Ok(Ok)", "not sent: no server is configured as 3"]);
    assert!(value_at(0, b"k").is_some() && value_at(2, b"k").is_some(), "the others go on");
    assert!(with(|sim| sim.servers[0].is_up()
        && !sim.servers[1].is_up()
        && sim.servers[2].is_up()));
}
