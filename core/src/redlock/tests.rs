//! Locks on several nodes: impossible ones are refused when they are made, nobody waits for a lock that can never be
//! acquired or obstructs their own next attempt, and a late minority delays nothing and keeps no key.

use super::*;
use crate::lock::{Outcome, Released};
use crate::reply::ServerError;
use crate::testing::{Fault, MS, World};
use crate::time::Instant;

const LONG: Duration = Duration::from_secs(60);
const START: Instant = Instant::from_ns(0);
const LATE: Fault =
    Fault::Delay { request: Duration::from_millis(20), reply: Duration::from_millis(20) };
const POLL: Poll = Poll { base: MS, jitter: Duration::ZERO, max_retries: None };

const NO_QUORUM: NotAcquired = NotAcquired::NoQuorum { granted: 0, needed: 2, error: None };

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

/// On two of the three nodes, so that nobody else has a quorum.
fn put_on_quorum(world: &World, value: Option<&str>) {
    [1, 2].into_iter().for_each(|node| world.put_on(Node(node), "k", value));
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
    assert!(matches!(missed, NotAcquired::NoQuorum { needed: 2, .. }), "{missed}");
    assert!(missed.to_string().contains("WRONGPASS"), "{missed}");
    world.put_on(Node(1), "k", None);
    assert!(world.block_on(lock(&world).acquire(LONG, POLL)).is_ok());
}

#[test]
fn a_refusal_that_always_comes_last_is_not_overlooked() {
    const NOPERM: &str = "NOPERM this user has no permissions to run 'set'";
    let world = World::new();
    world.put_on(Node(0), "k", Some("another"));
    for _ in 0..10 {
        // Refused by two of three, of which one answers when the attempt is over.
        world.fault("SET", Fault::Delay { request: Duration::ZERO, reply: Duration::ZERO });
        world.fault("SET", Fault::Refuse(NOPERM));
        world.fault("SET", Fault::RefuseLate(MS, NOPERM));
    }
    let poll = Poll { base: 5 * MS, ..POLL };
    let refused = world.block_on(lock(&world).acquire(LONG, poll)).unwrap_err();
    assert!(
        matches!(&refused, NotAcquired::Refused(error) if &*error.code == "NOPERM"),
        "{refused}"
    );
    assert_eq!(world.now(), START.after(5 * MS), "with the second attempt");
}

#[test]
fn and_one_that_has_passed_is_forgotten() {
    let refusals = LastRefusals::default();
    let refusal = |code: &str| Err(ServerError::from_line(code).into());
    let missing = [None, Some(Ok(false)), None];
    refusals.note(0, &refusal("NOPERM no"));
    refusals.note(1, &refusal("NOPERM no"));
    assert_eq!(refusals.of_missing(&missing).len(), 1, "the second has answered since");
    refusals.note(0, &Err(CallError::NotSent("no route".into())));
    assert_eq!(refusals.of_missing(&missing).len(), 1, "that says nothing of permissions");
    for passed in [Ok(true), Ok(false), refusal("LOADING wait")] {
        refusals.note(0, &refusal("NOPERM no"));
        refusals.note(0, &passed);
        assert!(refusals.of_missing(&missing).is_empty(), "{passed:?}");
    }
}

/// An attempt that a quorum may have granted is no *no*, whatever was refused before.
#[test]
fn an_earlier_refusal_hides_no_grant() {
    let unknown = Some(Err(CallError::Indeterminate("no word".into())));
    let refused = Some(Err(ServerError::from_line("NOPERM no").into()));
    let earlier = [NotAcquired::from(CallError::from(ServerError::from_line("NOPERM no")))];
    let ends = |votes: [Option<Vote>; 3], earlier: &[_]| failure_of(&votes, earlier).outcome();
    assert_eq!(ends([refused.clone(), unknown, None], &earlier), Outcome::Unknown);
    let certain = failure_of(&[refused.clone(), Some(Ok(false)), None], &earlier);
    assert!(matches!(certain, NotAcquired::Refused(_)), "{certain}");
    let open = failure_of(&[refused, Some(Ok(false)), None], &[]);
    assert!(matches!(open, NotAcquired::NoQuorum { .. }), "{open}");
}

const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn keys_that_hold_no_string_are_not_held_by_others() {
    let once = Poll { max_retries: Some(1), ..POLL };
    for how in 0..3 {
        let world = World::new();
        put_on_quorum(&world, Some("taken for a list"));
        world.fault_times(2, "GET", Fault::Refuse(WRONGTYPE));
        let lock = lock(&world);
        let missed = match how {
            0 => world.block_on(lock.try_acquire()),
            1 => world.block_on(lock.acquire(LONG, once)),
            _ => world.block_on(lock.acquire(MS, POLL)),
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
fn keys_are_looked_at_in_the_time_of_an_attempt() {
    let world = World::new();
    put_on_quorum(&world, Some("another"));
    world.fault_times(2, "GET", Fault::Hang);
    let lock = lock(&world);
    let missed = world.block_on(lock.try_acquire()).unwrap_err();
    assert_eq!(missed.outcome(), Outcome::No, "{missed}");
    assert!(world.now() <= START.after(2 * 100 * MS));
}

#[test]
fn one_such_key_leaves_a_quorum_and_strings_are_looked_at_once() {
    let world = World::new();
    put_on_quorum(&world, Some("another"));
    world.fault("GET", Fault::Refuse(WRONGTYPE));
    let lock = lock(&world);
    let missed = NotAcquired::NoQuorum { granted: 1, needed: 2, error: None };
    for _ in 0..3 {
        assert_eq!(world.block_on(lock.try_acquire()).unwrap_err(), missed);
        world.block_on(lock.drain());
    }
    // The one that was refused is asked again, and then seen.
    assert_eq!(world.count("GET"), 3);
}

#[test]
fn a_refusal_that_passes_is_waited_for() {
    let world = World::new();
    world.fault_times(3, "SET", Fault::Refuse("LOADING Redis is loading the dataset in memory"));
    assert!(world.block_on(lock(&world).acquire(LONG, POLL)).is_ok());
}

#[test]
fn what_a_minority_has_granted_is_deleted_before_the_next_attempt() {
    let world = World::new();
    put_on_quorum(&world, Some("another"));
    // The clean-up takes much longer than the pause between two attempts.
    world.fault("DELETE", Fault::Delay { request: 20 * MS, reply: 20 * MS });
    let lock = lock(&world);
    let mut waiting = Box::pin(lock.acquire(LONG, POLL));
    assert!(world.poll_and_drop(waiting.as_mut()).is_none());
    put_on_quorum(&world, None);
    let guard = world.block_on(waiting).unwrap();
    assert_eq!(world.sent()[..5], ["SET", "SET", "SET", "DELETE", "DELETE"]);
    for node in 0..3 {
        assert_eq!(world.value_on(Node(node), "k").as_deref(), Some(guard.token().as_bytes()));
    }
}

#[test]
fn a_node_that_is_still_cleaned_up_is_not_told_as_held_by_another() {
    let world = World::new();
    world.fault_times(100, "SET", Fault::Hang);
    world.fault_times(100, "DELETE", Fault::Hang);
    let lock = lock(&world);
    assert_eq!(world.block_on(lock.try_acquire()).unwrap_err().outcome(), Outcome::Unknown);
    let missed = world.block_on(lock.try_acquire()).unwrap_err();
    assert!(matches!(missed, NotAcquired::NoQuorum { error: Some(_), .. }), "{missed}");
}

#[test]
fn a_clean_up_without_an_answer_is_waited_for_no_longer_than_a_call() {
    let world = World::new();
    put_on_quorum(&world, Some("another"));
    world.fault_times(100, "DELETE", Fault::Hang);
    let lock = lock(&world);
    let mut waiting = Box::pin(lock.acquire(LONG, POLL));
    assert!(world.poll_and_drop(waiting.as_mut()).is_none());
    put_on_quorum(&world, None);
    // The first node keeps the orphan; the other two are a quorum.
    let guard = world.block_on(waiting).unwrap();
    assert_eq!(world.now(), Instant::from_ns(0).after(101 * MS));
    drop(guard);
}

#[test]
fn a_later_no_does_not_hide_a_round_that_may_still_arrive_on_a_quorum() {
    let world = World::new();
    put_on_quorum(&world, Some("another"));
    // Broken at once, so the next rounds are sent on new connections and are answered.
    world.fault_times(2, "SET", Fault::BreakAndArrive(LONG));
    let error = world.block_on(lock(&world).acquire(300 * MS, POLL)).unwrap_err();
    assert!(world.count("SET") > 3);
    assert_eq!(error.outcome(), Outcome::Unknown, "the first may still arrive: {error}");
}

#[test]
fn and_one_that_may_arrive_on_fewer_nodes_is_none() {
    let world = World::new();
    put_on_quorum(&world, Some("another"));
    world.fault("SET", Fault::BreakAndArrive(LONG));
    let error = world.block_on(lock(&world).acquire(300 * MS, POLL)).unwrap_err();
    assert_eq!(error.outcome(), Outcome::No, "{error}");
}

/// The nodes on which somebody has the key.
fn keys(world: &World) -> Vec<u16> {
    (0..3).filter(|node| world.value_on(Node(*node), "k").is_some()).collect()
}

#[test]
fn a_node_that_is_silent_delays_nobody() {
    let world = World::new();
    // The first one is what a guard has its own fields for.
    for command in ["SET", "EXTEND", "DELETE"] {
        world.fault(command, Fault::Hang);
    }
    let lock = lock(&world);
    let guard = world.block_on(lock.try_acquire()).unwrap();
    assert_eq!((world.now(), keys(&world)), (START, vec![1, 2]));
    world.advance(5 * MS);
    let until = world.block_on(guard.extend()).unwrap();
    assert_eq!(until, START.after(5 * MS).after(lock.first().options.validity()));
    assert_eq!(world.block_on(guard.release()), Released::Released);
    assert_eq!((world.now(), keys(&world)), (START.after(5 * MS), vec![]));
    // It is still asked, a few times.
    assert!(world.poll_and_drop(lock.drain()).is_none());
    world.block_on(lock.drain());
    assert_eq!(world.tasks(), 0);
}

#[test]
fn what_can_no_longer_be_had_is_not_waited_for() {
    let world = World::new();
    world.fault("SET", Fault::Hang);
    put_on_quorum(&world, Some("another"));
    let missed = world.block_on(lock(&world).try_acquire()).unwrap_err();
    assert_eq!((missed, world.now()), (NO_QUORUM, START));
    // One that may have granted it, and one that has not said, may be a quorum.
    let world = World::new();
    world.fault("SET", Fault::Hang);
    world.fault("SET", Fault::BreakBefore);
    world.put_on(Node(2), "k", Some("another"));
    let missed = world.block_on(lock(&world).try_acquire()).unwrap_err();
    assert!(matches!(missed, NotAcquired::Unknown(_)), "{missed}");
    assert_eq!(world.now(), START);
}

#[test]
fn a_late_grant_belongs_to_the_hold_and_is_released_with_it() {
    let world = World::new();
    world.fault("SET", LATE);
    let lock = lock(&world);
    let guard = world.block_on(lock.try_acquire()).unwrap();
    assert_eq!((world.now(), keys(&world)), (START, vec![1, 2]));
    world.advance(20 * MS);
    assert_eq!(keys(&world), [0, 1, 2]);
    assert_eq!(world.block_on(guard.release()), Released::Released);
    world.block_on(lock.drain());
    assert_eq!(keys(&world), []);
}

#[test]
fn a_grant_that_comes_after_the_release_is_deleted_behind_it() {
    let world = World::new();
    world.fault("SET", LATE);
    let lock = lock(&world);
    let guard = world.block_on(lock.try_acquire()).unwrap();
    assert_eq!(world.block_on(guard.release()), Released::Released);
    assert_eq!(world.now(), START);
    world.block_on(lock.drain());
    assert_eq!((keys(&world), world.tasks()), (vec![], 0));
    // On its own connection that is one deletion, and a script that is new to the node.
    assert_eq!((world.count("SET"), world.count("DELETE")), (3, 6));
}

#[test]
fn a_grant_that_comes_after_the_release_from_a_broken_connection_is_cleaned_up() {
    // It comes after the release has been answered on another connection.
    let late = 300 * MS;
    let world = World::new();
    world.fault("SET", Fault::BreakAndArrive(late));
    let lock = lock(&world);
    let guard = world.block_on(lock.try_acquire()).unwrap();
    assert_eq!(world.block_on(guard.release()), Released::Released);
    world.advance(late);
    assert_eq!(keys(&world), [0]);
    world.block_on(lock.drain());
    assert_eq!((keys(&world), world.tasks()), (vec![], 0));
    assert!(world.now() < START.after(late).after(100 * MS), "with the next try");
}

#[test]
fn where_the_grant_was_answered_nothing_is_waited_for() {
    let world = World::new();
    let lock = lock(&world);
    let guard = world.block_on(lock.try_acquire()).unwrap();
    world.put_on(Node(0), "k", None);
    world.fault("DELETE", Fault::BreakBefore);
    assert_eq!(world.block_on(guard.release()), Released::Released);
    world.block_on(lock.drain());
    assert_eq!(lock.counters().get(Count::CleanUp), 0);
}

#[test]
fn nor_where_it_was_sent_longer_ago_than_a_clean_up_lingers() {
    let world = World::new();
    world.fault("SET", Fault::BreakAndArrive(3 * LONG));
    let lock = lock(&world);
    let guard = world.block_on(lock.try_acquire()).unwrap();
    world.advance(lock.first().options.linger());
    assert_eq!(world.block_on(guard.release()), Released::AlreadyExpired);
    world.block_on(lock.drain());
    assert_eq!(lock.counters().get(Count::CleanUp), 0);
}

#[test]
fn a_node_that_is_late_to_connect_is_asked_for_the_hold_and_no_more_once_it_is_released() {
    for (held, asked) in [(30 * MS, 3), (10 * MS, 2)] {
        let world = World::new();
        world.delay_connect(Node(0), 20 * MS);
        let lock = lock(&world);
        let guard = world.block_on(lock.try_acquire()).unwrap();
        assert_eq!((world.now(), world.count("SET")), (START, 2));
        // A renewal does without it.
        assert!(world.block_on(guard.extend()).is_ok());
        world.advance(held);
        assert_eq!(keys(&world).len(), asked);
        assert_eq!(world.block_on(guard.release()), Released::Released);
        world.block_on(lock.drain());
        assert_eq!((keys(&world), world.count("SET")), (vec![], asked));
    }
}

#[test]
fn a_late_grant_of_an_attempt_that_failed_is_cleaned_up() {
    for fault in [LATE, Fault::LoseReply, Fault::BreakAndArrive(20 * MS)] {
        let world = World::new();
        world.fault("SET", fault.clone());
        put_on_quorum(&world, Some("another"));
        let lock = lock(&world);
        let missed = world.block_on(lock.try_acquire()).unwrap_err();
        let broken = matches!(fault, Fault::BreakAndArrive(_));
        let outcome = if broken { Outcome::Unknown } else { Outcome::No };
        assert_eq!((missed.outcome(), world.now()), (outcome, START), "{fault:?}");
        world.block_on(lock.drain());
        assert_eq!((keys(&world), world.tasks()), (vec![1, 2], 0), "{fault:?}");
    }
}

#[test]
fn an_acquisition_that_is_dropped_leaves_nothing_on_any_node() {
    let world = World::new();
    world.delay_connect(Node(0), 20 * MS);
    world.fault("SET", LATE);
    world.fault("SET", LATE);
    let lock = lock(&world);
    assert!(world.poll_and_drop(lock.try_acquire()).is_none());
    world.advance(20 * MS);
    world.block_on(lock.drain());
    assert_eq!((keys(&world), world.tasks(), world.count("SET")), (vec![], 0, 2));
}

#[test]
fn a_node_is_not_asked_again_before_the_clean_up_there_has_been_answered() {
    let world = World::new();
    put_on_quorum(&world, Some("another"));
    world.fault_times(100, "DELETE", Fault::Hang);
    world.fault("SET", LATE);
    let lock = lock(&world);
    assert!(world.block_on(lock.try_acquire()).is_err());
    for attempt in 1..10 {
        world.advance(MS);
        assert!(world.block_on(lock.try_acquire()).is_err());
        assert_eq!(world.count("SET"), 3 + 2 * attempt, "the first node is left out");
    }
    world.advance(100 * MS);
    assert_eq!(lock.counters().get(Count::CleanUp), 1, "however often it was tried");
    assert!(world.block_on(lock.try_acquire()).is_err());
    assert_eq!(world.count("SET"), 3 + 2 * 10, "its clean-up has no answer yet");
}

#[test]
fn nor_where_another_task_has_been_answered_that_shares_the_handle() {
    let world = World::new();
    put_on_quorum(&world, Some("another"));
    let late = |ms| Fault::Delay { request: Duration::ZERO, reply: ms * MS };
    for _ in 0..2 {
        // Both attempts are under way when the second node answers.
        for fault in [Fault::LoseReply, late(5), late(0)] {
            world.fault("SET", fault);
        }
    }
    // The clean-up of the first has no answer; that of the second has one, to its script.
    for fault in [Fault::Hang, late(0), late(0)] {
        world.fault("DELETE", fault);
    }
    world.fault_times(100, "DELETE", Fault::Hang);
    let lock = lock(&world);
    let (first, second) =
        world.block_on(async { tokio::join!(lock.try_acquire(), lock.try_acquire()) });
    assert!(first.is_err() && second.is_err());
    world.advance(101 * MS);
    assert_eq!((keys(&world), world.count("SET")), (vec![0, 1, 2], 6), "the key of the first");
    assert!(world.block_on(lock.try_acquire()).is_err());
    assert_eq!(world.count("SET"), 6 + 2);
}

#[test]
fn a_node_whose_clean_up_was_dropped_is_asked_again() {
    let world = World::new();
    let lock = lock(&world);
    world.fault_times(3, "SET", Fault::Hang);
    assert!(world.poll_and_drop(lock.try_acquire()).is_none());
    world.drop_tasks();
    assert!(world.block_on(lock.try_acquire()).is_ok());
}
