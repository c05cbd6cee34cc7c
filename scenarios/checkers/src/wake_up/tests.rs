//! Good and bad histories, on both sides of each boundary.

use history::fault::{Fault, Whom};
use history::verdict::Outcome::{self, Held, Inconclusive, NotApplicable, Violated};
use history::verdict::Verdict;
use history::{Declared, Intent, Touch, What};
use picklock::env::Phase;

use super::WakeUp;
use crate::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};

const WITHIN_NS: u64 = 100;
const EXTEND: Intent = Intent { touch: Touch::Extend(TTL_NS), compares: true };
const FOR_EVER: Intent = Intent { touch: Touch::Create(None), compares: false };
const UNKNOWN: Intent = Intent { touch: Touch::Unknown, compares: true };

fn verdict(tape: &Tape) -> Verdict {
    tape.clone().with(|it| it.woken_within_ns = Some(WITHIN_NS)).finding("wake-up")
}

fn outcome(tape: &Tape) -> Outcome {
    verdict(tape).outcome()
}

/// Client 1 makes the key at 10 to 20; client 2 finds it at 30 to 40, says that it waits, and gives up
/// at that time.
fn waits_until(end_ns: u64) -> Tape {
    let tape = Tape::new().did(1, 10..20, CREATE).refused(2, 2, 25..end_ns);
    tape.command(2, 30..40, CREATE, Some(Touch::None)).phase(2, 41, Phase::Wait)
}

/// And client 1 deletes it at 190 to 200.
fn sleeps_until(end_ns: u64) -> Tape {
    waits_until(end_ns).did(1, 190..200, DELETE)
}

#[test]
fn a_key_that_nobody_is_known_to_have_made_is_in_the_way_all_the_same() {
    let waits = |tape: Tape| tape.phase(2, 41, Phase::Wait).refused(2, 2, 25..900);
    let found = Tape::new().command(2, 30..40, CREATE, Some(Touch::None));
    assert_eq!(outcome(&waits(found.clone())), NotApplicable, "a server has found one");
    let deleted = waits(found.clone()).did(1, 190..200, DELETE);
    assert_eq!(outcome(&deleted), Violated);
    let made = |end_ns| waits(found.clone()).did(1, 190..200, CREATE).did(1, 210..end_ns, DELETE);
    assert_eq!(outcome(&made(220)), Violated, "it had gone, and is gone again");
    let expired = waits(found.clone()).did(1, 190..200, CREATE).waited(3, 3, 30..1_400);
    assert_eq!(outcome(&expired.refused(4, 4, 30..2_000).phase(4, 41, Phase::Wait)), Violated);
    let refused = Tape::new().refused_command(2, 30..40, CREATE);
    assert_eq!(outcome(&waits(refused)), Violated, "it has not even looked");
    let beside = found.clone().refused_command(3, 35..45, CREATE);
    assert_eq!(outcome(&waits(beside)), NotApplicable, "what was under way made nothing");
    let another = Tape::new().waited(1, 1, 10..20);
    assert_eq!(outcome(&waits(another)), NotApplicable, "of keys nothing is said");
}

#[test]
fn it_is_asleep_from_the_answer_to_the_deletion() {
    assert_eq!(outcome(&sleeps_until(300)), Held);
    assert_eq!(outcome(&sleeps_until(301)), Violated);
    assert_eq!(outcome(&sleeps_until(199)), NotApplicable, "it had given up");
    let asks = |at_ns: u64| {
        let looks = sleeps_until(350).command(2, at_ns..at_ns + 5, CREATE, Some(Touch::None));
        outcome(&looks.phase(2, at_ns + 6, Phase::Wait))
    };
    assert_eq!(
        (asks(260), asks(300), asks(301)),
        (Held, Held, Violated),
        "awake it is when it asks"
    );
    assert_eq!(outcome(&sleeps_until(400).phase(2, 250, Phase::Wait)), Violated, "for 150");
    assert_eq!(outcome(&sleeps_until(350).phase(2, 250, Phase::Wait)), Held, "it moved");
    let unasked = sleeps_until(301).findings();
    assert!(unasked.iter().all(|it| it.name != "wake-up"), "only where the scenario says so");
    assert_eq!(outcome(&sleeps_until(301).with(|it| it.locks = false)), NotApplicable);
}

#[test]
fn what_was_done_before_another_was_asked_for_keeps_no_key() {
    let extends = |ttl_ns| Intent { touch: Touch::Extend(ttl_ns), compares: true };
    let sleeps = |sent_ns, end_ns| {
        let tape = waits_until(end_ns).did(1, 50..60, extends(TTL_NS));
        let tape = tape.did(1, 55..75, extends(10));
        outcome(&tape.did(1, sent_ns..80, extends(20)))
    };
    assert_eq!((sleeps(60, 200), sleeps(60, 201)), (Held, Violated), "it is gone at 100");
    assert_eq!(sleeps(59, 201), NotApplicable, "the longest may have been the last");
}

/// A false alarm: of two that overlap, the later one may have been the first.
#[test]
fn a_key_that_a_deletion_found_is_there_until_then_at_most() {
    let extends = |ttl_ns| Intent { touch: Touch::Extend(ttl_ns), compares: true };
    let sleeps = |ttl_ns, end_ns| {
        let tape = waits_until(end_ns).did(1, 30..40, extends(ttl_ns)).did(1, 35..55, extends(5));
        outcome(&tape.did(1, 50..90, DELETE))
    };
    assert_eq!(
        (sleeps(TTL_NS, 190), sleeps(TTL_NS, 191)),
        (Held, Violated),
        "until it was answered"
    );
    assert_eq!((sleeps(40, 180), sleeps(40, 181)), (Held, Violated), "until its TTL was over");
}

#[test]
fn what_a_busy_machine_may_have_held_up_is_inconclusive() {
    let sleeps = |end_ns| outcome(&sleeps_until(end_ns).with(|it| it.late_ns = Some(2)));
    assert_eq!((sleeps(300), sleeps(340), sleeps(341)), (Held, Inconclusive, Violated));
}

#[test]
fn what_is_not_promised_is_not_held_against_the_lock() {
    let sleeps = |end_ns, promise| outcome(&sleeps_until(end_ns).promising(promise));
    assert_eq!(sleeps(300, Some(150)), Held, "it has done what was asked");
    assert_eq!(sleeps(301, Some(150)), NotApplicable);
    assert_eq!(sleeps(350, Some(150)), NotApplicable);
    assert_eq!(sleeps(351, Some(150)), Violated, "nor what was promised");
    assert_eq!(sleeps(4_000, None), NotApplicable);
}

#[test]
fn who_has_not_said_so_or_waits_for_an_answer_is_not_asleep() {
    let silent = Tape::new().did(1, 10..20, CREATE).refused(2, 2, 25..900);
    let silent = silent.command(2, 30..40, CREATE, Some(Touch::None)).did(1, 190..200, DELETE);
    assert_eq!(outcome(&silent), NotApplicable, "it may be on its way to the server");
    let tries = sleeps_until(900).phase(2, 180, Phase::AcquireBeforeSend);
    assert_eq!(outcome(&tries), NotApplicable);
    let asks = sleeps_until(900).to(0, "elsewhere").command(2, 150..880, UNKNOWN, None);
    assert_eq!(outcome(&asks), Held, "asleep for 20 only");
    let asks = sleeps_until(982).to(0, "elsewhere").command(2, 150..880, UNKNOWN, None);
    assert_eq!(outcome(&asks), Violated, "and for 102");
}

#[test]
fn the_lock_is_free_until_it_might_be_made() {
    // Somebody asks at 280, and is told no at 290.
    let asks = |answered| sleeps_until(391).command(3, 280..290, CREATE, answered);
    assert_eq!(outcome(&asks(Some(Touch::None))), Violated, "101 from 290");
    assert_eq!(outcome(&sleeps_until(390).command(3, 280..290, CREATE, Some(Touch::None))), Held);
    assert_eq!(outcome(&asks(Some(CREATE.touch))), Held, "somebody has it");
    assert_eq!(outcome(&asks(None)), Held, "somebody may have it, now or later");
    let meanwhile = sleeps_until(400).command(3, 180..600, CREATE, Some(Touch::None));
    assert_eq!(outcome(&meanwhile), NotApplicable, "nobody knew yet whether it was free");
    let refused = sleeps_until(391).refused_command(3, 280..290, CREATE);
    assert_eq!(outcome(&refused), Violated, "a refused command has made nothing");
    let late = sleeps_until(400).command(3, 301..310, CREATE, Some(CREATE.touch));
    assert_eq!(outcome(&late), Violated, "it had slept for 101 by then");
    let other_key = sleeps_until(301).to(0, "elsewhere").did(3, 280..290, CREATE);
    assert_eq!(outcome(&other_key), Violated);
    let resource = sleeps_until(301).resource(7).to(7, LOCK).did(3, 280..290, CREATE);
    assert_eq!(outcome(&resource), Violated);
    assert_eq!(
        outcome(&sleeps_until(900).did(3, 150..160, UNKNOWN).did(3, 165..170, UNKNOWN)),
        Violated
    );
    let handed_over = waits_until(900).did(1, 190..200, UNKNOWN);
    assert_eq!(outcome(&handed_over), NotApplicable, "nobody knows whose it is");
}

#[test]
fn what_was_made_behind_a_deletion_is_there() {
    // Made while the answer to the deletion was on its way.
    let behind = sleeps_until(900).did(3, 192..197, CREATE);
    assert_eq!(outcome(&behind), NotApplicable);
    let before = sleeps_until(301).did(3, 185..190, CREATE);
    assert_eq!(outcome(&before), Violated, "what was there before has been deleted");
    let open = sleeps_until(900).command(3, 180..600, CREATE, Some(Touch::None));
    assert_eq!(outcome(&open), Violated, "from 600 on");
    let open = sleeps_until(700).command(3, 180..600, CREATE, Some(Touch::None));
    assert_eq!(outcome(&open), Held);
}

#[test]
fn a_key_that_nobody_deletes_is_gone_when_its_ttl_surely_is_over() {
    let gone_ns = 20 + TTL_NS;
    assert_eq!(outcome(&waits_until(gone_ns + WITHIN_NS)), Held);
    assert_eq!(outcome(&waits_until(gone_ns + WITHIN_NS + 1)), Violated);
    assert_eq!(outcome(&waits_until(gone_ns + WITHIN_NS + 7).margin(7)), Held);
    assert_eq!(outcome(&waits_until(gone_ns + WITHIN_NS + 8).margin(7)), Violated);
    let extended = |end_ns| waits_until(end_ns).did(1, 490..500, EXTEND);
    assert_eq!(outcome(&extended(500 + TTL_NS + WITHIN_NS)), Held);
    assert_eq!(outcome(&extended(500 + TTL_NS + WITHIN_NS + 1)), Violated);
    for touch in [Touch::Extend(50), Touch::Overwrite(Some(50))] {
        let shorter = |end_ns, from_ns| {
            let intent = Intent { touch, compares: true };
            outcome(&waits_until(end_ns).did(1, from_ns..60, intent))
        };
        assert_eq!((shorter(110 + WITHIN_NS, 50), shorter(111 + WITHIN_NS, 50)), (Held, Violated));
        assert_eq!(shorter(111 + WITHIN_NS, 19), NotApplicable, "the longer one may be the last");
    }
    let lost = waits_until(gone_ns + WITHIN_NS + 1).command(1, 190..200, DELETE, None);
    assert_eq!(outcome(&lost), Violated, "a deletion without an answer makes nothing");
    let immortal = waits_until(9_000).did(1, 21..22, FOR_EVER);
    assert_eq!(outcome(&immortal), NotApplicable);
    assert_eq!(outcome(&waits_until(9_000).stamped()), NotApplicable, "its key stays");
    let extended = waits_until(9_000).stamped().did(1, 50..60, EXTEND);
    assert_eq!(outcome(&extended), NotApplicable, "for as long as its value says");
}

#[test]
fn a_lock_on_several_servers_is_free_when_it_is_free_on_all() {
    let two = |end_ns| sleeps_until(end_ns).to(1, LOCK).did(1, 11..21, CREATE);
    assert_eq!(outcome(&two(900)), NotApplicable);
    assert_eq!(outcome(&two(500).did(1, 390..400, DELETE)), Held);
    assert_eq!(outcome(&two(501).did(1, 390..400, DELETE)), Violated);
}

#[test]
fn who_stands_still_is_not_asleep_until_it_moves() {
    let stopped = sleeps_until(900).struck_for(Fault::Pause, 2, 150..160);
    assert_eq!(outcome(&stopped), NotApplicable, "nobody knows when it could move again");
    let asleep_before = sleeps_until(900).struck_for(Fault::Pause, 2, 301..310);
    assert_eq!(outcome(&asleep_before), Violated);
    let moves = |at_ns| stopped.clone().phase(2, at_ns, Phase::Wait);
    assert_eq!((outcome(&moves(800)), outcome(&moves(799))), (Held, Violated));
    let other = sleeps_until(301).struck_for(Fault::Pause, 3, 150..160);
    assert_eq!(outcome(&other), Violated);
    let once = sleeps_until(301).struck_for(Fault::Pause, 2, 5..6);
    assert_eq!(outcome(&once), Violated, "it has gone on since");
}

#[test]
fn who_may_not_have_been_told_is_excused() {
    let faults = [Fault::Reset, Fault::Delay, Fault::LoseReply, Fault::Partition, Fault::Drift];
    for fault in faults {
        let now = sleeps_until(900).struck(fault, 2, 150);
        assert_eq!(outcome(&now), NotApplicable, "{fault:?}");
        let before = sleeps_until(900).struck(fault, 2, 10);
        assert_eq!(outcome(&before), NotApplicable, "{fault:?}, and later");
        let other = sleeps_until(301).struck(fault, 3, 150);
        assert_eq!(outcome(&other), Violated, "{fault:?} of another");
        let too_late = sleeps_until(900).struck(fault, 2, 302);
        assert_eq!(outcome(&too_late), Violated, "{fault:?}");
    }
    assert_eq!(outcome(&sleeps_until(900).crash(2, 250)), Held, "the dead are not asleep");
    assert_eq!(outcome(&sleeps_until(301).crash(3, 150)), Violated, "another's death");
    let all = |span| sleeps_until(900).struck_for(Fault::Partition, 0, span);
    assert_eq!(outcome(&all(150..160)), NotApplicable);
    assert_eq!(outcome(&all(10..25)), NotApplicable, "it had begun by then");
    assert_eq!(outcome(&all(10..24)), Violated);
}

#[test]
fn a_late_subscription_excuses_for_twice_its_delay() {
    let sleeps = |fault, subscribes, client, for_ns: u64, end_ns| {
        let declared = Declared { kind: fault, on: Whom::Any, in_hold: false, subscribes };
        let tape = sleeps_until(end_ns).struck_for(fault, client, 42..42 + for_ns);
        let mut history = tape.with(|it| it.staged = vec![declared]).history();
        for event in &mut history.events {
            if let What::Fault { staged, .. } = &mut event.what {
                *staged = Some(0);
            }
        }
        let mut checker = WakeUp { within_ns: WITHIN_NS, ..WakeUp::default() };
        crate::random::verdict(&history, &mut checker).outcome()
    };
    let late = |end_ns| sleeps(Fault::Delay, true, 2, 150, end_ns);
    assert_eq!((late(342), late(442), late(443)), (NotApplicable, Held, Violated));
    assert_eq!(sleeps(Fault::Delay, true, 2, 10, 300), Held, "before the lock was free");
    assert_eq!(sleeps(Fault::Delay, true, 2, 10, 301), Violated);
    assert_eq!(sleeps(Fault::Delay, false, 2, 10, 900), NotApplicable, "another request");
    assert_eq!(sleeps(Fault::Delay, true, 2, 0, 900), NotApplicable, "nobody knows how late");
    assert_eq!(sleeps(Fault::LoseReply, true, 2, 10, 900), NotApplicable, "and all behind it");
    assert_eq!(sleeps(Fault::Delay, true, 0, 10, 900), NotApplicable, "whosever it is");
    let drawn = sleeps_until(900).struck_for(Fault::Delay, 2, 42..52);
    assert_eq!(outcome(&drawn), NotApplicable, "of any message");
}

#[test]
fn a_server_that_forgets_or_whose_clock_jumps_has_a_lock_that_nobody_knows() {
    let later = |tape: Tape| {
        let again = tape.refused(4, 4, 500..900).command(4, 510..520, CREATE, Some(Touch::None));
        outcome(&again.phase(4, 521, Phase::Wait))
    };
    assert_eq!(later(sleeps_until(250)), Violated);
    assert_eq!(later(sleeps_until(250).server_lost(Fault::Failover, 0, 300..310)), Held);
    assert_eq!(later(sleeps_until(250).struck(Fault::ClockStep, 0, 300)), Held);
    assert_eq!(later(sleeps_until(250).struck_for(Fault::Partition, 0, 300..310)), Violated);
}

#[test]
fn the_witness_tells_the_longest_and_counts_them_all() {
    // Free from 200 to 600; two sleep, one of them seen twice, and a third for as long as is allowed.
    let tape = sleeps_until(550).refused(4, 4, 50..700).refused(5, 5, 50..300);
    let tape = tape.phase(4, 60, Phase::Wait).phase(5, 60, Phase::Wait);
    let tape = tape.command(3, 600..610, CREATE, Some(Touch::None));
    let Verdict::Violated(witness) = verdict(&tape) else { panic!("not violated") };
    assert_eq!((witness.occurrences, &witness.clients[..]), (2, &[4, 1][..]));
    assert!(
        witness.summary.contains("client 4 waited, and slept for 400 ns while the lock was free")
    );
    assert!(witness.summary.contains("100 ns is what"), "{}", witness.summary);
    let slept =
        |text: &str| witness.steps.iter().find(|it| it.text.starts_with(text)).unwrap().at_ns;
    assert_eq!((slept("sleeps"), slept("wakes up")), (200, 600));
}

#[test]
fn of_two_that_sleep_equally_long_the_witness_names_the_first() {
    let tape = sleeps_until(550).refused(4, 4, 50..551).phase(4, 60, Phase::Wait);
    let Verdict::Violated(witness) = verdict(&tape.command(3, 500..510, CREATE, Some(Touch::None)))
    else {
        panic!("not violated")
    };
    assert_eq!((witness.occurrences, &witness.clients[..]), (2, &[2, 1][..]));
}

#[test]
fn who_sleeps_through_several_times_is_counted_once() {
    let tape = sleeps_until(900).refused(4, 4, 50..901).phase(4, 60, Phase::Wait);
    let looks = |tape: Tape, at_ns| tape.command(3, at_ns..at_ns + 5, CREATE, Some(Touch::None));
    let Verdict::Violated(witness) = verdict(&looks(looks(tape, 400), 600)) else {
        panic!("not violated")
    };
    assert_eq!(witness.occurrences, 2);
}
