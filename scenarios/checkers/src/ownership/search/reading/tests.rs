//! Which of two readings is the better, and which makes the other superfluous.

use super::*;

fn held(owner: u32, since_ns: u64, from_ns: u64, may_end_ns: u64) -> ReadingKey {
    let life = HoldLife { from_ns, may_end_ns, must_end_ns: 60 };
    ReadingKey::of((owner, owner), ValueWriter::Another, since_ns, life)
}

/// This command has harmed the hold of this acquisition.
fn harm(victim: u32, culprit: u32) -> Harmed {
    Harmed { doubtful: false, at_ns: 50, victim: (victim, victim), culprit }
}

fn reading(state: ReadingKey) -> Reading {
    Reading { at_ns: 50, ..Reading::default() }.is(state)
}

#[test]
fn what_belongs_to_no_acquisition_is_nobodys() {
    assert_eq!(held(0, 1, 2, 3), ReadingKey::Nobodys);
    assert!(matches!(held(1, 1, 2, 3), ReadingKey::Held { owner: (1, 1), .. }));
}

#[test]
fn a_hold_that_may_have_ended_earlier_leaves_more() {
    let one = held(1, 10, 20, 30);
    assert!(one.leaves_more_than(one));
    for later in [held(1, 11, 20, 30), held(1, 10, 21, 30), held(1, 10, 20, 31)] {
        assert!(one.leaves_more_than(later), "{later:?}");
        assert!(!later.leaves_more_than(one), "{later:?}");
    }
    assert!(!one.leaves_more_than(held(2, 10, 20, 30)), "another's");
    let life = HoldLife { from_ns: 20, may_end_ns: 30, must_end_ns: 60 };
    let by = |by| ReadingKey::of((1, 1), by, 10, life);
    let command = by(ValueWriter::Command(7));
    assert!(
        command.leaves_more_than(command) && by(ValueWriter::Unknown).leaves_more_than(command)
    );
    assert!(!command.leaves_more_than(one) && !one.leaves_more_than(command), "another's value");
    let states = [one, ReadingKey::Free, ReadingKey::Nobodys];
    for (nth, mine) in states.into_iter().enumerate() {
        for (other, theirs) in states.into_iter().enumerate() {
            assert_eq!(mine.leaves_more_than(theirs), nth == other, "{mine:?} {theirs:?}");
        }
    }
}

#[test]
fn what_came_no_later_comes_to_the_same() {
    let it = || reading(held(1, 10, 20, 30)).uses(3);
    let base = it();
    assert!(base.comes_to_the_same(&base));
    let worse = [it().not_before(51), it().harmed(harm(1, 5)), it().is(held(1, 10, 20, 31))];
    for worse in worse {
        assert!(base.comes_to_the_same(&worse), "{worse:?}");
        assert!(!worse.comes_to_the_same(&base), "{worse:?}");
        assert!(worse.comes_to_the_same(&worse), "{worse:?}");
    }
    let other = reading(base.state).uses(4);
    assert!(base.comes_to_the_same(&other) && other.comes_to_the_same(&base), "whatever it took");
    let harmful = it().harmed(harm(1, 5));
    assert!(harmful.comes_to_the_same(&it().harmed(harm(2, 6))), "whoever it was");
}

#[test]
fn who_may_have_harmed_first_is_remembered_of_all_that_come_to_the_same() {
    let mut kept = reading(ReadingKey::Free).harmed(harm(1, 5));
    kept.may_have(&reading(ReadingKey::Free).harmed(harm(2, 6)));
    kept.may_have(&reading(ReadingKey::Free).harmed(harm(2, 6)));
    assert_eq!(kept.harm.as_slice(), [harm(1, 5), harm(2, 6)]);
    (10..30).for_each(|culprit| kept.may_be(harm(3, culprit)));
    assert_eq!(kept.harm.len(), HARMS_MOST);
    let mut harmless = reading(ReadingKey::Free);
    harmless.may_have(&kept);
    assert!(!harmless.is_harmful(), "it has a way without harm");
}

#[test]
fn the_better_come_first() {
    let it = || reading(ReadingKey::Free).uses(3);
    let base = it();
    let best_first = [
        reading(ReadingKey::Nobodys).not_before(90),
        base.clone(),
        it().is(held(1, 1, 1, 1)),
        it().not_before(51),
        reading(ReadingKey::Free).uses(4),
        it().uses(4),
        reading(ReadingKey::Free).harmed(harm(1, 2)),
    ];
    for pair in best_first.windows(2) {
        assert_eq!(pair[0].compare(&pair[1]), Ordering::Less, "{pair:?}");
        assert_eq!(pair[1].compare(&pair[0]), Ordering::Greater, "{pair:?}");
    }
    assert_eq!(base.compare(&base), Ordering::Equal);
}

#[test]
fn what_was_carried_out_early_is_told_apart_in_any_order() {
    let early = |places: &[u32]| places.iter().fold(Early::default(), |it, &place| it.with(place));
    assert_eq!(early(&[3, 1, 2]), early(&[2, 3, 1]));
    assert_eq!(early(&[3, 1, 2]).without(3), early(&[1, 2]));
    assert!(early(&[3, 1]).contains(1) && !early(&[3, 1]).contains(2));
    for fewer in [early(&[]), early(&[2]), early(&[9])] {
        assert!(fewer < early(&[1, 2]), "{fewer:?} comes first");
    }
}

#[test]
fn a_reading_is_followed_step_by_step() {
    let it = || reading(held(1, 10, 20, 30));
    assert_eq!(it().not_before(40).at_ns, 50);
    assert_eq!(it().not_before(60).at_ns, 60);
    assert_eq!(it().uses(3).uses(2).used.as_slice(), [2, 3]);
    let first = harm(1, 2);
    assert_eq!(it().harmed(harm(1, 2)).harmed(harm(3, 4)).harm.as_slice(), [first], "the first");
    let perhaps = it().perhaps_harmed(harm(1, 2));
    assert_eq!(perhaps.harm.as_slice(), [Harmed { doubtful: true, ..first }]);
    assert_eq!(perhaps.clone().perhaps_harmed(harm(3, 4)), perhaps, "the first");
    assert!(perhaps.is_harmful() && !perhaps.is_surely_harmful());
    assert!(it().harmed(harm(1, 2)).is_surely_harmful() && !it().is_surely_harmful());
    assert_eq!(perhaps.harmed(harm(3, 4)).harm.as_slice(), [harm(3, 4)], "that is certain");
    let life = HoldLife { from_ns: 50, may_end_ns: 99, must_end_ns: 60 };
    assert_eq!(it().lives(life).state, held(1, 10, 50, 99));
    for state in [ReadingKey::Free, ReadingKey::Nobodys] {
        assert_eq!(reading(state).lives(life), reading(state), "nobody's life");
    }
    assert_eq!(Reading::unknown().state, ReadingKey::Nobodys);
}

#[test]
fn a_key_lasts_as_long_as_any_reading_that_comes_to_the_same_has_it() {
    let it = |must_end_ns| {
        let life = HoldLife { from_ns: 20, may_end_ns: 30, must_end_ns };
        reading(ReadingKey::of((1, 1), ValueWriter::Another, 10, life))
    };
    for (mine, theirs) in [(60, 70), (70, 60)] {
        let mut kept = it(mine);
        assert!(kept.comes_to_the_same(&it(theirs)));
        kept.may_have(&it(theirs));
        assert_eq!(kept, it(70));
    }
}
