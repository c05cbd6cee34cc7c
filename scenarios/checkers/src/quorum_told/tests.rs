//! What locks on several servers may say, and what they may not: both sides of each boundary.

use history::fault::Fault;
use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
use history::{Intent, Touch};
use picklock::env::Phase;

use crate::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};

const MS: u64 = 1_000_000;
const TOO_LATE: &str = "granted too late to be relied on";

const EXTEND: Intent = Intent { touch: Touch::Extend(TTL_NS), compares: true };

/// A lock on three servers.
fn three() -> Tape {
    Tape::new().with(|it| (it.honest, it.exact, it.nodes) = (true, true, Some(3)))
}

/// Client 1 has the lock on servers 0 and 1, and is told so; server 2 has refused it.
fn has_it() -> Tape {
    let tape = three().waited(1, 1, 90..200).did(1, 100..110, CREATE);
    let tape = tape.to(1, LOCK).did(1, 100..110, CREATE);
    tape.to(2, LOCK).command(1, 100..110, CREATE, Some(Touch::None))
}

/// It deletes from 301 on, and these servers find its key, the others none.
fn deletes(tape: Tape, found: [bool; 3]) -> Tape {
    found.into_iter().zip(0..).fold(tape, |tape, (found, node)| {
        let did = if found { Touch::Delete } else { Touch::None };
        tape.to(node, LOCK).command(1, 301..310, DELETE, Some(did))
    })
}

fn told(tape: Tape) -> Outcome {
    tape.outcome("quorum-told")
}

fn at_once(tape: Tape) -> Outcome {
    tape.outcome("release-told-at-once")
}

#[test]
fn what_a_quorum_has_carried_out_is_told() {
    let freed = || deletes(has_it(), [true, true, false]);
    assert_eq!(told(freed().releases(1, 300..311)), Held);
    assert_eq!(told(freed().releases_told(1, 300..311, "already expired")), Violated);
    assert_eq!(told(freed().releases_told(1, 300..305, "taken by another")), Violated, "too soon");
    assert_eq!(told(freed().release_unknown(1, 300..311, "no answer")), Violated);
    let in_real_time =
        freed().with(|it| it.exact = false).release_unknown(1, 300..311, "no answer");
    assert_eq!(told(in_real_time), NotApplicable, "its call may have been given up meanwhile");
    assert_eq!(told(freed().release_unknown(1, 300..305, "no answer")), NotApplicable);
    assert_eq!(told(freed().release_unknown(1, 300..311, "dropped half-way")), NotApplicable);
    let one = || deletes(has_it(), [false, true, false]);
    assert_eq!(told(one().releases_told(1, 300..311, "already expired")), Held);
}

#[test]
fn nobody_has_the_lock_that_no_quorum_can_have_granted() {
    let lies = |tape: Tape| told(tape.waited(1, 1, 90..200)) == Violated;
    let one = || three().did(1, 100..110, CREATE);
    let no = |tape: Tape| tape.command(1, 100..110, CREATE, Some(Touch::None));
    assert!(lies(no(one().to(1, LOCK))));
    assert!(lies(one()), "the others were not asked");
    assert!(!lies(one().to(1, LOCK).did(1, 100..110, CREATE)), "two of three are a quorum");
    assert!(!lies(one().to(1, LOCK).command(1, 100..110, CREATE, None)), "nobody knows");
    assert!(!lies(one().to(1, LOCK).sends(1, 110, CREATE)), "nor of this one");
    assert!(!lies(no(one().to(1, LOCK)).did(1, 120..130, EXTEND)), "it had that key before");
    let script = Intent { touch: Touch::Unknown, compares: false };
    assert!(!lies(no(one().to(1, LOCK)).command(1, 120..130, script, Some(Touch::Unknown))));
    let given_back = |touch| {
        let two = one().to(1, LOCK).did(1, 100..110, CREATE);
        lies(two.command(1, 120..130, DELETE, touch))
    };
    assert!(given_back(Some(Touch::Delete)));
    assert!(!given_back(Some(Touch::None)) && !given_back(None));
    assert!(!lies(three()), "it has asked nobody");
    let witness = no(one().to(1, LOCK)).waited(1, 1, 90..200).witness("quorum-told");
    let says = "client 1 took the lock, though at most 1 of 3 servers can have granted it";
    assert_eq!(witness.summary, says);
}

#[test]
fn nothing_is_released_that_too_few_servers_had() {
    let one = || deletes(has_it(), [false, true, false]);
    assert_eq!(told(one().releases(1, 300..311)), Violated);
    assert_eq!(told(one().struck(Fault::Evict, 0, 250).releases(1, 300..311)), Held);
    assert_eq!(told(one().with(|it| it.exact = false).releases(1, 300..311)), Held);
    // One that had no answer may have found it.
    let unanswered = has_it().to(0, LOCK).command(1, 301..305, DELETE, None);
    assert_eq!(told(deletes(unanswered, [false, true, false]).releases(1, 300..311)), Held);
    let refused = has_it().to(0, LOCK).refused_command(1, 301..305, DELETE);
    assert_eq!(told(deletes(refused, [false, true, false]).releases(1, 300..311)), Held);
}

#[test]
fn what_it_has_ended_itself_before_counts_as_released() {
    let before = |found: [Option<Touch>; 2]| {
        let tape = found.into_iter().zip(0..).fold(has_it(), |tape, (found, node)| {
            tape.to(node, LOCK).command(1, 201..210, DELETE, found)
        });
        told(deletes(tape, [false; 3]).releases(1, 300..311))
    };
    let (nothing, gone) = (Some(Touch::None), Some(Touch::Delete));
    assert_eq!(before([nothing, nothing]), Violated);
    assert_eq!(before([gone, gone]), Held);
    assert_eq!(before([gone, nothing]), Violated, "one is no quorum");
    assert_eq!(before([None, gone]), Held, "it may have");
    // What was given back before the key was asked for was another key.
    let again = three().did(1, 60..70, CREATE).did(1, 71..75, DELETE).to(1, LOCK);
    let again = again.did(1, 60..70, CREATE).did(1, 71..75, DELETE).waited(1, 1, 50..200);
    let again = again.phase(1, 95, Phase::AcquireBeforeSend).did(1, 100..110, CREATE);
    let again = again.to(0, LOCK).did(1, 100..110, CREATE);
    assert_eq!(told(deletes(again, [false; 3]).releases(1, 300..311)), Violated);
}

#[test]
fn a_clean_up_that_is_under_way_is_no_part_of_the_release() {
    for sent_ns in [299, 300] {
        let tape = (0..3).fold(has_it(), |tape, node| {
            tape.to(node, LOCK).command(1, sent_ns..305, DELETE, Some(Touch::None))
        });
        let tape = deletes(tape, [true, true, false]);
        assert_eq!(told(tape.releases(1, 300..311)), Held, "sent at {sent_ns}");
    }
}

#[test]
fn only_keys_count_whose_round_is_known() {
    // A request of a round before had no answer.
    let tape = three().waited(1, 1, 50..200).command(1, 60..70, CREATE, None);
    let tape = tape.did(1, 100..110, CREATE).to(1, LOCK).did(1, 100..110, CREATE);
    let tape = deletes(tape, [true, true, false]);
    assert_eq!(told(tape.releases_told(1, 300..311, "already expired")), Held);
    // The key of a round before may be that which is deleted: nobody knows whether it has been before.
    let tape = three().did(1, 60..70, CREATE).command(1, 71..75, DELETE, None);
    let tape = tape.waited(1, 1, 50..200).phase(1, 95, Phase::AcquireBeforeSend).to(1, LOCK);
    let tape = tape.did(1, 100..110, CREATE).to(2, LOCK).did(1, 100..110, CREATE);
    let tape = deletes(tape, [true, true, false]);
    assert_eq!(told(tape.releases_told(1, 300..311, "already expired")), Held);
    // A round before was granted late, on two servers, and that is what is deleted.
    let late = |asked_ns| {
        let tape = (0..2).fold(three(), |tape, node| {
            tape.to(node, LOCK).did(1, asked_ns..asked_ns + 60, CREATE)
        });
        let tape = tape.waited(1, 1, 50..200).phase(1, 95, Phase::AcquireBeforeSend);
        let tape = deletes(tape, [true, true, false]);
        told(tape.releases_told(1, 300..311, "already expired"))
    };
    assert_eq!((late(94), late(95)), (Held, Violated));
    // Of two keys on server 0 one is not of this hold; the later one is, where it is known which that is.
    let two = |span| {
        let tape = deletes(has_it().to(0, LOCK).did(1, span, CREATE), [true, true, false]);
        told(tape.releases_told(1, 300..311, "already expired"))
    };
    assert_eq!((two(91..101), two(91..100)), (Held, Violated));
}

#[test]
fn a_grant_that_has_expired_and_was_granted_again_is_one() {
    let later = 100 + TTL_NS;
    // Two servers have granted it, and again when that was over.
    let twice = |tape: Tape, node| {
        let tape = tape.to(node, LOCK).did(1, 10..20, CREATE);
        tape.did(1, later..later + 10, CREATE)
    };
    let both = || twice(twice(three().phase(1, later - 1, Phase::AcquireBeforeSend), 0), 1);
    let held = || both().waited(1, 1, 5..later + 50);
    let freed = (0..2)
        .fold(held(), |tape, node| tape.to(node, LOCK).did(1, later + 61..later + 70, DELETE));
    let expired = freed.releases_told(1, later + 60..later + 71, "already expired");
    assert_eq!(told(expired), Violated);
    let given_back = |at_ns| held().did(1, at_ns..at_ns + 15, DELETE);
    assert_eq!(told(given_back(later + 10)), Violated, "then it has one server");
    assert_eq!(told(given_back(later + 9)), NotApplicable, "that may have been the first");
    // What was given back is of a round before.
    let gone = twice(three(), 0).did(1, later + 10..later + 20, DELETE).to(1, LOCK);
    let gone = gone.did(1, later + 30..later + 90, CREATE).refused(1, 1, 5..later + 50);
    assert_eq!(told(gone), Held);
}

#[test]
fn who_has_released_on_a_quorum_is_told_at_once() {
    let freed = || deletes(has_it(), [true, true, false]);
    assert_eq!(at_once(freed().releases(1, 300..310 + MS)), Held);
    assert_eq!(at_once(freed().releases(1, 300..311 + MS)), Violated);
    assert_eq!(at_once(freed().release_unknown(1, 300..311 + MS, "no answer")), Violated);
    assert_eq!(at_once(freed().struck(Fault::Pause, 1, 305).releases(1, 300..311 + MS)), Held);
    assert_eq!(at_once(freed().struck(Fault::Pause, 2, 305).releases(1, 300..311 + MS)), Violated);
    let real = freed().with(|it| it.exact = false).releases(1, 300..311 + MS);
    assert_eq!(at_once(real), NotApplicable);
    let one = deletes(has_it(), [true, false, false]);
    assert_eq!(at_once(one.releases(1, 300..311 + MS)), NotApplicable);
}

/// Client 1 asks all three; server 0 grants it, server 1 does not answer, and server 2 says no.
fn round() -> Tape {
    let tape = three().phase(1, 95, Phase::AcquireBeforeSend).did(1, 100..110, CREATE);
    let tape = tape.to(1, LOCK).command(1, 100..150, CREATE, None);
    tape.to(2, LOCK).command(1, 100..110, CREATE, Some(Touch::None))
}

#[test]
fn a_round_whose_missing_answers_might_be_a_quorum_is_no_certain_no() {
    let found = |tape: Tape| told(tape.to(1, LOCK).did(1, 210..220, DELETE));
    assert_eq!(found(round().refused(1, 1, 90..200)), Violated);
    assert_eq!(found(round().unknown(1, 1, 90..200)), NotApplicable);
    assert_eq!(told(round().refused(1, 1, 90..200)), Held, "nobody knows whether it had it");
    let late = round().did(1, 100..210, CREATE).refused(1, 1, 90..200);
    assert_eq!(told(late), Violated, "an answer comes later");
    let known = round().to(2, LOCK).did(1, 120..130, CREATE);
    let known = known.refused_because(1, 1, 90..200, TOO_LATE);
    assert_eq!(found(known), Held, "all of it was known, and came too late");
    let before = round().phase(1, 160, Phase::AcquireBeforeSend).refused(1, 1, 90..200);
    assert_eq!(found(before), Held, "it is of the round before");
}

#[test]
fn what_is_deleted_when_the_key_of_a_round_before_is_over_is_of_this_one() {
    // Server 1 grants a round, and again, when that has expired, without an answer: its key is deleted.
    let over = 20 + TTL_NS;
    let rounds = |at: u64, before: Tape| {
        let tape = before.to(0, LOCK).phase(1, at, Phase::AcquireBeforeSend);
        let tape = tape.did(1, at + 1..at + 2, CREATE).to(1, LOCK);
        let tape = tape.command(1, at + 1..at + 5, CREATE, None).refused(1, 1, 5..at + 6);
        tape.did(1, at + 10..at + 15, DELETE)
    };
    let first = || three().to(1, LOCK).did(1, 10..20, CREATE);
    assert_eq!(told(rounds(over - 9, first())), Violated);
    assert_eq!(told(rounds(over - 10, first())), Held, "it may be the first");
    assert_eq!(told(rounds(over - 9, first().margin(1))), Held);
    assert_eq!(told(rounds(over - 9, first().with(|it| it.stamped = true))), Held);
    assert_eq!(told(rounds(over - 9, first().did(1, 30..40, EXTEND))), Held, "extended");
    assert_eq!(told(rounds(over - 9, first().struck(Fault::Drift, 0, 30))), Held, "a slow clock");
    let unended = first().sends(1, 30, DELETE);
    assert_eq!(told(rounds(over - 9, unended)), Held, "that one may have deleted the first");
    // The first was deleted, which is told only afterwards: no key of the second is known.
    let late = first().did(1, 30..over + 20, DELETE);
    assert_eq!(told(rounds(over - 9, late)), Violated, "each has deleted another");
    let gone = first().did(1, 30..over + 20, DELETE).to(1, LOCK);
    let gone = gone.phase(1, over, Phase::AcquireBeforeSend).to(0, LOCK);
    let gone = gone.did(1, over + 1..over + 2, CREATE).to(1, LOCK);
    let gone = gone.command(1, over + 1..over + 5, CREATE, None).refused(1, 1, 5..over + 6);
    assert_eq!(told(gone), Held, "it may have granted nothing");
}

#[test]
fn what_had_gone_before_another_was_asked_for_is_of_a_round_before() {
    // Nobody says when a round begins. Server 0 grants it; server 1 is asked at some time, and grants it late.
    let one = |tape: Tape| tape.did(1, 10..20, CREATE);
    let other = |tape: Tape, at_ns| {
        told(tape.to(1, LOCK).did(1, at_ns..at_ns + 200, CREATE).refused(1, 1, 1..at_ns + 100))
    };
    let given_back = || one(three()).did(1, 30..40, DELETE);
    assert_eq!(other(given_back(), 40), Held);
    assert_eq!(other(given_back(), 39), Violated, "they may have been there together");
    assert_eq!(other(given_back().did(1, 41..45, CREATE), 100), Violated, "it is there anew");
    assert_eq!(other(one(three()).command(1, 30..40, DELETE, Some(Touch::None)), 100), Violated);
    assert_eq!(other(one(three()), 10 + TTL_NS), Held, "it may have expired");
    assert_eq!(other(one(three()), 9 + TTL_NS), Violated);
    assert_eq!(other(one(three()).margin(1), 9 + TTL_NS), Held);
    assert_eq!(other(one(three()).did(1, 500..510, EXTEND), 10 + TTL_NS), Violated, "extended");
    // What was asked for together counts together, whatever is given back before all have answered.
    let together = one(three()).to(1, LOCK).did(1, 10..300, CREATE).to(0, LOCK);
    assert_eq!(told(together.did(1, 30..40, DELETE).refused(1, 1, 1..200)), Violated);
}

#[test]
fn who_stands_still_in_the_midst_of_a_round_is_granted_it_too_late() {
    // It asks server 0, asks the others when that key may be gone, and gives up before server 2 has answered.
    let round = |later: u64, second: Option<Touch>| {
        let tape = three().phase(1, 5, Phase::AcquireBeforeSend).did(1, 10..20, CREATE);
        let tape = tape.to(1, LOCK).command(1, later..later + 10, CREATE, second);
        let tape = tape.to(2, LOCK).did(1, later..later + 100, CREATE);
        tape.refused_because(1, 1, 1..later + 50, TOO_LATE)
    };
    let granted = CREATE.touch;
    assert_eq!(told(round(10 + TTL_NS, Some(granted))), Held, "two had granted it");
    assert_eq!(told(round(9 + TTL_NS, Some(granted))), Held);
    assert_eq!(told(round(9 + TTL_NS, Some(Touch::None))), Violated, "one had, and another did");
    let anew = round(10 + TTL_NS, Some(granted)).phase(1, 9 + TTL_NS, Phase::AcquireBeforeSend);
    assert_eq!(told(anew), Violated, "the first was of a round before");
}

#[test]
fn nobody_else_has_what_a_quorum_has_granted() {
    let refused = |tape: Tape| told(tape.refused(1, 1, 90..200));
    let asks = || three().phase(1, 95, Phase::AcquireBeforeSend).did(1, 100..110, CREATE);
    let granted = |tape: Tape| tape.to(1, LOCK).did(1, 100..120, CREATE);
    assert_eq!(refused(granted(asks())), Violated);
    assert_eq!(told(granted(asks()).refused_because(1, 1, 90..200, TOO_LATE)), Held);
    assert_eq!(refused(granted(asks()).did(1, 130..140, DELETE)), Violated, "given back");
    assert_eq!(refused(asks()), Held, "no quorum");
    let again = || granted(asks()).phase(1, 150, Phase::AcquireBeforeSend);
    assert_eq!(refused(again()), Held, "another round");
    assert_eq!(refused(granted(again().to(0, LOCK).sends(1, 160, CREATE))), Held, "of which");
    let obscure = asks().to(2, LOCK).command(1, 101..104, CREATE, None);
    let obscure = obscure.to(0, LOCK).phase(1, 105, Phase::AcquireBeforeSend);
    assert_eq!(refused(granted(obscure.did(1, 106..110, CREATE))), Held, "nobody knows of which");
    let silent = granted(three().did(1, 100..110, CREATE));
    assert_eq!(refused(silent), Held, "it may have asked again");
    let told = granted(asks()).refused(1, 1, 90..200).witness("quorum-told").summary;
    let says = "client 1 was told that another held the lock, though 2 of 3 servers had granted its last request";
    assert_eq!(told, says);
}

#[test]
fn it_is_asked_of_sound_locks_on_several_servers() {
    let said = |tape: Tape| tape.findings().iter().any(|it| it.name == "quorum-told");
    assert!(said(three()));
    assert!(!said(three().with(|it| it.nodes = Some(1))));
    assert!(!said(three().with(|it| it.nodes = None)));
    assert!(!said(three().with(|it| it.honest = false)));
}

#[test]
fn the_witness_says_what_was_told() {
    let tape = deletes(has_it(), [true, true, false]);
    let says = "client 1 was told of its release that its hold had ended before, though 2 of 3 servers still had its \
                key then, and have deleted it";
    let expired = tape.clone().releases_told(1, 300..311, "already expired");
    assert_eq!(expired.witness("quorum-told").summary, says);
    let says = "client 1 waited for its release 2 ms longer than until a quorum of the servers had carried it out";
    let late = tape.releases(1, 300..310 + 2 * MS);
    assert_eq!(late.witness("release-told-at-once").summary, says);
}
