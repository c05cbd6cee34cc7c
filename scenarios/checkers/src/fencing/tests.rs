//! Tokens that rise, fall and come back, on both sides of what is certain.

use history::fault::Fault;
use history::verdict::Outcome::{Held, NotApplicable, Violated};
use history::verdict::{Outcome, Witness};
use history::{Intent, Touch};

use super::*;
use crate::testing::{CREATE, DELETE, Tape};

fn outcome(tape: Tape) -> Outcome {
    tape.outcome("rising-tokens")
}

fn witness(tape: Tape) -> Witness {
    tape.witness("rising-tokens")
}

/// Client 1 has had the lock with token 7, from 100 on.
fn first() -> Tape {
    Tape::new().hold(1, 1, 100..200).fence(1, 99, 7)
}

/// Then it is client 2's, that began to want it at this time, with this token.
fn then(from_ns: u64, token: u64) -> Tape {
    first().waited(2, 2, from_ns..300).fence(2, 299, token)
}

#[test]
fn who_begins_after_another_has_it_has_the_greater_token() {
    assert_eq!(outcome(then(101, 8)), Held);
    assert_eq!(outcome(then(101, 6)), Violated);
    assert_eq!(outcome(then(99, 6)), Held, "it may have been first");
    assert_eq!(outcome(Tape::new().hold(1, 1, 100..200)), NotApplicable);
    assert_eq!(outcome(then(101, u64::MAX)), Held);
}

#[test]
fn a_token_may_be_told_after_the_lock() {
    let one = |token| Tape::new().hold(1, 1, 100..200).fence(1, 100, token);
    let two = |told_ns, token| one(7).hold(2, 2, 300..400).fence(2, told_ns, token);
    assert_eq!(outcome(two(300, 8)), Held);
    assert_eq!(outcome(two(300, 6)), Violated);
    assert_eq!(outcome(two(350, 6)), Violated);
    assert_eq!(witness(two(300, 6)).clients, [1, 2]);
}

#[test]
fn no_two_have_the_same_whenever_they_began() {
    assert_eq!(outcome(then(101, 7)), Violated);
    assert_eq!(outcome(then(50, 7)), Violated);
    assert_eq!(outcome(first().fence(1, 150, 7)), Held, "the same is told twice");
    assert_eq!(witness(then(50, 7)).occurrences, 1);
    assert_eq!(witness(then(101, 7)).occurrences, 1, "the same is no fall besides");
    let refused = first().refused(2, 2, 90..300).fence(2, 299, 7);
    assert_eq!(outcome(refused), Violated, "though it came too late to be used");
}

#[test]
fn what_is_sent_after_another_has_it_is_as_good_as_beginning_then() {
    let sent = |from_ns| then(50, 6).did(2, from_ns..280, CREATE);
    assert_eq!(outcome(sent(101)), Violated);
    assert_eq!(outcome(sent(99)), Held);
    let before = |answered| then(50, 6).command(2, 60..70, CREATE, answered);
    let after = |tape: Tape| outcome(tape.did(2, 150..280, CREATE));
    assert_eq!(after(before(Some(Touch::None))), Violated, "that made no key");
    assert_eq!(after(before(Some(CREATE.touch))), Held, "this may be its lock");
    assert_eq!(after(before(None)), Held, "or this");
    assert_eq!(after(then(50, 6).refused_command(2, 60..70, CREATE)), Violated);
    assert_eq!(after(then(50, 6).did(2, 60..70, DELETE)), Violated, "nor does that make any");
    let late = then(50, 6).command(2, 150..160, CREATE, None);
    assert_eq!(outcome(late.command(2, 60..170, CREATE, None)), Held, "in any order");
    // The one that was sent first counts, whoever is answered first.
    let both = then(50, 6).did(2, 60..270, CREATE).did(2, 150..160, CREATE);
    assert_eq!(outcome(both), Held);
    let unended = then(50, 6).sends(2, 60, CREATE).did(2, 150..280, CREATE);
    assert_eq!(outcome(unended), Held, "it has no answer yet");
    let script = Intent { touch: Touch::Unknown, compares: false };
    let scripted = then(50, 6).did(2, 60..170, script).did(2, 150..280, CREATE);
    assert_eq!(outcome(scripted), Held, "a script may have made it");
    let elsewhere = then(50, 6).to(0, "other").did(2, 150..280, CREATE);
    assert_eq!(outcome(elsewhere), Held, "not the lock's key");
}

#[test]
fn what_was_not_answered_with_yes_binds_nobody() {
    let unknown = Tape::new().unknown(1, 1, 90..100).fence(1, 99, 7);
    assert_eq!(outcome(unknown.waited(2, 2, 150..300).fence(2, 299, 6)), Held);
    let refused = first().refused(2, 2, 150..300).fence(2, 299, 6);
    assert_eq!(outcome(refused), Held, "nor is it bound");
    let tokenless = first().waited(2, 2, 150..300).waited(3, 3, 310..400).fence(3, 399, 8);
    assert_eq!(outcome(tokenless), Held);
    // The greatest counts, not the last.
    let three = first().waited(2, 2, 50..300).fence(2, 299, 5).waited(3, 3, 310..400);
    assert_eq!(outcome(three.fence(3, 399, 6)), Violated);
}

#[test]
fn the_first_is_told_and_all_are_counted() {
    let tape = then(150, 5).waited(3, 3, 310..400).fence(3, 399, 6);
    let told = witness(tape);
    assert_eq!((told.occurrences, &told.clients), (2, &vec![1, 2]));
    let says = "client 2 got the lock with token 5 after client 1 had got it with token 7";
    assert_eq!(told.summary, says);
    let given = |it: &&str| it.contains("fencing token");
    let steps: Vec<&str> = told.steps.iter().map(|it| it.text.as_str()).filter(given).collect();
    assert_eq!(steps, ["is given fencing token 7", "is given fencing token 5"]);
    assert_eq!(witness(then(50, 7)).summary, "client 1 and client 2 were both given token 7");
    let mut again = then(250, 7).history();
    again.events.iter_mut().filter(|it| it.client == 2).for_each(|it| it.client = 1);
    let twice = crate::check(&again, true).into_iter().find(|it| it.name == "rising-tokens");
    let Verdict::Violated(twice) = twice.unwrap().verdict else { panic!("it is not violated") };
    assert_eq!(twice.summary, "client 1 was given token 7 twice");
}

#[test]
fn a_server_that_forgot_its_counter_is_named() {
    let after = |at_ns| witness(then(150, 5).server_lost(Fault::Failover, 3, at_ns..210)).summary;
    assert!(after(100).ends_with("with token 7: in between, server 3 lost its memory"));
    assert!(after(99).ends_with("with token 7"), "that was before");
}

#[test]
fn what_has_ended_is_no_longer_kept() {
    let asked = first().did(2, 150..160, CREATE).fence(2, 170, 8);
    for tape in [
        asked.clone().waited(2, 2, 140..300),
        asked.clone().refused(2, 2, 140..300),
        asked.unknown(2, 2, 140..300),
    ] {
        let mut fencing = Fencing::default();
        tape.show_to(&mut fencing);
        assert!(fencing.asking.iter().next().is_none() && fencing.sent.iter().next().is_none());
    }
}
