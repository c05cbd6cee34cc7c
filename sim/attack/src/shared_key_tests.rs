//! Who owns a key that several clients share, and what harms it.

use super::*;

const LIFE: Duration = Duration::from_millis(100);
const FOREVER: Touch = Touch::Create(None);

/// What is done to a key by a client at its millisecond.
type Done = (u32, u64, Touch, InsideChange);

fn counts(client: u32, ms: u64, by: i64, now: i64) -> Done {
    let touch = if by == now && ms == 0 { FOREVER } else { Touch::None };
    (client, ms, touch, InsideChange::Counted { by, now })
}

fn entries(client: u32, ms: u64, touch: Touch, added: &[&str], removed: &[&str]) -> Done {
    let names = |all: &[&str]| all.iter().map(|it| it.as_bytes().to_vec()).collect();
    (client, ms, touch, InsideChange::Entries { added: names(added), removed: names(removed) })
}

fn adds(client: u32, ms: u64, name: &str) -> Done {
    entries(client, ms, if ms == 0 { FOREVER } else { Touch::None }, &[name], &[])
}

fn takes(client: u32, ms: u64, name: &str) -> Done {
    entries(client, ms, Touch::None, &[], &[name])
}

fn whole(client: u32, ms: u64, touch: Touch) -> Done {
    (client, ms, touch, InsideChange::None)
}

/// Clients that have said that they have the lock, from when to when; each began to acquire it at 0.
type Holds<'a> = &'a [(u32, u64, u64)];

fn judged(done: &[Done], holds: Option<Holds<'_>>) -> (Vec<Touch>, KeyDoubts) {
    judged_where(done, holds, None)
}

/// The same where the server's clock jumps ahead at this millisecond.
fn judged_where(
    done: &[Done],
    holds: Option<Holds<'_>>,
    jumped: Option<u64>,
) -> (Vec<Touch>, KeyDoubts) {
    let start = crate::clock::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let command = |(client, ms, touch, inside): &Done| {
        let (touch, inside) = (*touch, inside.clone());
        let change = KeyChange { db: 0, key: b"k".to_vec(), touch, inside };
        TracedCommand::carried_out(*client, at(*ms), "X", vec![change])
    };
    let mut sent: Vec<TracedCommand> = done.iter().map(command).collect();
    let phases = holds.map(|all| {
        let phases = all.iter().map(|(client, from, to)| Phases {
            client: *client,
            acquisition: *client,
            begun: start,
            acquired: Some(at(*from)),
            release: Some(at(*to)),
        });
        phases.collect::<Vec<_>>()
    });
    let life = PartLife { life: LIFE, jumped: jumped.map(at) };
    let doubts = apply(&mut sent, b"k", life, phases.as_deref());
    (sent.iter().map(|it| it.seen.as_ref().unwrap().changes[0].touch).collect(), doubts)
}

/// What these changes count as; nothing of them may be in doubt.
fn counted(done: &[Done], holds: Holds<'_>) -> Vec<Touch> {
    let (touches, doubts) = judged(done, Some(holds));
    assert!(doubts.reasons.is_empty() && doubts.undecided.is_empty(), "{doubts:?}");
    touches
}

#[test]
fn who_writes_the_same_value_renews_its_own_key_and_overwrites_that_of_another() {
    let ms = |ms: u64| ms * 1_000_000;
    let rewritten = |client, at, touch| (client, at, touch, InsideChange::Rewritten);
    let done = [
        whole(1, 0, Touch::Create(Some(ms(100)))),
        rewritten(1, 20, Touch::Extend(ms(100))),
        // Its TTL is as it was: both writes fell in the same millisecond.
        rewritten(2, 20, Touch::None),
        rewritten(2, 30, Touch::Extend(ms(100))),
        rewritten(1, 40, Touch::Extend(ms(100))),
        rewritten(2, 50, Touch::Extend(u64::MAX)),
        whole(1, 60, Touch::Extend(ms(100))),
    ];
    let expected = [
        Touch::Create(Some(ms(100))),
        Touch::Extend(ms(100)),
        Touch::Overwrite(Some(ms(100))),
        Touch::Extend(ms(100)),
        Touch::Overwrite(Some(ms(100))),
        Touch::Overwrite(None),
        Touch::Extend(ms(100)),
    ];
    assert_eq!(counted(&done, &[]), expected);
}

#[test]
fn who_counts_in_vain_does_nothing_to_the_holder() {
    let done =
        [counts(1, 0, 1, 1), counts(2, 1, 1, 2), counts(2, 2, -1, 1), whole(1, 3, Touch::Delete)];
    assert_eq!(counted(&done, &[]), [FOREVER, Touch::None, Touch::None, Touch::Delete]);
    let done = [counts(1, 0, 1, 1), counts(2, 1, 1, 2), whole(2, 2, Touch::Extend(9))];
    assert_eq!(counted(&done, &[])[2], Touch::Extend(9), "who renews another's key keeps it");
}

#[test]
fn a_number_is_free_at_0_and_goes_to_whom_it_is_0_for() {
    let done = [
        counts(1, 0, 1, 1),
        whole(1, 1, Touch::Extend(99_000_000)),
        counts(1, 10, -1, 0),
        counts(2, 20, 1, 1),
        counts(2, 30, -1, 0),
        whole(3, 31, Touch::Delete),
    ];
    let expected = [
        FOREVER,
        Touch::Extend(99_000_000),
        Touch::Delete,
        Touch::Create(Some(80_000_000)),
        Touch::Delete,
        Touch::None,
    ];
    assert_eq!(counted(&done, &[]), expected);
}

#[test]
fn to_count_down_what_another_has_counted_up_is_harm() {
    let late = [counts(1, 0, 1, 1), counts(2, 1, -1, 0), counts(3, 2, 1, 1)];
    assert_eq!(counted(&late, &[]), [FOREVER, Touch::Delete, FOREVER]);
    // Client 3 was refused, and has not decremented the number yet.
    let between =
        [counts(1, 0, 1, 1), counts(3, 1, 1, 2), counts(2, 2, -1, 1), counts(3, 3, -1, 0)];
    assert_eq!(counted(&between, &[]), [FOREVER, Touch::None, Touch::Delete, Touch::None]);
}

#[test]
fn a_release_that_leaves_the_counts_of_others_frees_nothing_yet() {
    let stuck = [counts(1, 0, 1, 1), counts(2, 1, 1, 2), counts(1, 2, -1, 1)];
    assert_eq!(counted(&stuck, &[]), [FOREVER, Touch::None, Touch::Unknown]);
    let goes_away = [&stuck[..], &[counts(2, 3, -1, 0), counts(2, 4, 1, 1)]].concat();
    assert_eq!(counted(&goes_away, &[])[3..], [Touch::Delete, FOREVER]);
    let again = [counts(1, 0, 1, 1), counts(1, 1, 1, 2), counts(1, 2, -1, 1), counts(1, 3, -1, 0)];
    assert_eq!(counted(&again, &[]), [FOREVER, Touch::None, Touch::None, Touch::Delete]);
}

#[test]
fn whose_a_number_below_0_is_is_not_guessed() {
    let done = [counts(1, 0, -1, -1), counts(2, 1, 1, 0), whole(2, 2, Touch::Delete)];
    let (found, doubts) = judged(&done, Some(&[]));
    assert_eq!((found, doubts.reasons.len()), (vec![FOREVER, Touch::None, Touch::None], 1));
}

#[test]
fn a_number_that_is_counted_down_from_0_is_the_holders() {
    let done = [
        counts(1, 0, -1, -1),
        counts(2, 1, -1, -2),
        counts(2, 2, 1, -1),
        counts(1, 3, 1, 0),
        counts(2, 4, -1, -1),
        // It has not counted down.
        counts(3, 5, 1, 0),
    ];
    let expected =
        [FOREVER, Touch::None, Touch::None, Touch::Delete, Touch::Create(None), Touch::Delete];
    assert_eq!(counted(&done, &[(1, 1, 3), (2, 4, 9)]), expected);
    let (_, doubts) = judged(&done, Some(&[(2, 4, 9)]));
    assert_eq!(doubts.reasons.len(), 1, "client 1 did not get the lock by that: {doubts:?}");
}

#[test]
fn who_writes_the_owner_into_a_hash_takes_it_over() {
    let writes = |client, ms, all| (client, ms, Touch::None, InsideChange::Fields { all });
    let made = entries(1, 0, FOREVER, &["owner", "beat", "host"], &[]);
    let over = Touch::Overwrite(None);
    let done = [made.clone(), writes(1, 5, false), writes(2, 10, true), writes(2, 12, true)];
    assert_eq!(counted(&done, &[]), [FOREVER, Touch::None, over, Touch::None]);
    // Where a value stays, who gets the lock by it has taken it over.
    let done = [made, writes(2, 10, false), writes(1, 12, false)];
    assert_eq!(counted(&done, &[(2, 11, 20)]), [FOREVER, over, Touch::None]);
    let waits =
        [done[0].clone(), done[1].clone(), whole(1, 11, Touch::Delete), whole(2, 12, FOREVER)];
    let expected = [FOREVER, Touch::None, Touch::Delete, FOREVER];
    assert_eq!(counted(&waits, &[(2, 13, 20)]), expected, "it got it by what it did later");
    assert_eq!(counted(&done, &[]), [FOREVER, Touch::None, Touch::None]);
    assert_eq!(judged(&done, None).1.reasons.len(), 1, "programs do not say that they have it");
}

#[test]
fn a_number_that_is_written_over_is_overwritten() {
    let over = Touch::Overwrite(None);
    let done = [counts(1, 0, 1, 1), whole(2, 1, over), counts(1, 2, -1, 0)];
    assert_eq!(counted(&done, &[]), [FOREVER, over, Touch::Delete]);
    // A number that SET has made belongs to the client that set it.
    let set = [whole(1, 0, FOREVER), counts(2, 1, 1, 2), counts(2, 2, -1, 1), counts(1, 3, -1, 0)];
    assert_eq!(counted(&set, &[]), [FOREVER, Touch::None, Touch::None, Touch::Delete]);
}

#[test]
fn entries_of_others_are_not_the_holders() {
    let done = [
        adds(1, 0, "one"),
        adds(2, 1, "two"),
        takes(2, 2, "two"),
        adds(2, 3, "two"),
        takes(1, 10, "one"),
        // It looks again, and has the lock.
        entries(2, 20, Touch::None, &[], &[]),
        entries(2, 40, Touch::Delete, &[], &["two"]),
    ];
    let found = counted(&done, &[(1, 1, 9), (2, 21, 39)]);
    let nothing = Touch::None;
    let expected = [FOREVER, nothing, nothing, nothing, Touch::Delete, FOREVER, Touch::Delete];
    assert_eq!(found, expected);
}

#[test]
fn to_take_the_entry_of_a_holder_out_is_harm_within_its_life() {
    for (ms, holds_until, harm) in
        [(50, 60, true), (89, 99, true), (90, 99, false), (50, 40, false)]
    {
        let done = [adds(1, 0, "one"), adds(2, 1, "two"), takes(2, ms, "one")];
        let expected = if harm { Touch::Delete } else { Touch::Unknown };
        assert_eq!(counted(&done, &[(1, 1, holds_until)])[2], expected, "at {ms}");
        let (found, doubts) = judged(&done, None);
        assert_eq!(found[2], Touch::Unknown, "programs say nothing");
        assert_eq!(doubts.reasons.len(), usize::from(ms < 90));
        let last = [adds(1, 0, "one"), entries(2, ms, Touch::Delete, &[], &["one"])];
        assert_eq!(counted(&last, &[(1, 1, holds_until)])[1], expected, "at {ms}");
        let taken = Touch::Overwrite(None);
        let over = [adds(1, 0, "one"), entries(2, ms, taken, &["two"], &["one"])];
        let expected = if harm { taken } else { FOREVER };
        assert_eq!(counted(&over, &[(1, 1, holds_until)])[1], expected, "at {ms}");
    }
}

#[test]
fn the_key_of_another_is_not_deleted_or_kept_alive() {
    let done = [adds(1, 0, "one"), whole(2, 95, Touch::Delete)];
    assert_eq!(counted(&done, &[]), [FOREVER, Touch::Delete], "all of it, however old");
    let done = [adds(1, 0, "one"), whole(2, 10, Touch::Extend(9))];
    assert_eq!(counted(&done, &[])[1], Touch::Extend(9), "it has no part in it");
    let done = [adds(1, 0, "one"), adds(2, 1, "two"), whole(2, 10, Touch::Extend(9))];
    let (found, doubts) = judged(&done, Some(&[(1, 1, 99)]));
    assert_eq!((found[2], doubts.reasons.len()), (Touch::None, 1));
    assert_eq!(doubts.undecided, BTreeSet::from([1]), "until when it has the lock");
}

#[test]
fn whose_entry_has_the_lock_is_not_guessed() {
    let done = [adds(1, 0, "one"), adds(2, 1, "two")];
    let (found, doubts) = judged(&done, Some(&[(2, 5, 9)]));
    assert_eq!((found, doubts.undecided), (vec![FOREVER, Touch::None], BTreeSet::from([2])));
    assert!(doubts.reasons[0].contains("client 2 said that it has the lock while client 1"));
    // It has none.
    assert!(counted(&done[..1], &[(2, 5, 9)]).len() == 1);
}

#[test]
fn who_takes_out_what_has_expired_by_a_clock_that_jumped_harms_nobody() {
    let done = [adds(1, 0, "a"), takes(2, 40, "a"), adds(2, 41, "b")];
    let holds = [(1, 10, 60), (2, 45, 90)];
    let harm = |jumped| judged_where(&done, Some(&holds), jumped).0[1] == Touch::Delete;
    assert!(harm(None));
    assert!(!harm(Some(30)));
}
