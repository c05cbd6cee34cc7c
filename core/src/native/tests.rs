//! Which commands are sent to which server, and that what comes of them is what scripts would do.

use super::Native;
use crate::command::Command;
use crate::env::{CallError, Conn};
use crate::guard::Guard;
use crate::lock::{Lost, NotExtended, Outcome, Released};
use crate::options::Renewal;
use crate::reply::Reply;
use crate::single::Single;
use crate::testing::{Fault, MS, TIMEOUT, TTL, TestEnv, World, exact};
use crate::time::Instant;

const REDIS: &[&str] = &["IFEQ", "DELEX"];
const VALKEY: &[&str] = &["IFEQ", "DELIFEQ"];
/// Valkey 8.1, which has the one and not the other.
const HALF: &[&str] = &["IFEQ"];
const NONE: &[&str] = &[];
const SERVERS: [&[&str]; 4] = [REDIS, VALKEY, HALF, NONE];

fn on(commands: &'static [&'static str]) -> (World, Single<TestEnv>) {
    let world = World::new();
    world.become_native(commands);
    let lock = world.lock(exact().native());
    (world, lock)
}

/// What was sent since the last look.
fn sent_since(world: &World, seen: &mut usize) -> Vec<String> {
    let sent = world.sent().split_off(*seen);
    *seen += sent.len();
    sent
}

fn turn(world: &World, lock: &Single<TestEnv>) {
    let guard = world.block_on(lock.try_acquire()).unwrap();
    let before = guard.valid_until();
    world.advance(MS);
    assert_eq!(world.block_on(guard.extend()), Ok(before.after(MS)));
    assert_eq!(world.expiry("k"), Some(world.now().after(TTL).as_ns()));
    assert_eq!(world.block_on(guard.release()), Released::Released);
    assert_eq!(world.value("k"), None);
}

#[test]
fn a_server_is_asked_once_for_what_it_does_not_have() {
    let first: [&[&str]; 4] = [
        &["SET", "IFEQ", "DELEX"],
        &["SET", "IFEQ", "DELEX", "DELIFEQ"],
        &["SET", "IFEQ", "DELEX", "DELIFEQ", "DELETE", "DELETE"],
        // EVALSHA, and EVAL as the script is new.
        &["SET", "IFEQ", "EXTEND", "EXTEND", "DELEX", "DELIFEQ", "DELETE", "DELETE"],
    ];
    let then: [&[&str]; 4] = [
        &["SET", "IFEQ", "DELEX"],
        &["SET", "IFEQ", "DELIFEQ"],
        &["SET", "IFEQ", "DELETE"],
        &["SET", "EXTEND", "DELETE"],
    ];
    for ((server, first), then) in SERVERS.into_iter().zip(first).zip(then) {
        let (world, lock) = on(server);
        let mut seen = 0;
        turn(&world, &lock);
        assert_eq!(sent_since(&world, &mut seen), first, "{server:?}");
        turn(&world, &lock.clone());
        assert_eq!(sent_since(&world, &mut seen), then, "{server:?}, and a clone knows");
    }
}

#[test]
fn who_does_not_ask_for_it_pays_nothing() {
    let world = World::new();
    world.become_native(REDIS);
    assert!(!exact().build().unwrap().is_native());
    let guard = world.block_on(world.lock(exact()).try_acquire()).unwrap();
    assert_eq!(world.block_on(guard.release()), Released::Released);
    assert_eq!(world.sent(), ["SET", "DELETE", "DELETE"]);
}

#[test]
fn after_a_failover_to_an_older_server_the_script_follows_at_once() {
    for (before, after) in [(REDIS, NONE), (VALKEY, NONE), (REDIS, VALKEY), (REDIS, HALF)] {
        let (world, lock) = on(before);
        turn(&world, &lock);
        let guard = world.block_on(lock.try_acquire()).unwrap();
        world.become_native(after);
        let then = world.now();
        world.block_on(guard.extend()).unwrap();
        assert_eq!(world.block_on(guard.release()), Released::Released);
        assert_eq!(world.now(), then, "no refusal is waited out");
        assert_eq!(world.value("k"), None);
        turn(&world, &lock);
    }
    // And to a newer one: what was refused is not asked for again.
    let (world, lock) = on(NONE);
    turn(&world, &lock);
    world.become_native(REDIS);
    turn(&world, &lock);
    assert_eq!((world.count("DELEX"), world.count("DELETE")), (1, 3));
}

#[test]
fn a_refusal_that_may_pass_is_not_remembered() {
    let (world, lock) = on(REDIS);
    for line in ["OOM no memory", "BUSY wait", "ERR syntax of another kind", "READONLY no"] {
        let before = world.count("DELETE");
        world.fault("DELEX", Fault::Refuse(line));
        world.fault("IFEQ", Fault::Refuse(line));
        turn(&world, &lock);
        assert!(world.count("DELETE") > before, "{line}: the script followed");
    }
    let mut seen = world.sent().len();
    turn(&world, &lock);
    assert_eq!(sent_since(&world, &mut seen), ["SET", "IFEQ", "DELEX"]);
}

#[test]
fn who_may_not_send_a_command_uses_the_script_for_good() {
    let (world, lock) = on(REDIS);
    world.fault("DELEX", Fault::Refuse("NOPERM no permissions to run the 'delex' command"));
    world.fault("DELIFEQ", Fault::Refuse("NOPERM no permissions to run the 'delifeq' command"));
    world.fault("IFEQ", Fault::Refuse("NOPERM no such option"));
    turn(&world, &lock);
    turn(&world, &lock);
    assert_eq!(["DELEX", "DELIFEQ", "IFEQ"].map(|name| world.count(name)), [1, 1, 1]);
}

#[test]
fn a_lost_key_is_not_brought_back_and_anothers_is_left_alone() {
    for server in SERVERS {
        for other in [None, Some("another")] {
            let (world, lock) = on(server);
            let guard = world.block_on(lock.try_acquire()).unwrap();
            world.put("k", other);
            let lost = match world.block_on(guard.extend()) {
                Err(NotExtended::Lost(lost)) => lost,
                end => panic!("{server:?}: {end:?}"),
            };
            let told = other.is_some() && server == NONE;
            assert_eq!(lost, if told { Lost::TakenByOther } else { Lost::KeyGone });
            assert_eq!(world.value("k").as_deref(), other.map(str::as_bytes), "{server:?}");
            assert_ne!(world.block_on(guard.release()), Released::Released, "{server:?}");
            assert_eq!(world.value("k").as_deref(), other.map(str::as_bytes), "{server:?}");
        }
    }
}

#[test]
fn a_renewal_counts_from_its_send() {
    let (world, lock) = on(REDIS);
    let guard = world.block_on(lock.try_acquire()).unwrap();
    world.fault("IFEQ", Fault::Delay { request: 50 * MS, reply: 60 * MS });
    assert_eq!(world.block_on(guard.extend()), Ok(Instant::from_ns(0).after(TTL)));
    assert_eq!(world.now(), Instant::from_ns(0).after(110 * MS));
}

#[test]
fn a_renewal_without_an_answer_is_not_sent_again_as_a_script() {
    let (world, lock) = on(REDIS);
    let guard = world.block_on(lock.try_acquire()).unwrap();
    world.fault("IFEQ", Fault::LoseReply);
    let end = world.block_on(guard.extend());
    let is_unknown = |error: &CallError| error.is_indeterminate();
    assert!(matches!(end, Err(NotExtended::Failed(ref error)) if is_unknown(error)), "{end:?}");
    assert_eq!(world.count("EXTEND"), 0);
}

#[test]
fn a_release_without_an_answer_is_repeated_and_told_truly() {
    for server in SERVERS {
        let name = match server {
            [_, delete] => delete,
            _ => "DELETE",
        };
        let (world, lock) = on(server);
        turn(&world, &lock);
        // The first try has deleted the key; the second finds none.
        let guard = world.block_on(lock.try_acquire()).unwrap();
        world.fault(name, Fault::LoseReply);
        assert_eq!(world.block_on(guard.release()), Released::Released, "{server:?}");
        // Too late to tell.
        let guard = world.block_on(lock.try_acquire()).unwrap();
        world.fault(name, Fault::LoseReply);
        world.fault(name, Fault::LoseReply);
        world.advance(TTL - TIMEOUT);
        let end = world.block_on(guard.release());
        assert!(matches!(end, Released::Unknown(_)), "{server:?}: {end:?}");
    }
}

#[test]
fn an_unknown_acquisition_is_cleaned_up_and_anothers_lock_is_not() {
    for server in SERVERS {
        for known in [false, true] {
            let (world, lock) = on(server);
            if known {
                turn(&world, &lock);
            }
            world.fault("SET", Fault::LoseReply);
            let error = world.block_on(lock.try_acquire()).unwrap_err();
            assert_eq!(error.outcome(), Outcome::Unknown);
            world.advance(MS);
            assert_eq!((world.value("k"), world.tasks()), (None, 0), "{server:?} {known}");
            world.put("k", Some("another"));
            world.fault("SET", Fault::LoseReply);
            world.block_on(lock.try_acquire()).unwrap_err();
            world.advance(MS);
            assert_eq!(world.value("k").as_deref(), Some(&b"another"[..]), "{server:?} {known}");
            assert_eq!(world.tasks(), 0, "behind the acquisition, *not yours* is proof");
        }
    }
}

fn watched(world: &World) -> Guard<TestEnv> {
    let renewal = Renewal { every: TTL / 3, max_hold: None };
    let lock = world.lock(exact().native().renewal(renewal));
    // The token, and a first renewal after a whole interval.
    world.script_random([1, 2, u64::MAX]);
    world.block_on(lock.try_acquire()).unwrap()
}

#[test]
fn a_watchdog_renews_by_the_command() {
    let world = World::new();
    world.become_native(REDIS);
    let guard = watched(&world);
    world.advance(5 * TTL - MS);
    assert!(guard.is_valid());
    assert_eq!((world.count("IFEQ"), world.count("EXTEND")), (14, 0));
    world.put("k", Some("another"));
    world.advance(TTL / 3);
    assert_eq!(world.block_on(guard.lost()), Lost::KeyGone);
}

#[test]
fn what_does_more_than_delete_stays_a_script() {
    let world = World::new();
    world.become_native(REDIS);
    let guard = world.block_on(world.lock(exact().native().notify()).try_acquire()).unwrap();
    world.block_on(guard.extend()).unwrap();
    assert_eq!(world.block_on(guard.release()), Released::Released);
    let names = ["IFEQ", "DELEX", "TELL"].map(|name| world.count(name));
    assert_eq!(names, [1, 0, 2], "EVALSHA, then EVAL");
}

/// A connection on which the same reply comes to everything.
#[derive(Clone)]
struct Says(Reply);

impl Conn for Says {
    async fn call(&self, _command: Command) -> Result<Reply, CallError> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_reply_that_a_command_does_not_have_says_nothing() {
    let (world, native) = (World::new(), Native::default());
    let delete = |reply| {
        let conn = Says(reply);
        world.block_on(native.delete(&conn, b"k", b"t")).unwrap()
    };
    let extend = |reply| {
        let conn = Says(reply);
        world.block_on(native.extend(&conn, b"k", b"t", 9)).unwrap()
    };
    let (done, not) = (Ok(Reply::Int(1)), Ok(Reply::Int(0)));
    assert_eq!((delete(Reply::Int(1)), delete(Reply::Int(0))), (done.clone(), not.clone()));
    assert_eq!((extend(Reply::Ok), extend(Reply::Nil)), (done, not));
    for reply in [Reply::Int(2), Reply::Int(-1), Reply::Ok, Reply::Nil] {
        assert!(delete(reply.clone()).unwrap_err().is_indeterminate(), "{reply:?}");
    }
    for reply in [Reply::Int(1), Reply::Int(0), Reply::bulk(b"t")] {
        assert!(extend(reply.clone()).unwrap_err().is_indeterminate(), "{reply:?}");
    }
}
