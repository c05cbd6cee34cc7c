//! What a server's fault met, by hand.

use history::fault::Whom;
use history::verdict::{Level, Vacuous, Verdict};
use history::{Declared, History, Intent};

use super::*;
use crate::judge;
use crate::testing::{CREATE, DELETE, Tape};

const LOOK: Intent = Intent { touch: Touch::None, compares: false };

/// Client 1 has the lock from 110 to 400.
fn held() -> Tape {
    Tape::new().did(1, 100..108, CREATE).hold(1, 1, 110..400).did(1, 401..403, DELETE)
}

/// Client 2 asks within this span, in vain.
fn asked(tape: Tape, span: std::ops::Range<u64>) -> Tape {
    let end = span.end + 1;
    tape.refused(2, 2, 50..end.max(51)).command(2, span, CREATE, Some(Touch::None))
}

/// With a clock that is staged to jump at work, and does so at this time.
fn jumped(tape: &Tape, at_ns: u64, in_hold: bool) -> History {
    let mut history = tape.clone().pool_left(10).probe(900, -2).history();
    let kind = Fault::ClockStep;
    history.head.staged =
        vec![Declared { kind, on: Whom::Primary, in_hold: true, subscribes: false }];
    let what = What::Fault { fault: kind, node: Some(0), for_ns: 9, in_hold, staged: Some(0) };
    history.events.push(Event { at_ns, client: 0, acquisition: 0, op: 0, what });
    history.events.sort_by_key(|event| event.at_ns);
    history
}

/// Why such a run shows nothing of belief, if so.
fn missing(history: &History) -> Option<Vacuous> {
    let findings = judge(history, true);
    let belief = findings.into_iter().find(|it| it.name == "mutual-exclusion").unwrap();
    match belief.verdict {
        Verdict::Vacuous(missing) => Some(missing),
        Verdict::Held => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fault_is_put_to_the_test_by_who_asks_between_it_and_the_end_of_the_hold() {
    let at = |span| missing(&jumped(&asked(held(), span), 200, true));
    assert_eq!(at(201..399), None);
    assert_eq!(at(200..210), None, "sent at the same time, behind it");
    let nobody = Some(Vacuous::NobodyAsked(Fault::ClockStep));
    assert_eq!(at(150..199), nobody, "it was carried out before");
    assert_eq!(at(199..210), nobody, "it may have been");
    assert_eq!(at(390..405), nobody, "it may have been carried out after the release");
    assert_eq!(missing(&jumped(&held().refused(2, 2, 50..300), 200, true)), nobody);
}

#[test]
fn who_is_granted_the_lock_has_asked_whenever_it_did() {
    // It found the key gone: that can only be after the jump.
    // Whoever made the key and was refused all the same has had its answer.
    let tape = held().refused(2, 2, 50..320).did(2, 190..210, CREATE);
    assert_eq!(missing(&jumped(&tape, 200, true)), None);
    let nobody = Some(Vacuous::NobodyAsked(Fault::ClockStep));
    let late = held().refused(2, 2, 50..420).did(2, 190..210, CREATE);
    assert_eq!(
        missing(&jumped(&late, 200, true)),
        nobody,
        "it had its answer when the hold was over"
    );
    // The key that others find is not the first one's any more.
    let others = late.refused(3, 3, 50..320).command(3, 250..260, CREATE, Some(Touch::None));
    assert_eq!(missing(&jumped(&others, 200, true)), nobody);
}

#[test]
fn work_that_begins_when_the_first_has_written_shows_nothing_of_the_resource() {
    let effect = |began: u64, read: std::ops::Range<u64>| {
        let tape =
            Tape::register().did(1, 100..108, CREATE).hold(1, 1, 110..400).did(2, 205..210, CREATE);
        let tape = tape.update(1, 120..390, 0, None).phase(1, 380, Phase::HoldBeforeWrite);
        let tape = tape.hold(2, 2, began..900).update(2, began..880, 1, None);
        let tape = tape.to(1, "register").did(2, read, LOOK).resource(1);
        let mut history = jumped(&tape.register_left(2), 200, true);
        history.head.clients = 2;
        let findings = judge(&history, true);
        findings.into_iter().filter(|it| it.level == Level::Effect).find_map(|it| {
            match it.verdict {
                Verdict::Vacuous(missing) => Some(missing),
                _ => None,
            }
        })
    };
    let later = Some(Vacuous::WorkedLater(Fault::ClockStep));
    assert_eq!(effect(220, 230..379), None, "it read before the first wrote");
    assert_eq!(effect(220, 230..381), later);
    assert_eq!(effect(390, 391..395), later, "it had the lock only then");
    let alone = Some(Vacuous::NobodyContended);
    assert_eq!(effect(500, 505..510), alone, "nobody had it beside the first");
}

#[test]
fn a_look_that_makes_nothing_is_a_question_too_and_ones_own_is_none() {
    let tape = |acquisition, intent| {
        held().refused(2, 2, 50..320).command(acquisition, 250..260, intent, Some(Touch::None))
    };
    assert_eq!(missing(&jumped(&tape(2, LOOK), 200, true)), None);
    let nobody = Some(Vacuous::NobodyAsked(Fault::ClockStep));
    assert_eq!(missing(&jumped(&tape(1, LOOK), 200, true)), nobody);
    assert_eq!(
        missing(&jumped(&tape(2, DELETE), 200, true)),
        nobody,
        "a clean-up asks for nothing"
    );
}

#[test]
fn a_fault_that_comes_when_the_hold_is_over_has_met_none() {
    let none = Some(Vacuous::MetNoHold(Fault::ClockStep));
    let asked = asked(held(), 450..460);
    assert_eq!(missing(&jumped(&asked, 440, true)), none, "the hold was over by then");
    assert_eq!(missing(&jumped(&asked, 440, false)), none);
    assert_eq!(missing(&jumped(&asked, 200, false)), none, "the next primary knew of it");
}

#[test]
fn where_two_have_the_lock_already_nobody_has_to_ask() {
    let mut history = jumped(&held().hold(2, 2, 150..300), 200, true);
    assert_eq!(judge(&history, true)[0].verdict, Verdict::Held);
    history = jumped(&held().refused(2, 2, 150..199).hold(3, 3, 405..500), 200, true);
    let nobody = Verdict::Vacuous(Vacuous::NobodyAsked(Fault::ClockStep));
    assert_eq!(judge(&history, true)[0].verdict, nobody);
}

#[test]
fn without_a_server_s_fault_in_a_hold_nothing_is_kept() {
    let mut history = jumped(&held().refused(2, 2, 50..300), 200, true);
    assert!(Exposure::new(&history.head).is_some());
    history.head.staged[0].in_hold = false;
    assert!(Exposure::new(&history.head).is_none());
    assert_eq!(missing(&history), None);
}
