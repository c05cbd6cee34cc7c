//! What is said, on both sides of each boundary, and against a server that knows the truth.

use std::ops::Range;

use history::Intent;
use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
use picklock::env::Phase;
use proptest::prelude::*;

use super::*;
use crate::Checkers;
use crate::random::config;
use crate::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};

mod exact;

const EXTEND: Intent = Intent { touch: Touch::Extend(TTL_NS), compares: true };
/// Extends whosever key is there.
fn plainly(ttl_ns: u64) -> Intent {
    Intent { touch: Touch::Extend(ttl_ns), compares: false }
}

const HAND_ON: Intent = Intent { touch: Touch::Unknown, compares: true };
const SCRIPT: Intent = Intent { touch: Touch::Unknown, compares: false };
const READ: Intent = Intent { touch: Touch::None, compares: false };
/// What an acquisition says without saying that another has the lock.
const NOT_SENT: &str = "not sent: no connection";
const DEL: Intent = Intent { touch: Touch::Delete, compares: false };

fn honest(tape: Tape) -> Tape {
    tape.with(|it| it.honest = true)
}

fn outcome(tape: Tape) -> Outcome {
    honest(tape).outcome(NAME)
}

/// Acquisition 1 of client 1 has the lock from 100.
fn granted() -> Tape {
    Tape::new().waited(1, 1, 40..100).did(1, 91..99, CREATE)
}

/// Its release from 200 to 300 is told so.
fn told(tape: Tape, words: &'static str) -> Tape {
    tape.releases_told(1, 200..300, words)
}

#[test]
fn released_is_true_where_its_own_command_may_have_ended_the_hold() {
    let released = |tape| outcome(told(tape, "released"));
    assert_eq!(released(granted()), Violated, "it sent nothing");
    assert_eq!(released(granted().did(1, 210..290, DELETE)), Held);
    assert_eq!(released(granted().did(1, 210..290, DEL)), Held);
    let nothing = granted().command(1, 210..290, DELETE, Some(Touch::None));
    assert_eq!(released(nothing.clone()), Violated, "it found nothing of its own");
    assert_eq!(released(granted().refused_command(1, 210..290, DELETE)), Violated);
    assert_eq!(released(granted().command(1, 210..290, DELETE, None)), Held, "nobody knows");
    assert_eq!(released(granted().sends(1, 210, DELETE)), Held, "nor of this one");
    assert_eq!(released(nothing.did(1, 292..299, DELETE)), Held, "a second one did it");
    assert_eq!(released(granted().did(2, 210..290, DELETE)), Violated, "another's did it");
    assert_eq!(released(granted().did(1, 301..310, DELETE)), Violated, "it did so only later");
    let hands_on = |number| granted().answered(1, 210..290, HAND_ON, Touch::Unknown, number);
    assert_eq!([1, 2, 3].map(|number| released(hands_on(number))), [Held; 3]);
    assert_eq!([0, -1].map(|number| released(hands_on(number))), [Violated; 2], "it had nothing");
    let script = Intent { compares: false, ..HAND_ON };
    let unsure = granted().answered(1, 210..290, script, Touch::Unknown, 0);
    assert_eq!(released(unsure), Held, "an unknown script may mean anything");
    assert_eq!(
        released(granted().command(1, 150..160, EXTEND, None)),
        Violated,
        "a renewal frees nothing"
    );
    let at_once = Intent { touch: Touch::Extend(0), compares: true };
    assert_eq!(released(granted().did(1, 210..290, at_once)), Held);
}

#[test]
fn it_had_ended_is_false_where_the_release_has_deleted_the_key_of_the_hold() {
    for words in NOT_ITS_OWN {
        let ended = |tape| outcome(told(tape, words));
        assert_eq!(ended(granted().did(1, 210..290, DELETE)), Violated);
        assert_eq!(ended(granted().command(1, 210..290, DELETE, Some(Touch::None))), Held);
        assert_eq!(ended(granted().command(1, 210..290, DELETE, None)), Held);
        assert_eq!(ended(granted().did(1, 210..290, DEL)), Held, "it may have been another's key");
        assert_eq!(ended(granted().did(1, 301..310, DELETE)), Held, "only later");
        let earlier = || granted().command(1, 50..60, CREATE, None);
        assert_eq!(ended(earlier().did(1, 210..290, DELETE)), Held, "the key of another attempt");
        let twice = || granted().did(1, 50..60, CREATE);
        assert_eq!(ended(twice().did(1, 210..290, DELETE)), Held, "or of this one");
        let cleaned = earlier().did(1, 150..160, DELETE);
        assert_eq!(ended(cleaned), Held, "a clean-up is no release");
        let several = granted().to(1, "lock").did(1, 91..99, CREATE).did(1, 210..290, DELETE);
        assert_eq!(ended(several), Held, "one server of two");
        // What was sent before the release began is none of it, whenever it is answered.
        let before = granted().did(1, 190..220, DELETE);
        let nothing = before.clone().command(1, 225..230, DELETE, Some(Touch::None));
        assert_eq!(ended(nothing), Held);
        assert_eq!(
            ended(granted().did(1, 200..220, DELETE)),
            Held,
            "nor is what was sent just before"
        );
        let just_after = || told(granted(), words).did(1, 200..220, DELETE);
        assert_eq!(outcome(just_after()), Violated);
        assert_eq!(outcome(just_after().command(1, 150..160, DELETE, Some(Touch::None))), Held);
        let found = |touch| granted().command(1, 150..160, DELETE, touch).did(1, 210..290, DELETE);
        assert_eq!(ended(found(Some(Touch::None))), Violated, "that was over before");
        assert_eq!(ended(found(None)), Held, "it may have been sent anew");
        let pending = granted().command(1, 150..250, DELETE, Some(Touch::None));
        assert_eq!(ended(pending.did(1, 210..290, DELETE)), Violated, "it found nothing");
        let refused = granted().refused_command(1, 150..160, DELETE).did(1, 210..290, DELETE);
        assert_eq!(ended(refused), Held, "it may have been sent anew");
    }
    let other = granted().did(1, 210..290, DELETE);
    assert_eq!(outcome(told(other, "nothing to release")), Held, "other words say nothing");
}

/// Acquisition 1 of client 1, from 90 to 200, is told that it surely has not got the lock; what it asked
/// first was never answered.
fn refused() -> Tape {
    Tape::new().refused_because(1, 1, 90..200, NOT_SENT).command(1, 91..99, CREATE, None)
}

#[test]
fn another_has_it_where_a_server_says_so() {
    let last = "not acquired before the deadline; last: held by another";
    for told in ["held by another", last] {
        let asked = || Tape::new().refused_because(1, 1, 90..200, told);
        assert_eq!(outcome(asked()), Violated, "it asked nobody");
        let read = asked().command(1, 91..99, READ, Some(Touch::None));
        assert_eq!(outcome(read), Held, "it has looked");
        let answered = |touch| asked().command(1, 91..99, CREATE, Some(touch));
        assert_eq!(outcome(answered(Touch::None)), Held);
        assert_eq!(outcome(answered(CREATE.touch)), Violated);
        assert_eq!(outcome(answered(EXTEND.touch)), Violated, "its own key was there");
        assert_eq!(outcome(answered(CREATE.touch).did(1, 110..120, DELETE)), Violated);
        let later = answered(CREATE.touch).command(1, 150..160, CREATE, Some(Touch::None));
        assert_eq!(outcome(later.clone()), Held);
        assert_eq!(outcome(later.did(1, 170..180, CREATE)), Violated);
        let unanswered = || asked().command(1, 91..99, CREATE, None);
        assert_eq!(outcome(unanswered()), Violated);
        assert_eq!(outcome(unanswered().command(1, 150..160, CREATE, Some(Touch::None))), Held);
        let script = |tape: Tape, answer| outcome(tape.command(1, 150..160, SCRIPT, answer));
        for answer in [Touch::None, Touch::Unknown] {
            let may_say_so = || Some(answer);
            assert_eq!(script(unanswered(), may_say_so()), Held);
            assert_eq!(script(answered(CREATE.touch), may_say_so()), Held);
        }
        assert_eq!(script(answered(Touch::None), Some(CREATE.touch)), Violated, "it grants it");
        assert_eq!(script(unanswered(), None), Violated);
        assert_eq!(script(answered(CREATE.touch), None), Violated);
        let looks = |key| unanswered().to(0, key).command(1, 150..160, READ, Some(Touch::None));
        assert_eq!(outcome(looks(LOCK)), Held, "it has looked");
        assert_eq!(outcome(looks("queue")), Held, "perhaps in the line");
        let reads = |name| named(looks("queue"), name, |intent| intent == READ);
        assert_eq!(["GET", "SUBSCRIBE"].map(reads), [Violated; 2], "of something else");
        let error = "OOM command not allowed";
        assert_eq!(outcome(asked().refused_with(1, 95..99, CREATE, error)), Violated);
        assert_eq!(outcome(answered(Touch::None).refused_with(1, 150..160, CREATE, error)), Held);
        let of_several = answered(CREATE.touch).to(1, "lock");
        let of_several = of_several.command(1, 91..98, CREATE, Some(Touch::None));
        assert_eq!(outcome(of_several), Held, "a few of several may grant it");
    }
    let honestly = Tape::new().refused_because(1, 1, 90..200, NOT_SENT);
    assert_eq!(outcome(honestly.did(1, 91..99, CREATE)), Held, "it does not say so");
    let witness = honest(Tape::new().refused(1, 1, 90..200)).witness(NAME);
    let says = "client 1 was told that another held the lock, though it had asked no server";
    assert_eq!(witness.summary, says);
}

#[test]
fn nobody_has_the_lock_whose_every_request_was_answered_with_no() {
    let lies = |tape: Tape| outcome(tape.waited(1, 1, 90..200)) == Violated;
    let asked = || Tape::new().command(1, 91..99, CREATE, Some(Touch::None));
    assert!(lies(asked()));
    assert!(!lies(asked().did(1, 110..120, CREATE)));
    assert!(!lies(asked().did(1, 199..210, CREATE)), "it may have been granted by then");
    assert!(!lies(asked().command(1, 110..120, CREATE, None)), "nobody knows");
    assert!(!lies(asked().sends(1, 110, CREATE)), "nor of this one");
    assert!(!lies(asked().did(1, 110..120, EXTEND)), "it had it before");
    let reads = |key| asked().to(0, key).command(1, 110..120, READ, Some(Touch::None));
    assert!(!lies(reads(LOCK)), "it may have read that it has it");
    assert!(!lies(reads("queue")), "it may have a place in line");
    assert!(!lies(asked().command(1, 110..120, SCRIPT, Some(Touch::None))));
    for hands_on in [HAND_ON, SCRIPT] {
        assert!(!lies(asked().command(2, 110..120, hands_on, None)), "another may hand it on");
    }
    assert!(lies(asked().did(2, 110..120, DELETE)), "then it has to ask again");
    assert!(!lies(asked().with(|it| it.nodes = Some(3))), "one of several says nothing");
    assert!(!lies(Tape::new()), "it asked nobody");
    let witness = honest(asked().waited(1, 1, 90..200)).witness(NAME);
    let says = "client 1 took the lock, though every request of it had been answered with no";
    assert_eq!(witness.summary, says);
}

#[test]
fn surely_not_is_false_where_the_key_is_given_back_later() {
    assert_eq!(outcome(refused()), Held, "it may never have arrived");
    assert_eq!(outcome(refused().did(1, 210..220, DELETE)), Violated);
    assert_eq!(outcome(refused().did(1, 190..220, DELETE)), Held, "it may have gone by then");
    assert_eq!(outcome(refused().did(1, 150..160, DELETE)), Held, "it had gone by then");
    assert_eq!(outcome(refused().did(1, 210..220, DEL)), Held, "it may have been another's");
    assert_eq!(outcome(refused().did(2, 210..220, DELETE)), Held, "another's was");
    assert_eq!(outcome(refused().command(1, 210..220, DELETE, None)), Held);
    let nothing = refused().command(1, 210..220, DELETE, Some(Touch::None));
    assert_eq!(outcome(nothing.clone()), Held);
    assert_eq!(outcome(nothing.did(1, 230..240, DELETE)), Violated, "it arrived in between");
    let too_late = refused().did(1, 100..110, CREATE).did(1, 210..220, DELETE);
    assert_eq!(outcome(too_late), Held, "what was granted and not relied on is given back");
    let found_own = refused().command(1, 100..110, CREATE, Some(EXTEND.touch));
    assert_eq!(outcome(found_own.did(1, 210..220, DELETE)), Held, "its own was there, too late");
    let answered = Tape::new().refused(1, 1, 90..200);
    let answered = answered.command(1, 91..99, CREATE, Some(Touch::None));
    assert_eq!(outcome(answered.did(1, 210..220, DELETE)), Held, "whatever that was");
    let of_several = refused().to(1, "lock").command(1, 91..99, CREATE, None);
    assert_eq!(outcome(of_several.did(1, 210..220, DELETE)), Held, "a few of several may grant it");
    let one_of_several = refused().did(1, 210..220, DELETE).with(|it| it.nodes = Some(5));
    assert_eq!(outcome(one_of_several), Held, "as it may, though it asked only one of them");
    let unknown = Tape::new().unknown(1, 1, 90..200).command(1, 91..99, CREATE, None);
    assert_eq!(outcome(unknown.did(1, 210..220, DELETE)), NotApplicable, "it has not said so");
}

/// A false alarm with `queue`: who is cut off in line at its deadline does not know what has become of its turn.
#[test]
fn who_has_a_place_in_line_may_have_been_handed_the_lock() {
    use picklock::env::Phase;
    let told = |fair, phase| {
        let tape = Tape::new().unknown(1, 1, 90..200).command(1, 91..99, CREATE, Some(Touch::None));
        let tape = tape.phase(1, 100, phase).with(|it| (it.exact, it.fair_within) = (true, fair));
        outcome(tape)
    };
    assert_eq!(told(Some(0), Phase::Wait), NotApplicable);
    assert_eq!(told(None, Phase::Wait), Violated, "it waits, and not in line");
    assert_eq!(told(Some(0), Phase::AcquireBeforeSend), Violated, "it has no place");
}

#[test]
fn who_was_in_line_hands_on_no_more_than_its_places() {
    let hands_on =
        |tape: Tape, span: Range<u64>, answer| tape.answered(1, span, HAND_ON, Touch::None, answer);
    for answer in [1, 2, 3] {
        let once = hands_on(refused(), 210..220, answer);
        assert_eq!(outcome(once.clone()), Violated, "it had never lined up");
        assert_eq!(outcome(once.clone().phase(1, 150, Phase::Wait)), Held);
        let twice = hands_on(once, 230..240, answer).phase(1, 150, Phase::Wait);
        assert_eq!(outcome(twice), Violated);
    }
    for answer in [0, -1] {
        assert_eq!(outcome(hands_on(refused(), 210..220, answer)), Held, "it had nothing");
    }
    assert_eq!(outcome(hands_on(refused(), 190..220, 1)), Held, "it was sent before");
    let other = Intent { compares: false, ..HAND_ON };
    let script = refused().answered(1, 210..220, other, Touch::Unknown, 1);
    assert_eq!(outcome(script), Held, "an unknown script may mean anything");
}

#[test]
fn it_is_asked_of_recipes_that_claim_it() {
    let tape = told(granted(), "released");
    assert!(tape.findings().iter().all(|it| it.name != NAME));
    assert_eq!(outcome(Tape::new()), NotApplicable);
}

#[test]
fn the_witness_quotes_what_was_said() {
    let witness = honest(told(granted(), "released")).witness(NAME);
    let says =
        "client 1 was told \"released\" of its release, though no command of it had ended its hold";
    assert_eq!((witness.summary.as_str(), witness.acquisitions), (says, vec![1]));
    let witness = honest(refused().did(1, 210..220, DELETE)).witness(NAME);
    assert!(
        witness.summary.contains("client 1 was told that it surely had not got"),
        "{}",
        witness.summary
    );
    assert_eq!(witness.occurrences, 1);
}

/// When an acquisition speaks of itself, and when its release has begun, if it speaks of that.
const SAYS_NS: u64 = 500;
const RELEASES_NS: u64 = 400;

/// A command on the key of a server: who sends it, when, when it is carried out and when answered, if ever. One that
/// deletes compares with what the same acquisition would have made by its command of this number.
#[derive(Clone, Copy, Debug)]
struct Sent {
    by: u32,
    deletes: Option<usize>,
    at_ns: u64,
    done_ns: Option<u64>,
    answered: bool,
}

fn sent() -> impl Strategy<Value = Sent> {
    let deletes = prop::option::of(0_usize..6);
    let done = prop::option::weighted(0.9, 1_u64..300);
    (1_u32..3, deletes, 1_u64..900, done, prop::bool::weighted(0.7)).prop_map(
        |(by, deletes, at_ns, takes_ns, answered)| {
            let done_ns = takes_ns.map(|takes_ns| at_ns + takes_ns);
            Sent { by, deletes, at_ns, done_ns, answered }
        },
    )
}

/// What commands did, and whose command made what the key held, from when until when.
fn carry_out(all: &[Sent]) -> (Vec<Touch>, Vec<(usize, u64, u64)>) {
    let mut order: Vec<usize> = (0..all.len()).filter(|it| all[*it].done_ns.is_some()).collect();
    order.sort_by_key(|it| (all[*it].done_ns, *it));
    let (mut touches, mut lives) = (vec![Touch::None; all.len()], Vec::new());
    let mut key: Option<(usize, u64)> = None;
    for number in order {
        let now_ns = all[number].done_ns.unwrap_or(0);
        match (all[number].deletes, key) {
            (None, None) => {
                key = Some((number, now_ns));
                touches[number] = CREATE.touch;
            }
            (Some(made), Some((by, from_ns))) if made == by && all[by].by == all[number].by => {
                key = None;
                lives.push((by, from_ns, now_ns));
                touches[number] = Touch::Delete;
            }
            _ => {}
        }
    }
    lives.extend(key.map(|(by, from_ns)| (by, from_ns, u64::MAX)));
    (touches, lives)
}

fn tape(all: &[Sent], touches: &[Touch]) -> Tape {
    let command = |tape: Tape, (number, it): (usize, &Sent)| {
        let intent = if it.deletes.is_some() { DELETE } else { CREATE };
        match it.done_ns.filter(|_| it.answered) {
            Some(done_ns) => tape.command(it.by, it.at_ns..done_ns, intent, Some(touches[number])),
            None => tape.command(it.by, it.at_ns..it.at_ns + 100, intent, None),
        }
    };
    all.iter().enumerate().fold(Tape::new(), command)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nobody_is_blamed_who_has_said_what_is_true(all in prop::collection::vec(sent(), 1..7)) {
        let (touches, lives) = carry_out(&all);
        let own = |number: usize| all[number].by == 1;
        let made = lives.iter().filter(|(by, ..)| own(*by));
        let had_it_later = made.clone().any(|(_, _, until_ns)| *until_ns > SAYS_NS);
        let no = tape(&all, &touches).refused_because(1, 1, 0..SAYS_NS, NOT_SENT);
        if outcome(no) == Violated {
            prop_assert!(had_it_later);
        }
        let taken = tape(&all, &touches).waited(1, 1, 0..RELEASES_NS);
        let had_none = !made.clone().any(|(_, from_ns, _)| *from_ns <= RELEASES_NS);
        if outcome(taken.clone()) == Violated {
            prop_assert!(had_none);
        }
        let of_acquisition = |it: &&Sent| it.by == 1 && it.at_ns <= RELEASES_NS;
        let mut requests = all.iter().filter(of_acquisition);
        let is_answered =
            |it: &Sent| it.answered && it.done_ns.is_some_and(|done_ns| done_ns < RELEASES_NS);
        let asked = requests.clone().any(|it| it.deletes.is_none());
        if had_none && asked && requests.all(is_answered) {
            prop_assert_eq!(outcome(taken.clone()), Violated);
        }
        let freed = made.clone().any(|(_, _, until_ns)| *until_ns <= SAYS_NS);
        let release = |words| taken.clone().releases_told(1, RELEASES_NS..SAYS_NS, words);
        if outcome(release("released")) == Violated {
            prop_assert!(!freed || had_none);
        }
        let by_release = RELEASES_NS..=SAYS_NS;
        let freed_now = made.clone().any(|(_, _, until_ns)| by_release.contains(until_ns));
        if outcome(release("already expired")) == Violated {
            prop_assert!(freed_now || had_none);
        }
        // Where everything was answered before, what is false is found.
        let all_known = all.iter().all(|it| {
            it.answered && it.done_ns.is_some_and(|done_ns| done_ns < SAYS_NS)
        });
        if all_known && !freed {
            prop_assert_eq!(outcome(release("released")), Violated);
        }
    }
}

#[test]
fn not_its_own_is_false_where_only_its_release_can_have_ended_the_hold() {
    let exact = |tape: Tape| tape.with(|it| it.exact = true);
    // The key was asked for at 91, so it lives until 1,091 at least.
    let lost = || exact(granted().command(1, 210..250, DELETE, None));
    let found_nothing = |span| lost().command(1, span, DELETE, Some(Touch::None));
    let says = |tape: Tape, at_ns: u64, words| outcome(tape.releases_told(1, 200..at_ns, words));
    let expired = |tape, at_ns| says(tape, at_ns, "already expired");
    assert_eq!(expired(found_nothing(260..290), 300), Violated);
    assert_eq!(says(found_nothing(260..290), 300, "taken by another"), Violated);
    assert_eq!(says(found_nothing(260..290), 300, "released"), Held);
    assert_eq!(expired(found_nothing(260..1_080), 1_090), Violated);
    assert_eq!(expired(found_nothing(260..1_080), 1_091), Held, "it may have expired");
    assert_eq!(expired(found_nothing(260..290).margin(791), 300), Held, "by the server's clock");
    assert_eq!(expired(found_nothing(260..290).margin(790), 300), Violated);
    assert_eq!(expired(exact(granted()), 300), Violated, "it is there");
    assert_eq!(expired(found_nothing(260..290).with(|it| it.exact = false), 300), Held);
    let before = found_nothing(260..290).did(1, 150..160, DELETE);
    assert_eq!(expired(before, 300), Held, "it had given it back before");
    let of = |ttl_ns| Intent { touch: Touch::Extend(ttl_ns), compares: true };
    assert_eq!(expired(found_nothing(260..290).did(1, 150..160, of(151)), 300), Violated);
    assert_eq!(expired(found_nothing(260..290).did(1, 150..160, of(150)), 300), Held);
    // Who sends the TTL together with the key may have it set before the answer to the key.
    let made = Intent { touch: Touch::Create(None), compares: false };
    let at_once = |span, ttl_ns| {
        let tape = Tape::new().waited(1, 1, 40..100).did(1, 91..99, made).did(1, span, of(ttl_ns));
        exact(tape.command(1, 260..290, DELETE, Some(Touch::None)))
    };
    assert_eq!(expired(at_once(91..99, 208), 300), Held);
    assert_eq!(expired(at_once(91..99, 210), 300), Violated);
    assert_eq!(expired(at_once(92..95, 207), 300), Held);
    assert_eq!(expired(at_once(90..95, 210), 300), Held, "it was sent before, and met this key");
    assert_eq!(expired(at_once(70..75, 10), 300), Violated, "it was over before");
}

#[test]
fn a_key_that_something_else_may_have_taken_proves_nothing() {
    let expired = |tape: Tape| {
        let tape = tape.with(|it| it.exact = true).command(1, 210..250, DELETE, None);
        outcome(tape.releases_told(1, 200..300, "already expired"))
    };
    assert_eq!(expired(granted()), Violated);
    for fault in [Fault::Evict, Fault::Failover, Fault::Drift, Fault::ClockStep] {
        assert_eq!(expired(granted().struck(fault, 0, 50)), Held, "{fault:?}");
    }
    assert_eq!(expired(granted().struck(Fault::LoseReply, 1, 215)), Violated);
    assert_eq!(expired(granted().did(2, 150..160, DEL)), Held, "another's that asks nobody");
    assert_eq!(
        expired(granted().did(2, 150..160, DELETE)),
        Held,
        "another's that shares its value"
    );
    let others = || Tape::new().did(2, 10..20, CREATE).waited(1, 1, 40..100).did(1, 91..99, CREATE);
    assert_eq!(expired(others().did(2, 95..150, DELETE)), Violated, "another's of its own key");
    assert_eq!(expired(others().did(2, 100..150, DELETE)), Held, "that had gone before");
    let later = others().did(2, 100..110, CREATE).did(2, 120..150, DELETE);
    assert_eq!(expired(later), Violated, "it is a later one of its own");
    let from_before = || Tape::new().did(2, 41..85, DELETE).waited(1, 1, 40..100);
    assert_eq!(expired(from_before().did(1, 91..99, CREATE)), Violated, "it was over before");
    assert_eq!(expired(from_before().did(1, 85..99, CREATE)), Held);
    assert_eq!(expired(granted().to(1, "lock").did(1, 92..99, CREATE)), Held, "on several servers");
}

/// What is said where such commands have this name.
fn named(tape: Tape, command: &str, is_such: impl Fn(Intent) -> bool) -> Outcome {
    let mut history = honest(tape).history();
    let command = history.texts.intern(command);
    for event in &mut history.events {
        match &mut event.what {
            What::Command { name, intent, .. } if is_such(*intent) => *name = command,
            _ => {}
        }
    }
    let mut checkers = Checkers::new(&history.head);
    history.events.iter().for_each(|event| checkers.see(event, &history.texts));
    let mut findings = checkers.verdicts(&history.texts).into_iter();
    findings.find(|it| it.name == NAME).expect("it is asked").verdict.outcome()
}
