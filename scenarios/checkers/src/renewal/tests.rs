//! Who has to renew its hold, and who is excused: both sides of each boundary.

use picklock::env::Phase;

use crate::testing::{TTL_NS, Tape};
use history::fault::Fault;
use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
use history::{Intent, Touch};

const EXTEND: Intent = Intent { touch: Touch::Extend(TTL_NS), compares: true };

fn outcome(tape: Tape) -> Outcome {
    tape.with(|it| (it.renewed, it.exact) = (true, true)).outcome("renewal")
}

/// Client 1 has the lock from 100, valid until 1,100.
fn held() -> Tape {
    Tape::tracked().waited(1, 1, 90..100).valid(1, 100, 1_100)
}

/// It tries to renew, at this time, and is refused at once.
fn tried(at_ns: u64) -> Tape {
    let tape = held().phase(1, at_ns, Phase::RenewBeforeSend);
    tape.refused_command(1, at_ns..at_ns + 10, EXTEND)
}

#[test]
fn a_hold_that_nobody_tried_to_renew_is_blamed_when_it_ends() {
    let moved = |at_ns| {
        let tape = held().phase(1, at_ns, Phase::RenewBeforeSend);
        tape.command(1, at_ns..at_ns + 10, EXTEND, Some(Touch::None)).lost(1, 1_100)
    };
    assert_eq!(outcome(moved(490)), Held, "600 is the most");
    assert_eq!(outcome(moved(489)), Violated);
    assert_eq!(outcome(held().lost(1, 1_100)), Violated, "it was never tried");
    assert_eq!(outcome(held()), NotApplicable);
    assert_eq!(outcome(tried(200).releases(1, 1_050..1_060)), Held, "it did not end by itself");
    let renewed = tried(200).did(1, 220..230, EXTEND).valid(1, 230, 1_220).lost(1, 1_220);
    assert_eq!(outcome(renewed), Violated, "after a renewal as after the grant");
    let nobody_saw = tried(200).releases(1, 1_200..1_210);
    assert_eq!(outcome(nobody_saw), Violated, "its client has not noticed");
    assert_eq!(outcome(held().probe(1_200, -2)), Violated, "nor has it ever");
    assert_eq!(outcome(held().crash(1, 500).probe(1_200, -2)), NotApplicable);
    let too_late = held().phase(1, 1_200, Phase::RenewBeforeSend);
    let too_late = too_late.command(1, 1_200..1_210, EXTEND, Some(Touch::None));
    assert_eq!(outcome(too_late.lost(1, 1_210)), Violated, "it was over by then");
}

#[test]
fn who_waits_for_an_answer_tries() {
    let open = |at_ns| {
        let tape = held().phase(1, 400, Phase::RenewBeforeSend).sends(1, at_ns, EXTEND);
        tape.lost(1, 1_100)
    };
    assert_eq!(outcome(open(500)), Held);
    assert_eq!(outcome(open(499)), Violated, "no call may take so long");
    let stalled = open(499).struck_for(Fault::Stall, 0, 450..460);
    assert_eq!(outcome(stalled), Held, "it may not reach the server");
    let unanswered = |end_ns| {
        let tape = held().phase(1, 400, Phase::RenewBeforeSend);
        tape.command(1, 401..end_ns, EXTEND, None).lost(1, 1_100)
    };
    assert_eq!(outcome(unanswered(850)), Held);
    assert_eq!(outcome(unanswered(499)), Violated);
}

/// Its renewal has no answer from 600 to this time.
fn in_vain(end_ns: u64) -> Tape {
    let tape = held().phase(1, 600, Phase::RenewBeforeSend);
    tape.command(1, 601..end_ns, EXTEND, None)
}

#[test]
fn who_has_tried_in_vain_tries_again_while_there_is_time() {
    assert_eq!(outcome(in_vain(849).lost(1, 1_100)), Violated);
    assert_eq!(outcome(in_vain(850).lost(1, 1_100)), Held);
    let again = in_vain(700).phase(1, 900, Phase::RenewBeforeSend);
    assert_eq!(outcome(again.lost(1, 1_100)), Held, "it cannot send anything");
    let stalled = in_vain(700).struck_for(Fault::Stall, 0, 650..660);
    assert_eq!(outcome(stalled.lost(1, 1_100)), Held, "it may not reach the server");
}

/// A false alarm of `ghost-renewal` with `native-cas`: a try waited for its connection when a clean-up was answered.
#[test]
fn a_clean_up_that_is_answered_ends_no_try() {
    let delete = Intent { touch: Touch::Delete, compares: true };
    let answered = |tape: Tape| tape.command(1, 780..800, delete, Some(Touch::None));
    let again = in_vain(700).phase(1, 740, Phase::RenewBeforeSend);
    assert_eq!(outcome(answered(again).lost(1, 1_100)), Held);
    assert_eq!(outcome(answered(in_vain(700)).lost(1, 1_100)), Violated, "no try at all");
}

#[test]
fn to_try_is_to_send_something_where_nothing_is_in_the_way() {
    let tries = |tape: Tape| {
        [400, 600, 800, 1_000]
            .iter()
            .fold(tape, |tape, at_ns| tape.phase(1, *at_ns, Phase::RenewBeforeSend))
    };
    assert_eq!(outcome(tries(held()).lost(1, 1_100)), Violated);
    let cut_off = |client| held().struck_for(Fault::Partition, client, 300..900);
    assert_eq!(outcome(tries(cut_off(1)).lost(1, 1_100)), Held);
    assert_eq!(outcome(tries(cut_off(2)).lost(1, 1_100)), Violated, "another is cut off");
    let before = Tape::tracked().struck_for(Fault::Partition, 1, 10..95);
    let before = before.waited(1, 1, 90..100).valid(1, 100, 1_100);
    assert_eq!(outcome(tries(before).lost(1, 1_100)), Held, "from before");
    let reset = held().struck(Fault::Reset, 1, 395);
    assert_eq!(outcome(tries(reset).lost(1, 1_100)), Violated, "it can connect anew");
}

#[test]
fn a_key_that_is_gone_is_another_story() {
    assert_eq!(outcome(tried(200).lost(1, 1_099)), Held);
    assert_eq!(outcome(tried(200).lost(1, 1_100)), Violated);
}

#[test]
fn who_cannot_know_the_time_is_excused() {
    let by = |fault, client, at_ns| outcome(tried(200).struck(fault, client, at_ns).lost(1, 1_100));
    for fault in [Fault::Pause, Fault::Drift] {
        assert_eq!(by(fault, 1, 300), Held, "{fault:?}");
        assert_eq!(by(fault, 2, 300), Violated, "{fault:?} of another");
    }
    assert_eq!(by(Fault::Pause, 1, 95), Held, "while it asked for the lock");
    assert_eq!(by(Fault::Pause, 1, 80), Violated, "before it asked");
    assert_eq!(by(Fault::Drift, 1, 80), Held, "a clock that runs off goes on doing so");
    assert_eq!(by(Fault::Drift, 0, 80), Held, "any clock");
    assert_eq!(by(Fault::ClockStep, 1, 300), Violated, "a wall clock is no way to measure time");
    assert_eq!(by(Fault::Refuse, 1, 300), Violated, "one error is no reason to give up");
}

#[test]
fn who_is_refused_again_by_a_server_that_serves_others_is_blamed() {
    let refused = |tape: Tape, at_ns| {
        let tape = tape.phase(1, at_ns, Phase::RenewBeforeSend);
        tape.refused_command(1, at_ns..at_ns + 10, EXTEND)
    };
    let create = Intent { touch: Touch::Create(Some(TTL_NS)), compares: false };
    let other = |tape: Tape| tape.command(2, 650..660, create, Some(Touch::None));
    let twice = || refused(tried(600), 900);
    assert_eq!(outcome(refused(other(tried(600)), 900).lost(1, 1_100)), Violated);
    assert_eq!(outcome(twice().lost(1, 1_100)), Held, "it served nobody");
    let once = held().command(2, 850..860, create, Some(Touch::None));
    let once = refused(once, 900);
    assert_eq!(outcome(once.lost(1, 1_100)), Held, "refused once");
    let injected = refused(other(tried(600)).struck(Fault::Refuse, 1, 695), 900);
    assert_eq!(outcome(injected.lost(1, 1_100)), Held, "an error that was injected");
    let served = other(tried(600)).did(1, 670..680, EXTEND).valid(1, 680, 1_600);
    assert_eq!(outcome(refused(refused(served, 1_200), 1_400).lost(1, 1_600)), Held);
}

#[test]
fn it_is_asked_of_recipes_that_renew_where_times_are_exact() {
    let tape = tried(200).lost(1, 1_100);
    assert!(tape.findings().iter().all(|it| it.name != "renewal"));
    assert_eq!(tape.with(|it| it.renewed = true).outcome("renewal"), NotApplicable);
}

#[test]
fn the_witness_says_for_how_long_nobody_tried() {
    let tape = tried(200).lost(1, 1_100).with(|it| (it.renewed, it.exact) = (true, true));
    let witness = tape.witness("renewal");
    assert!(witness.summary.contains("client 1 lost its lock"), "{}", witness.summary);
    assert!(witness.summary.contains("for 890 ns"), "{}", witness.summary);
    let idle = witness.steps.iter().find(|it| it.text.contains("does nothing to renew"));
    assert_eq!(idle.map(|it| it.at_ns), Some(210));
    assert_eq!((witness.occurrences, witness.acquisitions), (1, vec![1]));
}

/// A clean-up of an attempt before is under way, and answered.
#[test]
fn only_a_renewal_is_a_try() {
    let delete = Intent { touch: Touch::Delete, compares: true };
    let cleaned = held().command(1, 700..800, delete, Some(Touch::None)).lost(1, 1_100);
    assert_eq!(outcome(cleaned.phase(2, 1_200, Phase::RenewBeforeSend)), Violated);
}

#[test]
fn what_comes_when_the_validity_is_over_changes_nothing() {
    let again = in_vain(700).phase(1, 1_150, Phase::RenewBeforeSend).sends(1, 1_150, EXTEND);
    assert_eq!(outcome(again.lost(1, 1_160)), Violated);
    let answered = |end_ns| {
        let tape = held().phase(1, 300, Phase::RenewBeforeSend);
        outcome(tape.did(1, 300..end_ns, EXTEND).lost(1, 1_160))
    };
    assert_eq!((answered(1_099), answered(1_150)), (Held, Violated), "it had waited for so long");
    let served = |at_ns| {
        let create = Intent { touch: Touch::Create(Some(TTL_NS)), compares: false };
        let tape = tried(600).phase(1, 900, Phase::RenewBeforeSend);
        let tape = tape.refused_command(1, 900..910, EXTEND);
        outcome(tape.command(2, at_ns..at_ns + 10, create, Some(Touch::None)).lost(1, 1_160))
    };
    assert_eq!((served(1_080), served(1_095)), (Violated, Held), "it served nobody by then");
}

#[test]
fn only_tries_before_it_was_cut_off_are_in_vain() {
    let tries = |cut_off_ns: u64| {
        let tape = held().struck_for(Fault::Partition, 1, cut_off_ns..900);
        let at_ns = [400, 500, 600, 640, 800, 1_000];
        let tape = at_ns.iter().fold(tape, |it, at_ns| it.phase(1, *at_ns, Phase::RenewBeforeSend));
        outcome(tape.lost(1, 1_100))
    };
    assert_eq!((tries(641), tries(640)), (Violated, Held));
}
