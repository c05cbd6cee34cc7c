//! Certain holds by themselves: who is blamed and what is left to the search, at every boundary.

use history::Text;

use super::*;
use crate::ownership::Loss;

const TTL_NS: u64 = 1_000;
/// The end of a command without an answer.
const NEVER: u64 = u64::MAX;
const EXTEND: Touch = Touch::Extend(TTL_NS);

fn op(number: u32, acquisition: u32, (sent_ns, done_ns): (u64, u64), touch: Touch) -> Op {
    let (name, client) = (Text::default(), acquisition + 10);
    let (node, compares, found) = (0, false, 0);
    let last_sent = 0;
    Op {
        number,
        acquisition,
        client,
        node,
        name,
        sent_ns,
        done_ns,
        last_sent,
        touch,
        compares,
        found,
    }
}

/// Made by 1: sent at 100, answered at 110.
fn created() -> Op {
    op(1, 1, (100, 110), Touch::Create(Some(TTL_NS)))
}

fn deleted(number: u32, span: (u64, u64)) -> Op {
    op(number, 2, span, Touch::Delete)
}

fn blamed_beside(ops: &[Op], losses: &[Loss], jumps: &[u64]) -> Option<(u32, u64)> {
    let (mut ops, losses, jumps) = (ops.to_vec(), losses.to_vec(), jumps.to_vec());
    ops.sort_by_key(|op| op.sent_ns);
    let found = harm(&KeyLog { ops, losses, jumps, ..KeyLog::default() })?;
    let [blame] = found.blames[..] else { panic!("it is known who it was") };
    Some((blame.culprit.number, found.occurrences))
}

fn blamed(ops: &[Op]) -> Option<(u32, u64)> {
    blamed_beside(ops, &[], &[])
}

#[test]
fn harm_is_blamed_from_behind_the_creation_until_before_its_end() {
    assert_eq!(blamed(&[created(), deleted(2, (111, 120))]), Some((2, 1)));
    assert_eq!(blamed(&[created(), deleted(2, (110, 120))]), None);
    assert_eq!(blamed(&[created(), deleted(2, (1_000, 1_099))]), Some((2, 1)));
    assert_eq!(blamed(&[created(), deleted(2, (1_000, 1_100))]), None);
    assert_eq!(blamed(&[created(), deleted(2, (1_100, 1_200))]), None);
    // What was perhaps behind the end was perhaps before another, and ended the hold itself.
    let two = |done_ns| blamed(&[created(), deleted(2, (900, done_ns)), deleted(3, (950, 1_000))]);
    assert_eq!((two(1_099), two(1_100)), (Some((3, 1)), None));
}

#[test]
fn what_was_over_before_the_creation_does_not_matter_and_what_was_not_does() {
    let harm = deleted(3, (200, 210));
    assert_eq!(blamed(&[deleted(2, (50, 99)), created(), harm]), Some((3, 1)));
    assert_eq!(blamed(&[deleted(2, (50, 100)), created(), harm]), None, "perhaps behind it");
    let slow = |done_ns| deleted(4, (10, done_ns));
    assert_eq!(blamed(&[slow(99), deleted(2, (50, 60)), created(), harm]), Some((3, 1)));
    assert_eq!(blamed(&[slow(100), deleted(2, (50, 60)), created(), harm]), None);
}

#[test]
fn only_what_was_answered_and_belongs_to_somebody_is_a_hold() {
    let harm = deleted(2, (200, 210));
    assert_eq!(blamed(&[Op { acquisition: 0, ..created() }, harm]), None);
    assert_eq!(blamed(&[Op { done_ns: u64::MAX, ..created() }, harm]), None);
}

#[test]
fn an_extension_that_surely_met_its_hold_moves_the_end() {
    let harm = deleted(9, (2_000, 2_010));
    let extend = |span| op(2, 1, span, EXTEND);
    let compares = |span| Op { compares: true, ..extend(span) };
    assert_eq!(blamed(&[created(), extend((1_050, 1_100)), harm]), Some((9, 1)));
    assert_eq!(blamed(&[created(), extend((1_050, 1_101)), harm]), None, "perhaps another's");
    assert_eq!(blamed(&[created(), compares((1_050, 1_500)), harm]), Some((9, 1)), "its own");
    let end = 1_050 + TTL_NS;
    let late = |done_ns| [created(), extend((1_050, 1_100)), deleted(9, (end - 20, done_ns))];
    assert_eq!(blamed(&late(end - 1)), Some((9, 1)));
    assert_eq!(blamed(&late(end)), None);
    // Nobody knows when one without an answer is carried out.
    for open in [extend((1_050, u64::MAX)), compares((1_050, u64::MAX))] {
        assert_eq!(blamed(&[created(), open, harm]), None);
        assert_eq!(blamed(&[created(), open, deleted(9, (1_060, 1_070))]), None);
        assert_eq!(blamed(&[created(), open, deleted(9, (1_020, 1_049))]), Some((9, 1)));
    }
    let released = op(2, 1, (300, 310), Touch::Delete);
    assert_eq!(blamed(&[created(), released, deleted(9, (310, 320))]), None);
}

#[test]
fn who_did_it_first_is_blamed() {
    let quick = deleted(3, (220, 230));
    assert_eq!(blamed(&[created(), deleted(2, (200, 300)), quick]), Some((3, 1)));
    assert_eq!(blamed(&[created(), deleted(2, (200, 210)), quick]), Some((2, 1)));
    assert_eq!(blamed(&[created(), deleted(2, (200, 230)), quick]), Some((2, 1)), "at once");
    // What may have ended the hold before the harm was answered excuses it.
    let foreign = op(4, 3, (250, 260), Touch::Create(None));
    assert_eq!(blamed(&[created(), deleted(2, (200, 251)), foreign]), None);
    assert_eq!(blamed(&[created(), deleted(2, (200, 250)), foreign]), None);
    assert_eq!(blamed(&[created(), deleted(2, (200, 249)), foreign]), Some((2, 1)));
}

#[test]
fn of_several_holds_the_one_harmed_first_is_told_and_all_are_counted() {
    let second = op(5, 3, (1_500, 1_510), Touch::Create(Some(TTL_NS)));
    let harms = [deleted(2, (600, 610)), deleted(6, (1_600, 1_610))];
    assert_eq!(blamed(&[created(), second, harms[0], harms[1]]), Some((2, 2)));
    assert_eq!(blamed(&[created(), second, harms[1]]), Some((6, 1)));
}

#[test]
fn a_jump_of_the_servers_clock_ends_certainty() {
    let harm = [created(), deleted(2, (300, 310))];
    let jump = |at_ns| blamed_beside(&harm, &[], &[at_ns]).is_some();
    assert!(jump(99), "before it began");
    assert!(!jump(100));
    assert!(!jump(310));
    assert!(jump(311), "behind the harm");
    assert_eq!(blamed_beside(&harm, &[], &[400, 200]), None, "the first counts");
}

/// Holds one after the other, each released, behind a command that has no answer or a late one.
#[test]
fn each_command_is_looked_at_a_few_times_whatever_is_under_way() {
    const HOLDS: u64 = 2_000;
    let held = (1..=HOLDS).flat_map(|nth| {
        let (number, at_ns) = (u32::try_from(nth).unwrap(), nth * 100);
        let create = op(2 * number, number, (at_ns, at_ns + 10), Touch::Create(Some(TTL_NS)));
        let delete = op(2 * number + 1, number, (at_ns + 50, at_ns + 60), Touch::Delete);
        [create, delete]
    });
    let held: Vec<Op> = held.collect();
    for done_ns in [20, HOLDS * 100, NEVER] {
        let ops = [&[deleted(1, (10, done_ns))][..], &held].concat();
        let known = KeyLog { ops, ..KeyLog::default() };
        let mut holds = CertainHolds { known: &known, looks: 0 };
        assert_eq!(holds.harm(), None);
        assert!(holds.looks <= 2 * known.ops.len(), "{} looks, {done_ns}", holds.looks);
    }
}
