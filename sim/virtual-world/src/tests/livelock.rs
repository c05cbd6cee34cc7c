//! Tasks that never end: each kind ends the schedule, reports which process ran, and does not affect the next one.

use std::future::{pending, poll_fn};
use std::task::Poll;

use super::*;
use crate::budget::Livelock;

/// Runs these tasks of processes 1 and 2, until then; how they came to no end, and how many were left.
fn driven(
    first: impl Future<Output = ()> + Send + 'static,
    second: impl Future<Output = ()> + Send + 'static,
    end_ns: u64,
) -> (Option<Livelock>, usize) {
    let _world = world(3);
    task(1, first);
    task(2, second);
    drive(end_ns);
    with(|sim| (sim.budget.overrun_by().cloned(), sim.executor.tasks.live))
}

async fn sleeps(process: u32, spans: impl Fn(u64) -> Duration) {
    for nth in 0.. {
        VirtualEnv::of(process).sleep(spans(nth)).await;
    }
}

/// The schedule after one that was ended is as any other.
fn the_next_one_ends() {
    assert_eq!(driven(sleeps_once(1), sleeps_once(2), MS_NS), (None, 0));
}

async fn sleeps_once(process: u32) {
    VirtualEnv::of(process).sleep(MS / 2).await;
}

#[test]
fn a_task_that_wakes_itself_for_ever_at_one_instant() {
    let spinning = poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    let (livelock, left) = driven(spinning, sleeps_once(2), MS_NS);
    let Livelock { at_ns, what, ran } = livelock.unwrap();
    assert_eq!((at_ns, what.as_str()), (0, "103000 events and polls at one instant"));
    assert_eq!((ran, left), (vec![(1, 1_000)], 2));
    the_next_one_ends();
}

#[test]
fn two_tasks_that_wake_each_other() {
    let (one, other) = (Arc::new(std::sync::Mutex::new(None::<std::task::Waker>)), Arc::default());
    let turns = |mine: &Arc<std::sync::Mutex<_>>, theirs: &Arc<std::sync::Mutex<Option<_>>>| {
        let (mine, theirs) = (Arc::clone(mine), Arc::clone(theirs));
        poll_fn(move |cx| {
            *mine.lock().unwrap() = Some(cx.waker().clone());
            theirs.lock().unwrap().take().inspect(std::task::Waker::wake_by_ref);
            Poll::Pending
        })
    };
    let (livelock, _) = driven(turns(&one, &other), turns(&other, &one), MS_NS);
    assert_eq!(livelock.unwrap().ran, [(1, 500), (2, 500)]);
    the_next_one_ends();
}

#[test]
fn timers_of_no_length_within_one_poll() {
    let (livelock, left) = driven(sleeps(1, |_| Duration::ZERO), sleeps_once(2), MS_NS);
    let Livelock { what, ran, .. } = livelock.unwrap();
    assert_eq!(what, "100000 calls of one task that let nobody else run");
    assert_eq!(
        (ran, left),
        (vec![(1, 1)], 1),
        "the task was dropped, the other one was not polled"
    );
    the_next_one_ends();
}

#[test]
fn asking_for_the_time_within_one_poll_also_where_what_is_dropped_asks_once_more() {
    struct Asks;
    impl Drop for Asks {
        fn drop(&mut self) {
            VirtualEnv::of(1).now();
        }
    }
    let waits = async {
        let _asks = Asks;
        while VirtualEnv::of(1).now().as_ns() < MS_NS {}
    };
    let (livelock, _) = driven(waits, pending(), MS_NS);
    assert!(livelock.is_some());
    the_next_one_ends();
}

#[test]
fn timers_that_are_too_short_for_what_there_is_to_do() {
    let short = Duration::from_nanos(1);
    let (livelock, _) = driven(sleeps(1, move |_| short), sleeps_once(2), u64::MAX);
    let Livelock { at_ns, what, ran } = livelock.unwrap();
    assert_eq!(what, "3000000 events and polls");
    assert!(at_ns < 3_000_000, "{at_ns}");
    assert_eq!(ran[0].0, 1);
    the_next_one_ends();
}

#[test]
fn ever_longer_timers_are_bounded_by_virtual_time_alone() {
    let longer = |nth| MS * 2_u32.saturating_pow(u32::try_from(nth).unwrap());
    let (livelock, left) = driven(sleeps(1, longer), sleeps_once(2), 60_000 * MS_NS);
    assert_eq!((livelock, left), (None, 1));
    the_next_one_ends();
}

#[test]
fn what_is_dropped_between_polls_may_ask_as_often_as_it_likes() {
    struct AsksOften;
    impl Drop for AsksOften {
        fn drop(&mut self) {
            for _ in 0..200_000 {
                VirtualEnv::of(1).random();
            }
        }
    }
    let waits = async {
        let _asks = AsksOften;
        pending::<()>().await;
    };
    assert_eq!(driven(waits, sleeps_once(2), MS_NS), (None, 1));
    the_next_one_ends();
}

#[test]
#[should_panic(expected = "a bug of the lock")]
fn a_panic_of_a_task_is_no_livelock() {
    driven(async { panic!("a bug of the lock") }, pending(), MS_NS);
}
