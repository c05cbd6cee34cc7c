//! Acquiring: from when validity counts, the three outcomes, and what an unknown one leaves behind.

use std::time::Duration;

use super::*;
use crate::env::CallError;
use crate::lock::{Outcome, Released};
use crate::reply::Reply;
use crate::testing::{Fault, MS, TIMEOUT, TTL, TestEnv, World, exact};
use crate::validity::Drift;

pub(super) const POLL: Poll =
    Poll { base: Duration::from_millis(10), jitter: Duration::ZERO, max_retries: None };

fn setting() -> (World, Single<TestEnv>) {
    let world = World::new();
    let lock = world.lock(exact());
    (world, lock)
}

fn slow(request: Duration, reply: Duration) -> Fault {
    Fault::Delay { request, reply }
}

#[test]
fn validity_counts_from_the_send_and_not_from_the_reply() {
    let (world, lock) = setting();
    world.advance(5 * MS);
    let sent = world.now();
    world.fault("SET", slow(40 * MS, 60 * MS));
    let guard = world.block_on(lock.try_acquire()).unwrap();
    assert_eq!(world.now(), sent.after(100 * MS));
    assert_eq!(guard.valid_until(), sent.after(TTL));
    assert_eq!(guard.remaining(), TTL - 100 * MS);
    // The server, which counts from when the request came, keeps the key longer.
    assert_eq!(world.expiry("k"), Some(sent.after(TTL + 40 * MS).as_ns()));
}

#[test]
fn the_drift_allowance_is_taken_off() {
    let world = World::new();
    let lock = world.lock(exact().drift(Drift { ppm: 0, fixed: 7 * MS }));
    let guard = world.block_on(lock.try_acquire()).unwrap();
    assert_eq!(guard.valid_until(), Instant::from_ns(0).after(TTL - 7 * MS));
}

#[test]
fn the_phases_are_marked_in_order() {
    let (world, lock) = setting();
    let guard = world.block_on(lock.try_acquire()).unwrap();
    assert_eq!(world.phases(), [Phase::AcquireBeforeSend, Phase::AcquireApplied]);
    assert_eq!(world.marks().last(), Some(&Mark::ValidUntil(guard.valid_until())));
}

#[test]
fn a_held_lock_is_refused_at_once_and_left_alone() {
    let (world, lock) = setting();
    world.put("k", Some("another"));
    let error = world.block_on(lock.try_acquire()).unwrap_err();
    assert_eq!((error.outcome(), error), (Outcome::No, NotAcquired::Held));
    assert_eq!(world.sent(), ["SET", "GET"]);
}

#[test]
fn every_acquisition_has_a_token_of_its_own() {
    let (world, lock) = setting();
    let first = world.block_on(lock.try_acquire()).unwrap();
    let token = first.token().clone();
    world.put("k", None);
    let second = world.block_on(lock.try_acquire()).unwrap();
    assert_ne!(&token, second.token());
    assert_eq!(world.value("k").as_deref(), Some(second.token().as_bytes()));
}

#[test]
fn an_error_of_the_server_is_a_no_and_needs_no_clean_up() {
    for line in ["READONLY no", "LOADING wait", "OOM full", "MISCONF disk", "NOAUTH who"] {
        let (world, lock) = setting();
        world.fault("SET", Fault::Refuse(line));
        let error = world.block_on(lock.try_acquire()).unwrap_err();
        assert!(matches!(error, NotAcquired::Refused(_)), "{error}");
        assert_eq!(error.outcome(), Outcome::No);
        world.advance(2 * TTL);
        assert_eq!(world.sent(), ["SET"]);
    }
}

#[test]
fn a_failed_connect_is_a_no_and_needs_no_clean_up() {
    for error in [CallError::NotSent("no route".into()), CallError::Indeterminate("eof".into())] {
        let (world, lock) = setting();
        world.fault_connect(error);
        let error = world.block_on(lock.try_acquire()).unwrap_err();
        assert!(matches!(error, NotAcquired::NotSent(_)), "{error}");
        world.advance(2 * TTL);
        assert_eq!(world.sent(), [""; 0]);
    }
}

#[test]
fn a_lost_reply_is_unknown_and_leaves_no_orphan() {
    let (world, lock) = setting();
    world.fault("SET", Fault::LoseReply);
    let error = world.block_on(lock.try_acquire()).unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(world.now(), Instant::from_ns(0).after(TIMEOUT));
    world.advance(MS);
    assert_eq!(world.value("k"), None);
    // One answer behind the acquisition is proof: nothing more is sent. (The server did not know
    // the script: EVALSHA, then EVAL.)
    world.advance(2 * TTL);
    assert_eq!(world.sent(), ["SET", "DELETE", "DELETE"]);
    assert_eq!(world.tasks(), 0);
}

#[test]
fn an_acquisition_still_on_its_way_is_followed_on_its_connection() {
    let (world, lock) = setting();
    // Arrives long after the caller has given up, and ahead of the clean-up.
    world.fault("SET", slow(TIMEOUT + 50 * MS, Duration::ZERO));
    let error = world.block_on(lock.try_acquire()).unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    world.advance(60 * MS);
    assert_eq!(world.value("k"), None);
    assert_eq!(world.tasks(), 0, "a definite answer on the same connection settles it");
}

#[test]
fn on_another_connection_only_deleted_is_proof() {
    for (options, delete) in [(exact(), "DELETE"), (exact().native(), "DELEX")] {
        let world = World::new();
        world.become_native(&["DELEX"]);
        world.fault("SET", Fault::BreakAndArrive(400 * MS));
        let error = world.block_on(world.lock(options).try_acquire()).unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        world.advance(399 * MS);
        assert!(world.count(delete) > 1, "it asks on another connection");
        assert_eq!(world.tasks(), 1, "missing there, or not ours, proves nothing yet");
        // The acquisition arrives, and the next try finds it.
        world.advance(TIMEOUT / 2 + MS);
        assert_eq!((world.value("k"), world.tasks()), (None, 0), "deleted does");
    }
}

#[test]
fn a_clean_up_on_another_connection_ends_with_the_linger_time() {
    let (world, lock) = setting();
    world.fault("SET", Fault::BreakBefore);
    world.block_on(lock.try_acquire()).unwrap_err();
    world.advance(TTL + TIMEOUT - MS);
    assert_eq!(world.tasks(), 1);
    world.advance(2 * MS);
    assert_eq!(world.tasks(), 0);
}

#[test]
fn a_clean_up_asks_less_and_less_often_while_it_finds_nothing() {
    let world = World::new();
    let day = Duration::from_secs(24 * 60 * 60);
    let options = Options::builder(day).call_timeout(TIMEOUT);
    world.fault("SET", Fault::BreakAndArrive(day / 2));
    world.block_on(world.lock(options).try_acquire()).unwrap_err();
    // Four times the call timeout go by at the pace of half of one.
    world.advance(4 * TIMEOUT);
    let soon = world.count("DELETE");
    assert!((8..=12).contains(&soon), "{soon}");
    world.advance(day / 2 - 4 * TIMEOUT);
    assert!(world.value("k").is_some(), "it comes late");
    world.advance(day / 16);
    assert_eq!((world.value("k"), world.tasks()), (None, 0));
    assert!(world.count("DELETE") < 120, "{}", world.count("DELETE"));
}

#[test]
fn a_clean_up_without_an_answer_asks_on_at_the_same_pace() {
    let world = World::new();
    let options = Options::builder(TTL).drift(Drift::NONE).linger(100 * TTL);
    world.fault("SET", Fault::LoseReply);
    world.fault_times(100, "DELETE", Fault::Refuse("LOADING wait"));
    world.block_on(world.lock(options).try_acquire()).unwrap_err();
    world.advance(101 * (TIMEOUT / 2));
    assert_eq!(world.value("k"), None, "{}", world.count("DELETE"));
}

#[test]
fn a_clean_up_whose_own_replies_are_lost_is_repeated() {
    let (world, lock) = setting();
    world.fault("SET", Fault::LoseReply);
    world.fault("DELETE", Fault::Hang);
    world.fault("DELETE", Fault::Refuse("LOADING wait"));
    world.fault("DELETE", Fault::BreakBefore);
    world.block_on(lock.try_acquire()).unwrap_err();
    assert!(world.value("k").is_some());
    world.advance(TTL + TIMEOUT);
    assert_eq!(world.value("k"), None);
}

#[test]
fn a_clean_up_that_is_refused_waits_before_it_asks_again() {
    let (world, lock) = setting();
    world.fault_times(3, "DELETE", Fault::Refuse("LOADING wait"));
    assert!(world.poll_and_drop(lock.try_acquire()).is_none());
    let pause = TIMEOUT / 2;
    for asked in 1..=3 {
        world.advance(pause / 2);
        assert_eq!(world.count("DELETE"), asked, "refused, and not yet asked again");
        assert!(world.value("k").is_some());
        world.advance(pause - pause / 2);
    }
    world.advance(pause);
    assert_eq!(world.value("k"), None);
}

#[test]
fn a_grant_whose_replicas_cannot_be_waited_for_is_not_said_to_be_none() {
    for fault in [Fault::Refuse("NOPERM no WAIT for you"), Fault::BreakBefore] {
        let world = World::new();
        let lock = world.lock(exact().wait_for(1, 5 * MS));
        world.fault("WAIT", fault);
        let error = world.block_on(lock.try_acquire()).unwrap_err();
        assert!(world.value("k").is_some());
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        world.block_on(lock.drain());
        assert_eq!(world.value("k"), None);
    }
}

#[test]
fn a_clean_up_never_touches_anothers_lock() {
    let (world, lock) = setting();
    world.put("k", Some("another"));
    world.fault("SET", Fault::LoseReply);
    world.block_on(lock.try_acquire()).unwrap_err();
    world.advance(2 * TTL);
    assert_eq!(world.value("k").as_deref(), Some(&b"another"[..]));
    // Behind the acquisition, on its own connection, even that answer is proof (EVALSHA, EVAL).
    assert_eq!(world.count("DELETE"), 2);
}

#[test]
fn a_future_dropped_in_mid_call_leaves_no_orphan() {
    let (world, lock) = setting();
    assert!(world.poll_and_drop(lock.try_acquire()).is_none());
    assert!(world.value("k").is_some(), "the acquisition had left already");
    world.advance(MS);
    assert_eq!(world.value("k"), None);
    assert_eq!(world.tasks(), 0);
}

#[test]
fn a_future_that_was_never_polled_sends_nothing() {
    let (world, lock) = setting();
    drop(lock.try_acquire());
    world.advance(TTL);
    assert_eq!(world.sent(), [""; 0]);
}

#[test]
fn a_yes_that_comes_too_late_is_released() {
    let world = World::new();
    // A call timeout beyond the validity, so that the reply is awaited and not the timeout.
    let validity = TTL - MS;
    let lock = world.lock(exact().drift(Drift { ppm: 0, fixed: MS }).call_timeout(TTL));
    for (reply, late) in [(validity - Duration::from_nanos(1), false), (validity, true)] {
        world.put("k", None);
        world.fault("SET", slow(5 * MS, reply - 5 * MS));
        let answer = world.block_on(lock.try_acquire());
        assert_eq!(answer.is_err(), late);
        if let Err(error) = answer {
            assert_eq!((error.outcome(), error), (Outcome::Yes, NotAcquired::TooLate));
            assert!(world.value("k").is_none(), "released, although the server would keep it");
        }
        world.advance(MS);
    }
}

#[test]
fn a_pause_before_the_reply_is_seen_makes_it_too_late() {
    let (world, lock) = setting();
    let mut work = Box::pin(lock.try_acquire());
    assert!(world.poll_and_drop(work.as_mut()).is_none());
    world.pause_clients(TTL);
    assert_eq!(world.block_on(work).unwrap_err(), NotAcquired::TooLate);
}

#[test]
fn an_unexpected_reply_proves_nothing() {
    let error = NotAcquired::from(CallError::unexpected(&Reply::Int(7)));
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[test]
fn acquire_polls_until_the_lock_is_free() {
    let (world, lock) = setting();
    let other = world.client(1).lock(exact());
    let held = world.block_on(other.try_acquire()).unwrap();
    let start = world.now();
    let guard = world.block_on(lock.acquire(2 * TTL, POLL)).unwrap();
    // The other never released: taken over at the end of its TTL, within one pause.
    assert!(world.now().since(start) <= TTL + POLL.base);
    assert!(held.is_lost());
    assert!(!guard.is_lost());
    let waits = world.phases().iter().filter(|phase| **phase == Phase::Wait).count();
    assert_eq!(waits + 2, world.count("SET"), "one wait before every attempt but the first");
}

#[test]
fn acquire_makes_its_last_attempt_at_the_deadline() {
    let (world, lock) = setting();
    world.put("k", Some("another"));
    let error = world.block_on(lock.acquire(25 * MS, POLL)).unwrap_err();
    assert_eq!(error, NotAcquired::Deadline { last: Box::new(NotAcquired::Held) });
    assert_eq!(world.now(), Instant::from_ns(0).after(25 * MS));
    assert_eq!(world.count("SET"), 4);
}

#[test]
fn a_deadline_of_zero_is_one_attempt() {
    let (world, lock) = setting();
    world.put("k", Some("another"));
    world.block_on(lock.acquire(Duration::ZERO, POLL)).unwrap_err();
    assert_eq!(world.count("SET"), 1);
    world.put("k", None);
    assert!(world.block_on(lock.acquire(Duration::ZERO, POLL)).is_ok());
}

#[test]
fn retries_are_counted() {
    for retries in 0..3 {
        let (world, lock) = setting();
        world.put("k", Some("another"));
        let poll = Poll { max_retries: Some(retries), ..POLL };
        let error = world.block_on(lock.acquire(TTL, poll)).unwrap_err();
        assert_eq!(error, NotAcquired::Held);
        assert_eq!(world.count("SET"), retries as usize + 1);
    }
}

#[test]
fn acquire_gives_up_at_once_where_time_mends_nothing() {
    let (world, lock) = setting();
    world.fault("SET", Fault::Refuse("LOADING wait"));
    assert!(world.block_on(lock.acquire(TTL, POLL)).is_ok());
    world.put("k", None);
    world.fault("SET", Fault::Refuse("WRONGPASS no"));
    let error = world.block_on(lock.acquire(TTL, POLL)).unwrap_err();
    assert!(matches!(error, NotAcquired::Refused(_)), "{error}");
}

#[test]
fn acquire_does_not_trip_over_its_own_orphan() {
    let (world, lock) = setting();
    world.fault("SET", Fault::LoseReply);
    let guard = world.block_on(lock.acquire(TTL, POLL)).unwrap();
    // The clean-up was awaited, so the second attempt is the one that succeeds.
    assert_eq!(world.count("SET"), 2);
    assert_eq!(world.now(), Instant::from_ns(0).after(TIMEOUT + POLL.base));
    assert_eq!(world.value("k").as_deref(), Some(guard.token().as_bytes()));
    world.advance(TTL / 2);
    assert!(world.value("k").is_some(), "the clean-up of the first leaves the second alone");
}

#[test]
fn acquire_tells_of_an_outcome_that_is_still_unknown_at_the_deadline() {
    let (world, lock) = setting();
    world.fault("SET", Fault::BreakAndArrive(2 * TIMEOUT));
    world.fault_times(100, "DELETE", Fault::Hang);
    let error = world.block_on(lock.acquire(TIMEOUT, POLL)).unwrap_err();
    assert!(matches!(error, NotAcquired::Deadline { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[test]
fn a_later_no_does_not_hide_an_outcome_that_is_still_unknown() {
    let (world, lock) = setting();
    world.put("k", Some("another"));
    // Broken at once, so the next attempt is made on a new connection and is answered.
    world.fault("SET", Fault::BreakAndArrive(TTL));
    let error = world.block_on(lock.acquire(TIMEOUT, POLL)).unwrap_err();
    assert!(world.count("SET") > 1);
    assert_eq!(error.outcome(), Outcome::Unknown, "the first may still arrive: {error}");
}

#[test]
fn nor_does_a_later_attempt_that_has_been_cleaned_up() {
    let (world, lock) = setting();
    world.put("k", Some("another"));
    world.fault("SET", Fault::BreakAndArrive(TTL));
    // Its clean-up is behind it on its connection, and is answered.
    world.fault("SET", slow(TIMEOUT + MS, Duration::ZERO));
    let error = world.block_on(lock.acquire(2 * TIMEOUT, POLL)).unwrap_err();
    assert!(world.count("SET") > 2);
    assert_eq!(error.outcome(), Outcome::Unknown, "the first may still arrive: {error}");
}

#[test]
fn a_key_is_checked_when_the_lock_is_made() {
    let options = exact().build().unwrap();
    let error = Single::new(World::new().env(), Node(0), *b"", options).unwrap_err();
    assert_eq!(error, OptionsError::KeyEmpty);
}

const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn a_key_that_is_no_text_is_not_held_by_another() {
    let poll = Poll { max_retries: Some(1), ..Poll::default() };
    for how in 0..3 {
        let (world, lock) = setting();
        world.put("k", Some("taken for a list"));
        world.fault("GET", Fault::Refuse(WRONGTYPE));
        let missed = match how {
            0 => world.block_on(lock.try_acquire()),
            1 => world.block_on(lock.acquire(60 * TTL, poll)),
            _ => world.block_on(lock.acquire(MS, Poll::default())),
        };
        let missed = missed.unwrap_err();
        assert!(
            matches!(&missed, NotAcquired::Refused(error) if &*error.code == "WRONGTYPE"),
            "{missed}"
        );
        assert_eq!(missed.outcome(), Outcome::No);
    }
}

#[test]
fn a_key_is_looked_at_once() {
    let (world, lock) = setting();
    world.put("k", Some("another"));
    for _ in 0..3 {
        assert_eq!(world.block_on(lock.try_acquire()).unwrap_err(), NotAcquired::Held);
    }
    assert_eq!((world.count("SET"), world.count("GET")), (3, 1));
}

#[test]
fn a_key_that_never_expires_is_looked_at_again() {
    for options in [exact().notify(), exact().fenced()] {
        let (world, poll) = (World::new(), Poll { max_retries: Some(0), ..Poll::default() });
        let (lock, other) = (world.lock(options.clone()), world.client(1).lock(options));
        let guard = world.block_on(other.try_acquire()).unwrap();
        assert_eq!(world.block_on(lock.try_acquire()).unwrap_err(), NotAcquired::Held);
        assert_eq!(world.block_on(lock.try_acquire()).unwrap_err(), NotAcquired::Held);
        assert_eq!(world.count("GET"), 1, "it has seen a string");
        assert_eq!(world.block_on(guard.release()), Released::Released);
        world.put("k", Some("taken for a list"));
        world.fault("GET", Fault::Refuse(WRONGTYPE));
        let missed = world.block_on(lock.acquire(60 * TTL, poll)).unwrap_err();
        assert!(matches!(missed, NotAcquired::Refused(_)), "{missed}");
    }
}

#[test]
fn a_guard_that_is_dropped_is_waited_for() {
    let (world, lock) = setting();
    world.fault("DELETE", Fault::Delay { request: 5 * MS, reply: 5 * MS });
    drop(world.block_on(lock.try_acquire()).unwrap());
    assert!(world.poll_and_drop(lock.drain()).is_none());
    world.block_on(lock.drain());
    assert_eq!((world.value("k"), world.tasks()), (None, 0));
    // A guard that lives is not waited for.
    let guard = world.block_on(lock.try_acquire()).unwrap();
    assert!(world.poll_and_drop(lock.drain()).is_some());
    // A runtime that ends is not, either.
    drop(guard);
    world.drop_tasks();
    assert!(world.poll_and_drop(lock.drain()).is_some());
    assert_eq!(lock.counters().get(Count::ReleaseUnknown), 1);
}
