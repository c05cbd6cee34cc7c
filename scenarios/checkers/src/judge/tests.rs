//! What the checkers have in common: which events they are shown, and what a run that is vacuous or was
//! cut short says.

use history::Declared;
use history::fault::{Fault, Whom};
use history::verdict::Outcome;
use picklock::env::Phase;

use super::*;
use crate::testing::{CREATE, DELETE, Tape};

fn ownership(tape: &Tape) -> Outcome {
    tape.outcome("ownership")
}

/// The lock's key made by 1, and deleted by 2 with a value of its own, of which the creation was sent
/// before.
fn deleted_by_another(tape: Tape) -> Tape {
    tape.did(1, 100..110, CREATE).did(2, 400..410, DELETE)
}

#[test]
fn a_command_that_was_refused_did_nothing_and_one_without_an_answer_may_have() {
    let unanswered = deleted_by_another(Tape::new().command(1, 200..210, DELETE, None));
    assert_eq!(ownership(&unanswered.command(2, 220..230, CREATE, None)), Outcome::Held);
    let refused = deleted_by_another(Tape::new().refused_command(1, 200..210, DELETE));
    let refused = refused.command(2, 220..230, CREATE, None);
    assert_eq!(ownership(&refused), Outcome::Violated, "the release surely was not carried out");
}

#[test]
fn what_has_ended_is_no_longer_kept() {
    let ends = [
        Tape::new().did(1, 100..110, CREATE),
        Tape::new().command(1, 100..110, CREATE, None),
        Tape::new().refused_command(1, 100..110, CREATE),
    ];
    for history in ends.map(|tape| tape.history()) {
        let mut checkers = Checkers::new(&history.head);
        history.events.iter().for_each(|event| checkers.see(event, &history.texts));
        assert_eq!(checkers.commands.end(&history.texts).unended, []);
    }
}

#[test]
fn only_a_servers_clock_that_jumps_excuses() {
    // From a jump on the first hold may be over, and 2 may have had one of its own.
    let tape = |fault, client| {
        let tape = deleted_by_another(Tape::new().struck(fault, client, 200));
        ownership(&tape.command(2, 220..230, CREATE, None))
    };
    assert_eq!(tape(Fault::ClockStep, 0), Outcome::Held);
    assert_eq!(tape(Fault::ClockStep, 1), Outcome::Violated, "a client's own clock");
    assert_eq!(tape(Fault::Drift, 0), Outcome::Violated, "no jump");
}

#[test]
fn a_phase_is_shown_to_whom_it_concerns() {
    let tape = Tape::tracked().with(|it| it.exact = true).hold(1, 1, 100..400).valid(1, 99, 200);
    let tape = tape.phase(1, 200, Phase::HoldBeforeWrite);
    assert_eq!(tape.outcome("lease-validity"), Outcome::Violated);
}

/// Two clients that contend, on a pool of which nobody took anything.
fn contended() -> Tape {
    let tape = Tape::new().did(1, 100..110, CREATE).hold(1, 1, 110..200);
    tape.refused(2, 2, 120..150).did(1, 200..205, DELETE).pool_left(10).probe(300, -1)
}

fn outcome_in(findings: &[Finding], name: &str) -> Outcome {
    findings.iter().find(|it| it.name == name).expect("an invariant of this name").verdict.outcome()
}

#[test]
fn what_a_run_cut_short_has_not_done_yet_is_not_missed() {
    let again = contended().phase(2, 125, Phase::AcquireBeforeSend);
    let again = again.phase(2, 130, Phase::AcquireBeforeSend).hold(3, 3, 150..180);
    let history = again.with(|it| it.attempts_most = Some(1)).history();
    let named = |complete, name: &str| outcome_in(&judge(&history, complete), name);
    assert_eq!(named(true, "ownership"), Outcome::Held);
    assert_eq!(named(true, "deadlock-freedom"), Outcome::Violated);
    assert_eq!(named(true, "mutual-exclusion"), Outcome::Violated);
    assert_eq!(named(true, "lease-validity"), Outcome::NotApplicable);
    assert_eq!(named(false, "ownership"), Outcome::Inconclusive);
    assert_eq!(named(false, "deadlock-freedom"), Outcome::Inconclusive, "it may still go");
    assert_eq!(named(false, "mutual-exclusion"), Outcome::Violated, "what was done stays done");
    assert_eq!(named(false, "attempts"), Outcome::Violated, "of the clients' progress, too");
    assert_eq!(named(false, "lease-validity"), Outcome::NotApplicable);
}

#[test]
fn a_vacuous_run_holds_nothing_and_violates_what_it_violates() {
    let alone = Tape::new().did(1, 100..110, CREATE).hold(1, 1, 110..200).probe(300, -1).history();
    let named = |name: &str| outcome_in(&judge(&alone, true), name);
    assert_eq!(named("ownership"), Outcome::Inconclusive);
    assert_eq!(named("deadlock-freedom"), Outcome::Violated);
}

#[test]
fn acquisitions_that_were_begun_count_and_nothing_else_does() {
    let held = |acquisitions, staged: Vec<Declared>| {
        let mut history = contended().history();
        (history.head.acquisitions, history.head.staged) = (Some(acquisitions), staged);
        outcome_in(&judge(&history, true), "ownership") == Outcome::Held
    };
    assert!(held(2, Vec::new()));
    assert!(!held(3, Vec::new()), "two acquisitions were begun");
    let staged =
        Declared { kind: Fault::Pause, on: Whom::Holder, in_hold: true, subscribes: false };
    assert!(!held(2, vec![staged]), "it never struck");
}

#[test]
fn a_check_tells_the_story_of_every_violation() {
    let mut tape = deleted_by_another(contended());
    tape = tape.hold(3, 3, 150..180);
    let history = tape.history();
    let (judged, checked) = (judge(&history, true), check(&history, true));
    let steps = |findings: &[Finding], name: &str| {
        let found = findings.iter().find(|it| it.name == name).expect("an invariant");
        let Verdict::Violated(witness) = &found.verdict else { panic!("{found:?}") };
        witness.steps.len()
    };
    assert_eq!(judged.len(), checked.len());
    assert_eq!(steps(&judged, "mutual-exclusion"), 0);
    assert!(steps(&checked, "mutual-exclusion") >= 8, "all that 1 and 3 did");
    let peaceful = contended().history();
    assert_eq!(judge(&peaceful, true).len(), check(&peaceful, true).len());
}
