//! Waiting for a message: no client sleeps through a release, or for longer than the key lives if no
//! message comes.

use super::tests::POLL;
use super::*;
use crate::env::CallError;
use crate::fence::Fence;
use crate::lock::Released;
use crate::testing::{Fault, MS, TTL, TestEnv, World, exact};

const LONG: Duration = Duration::from_secs(60);

fn notified(env: TestEnv) -> Single<TestEnv> {
    env.lock(exact().notify())
}

/// Another client takes the lock and releases it after so long.
fn held_for(world: &World, span: Duration) {
    let env = world.client(1);
    let guard = world.block_on(notified(env.clone()).try_acquire()).unwrap();
    let clock = env.clone();
    env.spawn(async move {
        clock.sleep(span).await;
        assert_eq!(guard.release().await, Released::Released);
    });
}

fn now_ms(world: &World) -> u128 {
    world.now().since(Instant::from_ns(0)).as_millis()
}

#[test]
fn a_waiter_sleeps_until_it_is_told() {
    let world = World::new();
    held_for(&world, 100 * MS);
    let guard = world.block_on(notified(world.env()).acquire(LONG, POLL)).unwrap();
    assert_eq!(now_ms(&world), 100);
    // Tried, listened, looked again, and tried once it was told. (Its own and the other's first try
    // found that the server did not know the script.)
    assert_eq!(world.count("TRY"), 2 + 3, "{:?}", world.sent());
    assert_eq!(world.listeners(), 0, "who has the lock listens no more");
    drop(guard);
}

#[test]
fn a_holder_that_never_says_anything_is_waited_for_as_long_as_its_key_lives() {
    let world = World::new();
    let dead = world.block_on(notified(world.client(1)).try_acquire()).unwrap();
    let lock = notified(world.env());
    let mut waiting = Box::pin(lock.acquire(LONG, POLL));
    assert!(world.poll_and_drop(waiting.as_mut()).is_none());
    let guard = world.block_on(waiting).unwrap();
    assert!(dead.is_lost());
    assert_eq!(world.now(), Instant::from_ns(0).after(TTL + GRAIN));
    drop(guard);
}

#[test]
fn a_release_before_the_waiter_listens_is_not_slept_through() {
    let world = World::new();
    held_for(&world, 20 * MS);
    // Refused at once, but told so only when the lock has long been free.
    world.fault("TRY", Fault::Delay { request: Duration::ZERO, reply: 50 * MS });
    drop(world.block_on(notified(world.env()).acquire(LONG, POLL)).unwrap());
    assert_eq!(now_ms(&world), 50);
}

#[test]
fn a_broken_subscription_is_made_anew() {
    let world = World::new();
    held_for(&world, 100 * MS);
    let breaker = world.client(2);
    let (env, theirs) = (breaker.clone(), world.clone());
    breaker.spawn(async move {
        env.sleep(30 * MS).await;
        theirs.break_subscriptions();
    });
    drop(world.block_on(notified(world.env()).acquire(LONG, POLL)).unwrap());
    assert_eq!(now_ms(&world), 100, "told by the second");
}

#[test]
fn who_cannot_listen_polls() {
    let world = World::new();
    held_for(&world, 95 * MS);
    for _ in 0..100 {
        world.fault_subscribe(CallError::NotSent("nobody there".into()));
    }
    drop(world.block_on(notified(world.env()).acquire(LONG, POLL)).unwrap());
    assert_eq!(now_ms(&world), 100, "at the next poll");
}

#[test]
fn a_deadline_ends_the_sleep() {
    let world = World::new();
    held_for(&world, 500 * MS);
    let error = world.block_on(notified(world.env()).acquire(40 * MS, POLL)).unwrap_err();
    assert_eq!(error, NotAcquired::Deadline { last: Box::new(NotAcquired::Held) });
    assert_eq!(now_ms(&world), 40);
    assert_eq!(world.listeners(), 0);
}

#[test]
fn a_lost_release_of_anothers_token_tells_nobody() {
    let world = World::new();
    let guard = world.block_on(notified(world.client(1)).try_acquire()).unwrap();
    world.put("k", Some("another"));
    let mut ear = world.block_on(world.env().subscribe(Node(0), b"picklock:k")).unwrap();
    assert_eq!(world.block_on(guard.release()), Released::TakenByOther);
    assert!(world.poll_and_drop(ear.next()).is_none());
}

#[test]
fn fencing_tokens_rise_from_hold_to_hold() {
    let world = World::new();
    let lock = world.lock(exact().fenced());
    for number in 1..4 {
        let guard = world.block_on(lock.try_acquire()).unwrap();
        assert_eq!(guard.fence(), Some(Fence::new(number)));
        assert_eq!(world.block_on(lock.try_acquire()).unwrap_err(), NotAcquired::Held);
        assert_eq!(world.block_on(guard.release()), Released::Released);
    }
    assert_eq!(world.block_on(world.lock(exact()).try_acquire()).unwrap().fence(), None);
}

#[test]
fn locks_that_share_a_counter_rise_together_and_one_in_another_slot_is_refused() {
    let world = World::new();
    let lock = |key: &str, counter: &str| {
        let options = Options::builder(TTL).fenced_by(counter.as_bytes()).build().unwrap();
        Single::new(world.env(), Node(0), key.as_bytes(), options)
    };
    let (one, other) = (lock("{a}1", "{a}").unwrap(), lock("{a}2", "{a}").unwrap());
    for (lock, number) in [(&one, 1), (&other, 2), (&one, 3)] {
        let guard = world.block_on(lock.try_acquire()).unwrap();
        assert_eq!(guard.fence(), Some(Fence::new(number)));
        assert_eq!(world.block_on(guard.release()), Released::Released);
    }
    let error = lock("a", "b").unwrap_err();
    assert_eq!(error, OptionsError::OtherSlot { slot: 15_495, other_slot: 3_300 });
    assert_eq!(lock("a", "a").unwrap_err(), OptionsError::KeyTwice);
    assert_eq!(lock("a", "").unwrap_err(), OptionsError::KeyEmpty);
    // A lock whose counter cannot be named after its key needs a named one, in the slot of its key.
    let derived = Options::builder(TTL).fenced().build().unwrap();
    let alone = Single::new(world.env(), Node(0), *b"a}b", derived).unwrap_err();
    assert_eq!(alone, OptionsError::KeyAlone);
    assert!(matches!(lock("a}b", "n").unwrap_err(), OptionsError::OtherSlot { .. }));
}
