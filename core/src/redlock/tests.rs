//! What cannot be a lock on several nodes is refused when it is made, what can never be had is not
//! waited for, and nobody stands in their own way.

use super::*;
use crate::reply::ServerError;
use crate::testing::{Fault, MS, World};

const LONG: Duration = Duration::from_secs(60);
const POLL: Poll = Poll { base: MS, jitter: Duration::ZERO, max_retries: None };

fn wrong_password(world: &World) {
    let refusal = ServerError::from_line("WRONGPASS invalid username-password pair");
    world.fault_connect(refusal.into());
}

fn lock(world: &World) -> Redlock<crate::testing::TestEnv> {
    let options = Options::builder(LONG).call_timeout(100 * MS).build().unwrap();
    Redlock::new(world.env(), (0..3).map(Node), *b"k", options).unwrap()
}

fn made(nodes: &[u16]) -> Result<Redlock<crate::testing::TestEnv>, OptionsError> {
    let options = Options::builder(Duration::from_secs(1)).build().unwrap();
    Redlock::new(World::new().env(), nodes.iter().map(|node| Node(*node)), *b"k", options)
}

#[test]
fn it_takes_three_different_nodes_or_a_larger_odd_number() {
    for nodes in [&[0, 1, 2][..], &[0, 1, 2, 3, 4]] {
        assert!(made(nodes).is_ok(), "{nodes:?}");
    }
    for nodes in [&[][..], &[0], &[0, 1], &[0, 1, 2, 3]] {
        let error = made(nodes).unwrap_err();
        assert_eq!(error, OptionsError::NodesUneven { nodes: nodes.len() });
    }
    assert_eq!(made(&[0, 1, 0]).unwrap_err(), OptionsError::NodeTwice { node: 0 });
}

#[test]
fn options_of_a_lock_on_one_node_are_refused() {
    let builder = || Options::builder(Duration::from_secs(1));
    let nodes = || (0..3).map(Node);
    for options in
        [builder().fenced(), builder().notify(), builder().wait_for(1, Duration::from_millis(5))]
    {
        let made = Redlock::new(World::new().env(), nodes(), *b"k", options.build().unwrap());
        assert_eq!(made.unwrap_err(), OptionsError::OneNodeOnly);
    }
    let made = Redlock::new(World::new().env(), nodes(), *b"", builder().build().unwrap());
    assert_eq!(made.unwrap_err(), OptionsError::KeyEmpty);
}

#[test]
fn a_wrong_password_on_a_quorum_is_not_waited_for() {
    let world = World::new();
    wrong_password(&world);
    wrong_password(&world);
    let refused = world.block_on(lock(&world).acquire(LONG, POLL)).unwrap_err();
    assert!(
        matches!(&refused, NotAcquired::Refused(error) if &*error.code == "WRONGPASS"),
        "{refused}"
    );
    assert_eq!(world.now(), Instant::from_ns(0), "the third has granted it, which is no quorum");
    world.advance(MS);
    assert_eq!(world.value_on(Node(2), "k"), None);
    assert_eq!(world.tasks(), 0);
}

#[test]
fn a_wrong_password_on_fewer_nodes_is_no_reason_to_give_up() {
    let world = World::new();
    wrong_password(&world);
    let guard = world.block_on(lock(&world).acquire(LONG, POLL)).unwrap();
    drop(guard);
    // Nor where the others have no quorum now: they may have one later.
    let world = World::new();
    wrong_password(&world);
    world.put_on(Node(1), "k", Some("another"));
    let missed = world.block_on(lock(&world).try_acquire()).unwrap_err();
    assert_eq!(missed, NotAcquired::NoQuorum { granted: 1, needed: 2 });
    world.put_on(Node(1), "k", None);
    assert!(world.block_on(lock(&world).acquire(LONG, POLL)).is_ok());
}

#[test]
fn a_refusal_that_passes_is_waited_for() {
    let world = World::new();
    for _ in 0..3 {
        world.fault("SET", Fault::Refuse("LOADING Redis is loading the dataset in memory"));
    }
    assert!(world.block_on(lock(&world).acquire(LONG, POLL)).is_ok());
}

#[test]
fn what_a_minority_has_granted_is_deleted_before_the_next_attempt() {
    let world = World::new();
    for node in [1, 2] {
        world.put_on(Node(node), "k", Some("another"));
    }
    // The clean-up takes much longer than the pause between two attempts.
    world.fault("DELETE", Fault::Delay { request: 20 * MS, reply: 20 * MS });
    let lock = lock(&world);
    let mut waiting = Box::pin(lock.acquire(LONG, POLL));
    assert!(world.poll_and_drop(waiting.as_mut()).is_none());
    for node in [1, 2] {
        world.put_on(Node(node), "k", None);
    }
    let guard = world.block_on(waiting).unwrap();
    assert_eq!(world.sent()[..5], ["SET", "SET", "SET", "DELETE", "DELETE"]);
    for node in 0..3 {
        assert_eq!(world.value_on(Node(node), "k").as_deref(), Some(guard.token().as_bytes()));
    }
}

#[test]
fn a_clean_up_without_an_answer_is_waited_for_no_longer_than_a_call() {
    let world = World::new();
    for node in [1, 2] {
        world.put_on(Node(node), "k", Some("another"));
    }
    for _ in 0..100 {
        world.fault("DELETE", Fault::Hang);
    }
    let lock = lock(&world);
    let mut waiting = Box::pin(lock.acquire(LONG, POLL));
    assert!(world.poll_and_drop(waiting.as_mut()).is_none());
    for node in [1, 2] {
        world.put_on(Node(node), "k", None);
    }
    // The first node keeps the orphan; the other two are a quorum.
    let guard = world.block_on(waiting).unwrap();
    assert_eq!(world.now(), Instant::from_ns(0).after(101 * MS));
    drop(guard);
}
