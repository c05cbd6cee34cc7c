//! The register: good and bad histories by hand, and every interleaving of a few clients by force.

use proptest::prelude::*;

use crate::checker::testing::Tape;
use crate::verdict::{Outcome, Verdict};

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
    assert_eq!(
        tape().finding("updates-accounted-for").outcome(),
        Outcome::Inconclusive,
        "nobody looked"
    );
}

#[test]
fn tokens_that_fall_are_found_whichever_is_told_first() {
    let tape = |one, other| {
        Tape::fenced().update(1, 100..900, 1, Some(one)).update(2, 200..300, 0, Some(other))
    };
    assert_eq!(violated(&tape(6, 5).register_left(2)), [""; 0]);
    assert_eq!(violated(&tape(5, 5).register_left(2)), [""; 0]);
    assert_eq!(violated(&tape(5, 6).register_left(2)), ["no-stale-write"]);
    let Verdict::Violated(witness) = tape(5, 6).finding("no-stale-write") else { panic!() };
    assert!(witness.summary.contains("client 1's write with token 5"), "{}", witness.summary);
    let none = Tape::fenced().update(1, 100..200, 0, None);
    assert_eq!(none.finding("no-stale-write").outcome(), Outcome::NotApplicable);
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
