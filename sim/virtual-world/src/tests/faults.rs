//! What a fault leaves of a call, and of the lock.

use picklock::{Options, Single};
use scenarios::record::Observed;

use super::super::network::Direction;
use super::super::simulation::Simulation;
use super::*;

#[test]
fn a_reply_that_arrives_in_a_pause_is_seen_after_it() {
    let _world = world(2);
    network("1ms");
    let env = VirtualEnv::of(1);
    task(1, async move {
        ask(env, set(50 * MS)).await;
        say("answered");
    });
    until(MS_NS / 2);
    with(|sim| sim.executor.pause(1));
    until(20 * MS_NS);
    assert!(value().is_some(), "what was sent before the pause is executed");
    with(|sim| sim.executor.resume(1));
    until(21 * MS_NS);
    assert_eq!(said(), [(20 * MS_NS, "answered".to_owned())]);
}

/// A client that holds the lock, and releases it at the end of its work, whatever ends it.
fn hold_for(process: u32, span: Duration) {
    task(process, async move {
        let env = VirtualEnv::of(process);
        let lock = Single::new(env, Node(0), *b"k", Options::builder(500 * MS).build().unwrap());
        let guard = lock.unwrap().try_acquire().await.unwrap();
        env.sleep(span).await;
        drop(guard);
    });
}

#[test]
fn a_crashed_client_sends_no_release() {
    let _world = world(3);
    hold_for(1, 50 * MS);
    until(10 * MS_NS);
    assert!(value().is_some());
    with(|sim| sim.crash(1));
    until(499 * MS_NS);
    assert!(value().is_some(), "nobody has released it");
    until(501 * MS_NS);
    assert!(value().is_none(), "its TTL has");
    assert_eq!(with(|sim| sim.executor.tasks.live), 0);
    // The same guard without the crash does release.
    hold_for(2, 50 * MS);
    until(600 * MS_NS);
    assert!(value().is_none());
}

/// A client that takes the lock and drops it, waits for what is left to do or not, and ends.
fn drop_and_end(process: u32, drains: bool) {
    task(process, async move {
        let env = VirtualEnv::of(process);
        let options = Options::builder(500 * MS).build().unwrap();
        let lock = Single::new(env, Node(0), *b"k", options).unwrap();
        drop(lock.try_acquire().await.unwrap());
        if drains {
            lock.drain().await;
        }
        env.end_process();
        say("another process");
        ask(env, Command::new("PING")).await;
        say("has connections of its own");
    });
}

#[test]
fn what_a_process_still_does_ends_with_it() {
    let _world = world(3);
    drop_and_end(1, false);
    until(10 * MS_NS);
    assert_eq!(said().len(), 2, "the task that ended the process goes on");
    assert!(value().is_some(), "nobody has released it");
    assert_eq!(with(|sim| sim.executor.tasks.live), 0);
    until(501 * MS_NS);
    drop_and_end(2, true);
    until(510 * MS_NS);
    assert!(value().is_none() && said().len() == 2, "it had waited for its release");
}

#[test]
fn a_lost_reply_leaves_the_key_set() {
    let _world = world(2);
    with(|sim| {
        let conn = sim.processes[1].conn(0, Purpose::Commands).unwrap();
        sim.network.conn_mut(conn).kill(Direction::ToClient);
    });
    task(1, async move {
        ask(VirtualEnv::of(1), set(50 * MS)).await;
        say("answered");
    });
    until(20 * MS_NS);
    assert!(value().is_some());
    assert!(said().is_empty());
}

#[test]
fn a_lost_request_never_arrives() {
    let _world = world(2);
    with(|sim| {
        let conn = sim.processes[1].conn(0, Purpose::Commands).unwrap();
        sim.network.conn_mut(conn).kill(Direction::ToServer);
    });
    task(1, async { drop(ask(VirtualEnv::of(1), set(50 * MS)).await) });
    until(20 * MS_NS);
    assert!(value().is_none());
}

#[test]
fn what_meets_a_partition_comes_after_the_heal() {
    let _world = world(2);
    with(|sim| sim.network.link(1, 0).cut = [true, false]);
    task(1, async move {
        ask(VirtualEnv::of(1), set(500 * MS)).await;
        say("answered");
    });
    until(20 * MS_NS);
    assert!(value().is_none());
    with(Simulation::heal);
    until(30 * MS_NS);
    assert!(value().is_some());
    assert_eq!(said(), [(20 * MS_NS, "answered".to_owned())]);
}

#[test]
fn a_client_that_crashes_in_a_blocked_command_takes_nothing_away() {
    let _world = world(3);
    task(1, async {
        ask(VirtualEnv::of(1), Command::new("BLPOP").arg("queue").arg("0")).await;
    });
    until(10 * MS_NS);
    with(|sim| sim.crash(1));
    task(2, async move {
        let env = VirtualEnv::of(2);
        ask(env, Command::new("RPUSH").arg("queue").arg("job")).await;
        let left = ask(env, Command::new("LLEN").arg("queue")).await;
        say(format!("{left:?}"));
    });
    until(20 * MS_NS);
    assert_eq!(said()[0].1, "Int(1)");
}
