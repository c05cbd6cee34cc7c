//! Renewing: when it comes, from when validity counts, what makes a loss, and that nothing is sent after the end.

use std::time::Duration;

use super::*;
use crate::env::Mark;
use crate::guard::Guard;
use crate::lock::{Lost, Released};
use crate::testing::{Fault, MS, TTL, TestEnv, World, exact};

const EVERY: Duration = Duration::from_millis(300);

/// Random bits by which the first renewal comes after a whole interval, and others as late as they may.
const LAST: u64 = u64::MAX;

fn held_for(max_hold: Option<Duration>) -> (World, Guard<TestEnv>) {
    drawn(max_hold, [LAST])
}

/// A hold whose watchdog draws these bits, and then others.
fn drawn(
    max_hold: Option<Duration>,
    bits: impl IntoIterator<Item = u64>,
) -> (World, Guard<TestEnv>) {
    let world = World::new();
    // The token comes first.
    world.script_random([1, 2].into_iter().chain(bits));
    let renewal = Renewal { every: EVERY, max_hold };
    let guard = world.block_on(world.lock(exact().renewal(renewal)).try_acquire()).unwrap();
    (world, guard)
}

fn held() -> (World, Guard<TestEnv>) {
    held_for(None)
}

#[test]
fn a_watched_lock_outlives_its_ttl() {
    let (world, guard) = held();
    world.advance(5 * TTL - MS);
    assert!(guard.is_valid());
    assert_eq!(world.value("k").as_deref(), Some(guard.token().as_bytes()));
    // At 300, 600, … 4200 ms; the first call needs two commands, as the script is new.
    assert_eq!(world.count("EXTEND"), 14 + 1);
    assert_eq!(guard.valid_until(), Instant::from_ns(0).after(14 * EVERY + TTL));
}

#[test]
fn a_renewal_counts_from_its_send_however_late_it_is_answered() {
    let (world, guard) = held();
    world.fault("EXTEND", Fault::Delay { request: 50 * MS, reply: 50 * MS });
    world.fault("EXTEND", Fault::Delay { request: 50 * MS, reply: 50 * MS });
    world.advance(EVERY + 250 * MS);
    assert_eq!(guard.valid_until(), Instant::from_ns(0).after(EVERY + TTL));
    world.advance(100 * MS);
    assert_eq!(guard.valid_until(), Instant::from_ns(0).after(2 * EVERY + TTL));
}

#[test]
fn holds_that_began_together_are_not_renewed_together() {
    let first = |bits| {
        let (world, guard) = drawn(None, [bits]);
        let until = guard.valid_until();
        while guard.valid_until() == until {
            world.advance(MS);
        }
        world.now()
    };
    let at = |ms: u32| Instant::from_ns(0).after(ms * MS);
    assert_eq!([1 << 62, 1 << 63, LAST].map(first), [256, 271, 300].map(at));
    // From then on, every interval.
    let (world, guard) = drawn(None, [1 << 63]);
    world.advance(271 * MS + 4 * EVERY);
    let renewed = Instant::from_ns(1).after(270 * MS + 4 * EVERY);
    assert_eq!(guard.valid_until(), renewed.after(TTL));
    assert_eq!(world.count("EXTEND"), 5 + 1);
}

#[test]
fn what_held_all_renewals_up_does_not_bring_them_into_step() {
    let (world, guard) = held();
    world.advance(250 * MS);
    world.pause_clients(250 * MS);
    world.advance(MS);
    let late = Instant::from_ns(0).after(500 * MS);
    assert_eq!(guard.valid_until(), late.after(TTL), "due at 300 ms");
    world.advance(100 * MS);
    let next = Instant::from_ns(0).after(2 * EVERY);
    assert_eq!(guard.valid_until(), next.after(TTL), "at its own place again");
}

#[test]
fn renewals_that_fail_are_tried_again_more_and_more_seldom_and_once_more_before_the_end() {
    let (world, guard) = drawn(None, [LAST; 20]);
    world.fault_times(100, "EXTEND", Fault::Refuse("LOADING wait"));
    let mut tries = Vec::new();
    while world.now() < Instant::from_ns(0).after(TTL) {
        world.advance(MS);
        if world.count("EXTEND") > tries.len() {
            tries.push(world.now().as_ns() / 1_000_000);
        }
    }
    assert_eq!(tries, [300, 338, 413, 563, 732, 816, 858, 879]);
    assert!(guard.is_lost());
}

#[test]
fn a_renewal_never_brings_a_lost_key_back() {
    let (world, guard) = held();
    world.put("k", None);
    world.advance(EVERY);
    assert!(guard.is_lost());
    assert_eq!(world.block_on(guard.lost()), Lost::KeyGone);
    world.advance(5 * TTL);
    assert_eq!(world.value("k"), None);
    assert_eq!((world.marked(Mark::Lost), world.count("DELETE")), (1, 0));
    assert_eq!(world.tasks(), 0, "the watchdog has gone");
}

#[test]
fn a_renewal_that_finds_another_says_lost_at_once() {
    let (world, guard) = held();
    world.put("k", Some("another"));
    assert_eq!(world.block_on(guard.lost()), Lost::TakenByOther);
    assert_eq!(world.now(), Instant::from_ns(0).after(EVERY));
    assert_eq!(world.value("k").as_deref(), Some(&b"another"[..]));
    assert_eq!(world.block_on(guard.release()), Released::TakenByOther);
}

#[test]
fn what_a_renewal_has_found_lost_is_not_said_to_be_released() {
    let (world, guard) = held();
    world.put("k", Some("another"));
    assert_eq!(world.block_on(guard.lost()), Lost::TakenByOther);
    world.put("k", None);
    world.fault("DELETE", Fault::LoseReply);
    let valid_until = guard.valid_until();
    assert_eq!(world.block_on(guard.release()), Released::AlreadyExpired);
    assert!(world.now() < valid_until, "it cannot have expired by then");
}

#[test]
fn a_failed_renewal_is_tried_again_within_validity_and_never_deletes() {
    for fault in [Fault::Hang, Fault::BreakBefore, Fault::LoseReply, Fault::Refuse("LOADING wait")]
    {
        let (world, guard) = held();
        world.fault("EXTEND", fault);
        world.advance(TTL - MS);
        assert!(guard.valid_until() > Instant::from_ns(0).after(TTL), "renewed at the second try");
        assert_eq!(world.count("DELETE"), 0);
    }
}

#[test]
fn a_hold_that_is_saved_by_hand_at_the_last_moment_is_renewed_again() {
    let refusing = |times| {
        let (world, guard) = held();
        world.fault_times(times, "EXTEND", Fault::Refuse("LOADING wait"));
        world.advance(TTL - MS);
        (world, guard)
    };
    let tries = refusing(100).0.count("EXTEND");
    let (world, guard) = refusing(tries);
    assert_eq!(world.count("EXTEND"), tries);
    assert!(world.block_on(guard.extend()).is_ok());
    world.advance(5 * TTL);
    assert!(guard.is_valid());
}

#[test]
fn the_end_of_validity_says_lost_while_a_call_is_outstanding() {
    let (world, guard) = held();
    world.fault_times(100, "EXTEND", Fault::Hang);
    world.advance(TTL - MS);
    assert_eq!(world.marked(Mark::Lost), 0);
    world.advance(MS);
    assert_eq!(world.marked(Mark::Lost), 1, "said without anyone asking the guard");
    assert!(guard.is_lost());
    let sent = world.count("EXTEND");
    world.advance(5 * TTL);
    assert_eq!(world.count("EXTEND"), sent, "what is lost is not renewed");
}

#[test]
fn a_node_that_was_paused_beyond_validity_or_the_limit_does_not_renew() {
    for (max_hold, pause) in [(None, TTL), (Some(EVERY + 100 * MS), EVERY + 200 * MS)] {
        let (world, guard) = held_for(max_hold);
        world.pause_clients(pause);
        world.advance(TTL);
        assert!(guard.is_lost());
        assert_eq!(world.count("EXTEND"), 0);
    }
}

#[test]
fn renewal_stops_at_the_limit_and_validity_runs_out() {
    let (world, guard) = held_for(Some(2 * EVERY));
    world.advance(10 * TTL);
    assert_eq!(world.count("EXTEND"), 1 + 1, "at 300 ms only: 600 is the limit");
    assert_eq!(guard.valid_until(), Instant::from_ns(0).after(EVERY + TTL));
    assert_eq!(world.marked(Mark::Lost), 1, "the watchdog still watched the clock");
    assert_eq!(world.tasks(), 0);
}

#[test]
fn a_release_stops_renewal() {
    let (world, guard) = held();
    world.advance(EVERY + MS);
    let sent = world.count("EXTEND");
    assert_eq!(world.block_on(guard.release()), Released::Released);
    world.advance(5 * TTL);
    assert_eq!((world.count("EXTEND"), world.tasks()), (sent, 0));
}

#[test]
fn a_drop_stops_renewal_and_releases_once() {
    let (world, guard) = held();
    world.advance(EVERY + MS);
    let sent = world.count("EXTEND");
    drop(guard);
    world.advance(5 * TTL);
    assert_eq!(world.value("k"), None);
    // Two commands, as this script too is new to the server.
    assert_eq!((world.count("EXTEND"), world.count("DELETE")), (sent, 2));
    assert_eq!(world.tasks(), 0);
}

#[test]
fn a_renewal_in_flight_at_the_release_leaves_no_ghost() {
    let (world, guard) = held();
    world.fault("EXTEND", Fault::BreakAndArrive(100 * MS));
    world.advance(EVERY);
    // The deletion overtakes the renewal on another connection.
    assert_eq!(world.block_on(guard.release()), Released::Released);
    world.advance(TTL);
    assert_eq!(world.value("k"), None);
}

#[test]
fn no_renewal_is_sent_while_the_release_is_under_way() {
    let (world, guard) = held();
    world.advance(EVERY - 10 * MS);
    // Carried out after the next renewal would have been due.
    world.fault("DELETE", Fault::Delay { request: 50 * MS, reply: Duration::ZERO });
    assert_eq!(world.block_on(guard.release()), Released::Released);
    assert_eq!(world.count("EXTEND"), 0);
    assert_eq!(world.tasks(), 0);
}
