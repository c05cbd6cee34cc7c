//! Who was refused while others had the lock, and who while nobody had it.

use history::Intent;

use super::*;
use crate::interface::LockCommands;
use crate::testing::{CREATE, DELETE, Tape};

/// Who was refused; client and since when nobody had it, of the first that is blamed, and how many are.
fn seen(tape: &Tape) -> (Refusals, Option<(u32, u64, u64)>) {
    let (history, mut refusals) = (tape.history(), Refusals::default());
    let mut commands = LockCommands::new(&history.head);
    history.events.iter().for_each(|it| refusals.see(&commands.next(it, &history.texts)));
    let blamed = refusals.blamed(&commands.end(&history.texts));
    (refusals, blamed.map(|(first, times)| (first.client, first.free_ns, times)))
}

fn refusals(tape: &Tape) -> Refusals {
    seen(tape).0
}

fn blamed(tape: &Tape) -> Option<(u32, u64, u64)> {
    seen(tape).1
}

/// Client 1 has the lock from 100 to 205.
fn held() -> Tape {
    Tape::new().waited(1, 1, 95..112).did(1, 100..110, CREATE).releases(1, 190..205)
}

/// A client looks once, in vain.
fn looks(tape: Tape, client: u32, span: std::ops::Range<u64>) -> Tape {
    let whole = span.start - 1..span.end + 1;
    tape.refused(client, client, whole).command(client, span, CREATE, Some(Touch::None))
}

#[test]
fn who_is_refused_while_another_has_the_lock_gave_up() {
    for span in [101..109, 120..130, 195..200, 200..300, 205..300] {
        let tape = looks(held(), 2, span.clone());
        assert_eq!(blamed(&tape), None, "{span:?}");
        assert_eq!(refusals(&tape).gave_up, 1);
    }
}

#[test]
fn who_is_refused_while_nobody_has_it_is_found() {
    assert_eq!(blamed(&looks(held(), 2, 206..300)), Some((2, 205, 1)));
    let two = looks(looks(held(), 2, 206..300), 3, 400..410);
    assert_eq!(blamed(&two), Some((2, 205, 2)));
    assert_eq!(blamed(&looks(Tape::new(), 2, 50..60)), Some((2, 0, 1)), "from the beginning");
}

#[test]
fn who_only_reads_what_has_just_become_free_is_not_refused_by_that() {
    let read = Intent { touch: Touch::None, compares: false };
    let tape = held().refused(2, 2, 119..211).command(2, 120..130, CREATE, Some(Touch::None));
    assert_eq!(blamed(&tape.command(2, 206..210, read, Some(Touch::None))), None);
    let tape = held().refused(2, 2, 205..311).command(2, 206..230, CREATE, Some(Touch::None));
    assert_eq!(blamed(&tape.command(2, 306..310, read, Some(Touch::None))), Some((2, 205, 1)));
}

#[test]
fn who_may_have_had_it_by_then_excuses() {
    let of = |span: std::ops::Range<u64>, touch| {
        let tape = looks(held(), 2, 206..300).waited(3, 3, 207..span.end + 1);
        blamed(&tape.command(3, span, CREATE, touch))
    };
    assert_eq!(of(250..400, Some(CREATE.touch)), None);
    assert_eq!(of(250..400, None), None, "it may have been carried out");
    assert_eq!(of(302..400, Some(CREATE.touch)), Some((2, 205, 1)), "it asked only then");
    let open = looks(held(), 2, 206..300).acquires(3, 207).sends(3, 250, CREATE);
    assert_eq!(blamed(&open), None, "it is still under way");
}

#[test]
fn where_nobody_knows_who_has_it_nobody_is_blamed() {
    let late = |tape: Tape| blamed(&looks(tape, 9, 900..910));
    assert_eq!(late(held()), Some((9, 205, 1)));
    assert_eq!(late(held().unknown(2, 2, 300..320)), None);
    assert_eq!(late(held().command(1, 191..192, DELETE, None)), None);
    let hands_over = Intent { touch: Touch::Unknown, compares: true };
    assert_eq!(late(held().did(1, 191..192, hands_over)), None);
    let gave_back = held().refused(2, 2, 300..330).did(2, 301..310, CREATE);
    assert_eq!(late(gave_back), None, "what it made and gave back is nobody's to date");
    assert_eq!(late(Tape::new().hold(1, 1, 50..950)), None, "had, whoever made it");
}

#[test]
fn reasons_are_counted_apart() {
    let tape = looks(held(), 2, 120..130).unknown(3, 3, 120..130).refused(4, 4, 120..130);
    let of = refusals(&tape);
    assert_eq!((of.gave_up, of.unknown, of.unsent), (1, 1, 1), "client 4 sent nothing");
    let tape = Tape::new().not_sent(2, 120..140).command(2, 121..125, CREATE, Some(Touch::None));
    assert_eq!((refusals(&tape).gave_up, refusals(&tape).unsent), (0, 1), "the last could not ask");
}

#[test]
fn a_key_that_no_acquisition_has_made_is_in_the_way_as_well() {
    let made = held().did(0, 250..260, CREATE);
    assert_eq!(blamed(&looks(made, 2, 300..310)), None);
}

#[test]
fn who_is_refused_by_errors_could_not_ask() {
    let refused = |tape: Tape, node| {
        refusals(&tape.to(node, "lock").refused_command(2, 301..306, CREATE)).unsent
    };
    assert_eq!(refused(held().refused(2, 2, 300..320), 0), 1);
    let asked = || looks(held().with(|it| it.nodes = Some(3)), 2, 301..306);
    assert_eq!(refused(asked(), 1), 1, "two servers are none to ask in vain");
    let two = asked().to(1, "lock").command(2, 301..306, CREATE, Some(Touch::None));
    assert_eq!(refused(two.clone(), 2), 0, "two have said no");
    assert_eq!(blamed(&two.to(2, "lock").refused_command(2, 301..306, CREATE)), None);
}

#[test]
fn a_history_may_begin_at_any_time() {
    let first = |at_ns| {
        let tape = Tape::new().refused(2, 2, at_ns..at_ns + 20);
        blamed(&tape.command(2, at_ns..at_ns + 10, CREATE, Some(Touch::None)))
    };
    assert_eq!((first(0), first(1)), (Some((2, 0, 1)), Some((2, 0, 1))));
}
