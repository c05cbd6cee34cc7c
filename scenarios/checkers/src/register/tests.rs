//! The register: good and bad histories by hand, and every interleaving of a few clients by force.

use history::verdict::Outcome;
use proptest::prelude::*;

use super::*;
use crate::testing::Tape;

const OF_THE_REGISTER: [&str; 3] = ["no-lost-update", "updates-accounted-for", "no-stale-write"];

fn violated(tape: &Tape) -> Vec<&'static str> {
    let mut findings = tape.findings();
    findings.retain(|it| OF_THE_REGISTER.contains(&it.name));
    assert!(!findings.is_empty());
    findings.retain(|it| it.verdict.outcome() == Outcome::Violated);
    findings.into_iter().map(|it| it.name).collect()
}

fn two(second: std::ops::Range<u64>, read: i64) -> Tape {
    Tape::register().update(1, 100..200, 0, None).update(2, second, read, None)
}

#[test]
fn one_after_the_other_is_fine_and_reading_the_same_is_not() {
    assert_eq!(violated(&two(210..300, 1).register_left(2)), [""; 0]);
    assert_eq!(
        violated(&two(150..300, 0).register_left(1)),
        ["no-lost-update", "updates-accounted-for"]
    );
    assert_eq!(violated(&two(150..300, 1).register_left(2)), [""; 0], "it read late");
}

#[test]
fn what_is_read_after_more_was_written_shows_a_loss() {
    // Another's write of unknown outcome has landed in between.
    let tape = |at| two(at, 1).update_unknown(3, 20..90, 0).update(4, 310..400, 1, None);
    assert!(violated(&tape(210..300).register_left(3)).contains(&"no-lost-update"));
    let before = two(210..300, 1).update_unknown(4, 310..400, 1).register_left(2);
    assert_eq!(violated(&before), ["no-lost-update"], "it read 1 behind 2, whatever it wrote");
    let beside = two(210..300, 1).update_unknown(4, 290..400, 1).register_left(2);
    assert_eq!(violated(&beside), [""; 0], "perhaps it read first");
}

#[test]
fn an_update_of_unknown_outcome_may_count_or_not() {
    let tape = || two(210..300, 1).update_unknown(3, 310..400, 2);
    assert_eq!(violated(&tape().register_left(2)), [""; 0]);
    assert_eq!(violated(&tape().register_left(3)), [""; 0]);
    assert_eq!(violated(&tape().register_left(1)), ["updates-accounted-for"]);
    assert_eq!(violated(&tape().register_left(4)), ["updates-accounted-for"]);
    assert_eq!(tape().outcome("updates-accounted-for"), Outcome::Inconclusive, "nobody looked");
    let read = || Tape::register().update_unknown(1, 100..200, 0).update(2, 210..300, 1, None);
    assert_eq!(violated(&read().register_left(1)), ["updates-accounted-for"], "both were written");
    assert_eq!(violated(&read().register_left(2)), [""; 0]);
}

/// A client may die while its write is under way.
#[test]
fn an_update_without_an_end_may_count_or_not() {
    let tape = || two(210..300, 1).opens(3, 310, What::Update);
    assert_eq!(violated(&tape().register_left(2)), [""; 0]);
    assert_eq!(violated(&tape().register_left(3)), [""; 0]);
    assert_eq!(violated(&tape().register_left(1)), ["updates-accounted-for"]);
    assert_eq!(violated(&tape().register_left(4)), ["updates-accounted-for"]);
    let nothing = two(210..300, 1).update_nothing(3, 310..400).register_left(3);
    assert_eq!(violated(&nothing), ["updates-accounted-for"], "this one surely wrote nothing");
}

#[test]
fn a_register_that_was_read_before_the_last_write_says_nothing_of_the_end() {
    let name = "updates-accounted-for";
    // It is read at 1,000,000.
    let before = two(210..300, 1).update(3, 310..1_000_000, 2, None).register_left(3);
    assert_eq!(before.outcome(name), Outcome::Held);
    let behind = two(210..300, 1).update(3, 310..1_000_001, 2, None).register_left(2);
    assert_eq!(behind.outcome(name), Outcome::Inconclusive);
    let unknown = two(210..300, 1).update_unknown(3, 310..1_000_001, 2).register_left(9);
    assert_eq!(unknown.outcome(name), Outcome::Inconclusive);
    let nothing = two(210..300, 1).update_nothing(3, 310..1_000_001).register_left(1);
    assert_eq!(violated(&nothing), [name], "that one wrote nothing");
}

#[test]
fn tokens_that_fall_are_found_whichever_is_told_first() {
    let tape = |one, other| {
        Tape::fenced().update(1, 100..900, 1, Some(one)).update(2, 200..300, 0, Some(other))
    };
    assert_eq!(violated(&tape(6, 5).register_left(2)), [""; 0]);
    assert_eq!(violated(&tape(5, 5).register_left(2)), [""; 0]);
    assert_eq!(violated(&tape(5, 6).register_left(2)), ["no-stale-write"]);
    let witness = tape(5, 6).witness("no-stale-write");
    assert!(witness.summary.contains("client 1's write with token 5"), "{}", witness.summary);
    let none = Tape::fenced().update(1, 100..200, 0, None);
    assert_eq!(none.outcome("no-stale-write"), Outcome::NotApplicable);
}

#[test]
fn a_greater_token_is_found_behind_writes_without_one_and_without_an_answer() {
    let first = || Tape::fenced().update(1, 100..200, 0, Some(5));
    let between = first().update(2, 210..300, 1, None);
    assert_eq!(
        violated(&between.update(3, 310..400, 2, Some(3)).register_left(3)),
        ["no-stale-write"]
    );
    let unknown = |read| {
        let update = Update { read: 1, written: 2, token: Some(9) };
        let tape = first().wrote_unknown(2, 210..300, update);
        tape.update(3, 310..400, read, Some(6)).register_left(read + 1)
    };
    assert_eq!(violated(&unknown(2)), ["no-stale-write"], "what it wrote was read");
    assert_eq!(violated(&unknown(1)), [""; 0], "it may have written nothing");
    let others = unknown(2).opens(4, 220, What::Update);
    assert_eq!(violated(&others), [""; 0], "this one may have written what was read");
}

#[test]
fn a_write_that_began_when_a_greater_token_had_been_accepted_is_stale_whatever_it_read() {
    let at = |read, token| Update { read, written: read + 1, token: Some(token) };
    let name = "no-stale-write";
    // What may write 1 once more leaves the values without an order.
    let unknown = |from| {
        let tape = Tape::fenced().wrote_unknown(1, 10..20, at(0, 5)).wrote(2, 30..40, at(0, 8));
        tape.wrote(3, from..60, at(1, 7)).outcome(name)
    };
    assert_eq!(unknown(41), Outcome::Violated);
    assert_eq!(unknown(39), Outcome::Held, "it may have been written first, and then 1 once more");
    // So does an update that was lost.
    let lost = Tape::fenced().wrote(1, 10..40, at(0, 8)).wrote(2, 20..50, at(0, 7));
    assert_eq!(lost.outcome(name), Outcome::Held);
    let found = lost.wrote(3, 60..70, at(1, 6)).witness(name);
    assert_eq!((found.clients, found.occurrences), (vec![1, 3], 1));
    let unanswered = Tape::fenced().wrote_unknown(1, 10..20, at(0, 8)).wrote(2, 30..40, at(0, 7));
    assert_eq!(unanswered.outcome(name), Outcome::Held, "the greater one may not have arrived");
}

#[test]
fn tokens_of_who_read_the_same_say_nothing_of_their_order() {
    let tape = Tape::fenced().update(1, 100..200, 0, Some(5)).update(2, 150..250, 0, Some(6));
    assert_eq!(tape.outcome("no-stale-write"), Outcome::Held);
    assert_eq!(tape.outcome("no-lost-update"), Outcome::Violated);
}

#[test]
fn tokens_say_nothing_of_values_that_the_register_may_have_gone_back_to() {
    let at = |read, token| Update { read, written: read + 1, token: Some(token) };
    // The first arrives after the third, with the token that was the greatest by then.
    let late = |first: Update| {
        let tape = Tape::fenced().wrote_unknown(1, 3..4, first).wrote(1, 5..6, at(5, 10));
        let tape = tape.wrote_unknown(1, 7..8, at(6, 10)).wrote(1, 9..10, at(7, 10));
        tape.wrote(2, 61..62, at(6, 11)).outcome("no-stale-write")
    };
    assert_eq!(late(at(5, 10)), Outcome::Held);
    // One without an answer may write once more what the third writes, or only what comes behind that.
    let twice = |unknown: Update| {
        let tape = Tape::fenced().wrote(1, 5..6, at(5, 10)).wrote_unknown(4, 60..65, unknown);
        let tape = tape.wrote(3, 7..70, at(6, 12)).wrote(2, 61..62, at(7, 11));
        tape.outcome("no-stale-write")
    };
    assert_eq!(twice(at(6, 10)), Outcome::Held, "the greatest token may have come last");
    assert_eq!(twice(at(7, 10)), Outcome::Violated);
    let unended = |begun_ns| {
        let tape = Tape::fenced().opens(3, begun_ns, What::Update).wrote(1, 5..6, at(5, 10));
        let tape = tape.wrote(1, 7..65, at(6, 12)).wrote(2, 61..62, at(7, 11));
        tape.outcome("no-stale-write")
    };
    assert_eq!(unended(3), Outcome::Held, "it may write anything");
    assert_eq!(unended(70), Outcome::Violated, "it began when all of them had been written");
}

#[test]
fn a_register_need_not_begin_at_nothing() {
    let seven = Tape::register().with(|it| it.register = Some(7)).update(1, 100..200, 7, None);
    let tape = |left| seven.clone().register_left(left);
    assert_eq!(violated(&tape(8)), [""; 0]);
    assert_eq!(violated(&tape(7)), ["updates-accounted-for"]);
    let found = tape(9).witness("updates-accounted-for");
    assert!(found.summary.starts_with("the register went up by 2, though 1 updates were written"));
    assert_eq!((found.steps[0].at_ns, found.steps.len(), found.occurrences), (1_000_000, 1, 1));
}

#[test]
fn the_first_loss_is_told_and_all_are_counted() {
    let tape = (3..6).fold(two(150..300, 0), |tape, client| {
        let from = u64::from(client) * 100 + 10;
        tape.update(client, from..from + 80, 0, None)
    });
    let found = tape.witness("no-lost-update");
    assert_eq!((found.clients, found.occurrences), (vec![1, 2], 7), "read again, and too late");
}

#[test]
fn who_wrote_the_greatest_value_first_is_told() {
    let wrote = |read| Update { read, written: 5, token: None };
    let tape = Tape::register().wrote(1, 100..200, wrote(3)).wrote(2, 150..300, wrote(4));
    let found = tape.update(3, 310..400, 1, None).witness("no-lost-update");
    assert_eq!(found.clients, [1, 3]);
}

#[test]
fn what_has_ended_is_no_longer_kept() {
    let history = Tape::register().update(1, 10..20, 0, None).update_unknown(2, 30..40, 1);
    let history = history.update_nothing(3, 50..60);
    let mut register = RegisterChecker::default();
    history.show_to(&mut register);
    assert_eq!((register.begun.len(), register.done, register.unknown.len()), (0, 1, 1));
}

proptest! {
    /// Clients that read and write a register at random: the checker says what the register knows.
    #[test]
    fn a_lost_update_is_what_the_register_knows(
        spans in prop::collection::vec((0..40_u64, 1..12_u64), 1..6),
    ) {
        // Each reads at the start of its span and writes at its end.
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (place, (from, length)) in spans.iter().enumerate() {
            moments.push((from * 10 + place as u64, false, place));
            moments.push(((from + length) * 10 + place as u64, true, place));
        }
        moments.sort_unstable();
        let (mut value, mut reads) = (0_i64, vec![0; spans.len()]);
        for (_, writes, place) in moments {
            if writes { value = reads[place] + 1 } else { reads[place] = value }
        }
        let count = i64::try_from(spans.len()).unwrap();
        let mut tape = Tape::register();
        for (place, (from, length)) in spans.iter().enumerate() {
            let client = u32::try_from(place).unwrap() + 1;
            let at = |moment: u64| moment * 10 + place as u64 + 100;
            tape = tape.update(client, at(*from)..at(from + length), reads[place], None);
        }
        let tape = tape.register_left(value);
        let found = violated(&tape);
        prop_assert_eq!(found.contains(&"updates-accounted-for"), value < count);
        prop_assert_eq!(found.contains(&"no-lost-update"), value < count, "{:?}", reads);
    }
}
