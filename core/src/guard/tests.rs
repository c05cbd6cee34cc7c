//! Holding and releasing: what a release may touch, that nothing recalls it, and when a hold is
//! lost.

use super::*;
use crate::env::{CallError, Node, Phase};
use crate::options::Options;
use crate::single::Single;
use crate::testing::{Fault, MS, TIMEOUT, TTL, TestEnv, World, exact};

const RELEASES: Mark = Mark::Phase(Phase::ReleaseBeforeSend);

fn held() -> (World, Guard<TestEnv>) {
    let world = World::new();
    let guard = world.block_on(world.lock(exact()).try_acquire()).unwrap();
    (world, guard)
}

#[test]
fn a_release_frees_the_lock_and_marks_its_phases() {
    let (world, guard) = held();
    assert_eq!(world.block_on(guard.release()), Released::Released);
    assert_eq!(world.value("k"), None);
    let release = [Phase::ReleaseBeforeSend, Phase::ReleaseBeforeDelete, Phase::Released];
    assert_eq!(world.phases()[2..], release);
}

#[test]
fn a_release_leaves_the_next_holder_alone() {
    let (world, guard) = held();
    world.advance(TTL);
    let next = world.block_on(world.client(1).lock(exact()).try_acquire()).unwrap();
    assert_eq!(world.block_on(guard.release()), Released::TakenByOther);
    assert_eq!(world.value("k").as_deref(), Some(next.token().as_bytes()));
}

#[test]
fn a_release_after_expiry_says_so() {
    let (world, guard) = held();
    world.advance(TTL);
    assert_eq!(world.block_on(guard.release()), Released::AlreadyExpired);
}

#[test]
fn an_unknown_script_is_sent_in_full() {
    let (world, guard) = held();
    world.flush_scripts();
    assert_eq!(world.block_on(guard.release()), Released::Released);
    assert_eq!(world.sent(), ["SET", "DELETE", "DELETE"]);
    // Once the server knows it, its digest is enough.
    let guard = world.block_on(world.lock(exact()).try_acquire()).unwrap();
    assert_eq!(world.block_on(guard.release()), Released::Released);
    assert_eq!(world.count("DELETE"), 3);
}

#[test]
fn a_dropped_renewal_may_extend_the_key_and_promises_nothing() {
    let (world, guard) = held();
    // The server knows the script from now on.
    let until = world.block_on(guard.extend()).unwrap();
    world.advance(10 * MS);
    world.fault("EXTEND", Fault::Delay { request: MS, reply: MS });
    assert!(world.poll_and_drop(guard.extend()).is_none());
    world.advance(2 * MS);
    assert_eq!(guard.valid_until(), until);
    world.advance(TTL - 10 * MS);
    assert!(guard.is_lost());
    assert_eq!(world.value("k").as_deref(), Some(guard.token().as_bytes()));
}

#[test]
fn a_release_without_an_answer_is_tried_again() {
    for fault in [Fault::Hang, Fault::BreakBefore, Fault::Refuse("LOADING wait")] {
        let (world, guard) = held();
        world.fault("DELETE", fault);
        assert_eq!(world.block_on(guard.release()), Released::Released);
        assert_eq!(world.value("k"), None);
    }
}

#[test]
fn a_release_that_worked_unheard_counts_while_the_lease_cannot_have_expired() {
    for (span, counts) in [(Duration::ZERO, true), (TTL - MS, false)] {
        let (world, guard) = held();
        warm_scripts(&world);
        world.advance(span);
        world.fault("DELETE", Fault::LoseReply);
        match world.block_on(guard.release()) {
            Released::Released => assert!(counts),
            released => assert!(!counts && matches!(released, Released::Unknown(_))),
        }
    }
}

#[test]
fn a_release_gives_up_after_a_bounded_number_of_tries() {
    let (world, guard) = held();
    world.fault_times(10, "DELETE", Fault::Hang);
    let released = world.block_on(guard.release());
    assert!(matches!(released, Released::Unknown(CallError::Indeterminate(_))), "{released:?}");
    assert_eq!(world.count("DELETE"), 3);
}

#[test]
fn a_refused_release_is_unknown_with_the_refusal() {
    let (world, guard) = held();
    world.fault_times(10, "DELETE", Fault::Refuse("READONLY replica"));
    let released = world.block_on(guard.release());
    let Released::Unknown(error) = released else { panic!("{released:?}") };
    assert!(error.has_code("READONLY"));
}

#[test]
fn dropping_the_release_does_not_recall_it() {
    let (world, guard) = held();
    assert!(world.poll_and_drop(guard.release()).is_none());
    world.advance(MS);
    assert_eq!(world.value("k"), None);
    assert_eq!(world.marked(RELEASES), 1);
    assert_eq!(world.tasks(), 0);
}

#[test]
fn a_release_that_was_never_polled_is_a_drop() {
    let (world, guard) = held();
    drop(guard.release());
    world.advance(MS);
    assert_eq!(world.value("k"), None);
}

#[test]
fn a_drop_queues_exactly_one_release() {
    let (world, guard) = held();
    warm_scripts(&world);
    let before = (world.count("DELETE"), world.marked(RELEASES));
    drop(guard);
    world.advance(2 * TTL);
    assert_eq!(world.value("k"), None);
    let after = (world.count("DELETE"), world.marked(RELEASES));
    assert_eq!(after, (before.0 + 1, before.1 + 1));
}

#[test]
fn the_hold_is_lost_at_the_end_of_validity_with_nobody_to_say_so() {
    let (world, guard) = held();
    let end = guard.valid_until();
    assert_eq!(world.block_on(guard.lost()), Lost::ValidityEnded);
    assert_eq!(world.now(), end);
    assert_eq!(world.sent(), ["SET"], "nobody was asked");
    assert!(guard.is_lost() && !guard.is_valid());
    assert_eq!(world.marked(Mark::Lost), 1);
}

#[test]
fn both_sides_of_the_end_of_validity() {
    let (world, guard) = held();
    world.advance(TTL - Duration::from_nanos(1));
    assert!(guard.is_valid() && !guard.is_lost());
    assert_eq!(guard.remaining(), Duration::from_nanos(1));
    world.advance(Duration::from_nanos(1));
    assert!(!guard.is_valid() && guard.is_lost());
    assert_eq!(guard.remaining(), Duration::ZERO);
    // However often one looks, the world is told once.
    assert!(guard.is_lost());
    assert_eq!(world.marked(Mark::Lost), 1);
}

#[test]
fn an_extension_counts_from_its_send() {
    let (world, guard) = held();
    world.advance(100 * MS);
    let sent = world.now();
    world.fault("EXTEND", Fault::Delay { request: 20 * MS, reply: 30 * MS });
    let until = world.block_on(guard.extend()).unwrap();
    assert_eq!(until, sent.after(TTL));
    assert_eq!(guard.valid_until(), until);
    assert_eq!(world.marks().last(), Some(&Mark::ValidUntil(until)));
}

#[test]
fn an_extension_moves_the_end_for_those_who_wait_for_it() {
    let (world, guard) = held();
    let mut lost = Box::pin(guard.lost());
    assert!(world.poll_and_drop(lost.as_mut()).is_none());
    world.advance(TTL / 2);
    let until = world.block_on(guard.extend()).unwrap();
    world.block_on(lost);
    assert_eq!(world.now(), until);
}

#[test]
fn an_extension_never_brings_a_lost_key_back() {
    let (world, guard) = held();
    world.put("k", None);
    assert_eq!(world.block_on(guard.extend()), Err(NotExtended::Lost(Lost::KeyGone)));
    assert_eq!(world.value("k"), None);
    assert!(guard.is_lost());
    // Nor is it even tried again.
    let sent = world.sent();
    assert_eq!(world.block_on(guard.extend()), Err(NotExtended::Lost(Lost::KeyGone)));
    assert_eq!(world.sent(), sent);
}

#[test]
fn an_extension_that_finds_another_says_lost_and_leaves_it() {
    let (world, guard) = held();
    world.put("k", Some("another"));
    assert_eq!(world.block_on(guard.extend()), Err(NotExtended::Lost(Lost::TakenByOther)));
    assert_eq!(world.value("k").as_deref(), Some(&b"another"[..]));
    assert_eq!(world.block_on(guard.lost()), Lost::TakenByOther);
    assert_eq!(world.marked(Mark::Lost), 1);
}

#[test]
fn an_extension_without_an_answer_changes_nothing() {
    let (world, guard) = held();
    let until = guard.valid_until();
    world.fault("EXTEND", Fault::Hang);
    let error = world.block_on(guard.extend()).unwrap_err();
    assert!(matches!(error, NotExtended::Failed(CallError::Indeterminate(_))), "{error}");
    assert_eq!(guard.valid_until(), until);
    assert!(guard.is_valid());
    assert_eq!(world.count("DELETE"), 0);
}

#[test]
fn an_extension_is_sent_on_a_new_connection_where_the_old_one_was_closed() {
    let (world, guard) = held();
    world.block_on(guard.extend()).unwrap();
    world.advance(5 * MS);
    let sent = world.count("EXTEND");
    world.fault("EXTEND", Fault::Closed);
    let until = world.now().after(TTL);
    assert_eq!(world.block_on(guard.extend()), Ok(until));
    assert_eq!(world.count("EXTEND"), sent + 2);
    // Once: whoever closes that as well is not asked on and on.
    world.fault_times(2, "EXTEND", Fault::Closed);
    let error = world.block_on(guard.extend()).unwrap_err();
    assert!(matches!(error, NotExtended::Failed(CallError::NotSent(_))), "{error}");
    assert_eq!(world.count("EXTEND"), sent + 4);
}

#[test]
fn and_takes_no_longer_for_that() {
    let (world, guard) = held();
    let began = world.now();
    world.fault("EXTEND", Fault::Closed);
    world.fault("EXTEND", Fault::Hang);
    world.delay_connect(Node(0), TIMEOUT - MS);
    let error = world.block_on(guard.extend()).unwrap_err();
    assert!(matches!(error, NotExtended::Failed(CallError::Indeterminate(_))), "{error}");
    assert_eq!(world.now(), began.after(2 * TIMEOUT - MS));
}

#[test]
fn an_extension_answered_after_the_end_is_too_late() {
    let (world, guard) = held();
    world.advance(TTL - 2 * MS);
    world.fault("EXTEND", Fault::Delay { request: Duration::ZERO, reply: 4 * MS });
    assert_eq!(world.block_on(guard.extend()), Err(NotExtended::Lost(Lost::ValidityEnded)));
    assert!(guard.is_lost());
}

#[test]
fn run_gives_the_output_and_the_guard_back() {
    let (world, guard) = held();
    let env = world.env();
    let work = async {
        env.sleep(5 * MS).await;
        7
    };
    let (output, guard) = world.block_on(guard.run(work)).unwrap();
    assert_eq!(output, 7);
    assert_eq!(world.block_on(guard.release()), Released::Released);
}

#[test]
fn run_stops_the_work_at_the_loss() {
    let (world, guard) = held();
    let (env, mut steps) = (world.env(), 0);
    let work = async {
        loop {
            steps += 1;
            env.sleep(100 * MS).await;
        }
    };
    let lost =
        world.block_on(guard.run::<std::pin::Pin<Box<dyn Future<Output = ()>>>>(Box::pin(work)));
    assert_eq!(lost.unwrap_err(), Lost::ValidityEnded);
    assert_eq!(steps, 9, "at 0, 100, … 800 ms, and no more at 900");
}

#[test]
fn run_asks_the_clock_before_each_step() {
    let (world, guard) = held();
    let mut steps = 0;
    let work = poll_fn(|_| {
        steps += 1;
        Poll::<()>::Pending
    });
    let mut run = Box::pin(guard.run(work));
    assert!(world.poll_and_drop(run.as_mut()).is_none());
    world.pause_clients(TTL);
    assert!(world.poll_and_drop(run.as_mut()).is_some());
    drop(run);
    assert_eq!(steps, 1);
}

#[test]
fn run_does_not_begin_on_a_lost_lock() {
    let (world, guard) = held();
    world.advance(TTL);
    let work = poll_fn(|_| -> Poll<()> { panic!("the lock is lost") });
    assert_eq!(world.block_on(guard.run(work)).unwrap_err(), Lost::ValidityEnded);
}

#[test]
fn dropping_run_releases_the_lock() {
    let (world, guard) = held();
    assert!(world.poll_and_drop(guard.run(std::future::pending::<()>())).is_none());
    world.advance(MS);
    assert_eq!(world.value("k"), None);
}

#[test]
fn debug_keeps_the_secret() {
    let (_world, guard) = held();
    let secret = String::from_utf8(guard.token().as_bytes().to_vec()).unwrap();
    assert!(!format!("{guard:?}").contains(&secret));
}

#[test]
fn what_a_guard_gives_can_be_spawned() {
    fn is_send(_: &(impl Send + ?Sized)) {}
    let (world, guard) = held();
    is_send(&guard);
    is_send(&guard.lost());
    is_send(&guard.extend());
    is_send(&guard.run(async {}));
    let lock = world.lock(exact());
    is_send(&lock.try_acquire());
    is_send(&lock.acquire(TTL, crate::wait::Poll::default()));
}

/// Lets the server learn the scripts, so that one call is one command.
fn warm_scripts(world: &World) {
    let options = Options::builder(TTL).build().unwrap();
    let other = Single::new(world.client(9), Node(0), *b"other", options).unwrap();
    let guard = world.block_on(other.try_acquire()).unwrap();
    assert_eq!(world.block_on(guard.release()), Released::Released);
}
