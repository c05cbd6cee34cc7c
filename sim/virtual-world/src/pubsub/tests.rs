//! Channels in the virtual world: who gets which message, when, and what faults do to it.

use harness::injector::Injector;
use picklock::command::Command;
use picklock::env::{Env, Node, Subscription};

use super::super::env::{VirtualEnv, VirtualSubscription};
use super::super::network::{Direction, Purpose};
use super::super::simulation::with;
use super::super::tests::{MS, MS_NS, ask, network, said, say, task, until, world};

/// Process 1 subscribes and reports what it gets, until the connection breaks.
fn subscribe() {
    task(1, async move {
        let mut subscription = VirtualEnv::of(1).subscribe(Node(0), b"c").await.unwrap();
        say("subscribed");
        read_all(&mut subscription).await;
    });
}

async fn read_all(subscription: &mut VirtualSubscription) {
    loop {
        match subscription.next().await {
            Ok(message) => say(String::from_utf8_lossy(&message)),
            Err(error) => return say(error.to_string()),
        }
    }
}

/// Process 2 publishes; how many the server sent it to.
fn publish(message: &'static str) {
    task(2, async move {
        let sent = ask(VirtualEnv::of(2), Command::new("PUBLISH").arg("c").arg(message)).await;
        say(format!("{message} to {}", sent.as_int().unwrap()));
    });
}

/// Tasks have reported all this, in whatever order.
fn assert_said(expected: &[(u64, String)]) {
    let said = said();
    assert!(expected.iter().all(|it| said.contains(it)), "{said:?}");
}

fn at(ms: u64, what: &str) -> (u64, String) {
    (ms * MS_NS, what.to_owned())
}

const BROKEN: &str = "outcome unknown: the connection broke while listening";

#[test]
fn a_message_takes_as_long_as_a_reply() {
    let _world = world(3);
    network("1ms");
    subscribe();
    until(10 * MS_NS);
    // Two ways for the connection, two for the subscription.
    assert_eq!(said(), [at(4, "subscribed")]);
    publish("one");
    until(20 * MS_NS);
    assert_said(&[at(12, "one"), at(12, "one to 1")]);
}

#[test]
fn a_partition_withholds_a_message_until_the_heal() {
    let _world = world(3);
    subscribe();
    until(10 * MS_NS);
    said();
    with(|sim| sim.network.link(1, 0).cut = [false, true]);
    publish("one");
    publish("two");
    until(20 * MS_NS);
    assert_eq!(said(), [at(10, "one to 1"), at(10, "two to 1")]);
    with(|sim| sim.mend(1));
    until(21 * MS_NS);
    assert_eq!(said(), [at(20, "one"), at(20, "two")]);
}

#[test]
fn a_subscriber_learns_that_its_connection_broke_and_so_does_the_server() {
    let _world = world(3);
    subscribe();
    until(MS_NS);
    said();
    let conn = with(|sim| sim.processes[1].conn(0, Purpose::Subscriptions).unwrap());
    with(|sim| sim.break_conn(conn));
    until(2 * MS_NS);
    assert_eq!(said(), [at(1, BROKEN)]);
    publish("lost");
    until(3 * MS_NS);
    assert_eq!(said(), [at(2, "lost to 0")]);
    subscribe();
    until(4 * MS_NS);
    publish("found");
    until(5 * MS_NS);
    assert_said(&[at(3, "subscribed"), at(4, "found"), at(4, "found to 1")]);
}

#[test]
fn a_silent_connection_is_replaced_once_a_subscription_is_not_answered() {
    let _world = world(3);
    subscribe();
    until(MS_NS);
    let conn = with(|sim| sim.processes[1].conn(0, Purpose::Subscriptions).unwrap());
    with(|sim| sim.network.conn_mut(conn).kill(Direction::ToClient));
    publish("never");
    said();
    until(2 * MS_NS);
    assert_eq!(said(), [at(1, "never to 1")], "the server cannot know");
    // Unanswered: from then on the connection counts as silent.
    let env = VirtualEnv::of(1);
    task(1, async move { drop(env.subscribe(Node(0), b"d").await) });
    until(1001 * MS_NS);
    assert_eq!(said(), []);
    until(1002 * MS_NS);
    subscribe();
    until(1010 * MS_NS);
    assert_said(&[at(1002, BROKEN), at(1002, "subscribed")]);
}

#[test]
fn a_paused_subscriber_is_late_and_a_crashed_one_is_not_counted() {
    let _world = world(3);
    subscribe();
    until(MS_NS);
    said();
    with(|sim| sim.executor.pause(1));
    publish("one");
    until(5 * MS_NS);
    assert_eq!(said(), [at(1, "one to 1")]);
    with(|sim| sim.executor.resume(1));
    until(6 * MS_NS);
    assert_eq!(said(), [at(5, "one")]);
    with(|sim| sim.crash(1));
    publish("two");
    until(7 * MS_NS);
    assert_eq!(said(), [at(6, "two to 0")]);
}

#[test]
fn ending_one_subscription_ends_no_other() {
    let _world = world(3);
    task(1, async move {
        let env = VirtualEnv::of(1);
        let one = env.subscribe(Node(0), b"c").await.unwrap();
        let mut other = env.subscribe(Node(0), b"c").await.unwrap();
        drop(one);
        env.sleep(10 * MS).await;
        say(String::from_utf8_lossy(&other.next().await.unwrap()));
        drop(other);
        let sent = ask(env, Command::new("PING")).await;
        say(format!("{sent:?}"));
    });
    until(5 * MS_NS);
    publish("one");
    until(20 * MS_NS);
    assert_eq!(said()[..2], [at(5, "one to 1"), at(10, "one")]);
    publish("two");
    until(21 * MS_NS);
    assert_eq!(said(), [at(20, "two to 0")], "the last has left");
}

#[test]
fn a_server_that_crashes_breaks_the_connections_of_subscribers() {
    let _world = world(3);
    subscribe();
    until(MS_NS);
    said();
    with(|sim| sim.stop_server(0, redis_model::model::Termination::Killed));
    until(2 * MS_NS);
    assert_eq!(said(), [at(1, BROKEN)]);
    with(|sim| sim.start_server(0));
    subscribe();
    until(3 * MS_NS);
    publish("back");
    until(4 * MS_NS);
    assert_said(&[at(2, "subscribed"), at(3, "back"), at(3, "back to 1")]);
}
