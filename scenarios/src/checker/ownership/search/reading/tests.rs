//! Which of two readings is the better, and which makes the other superfluous.

use super::*;

fn held(owner: u32, since_ns: u64, from_ns: u64, may_end_ns: u64) -> State {
    State::of((owner, owner), since_ns, from_ns, may_end_ns)
}

fn reading(state: State) -> Reading {
    Reading { at_ns: 50, ..Reading::default() }.is(state)
}

#[test]
fn what_belongs_to_no_acquisition_is_nobodys() {
    assert_eq!(held(0, 1, 2, 3), State::Nobodys);
    assert!(matches!(held(1, 1, 2, 3), State::Held { owner: (1, 1), may_end_ns: 3, .. }));
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
    let states = [one, State::Free, State::Nobodys];
    for (nth, mine) in states.into_iter().enumerate() {
        for (other, theirs) in states.into_iter().enumerate() {
            assert_eq!(mine.leaves_more_than(theirs), nth == other, "{mine:?} {theirs:?}");
        }
    }
}

#[test]
fn what_took_no_more_and_came_no_later_makes_superfluous() {
    let base = reading(held(1, 10, 20, 30)).uses(3);
    assert!(base.makes_superfluous(&base));
    let worse =
        [base.not_before(51), base.uses(4), base.harmed((1, 1), 5), base.is(held(1, 10, 20, 31))];
    for worse in worse {
        assert!(base.makes_superfluous(&worse), "{worse:?}");
        assert!(!worse.makes_superfluous(&base), "{worse:?}");
        assert!(worse.makes_superfluous(&worse), "{worse:?}");
    }
    let mut early = base.clone();
    early.early.push(7);
    assert!(!base.makes_superfluous(&early) && !early.makes_superfluous(&base));
    let other = reading(base.state).uses(4);
    assert!(!base.makes_superfluous(&other) && !other.makes_superfluous(&base));
    let harmful = base.harmed((1, 1), 5);
    assert!(harmful.makes_superfluous(&base.harmed((2, 2), 6)), "whoever it was");
}

#[test]
fn the_better_come_first() {
    let base = reading(State::Free).uses(3);
    let mut early = base.clone();
    early.early.push(7);
    let best_first = [
        reading(State::Nobodys).not_before(90),
        base.clone(),
        early,
        base.is(held(1, 1, 1, 1)),
        base.not_before(51),
        reading(State::Free).uses(4),
        base.uses(4),
        reading(State::Free).harmed((1, 1), 2),
    ];
    for pair in best_first.windows(2) {
        assert_eq!(pair[0].compare(&pair[1]), Ordering::Less, "{pair:?}");
        assert_eq!(pair[1].compare(&pair[0]), Ordering::Greater, "{pair:?}");
    }
    assert_eq!(base.compare(&base), Ordering::Equal);
}

#[test]
fn a_reading_is_followed_without_change() {
    let base = reading(held(1, 10, 20, 30));
    assert_eq!(base.not_before(40).at_ns, 50);
    assert_eq!(base.not_before(60).at_ns, 60);
    assert_eq!(base.uses(3).uses(2).used.as_slice(), [3, 2]);
    let first = Harmed { doubtful: false, victim: (1, 1), culprit: 2 };
    assert_eq!(base.harmed((1, 1), 2).harmed((3, 3), 4).harm, Some(first), "the first");
    let perhaps = base.perhaps_harmed((1, 1), 2).harmed((3, 3), 4).harm;
    assert_eq!(perhaps, Some(Harmed { doubtful: true, ..first }));
    assert_eq!(base.lives(99).state, held(1, 10, 50, 99));
    for state in [State::Free, State::Nobodys] {
        assert_eq!(reading(state).lives(99), reading(state), "nobody's life");
    }
    assert_eq!(Reading::unknown().state, State::Nobodys);
}
