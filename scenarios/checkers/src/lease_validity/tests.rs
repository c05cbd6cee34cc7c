//! Both sides of each boundary of what a client may rely on.

use crate::lease_validity::SERVER_TIME_NS;
use crate::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};
use history::fault::Fault;
use history::verdict::Outcome::{self, Held, Inconclusive, NotApplicable, Violated};
use history::words::LOST;
use history::{Intent, Touch};
use picklock::env::Phase;

/// A command that may hand the key on.
const HAND_ON: Intent = Intent { touch: Touch::Unknown, compares: true };

fn outcome(tape: Tape) -> Outcome {
    tape.with(|it| it.exact = true).outcome("lease-validity")
}

/// Acquired at 100, valid until 200.
fn held() -> Tape {
    Tape::tracked().hold(1, 1, 100..400).valid(1, 99, 200)
}

#[test]
fn to_act_in_time_is_fine_and_a_nanosecond_late_is_not() {
    assert_eq!(outcome(held()), Held);
    assert_eq!(outcome(held().begins(1, 199)), Held);
    assert_eq!(outcome(held().begins(1, 200)), Violated);
    assert_eq!(outcome(held().valid(1, 150, 300).begins(1, 299)), Held);
    assert_eq!(outcome(held().valid(1, 200, 300).begins(1, 250)), Violated, "too late");
    assert_eq!(outcome(Tape::tracked().hold(1, 1, 100..200).valid(1, 99, 100)), Violated);
    assert_eq!(outcome(Tape::tracked().hold(1, 1, 100..200)), Violated, "never told");
}

#[test]
fn to_act_after_the_loss_or_the_release_is_not_fine() {
    assert_eq!(outcome(held().lost(1, 150).begins(1, 149)), Held);
    assert_eq!(outcome(held().lost(1, 150).begins(1, 151)), Violated);
    let released = Tape::tracked().hold(1, 1, 100..150).valid(1, 99, 900);
    assert_eq!(outcome(released.begins(1, 152)), Violated);
    let told_later =
        |lost_ns| Tape::tracked().hold(1, 1, 100..400).valid(1, 99, 200).lost(1, lost_ns);
    assert_eq!(outcome(told_later(98)), Violated, "its validity was told behind that");
}

#[test]
fn without_a_validity_or_exact_times_nothing_is_said() {
    assert_eq!(outcome(Tape::new().hold(1, 1, 100..400)), NotApplicable);
    assert_eq!(held().outcome("lease-validity"), NotApplicable);
    let lockless = held().begins(1, 250).with(|it| it.locks = false);
    assert_eq!(outcome(lockless), NotApplicable);
    assert_eq!(outcome(Tape::tracked().refused(1, 1, 10..20)), Inconclusive, "nobody acted");
}

#[test]
fn to_decide_to_write_is_to_act_and_other_phases_are_not() {
    assert_eq!(outcome(held().phase(1, 199, Phase::HoldBeforeWrite)), Held);
    assert_eq!(outcome(held().phase(1, 200, Phase::HoldBeforeWrite)), Violated);
    assert_eq!(outcome(held().phase(1, 200, Phase::AcquireBeforeSend)), Held);
}

#[test]
fn a_lease_ends_with_its_acquisition() {
    // Whoever goes on under a number that has been released or refused was told nothing.
    let told = |tape: Tape| tape.with(|it| it.exact = true).witness("lease-validity").summary;
    let released = Tape::tracked().hold(1, 1, 100..150).valid(1, 99, 900).begins(1, 160);
    assert!(told(released).ends_with("it was never told until when it might"));
    let refused = Tape::tracked().valid(1, 99, 900).refused(1, 1, 90..110).begins(1, 160);
    assert!(told(refused).ends_with("it was never told until when it might"));
}

/// Acquired at 100 on so many of five servers, valid until 200.
fn on_five(servers: u16) -> Tape {
    let tape = held().resource(5);
    (0..servers).fold(tape, |tape, node| tape.to(node, LOCK).did(1, 90..95, CREATE))
}

#[test]
fn who_has_a_quorum_does_not_give_up() {
    assert_eq!(outcome(on_five(3).lost(1, 199)), Violated);
    assert_eq!(outcome(on_five(3).lost(1, 200)), Held, "its validity is over");
    assert_eq!(outcome(on_five(2).lost(1, 150)), Held, "no quorum");
    assert_eq!(outcome(held().resource(1).lost(1, 150)), Held, "nothing is known");
    assert_eq!(outcome(held().resource(1).did(1, 90..95, CREATE).lost(1, 150)), Violated);
    assert_eq!(outcome(held().did(1, 90..95, CREATE).lost(1, 150)), Held, "of how many?");
    let released = on_five(3).to(0, LOCK).did(2, 110..120, DELETE).lost(2, 150);
    assert_eq!(outcome(released), Held, "another's");
}

#[test]
fn the_last_answer_says_whether_a_server_has_the_key() {
    let extend = Intent { touch: Touch::Extend(TTL_NS), compares: true };
    let renewed = |answer| {
        let tape = on_five(3).to(2, LOCK).command(1, 120..130, extend, answer);
        outcome(tape.lost(1, 150))
    };
    assert_eq!(renewed(Some(extend.touch)), Violated);
    assert_eq!(renewed(Some(Touch::None)), Held, "it is missing there");
    assert_eq!(renewed(None), Violated, "no answer");
    let refused = on_five(3).to(2, LOCK).refused_command(1, 120..130, extend);
    assert_eq!(outcome(refused.lost(1, 150)), Violated, "nothing was done");
    let pending = on_five(3).to(2, LOCK).sends(1, 120, extend);
    assert_eq!(outcome(pending.lost(1, 150)), Violated, "not answered yet");
    // What was sent first was answered last.
    let late = on_five(2).to(2, LOCK).did(1, 90..140, CREATE);
    let late = late.command(1, 120..130, extend, Some(Touch::None));
    assert_eq!(outcome(late.lost(1, 150)), Held);
}

#[test]
fn who_has_renewed_knows_that_it_has_the_lock_for_half_a_ttl() {
    let extend = Intent { touch: Touch::Extend(200), compares: true };
    let on = |servers: u16, answered, lost_ns| {
        let tape = held().resource(servers).did(1, 90..95, CREATE);
        outcome(tape.command(1, 150..answered, extend, Some(extend.touch)).lost(1, lost_ns))
    };
    // It was sent at 150, so it has the lock until 250 at least, though it has noted 200.
    assert_eq!(on(1, 160, 249), Violated);
    assert_eq!(on(1, 160, 250), Held, "it may not know any more");
    assert_eq!(on(1, 199, 249), Violated);
    assert_eq!(on(1, 200, 249), Held, "the answer came too late");
    assert_eq!(on(5, 160, 249), Held, "one of five");
    let tape = held().resource(1).did(1, 90..95, CREATE);
    let again = tape.command(1, 150..160, extend, Some(extend.touch));
    let again = again.command(1, 220..230, extend, Some(Touch::None));
    assert_eq!(outcome(again.lost(1, 240)), Held, "then the key was gone");
    let another = held().resource(1).did(1, 90..95, CREATE);
    let another = another.command(2, 150..160, extend, Some(extend.touch));
    assert_eq!(outcome(another.lost(1, 240)), Held, "another's renewal");
}

#[test]
fn so_does_who_was_renewed_by_a_quorum_at_once() {
    let extend = Intent { touch: Touch::Extend(200), compares: true };
    // Two have renewed it in the round that begins at 150; of the third it depends.
    let third = |sent: std::ops::Range<u64>, lost_ns| {
        let tape = on_five(3).phase(1, 150, Phase::RenewBeforeSend);
        let tape = (0..2).fold(tape, |tape, node| tape.to(node, LOCK).did(1, 151..160, extend));
        outcome(tape.to(2, LOCK).did(1, sent, extend).lost(1, lost_ns))
    };
    assert_eq!(third(150..160, 249), Violated);
    assert_eq!(third(150..160, 250), Held, "it may not know any more");
    assert_eq!(third(150..200, 249), Held, "its validity was over by then");
    assert_eq!(third(149..160, 249), Held, "it was asked before");
    let slow = |answered| {
        let tape = held().valid(1, 110, 240).resource(5).phase(1, 150, Phase::RenewBeforeSend);
        let did = |tape: Tape, node| tape.to(node, LOCK).did(1, 151..answered, extend);
        outcome((0..3).fold(tape, did).lost(1, 245))
    };
    assert_eq!(slow(151 + TTL_NS / 20), Violated);
    assert_eq!(slow(152 + TTL_NS / 20), Held, "it need not have waited so long");
    let did = |tape: Tape, node| tape.to(node, LOCK).did(1, 151..160, extend);
    let beside = on_five(3).phase(1, 149, Phase::RenewBeforeSend);
    let beside = (0..3).fold(beside.phase(1, 150, Phase::RenewBeforeSend), did);
    assert_eq!(outcome(beside.lost(1, 249)), Held, "two renewals at once");
    let apart = |first_ns| {
        let tape = held().valid(1, 105, 380).resource(5).phase(1, first_ns, Phase::RenewBeforeSend);
        let did = |tape: Tape, node| tape.to(node, LOCK).did(1, 361..370, extend);
        outcome((0..3).fold(tape.phase(1, 360, Phase::RenewBeforeSend), did).lost(1, 395))
    };
    assert_eq!((apart(110), apart(111)), (Violated, Held), "the one before is over");
    let two = on_five(3).phase(1, 150, Phase::RenewBeforeSend);
    let two = (0..2).fold(two, did);
    assert_eq!(outcome(two.clone().lost(1, 249)), Held, "two of five");
    let next = two.phase(1, 170, Phase::RenewBeforeSend).to(2, LOCK).did(1, 171..180, extend);
    assert_eq!(outcome(next.lost(1, 249)), Held, "in two rounds");
}

#[test]
fn work_is_not_told_before_that_its_lock_is_lost() {
    let told = |tape: Tape, at_ns, why| outcome(tape.update_fails(1, 110..at_ns, why));
    assert_eq!(told(held(), 199, LOST), Violated);
    assert_eq!(told(held(), 200, LOST), Held);
    assert_eq!(told(held(), 199, "too little validity left"), Held);
    assert_eq!(told(held().lost(1, 150), 160, LOST), Held, "it had learnt of the loss");
    assert_eq!(told(held().valid(1, 150, 300), 250, LOST), Violated, "it was renewed");
    assert_eq!(told(held().struck(Fault::Drift, 1, 120), 199, LOST), Held);
}

#[test]
fn nobody_relies_on_a_lock_to_the_very_end_of_its_key() {
    let told = |tape: Tape, until_ns| {
        let tape = tape.margin(10).valid(1, 100, until_ns).hold(1, 1, 101..120);
        outcome(tape)
    };
    let on = |servers: u16| {
        let tape = Tape::tracked().resource(servers);
        (0..servers / 2 + 1)
            .fold(tape, |tape, node| tape.to(node, LOCK).did(1, 90 - u64::from(node)..95, CREATE))
    };
    let made_ns = 90 + TTL_NS - 10;
    assert_eq!(told(on(1), made_ns), Held);
    assert_eq!(told(on(1), made_ns + 1), Violated);
    assert_eq!(told(on(5), made_ns - 2), Held);
    assert_eq!(told(on(5), made_ns - 1), Violated, "the third of five was asked first");
    assert_eq!(told(on(1).struck(Fault::Drift, 1, 5), made_ns + 1), Held);
    let handed_on = Tape::tracked().resource(1).command(1, 80..85, CREATE, Some(Touch::None));
    assert_eq!(told(handed_on, made_ns + 1), Held, "another made it for this one");
    let given_back = on(1).did(1, 96..97, DELETE);
    assert_eq!(told(given_back, made_ns + 1), Held, "and this is another hold");
    let extend = Intent { touch: Touch::Extend(TTL_NS), compares: true };
    let renewed = on(1).did(1, 97..99, extend);
    assert_eq!(told(renewed, made_ns + 7), Held);
}

#[test]
fn the_first_is_told_and_all_are_counted() {
    let tape = held().begins(1, 230).lost(1, 240).begins(1, 250).begins(1, 260);
    let witness = tape.with(|it| it.exact = true).witness("lease-validity");
    let first = "client 1 began to use the resource, though its validity had ended 30 ns ago";
    assert_eq!((witness.summary.as_str(), witness.occurrences), (first, 3));
}

#[test]
fn of_a_pool_the_head_says_how_many_servers_the_lock_has() {
    let gave_up = |nodes| {
        let tape = Tape::tracked().waited(1, 1, 90..100).did(1, 91..99, CREATE).valid(1, 99, 900);
        outcome(tape.begins(1, 110).lost(1, 200).with(|it| it.nodes = nodes))
    };
    assert_eq!(gave_up(Some(1)), Violated);
    assert_eq!(gave_up(Some(3)), Held);
    assert_eq!(gave_up(None), Held, "nobody says");
}

#[test]
fn what_is_told_at_the_moment_of_the_answer_is_told_in_time() {
    let told = |known_ns| outcome(Tape::tracked().waited(1, 1, 90..100).valid(1, known_ns, 200));
    assert_eq!((told(100), told(101)), (Held, Violated));
    let acted = |from_ns| {
        outcome(Tape::tracked().waited(1, 1, 90..100).valid(1, 100, 200).begins(1, from_ns))
    };
    assert_eq!((acted(199), acted(200)), (Held, Violated));
}

#[test]
fn each_round_before_the_answer_has_its_own_validity() {
    let rounds = |answered_ns| {
        let tape = Tape::tracked().valid(1, 20, 100).valid(1, 150, 300);
        outcome(tape.waited(1, 1, 10..answered_ns))
    };
    assert_eq!((rounds(299), rounds(300)), (Held, Violated));
}

#[test]
fn a_look_that_found_no_key_of_its_own_may_be_the_last_answer() {
    let looks = |tape: Tape| outcome(tape.lost(1, 150));
    let held = || held().resource(1).did(1, 90..95, CREATE);
    assert_eq!(looks(held().calls(1, 110..120, "GET")), Held);
    assert_eq!(looks(held().calls(2, 110..120, "GET")), Violated, "another's look");
    assert_eq!(looks(held().to(0, "line").calls(1, 110..120, "GET")), Violated, "of another key");
}

#[test]
fn the_shortest_renewal_may_be_the_last() {
    let extend = |ttl_ns| Intent { touch: Touch::Extend(ttl_ns), compares: true };
    let renewed = || held().resource(1).did(1, 180..190, extend(TTL_NS));
    let lost = |tape: Tape| outcome(tape.lost(1, 210));
    assert_eq!(lost(renewed()), Violated);
    assert_eq!(lost(renewed().sends(1, 185, extend(1))), Held);
    assert_eq!(lost(renewed().sends(1, 195, extend(1))), Held, "sent behind the answer");
    assert_eq!(lost(renewed().sends(1, 185, extend(TTL_NS))), Violated);
}

#[test]
fn who_is_handed_a_key_relies_on_it_for_a_ttl_at_most() {
    let handed = |until_ns| {
        let tape = Tape::tracked().resource(1).margin(7).hold(1, 1, 100..400);
        outcome(tape.valid(1, 99, until_ns))
    };
    let most_ns = 99 + TTL_NS - 7;
    assert_eq!((handed(most_ns), handed(most_ns + 1)), (Held, Violated));
}

/// False alarms with `single` and `queue` whose clock began to drift within the allowance while they held the lock.
#[test]
fn an_end_that_was_told_before_the_clock_drifted_is_no_moment_that_is_known() {
    let drifts = |tape: Tape, client| tape.struck(Fault::Drift, client, 150);
    assert_eq!(outcome(drifts(held(), 1).begins(1, 200)), Held);
    assert_eq!(outcome(drifts(held(), 2).begins(1, 200)), Violated, "another's clock");
    let told = drifts(held(), 1).valid(1, 160, 300);
    assert_eq!(outcome(told.clone().begins(1, 299)), Held);
    assert_eq!(outcome(told.begins(1, 300)), Violated, "told by the clock as it runs now");
    let earlier = drifts(held(), 1).valid(1, 160, 190).begins(1, 200);
    assert_eq!(outcome(earlier), Held, "an earlier end changes nothing");
    let lost = |tape: Tape| outcome(tape.resource(1).did(1, 90..95, CREATE).lost(1, 199));
    assert_eq!((lost(held()), lost(drifts(held(), 1))), (Violated, Held));
    let extend = Intent { touch: Touch::Extend(200), compares: true };
    let renewed = |from_ns| {
        let tape = held().resource(1).did(1, 90..95, CREATE).did(1, from_ns..from_ns + 5, extend);
        outcome(drifts(tape, 1).lost(1, 235))
    };
    assert_eq!(renewed(140), Violated, "half of the TTL is its own");
    assert_eq!(renewed(155), Held, "the answer may have come too late");
}

#[test]
fn a_key_that_was_found_counts_from_the_request_that_can_have_made_it() {
    let until_ns = 2 + TTL_NS - 7;
    let found = |tape: Tape, until_ns| {
        let tape = tape.resource(1).margin(7).command(1, 301..302, CREATE, Some(Touch::None));
        outcome(tape.calls(1, 303..304, "GET").hold(1, 1, 304..400).valid(1, 304, until_ns))
    };
    let lost = || Tape::tracked().command(1, 2..300, CREATE, None);
    assert_eq!((found(lost(), until_ns), found(lost(), until_ns + 1)), (Held, Violated));
    let again = lost().sends(1, 3, CREATE);
    assert_eq!(found(again, until_ns + 1), Held, "the later one may have made it");
    let refused = lost().refused_command(1, 3..4, CREATE);
    assert_eq!(found(refused, until_ns + 1), Violated, "it made nothing");
    // A clean-up behind the first was sent while the second was under way, which has made the key.
    let cleaned = lost().did(1, 290..309, CREATE).command(1, 300..310, DELETE, Some(Touch::None));
    let cleaned = cleaned.command(1, 309..310, DELETE, Some(Touch::None));
    let cleaned = cleaned.resource(1).margin(7).hold(1, 1, 311..400);
    let made_ns = 290 + TTL_NS - 7;
    assert_eq!(outcome(cleaned.clone().valid(1, 311, made_ns)), Held);
    assert_eq!(outcome(cleaned.valid(1, 311, made_ns + 1)), Violated);
    assert_eq!(found(lost().did(2, 200..210, HAND_ON), until_ns + 1), Held, "it was handed on");
    let nobody = lost().command(2, 200..210, HAND_ON, Some(Touch::None));
    assert_eq!(found(nobody, until_ns + 1), Violated, "there was nobody in line");
}

#[test]
fn a_key_that_was_handed_on_counts_from_the_last_command_that_can_have_done_so() {
    // Client 1 is told at 5,000 that it has been handed the lock.
    let told = |tape: Tape, until_ns| {
        let tape = tape.resource(1).margin(7).command(1, 10..20, CREATE, Some(Touch::None));
        outcome(tape.hold(1, 1, 5_000..5_100).valid(1, 5_000, until_ns))
    };
    let by = |end_ns| Tape::tracked().did(2, end_ns - 90..end_ns, HAND_ON);
    let most = |end_ns| end_ns + SERVER_TIME_NS + TTL_NS - 7;
    let both = |tape: Tape, most_ns| (told(tape.clone(), most_ns), told(tape, most_ns + 1));
    let (now_ns, bounded) = (most(5_000 - SERVER_TIME_NS), (Held, Violated));
    // What the lock believes that counts from the message.
    assert_eq!(told(by(3_900), now_ns), Violated);
    assert_eq!(both(by(3_900), most(3_900)), bounded);
    assert_eq!(both(by(3_900).did(3, 3_910..3_950, HAND_ON), most(3_950)), bounded, "the last");
    assert_eq!(both(by(4_500), now_ns), bounded, "before it was told");
    let nothing = by(3_900).command(3, 3_910..3_950, HAND_ON, Some(Touch::None));
    assert_eq!(both(nothing, most(3_900)), bounded, "found another's key");
    let refused = by(3_900).refused_command(3, 3_910..3_950, HAND_ON);
    assert_eq!(both(refused, most(3_900)), bounded, "did nothing");
    let unanswered = by(3_900).command(3, 3_910..3_950, HAND_ON, None);
    assert_eq!(both(unanswered, now_ns), bounded, "may be the one");
    assert_eq!(both(by(3_900).sends(3, 3_910, HAND_ON), now_ns), bounded, "under way");
    let asked = by(3_900).sends(1, 4_950, CREATE);
    assert_eq!(both(asked, 4_950 + TTL_NS - 7), bounded, "its own request may have made it");
    // It asked, left the line before it was answered, and came back.
    let left = by(3_900).command(1, 1..5, CREATE, Some(Touch::None)).did(1, 30..70, CREATE);
    assert_eq!(both(left.did(1, 40..80, DELETE), most(3_900)), bounded, "that key is gone");
    // The same, and nothing had been answered before: a false alarm.
    let left = by(3_900).did(1, 1..70, CREATE).did(1, 5..80, DELETE);
    assert_eq!(both(left, most(3_900)), bounded, "that key is gone, too");
    let struck = |fault, client| told(by(3_900).struck(fault, client, 100), now_ns);
    assert_eq!(struck(Fault::ClockStep, 0), Held, "by the server's clock it may be right");
    assert_eq!(struck(Fault::Failover, 0), Held, "another server, another clock");
    assert_eq!(struck(Fault::Switchover, 0), Held, "another server, another clock");
    assert_eq!(struck(Fault::ClockStep, 1), Violated, "a wall clock of its own");
    assert_eq!(struck(Fault::Delay, 1), Violated);
}

#[test]
fn what_belongs_to_no_acquisition_is_nobodys_act() {
    assert_eq!(outcome(held().phase(0, 150, Phase::HoldBeforeWrite)), Held);
}
