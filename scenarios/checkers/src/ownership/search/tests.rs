//! The search: what only some reading excuses, and what none does.

use std::cell::Cell;

use history::fault::Fault;
use history::verdict::{Outcome, Witness};
use history::{Intent, Touch};

use super::{Search, TooMany, WORK_MOST};
use crate::ownership::{KeyLog, Ownership};
use crate::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};

thread_local! {
    /// How often searches of this thread have looked at a command, or moved its place.
    pub(super) static LOOKS: Cell<u64> = const { Cell::new(0) };
}

const fn plain(touch: Touch) -> Intent {
    Intent { touch, compares: false }
}

const PLAIN_DELETE: Intent = plain(Touch::Delete);
const OVERWRITE: Intent = plain(Touch::Overwrite(Some(TTL_NS)));
const UNKNOWN: Intent = plain(Touch::Unknown);

fn outcome(tape: &Tape) -> Outcome {
    tape.outcome("ownership")
}

fn violated(tape: &Tape) -> bool {
    match outcome(tape) {
        Outcome::Held => false,
        Outcome::Violated => true,
        other => panic!("{other:?}"),
    }
}

fn witness(tape: &Tape) -> Witness {
    tape.witness("ownership")
}

/// What is known of the key on the one server.
fn known(tape: &Tape) -> KeyLog {
    let mut checker = Ownership::new(&tape.history().head);
    tape.show_to(&mut checker);
    checker.by_server().remove(0)
}

/// Acquisition 1 creates the key: sent at 100, answered at 110.
fn created() -> Tape {
    Tape::new().did(1, 100..110, CREATE)
}

/// A key made by one and deleted by another so that only the search can tell: the deletion is answered
/// when the key may have expired, but there was no other key to delete.
fn harmed(tape: Tape, one: u32, other: u32, from: u64) -> Tape {
    let end = from + TTL_NS;
    tape.did(one, from..from + 10, CREATE).did(other, end - 10..end + 1, PLAIN_DELETE)
}

#[test]
fn harm_on_several_servers_adds_up_and_the_earliest_is_told() {
    let tape = |one, other| harmed(harmed(Tape::new(), 1, 2, one).to(1, LOCK), 3, 4, other);
    let found = |one, other| {
        let witness = witness(&tape(one, other));
        (witness.acquisitions, witness.occurrences)
    };
    assert_eq!(found(100, 200), (vec![1, 2], 2));
    assert_eq!(found(200, 100), (vec![3, 4], 2));
    assert_eq!(found(100, 100), (vec![1, 2], 2), "at once");
}

#[test]
fn harm_on_one_server_adds_up_and_the_first_is_told() {
    let tape = harmed(harmed(harmed(Tape::new(), 1, 2, 100), 3, 4, 2_000), 5, 6, 4_000);
    let found = witness(&tape);
    assert_eq!((found.acquisitions, found.occurrences), (vec![1, 2], 3));
}

#[test]
fn the_witness_says_what_was_done() {
    let did = |intent| witness(&created().did(2, 200..210, intent)).summary;
    assert!(did(DELETE).starts_with("client 2 deleted the lock's key with CMD while client 1"));
    assert!(did(plain(Touch::Extend(5))).starts_with("client 2 extended"));
    assert!(did(OVERWRITE).starts_with("client 2 overwrote"));
}

#[test]
fn only_commands_on_the_locks_key_count() {
    let elsewhere = || Tape::new().to(0, "elsewhere").did(3, 50..60, CREATE);
    let harm = elsewhere().to(0, LOCK).did(1, 100..110, CREATE).did(2, 200..210, DELETE);
    assert!(violated(&harm));
    assert_eq!(outcome(&elsewhere()), Outcome::Inconclusive, "no command touched the lock's key");
    let harm = elsewhere().did(4, 70..80, DELETE).to(0, LOCK).did(1, 100..110, CREATE);
    assert!(!violated(&harm));
}

#[test]
fn a_jump_of_another_servers_clock_excuses_nobody() {
    // From a jump on the first hold may be over, and 2 may have had one of its own.
    let tape = |node| {
        let tape = created().server_lost(Fault::ClockStep, node, 200..200);
        violated(&tape.command(2, 220..230, CREATE, None).did(2, 300..310, DELETE))
    };
    assert!(!tape(0));
    assert!(tape(1));
    let overwritten = |node| {
        violated(&created().server_lost(Fault::ClockStep, node, 200..200).did(
            2,
            300..310,
            OVERWRITE,
        ))
    };
    assert!(!overwritten(0), "there may have been nothing left to overwrite");
    assert!(overwritten(1));
}

#[test]
fn a_loss_of_another_time_excuses_nobody() {
    let tape =
        |span| violated(&harmed(Tape::new().server_lost(Fault::Failover, 0, span), 1, 2, 100));
    assert!(tape(10..99), "before the hold");
    assert!(!tape(10..100));
    assert!(!tape(500..600));
    assert!(tape(1_102..1_200), "after the harm");
}

#[test]
fn what_a_server_lost_before_a_key_was_asked_for_was_not_that_key() {
    let found = |made: Option<Touch>, span| {
        let tape = Tape::new().server_lost(Fault::PowerLoss, 0, span);
        let tape = tape.command(1, 100..110, CREATE, made);
        violated(&tape.did(2, 200..210, OVERWRITE).found(2, 1))
    };
    for made in [None, Some(CREATE.touch)] {
        assert!(found(made, 50..99));
        assert!(!found(made, 50..100));
        assert!(!found(made, 150..160));
    }
    // Nor does it bring back the value of who was not there yet.
    let back = |span| {
        let tape = Tape::new().did(1, 100..110, CREATE).server_lost(Fault::PowerLoss, 0, span);
        let tape = tape.command(3, 200..210, OVERWRITE, None);
        violated(&tape.did(2, 300..310, OVERWRITE).found(3, 2))
    };
    assert!(back(150..199));
    assert!(!back(150..200));
}

#[test]
fn what_compares_values_deletes_nobody_elses_key() {
    let tape =
        |delete| violated(&created().command(3, 200..300, delete, None).did(2, 250..260, CREATE));
    assert!(tape(PLAIN_DELETE));
    assert!(!tape(DELETE), "nothing explains that the key was gone");
}

#[test]
fn an_unanswered_command_is_carried_out_once() {
    let tape = created().command(3, 200..300, PLAIN_DELETE, None).did(2, 250..260, CREATE);
    assert_eq!(witness(&tape.did(4, 350..360, CREATE)).occurrences, 1);
}

#[test]
fn who_overwrote_a_key_and_deleted_its_own_is_to_blame() {
    let tape = |make, then: Option<Intent>| {
        let tape = created().command(2, 200..210, make, None);
        let tape = match then {
            Some(then) => tape.command(2, 220..230, then, None),
            None => tape,
        };
        tape.did(3, 300..310, CREATE)
    };
    assert!(violated(&tape(OVERWRITE, Some(DELETE))));
    let found = witness(&tape(OVERWRITE, Some(DELETE)));
    assert_eq!(found.acquisitions, [1, 2]);
    assert!(found.summary.contains("overwrote"), "{}", found.summary);
    assert!(!violated(&tape(OVERWRITE, None)), "then the key would have been there");
    assert!(!violated(&tape(OVERWRITE, Some(plain(Touch::Extend(TTL_NS))))));
    assert!(!violated(&tape(CREATE, Some(DELETE))), "it could not have made one");
}

#[test]
fn a_command_that_nobody_understands_may_have_ended_a_hold() {
    let its_own = || created().command(2, 150..160, CREATE, None);
    assert!(violated(&its_own().did(2, 250..260, DELETE)));
    let strange = its_own().command(3, 200..210, UNKNOWN, None);
    assert!(!violated(&strange.did(2, 250..260, DELETE)));
    // Or it has made the key that was found.
    let released = || created().did(1, 120..130, DELETE);
    let other = || released().command(4, 140..150, CREATE, None);
    assert!(violated(&other().did(2, 250..260, PLAIN_DELETE)));
    assert!(!violated(&other().command(2, 200..210, UNKNOWN, None).did(2, 250..260, PLAIN_DELETE)));
}

#[test]
fn who_releases_without_an_answer_may_have_handed_the_key_over() {
    // One command ended the hold of the first and made the key of the second, who looks and finds it.
    const EXTEND: Intent = plain(Touch::Extend(TTL_NS));
    let left = created().command(1, 200..210, UNKNOWN, None);
    assert!(!violated(&left.clone().did(2, 250..260, EXTEND)));
    assert!(violated(&left.did(2, 150..160, EXTEND)), "before it was sent");
    let deleted = created().command(1, 200..210, DELETE, None);
    assert!(violated(&deleted.did(2, 250..260, EXTEND)), "what only deletes hands nothing over");
}

#[test]
fn one_that_is_answered_late_may_have_ended_it_in_time() {
    // The second could not have made a key beside the first: by then it must have been ended, and what
    // comes after is judged as ever.
    let strange = created().did(1, 120..600, UNKNOWN);
    assert!(!violated(&strange.clone().did(2, 150..160, CREATE)));
    assert!(violated(&harmed(strange, 2, 3, 150)));
}

#[test]
fn a_shorter_life_ends_a_hold_earlier() {
    let tape = |extend_ns, done| {
        let tape = created().command(2, 150..160, CREATE, None);
        let tape = tape.command(1, 200..210, plain(Touch::Extend(extend_ns)), None);
        violated(&tape.did(2, 250..done, DELETE))
    };
    assert!(tape(100, 299));
    assert!(!tape(100, 300));
    assert!(tape(TTL_NS, 300));
}

#[test]
fn a_shorter_life_ends_a_hold_when_it_is_over() {
    // The second's key is made at 300, and not when the extension was sent.
    let tape = |done| {
        let shortened = created().command(1, 200..210, plain(Touch::Extend(100)), None);
        violated(&shortened.did(2, 150..320, CREATE).did(3, 1_240..done, OVERWRITE))
    };
    assert!(tape(1_299));
    assert!(!tape(1_300));
}

#[test]
fn who_has_deleted_its_own_may_still_do_what_nobody_knows() {
    let tape = |strange| {
        let tape = created().command(1, 200..210, strange, None);
        let tape = tape.command(1, 220..230, DELETE, None).did(2, 250..260, CREATE);
        violated(&tape.did(3, 300..310, PLAIN_DELETE))
    };
    assert!(!tape(UNKNOWN));
    assert!(tape(DELETE));
}

#[test]
fn who_has_made_its_own_key_may_still_do_what_nobody_knows() {
    let tape = |strange| {
        let tape = Tape::new().did(1, 10..20, CREATE).did(1, 30..40, DELETE);
        let tape = tape.command(2, 100..110, strange, None).command(2, 120..130, CREATE, None);
        violated(&tape.did(2, 200..210, plain(Touch::Extend(TTL_NS))).did(3, 300..310, OVERWRITE))
    };
    assert!(!tape(UNKNOWN));
    assert!(tape(CREATE));
}

#[test]
fn who_extends_its_key_may_have_made_it_anew() {
    let end = 100 + TTL_NS;
    let anew = created().command(1, end + 10..end + 20, CREATE, None);
    let extended = anew.did(1, end + 100..end + 110, plain(Touch::Extend(TTL_NS)));
    let taken = extended.did(2, end + 200..end + 210, OVERWRITE).found(4, 2);
    assert_eq!(witness(&taken).accused, [4]);
}

#[test]
fn a_value_is_found_when_its_writer_has_been_sent_and_not_before() {
    let tape = |found| {
        let tape = Tape::new().did(1, 100..4_000, OVERWRITE).did(3, 1_150..1_160, CREATE);
        violated(&tape.command(2, 3_000..3_010, OVERWRITE, None).found(1, found))
    };
    assert!(tape(3));
    assert!(!tape(0), "it may have come first");
}

#[test]
fn who_deleted_a_key_that_was_found_later_deleted_anothers_before() {
    let tape = |found| {
        let tape = Tape::new().did(2, 50..60, PLAIN_DELETE).command(1, 100..110, CREATE, None);
        let tape = tape.command(2, 150..160, CREATE, None).did(2, 200..210, PLAIN_DELETE);
        tape.did(3, 300..310, OVERWRITE).found(5, found)
    };
    assert_eq!(witness(&tape(3)).accused, [4]);
    assert!(!violated(&tape(0)), "it deleted its own");
}

#[test]
fn who_deletes_a_key_that_only_another_can_have_made_harms_it() {
    let free = || created().did(1, 200..210, DELETE);
    assert!(!violated(&free().did(2, 300..310, PLAIN_DELETE)), "nothing explains the key");
    let tape = || free().command(3, 250..260, CREATE, None).did(2, 300..310, PLAIN_DELETE);
    assert_eq!(witness(&tape()).acquisitions, [3, 2]);
    let again = tape().did(4, 400..410, PLAIN_DELETE);
    assert_eq!(witness(&again).occurrences, 1, "it made one key");
    let own = free().command(2, 250..260, CREATE, None).did(2, 300..310, PLAIN_DELETE);
    assert!(!violated(&own));
    let both = free().command(3, 250..260, CREATE, None).command(2, 255..265, CREATE, None);
    assert!(!violated(&both.did(2, 300..310, PLAIN_DELETE)), "perhaps it was its own");
}

#[test]
fn what_no_acquisition_made_is_nobodys() {
    for harm in [PLAIN_DELETE, OVERWRITE, plain(Touch::Extend(5))] {
        assert!(!violated(&Tape::new().did(0, 100..110, CREATE).did(2, 200..210, harm)));
        assert!(!violated(&Tape::new().did(0, 100..110, OVERWRITE).did(2, 200..210, harm)));
        let free = created().did(1, 120..130, DELETE);
        assert!(!violated(&free.command(0, 140..150, CREATE, None).did(2, 200..210, harm)));
        // The run sets up and clears away, which ends a hold and harms nobody.
        for end in [PLAIN_DELETE, OVERWRITE, plain(Touch::Extend(TTL_NS))] {
            let ended = || created().did(0, 200..210, end);
            assert!(!violated(&ended()));
            assert!(!violated(&ended().did(2, 300..310, harm)), "it had ended");
            assert!(violated(&ended().did(2, 150..199, harm)), "it had not");
            let open = || created().command(0, 200..210, end, None);
            assert!(!violated(&open().did(2, 300..310, OVERWRITE)), "it may have ended");
            assert!(violated(&open().did(2, 150..199, harm)), "it had not");
        }
    }
}

#[test]
fn so_many_at_once_are_followed_and_no_more() {
    let at_once = |many: u64| {
        let overwrite = |tape: Tape, nth: u64| {
            let number = u32::try_from(nth).unwrap() + 1;
            tape.did(number, 100 + nth..500 + nth, OVERWRITE)
        };
        outcome(&(0..many).fold(Tape::new(), overwrite))
    };
    assert_eq!(at_once(12), Outcome::Violated);
    assert_eq!(at_once(14), Outcome::Inconclusive);
}

/// Locks whose deletions are never answered: each may have deleted any key, and it matters little which did.
#[test]
fn deletions_without_an_answer_are_exchanged_where_they_are_alike() {
    let many = |left: &[Intent]| {
        let held = |tape: Tape, nth: u32| {
            let at_ns = u64::from(nth) * 300;
            let tape = tape.did(nth, at_ns..at_ns + 3, CREATE);
            left.iter().fold(tape, |tape, intent| tape.sends(nth, at_ns + 3, *intent))
        };
        (1..2_000).fold(Tape::new(), held)
    };
    for left in [&[PLAIN_DELETE][..], &[PLAIN_DELETE, PLAIN_DELETE], &[OVERWRITE, PLAIN_DELETE]] {
        assert!(!violated(&many(left)), "{left:?}");
    }
    // One more key is gone than were deleted by their own acquisitions.
    let gone = |tape: Tape| violated(&tape.did(9_000, 599_720..599_730, CREATE));
    assert!(!gone(many(&[PLAIN_DELETE])));
    let other =
        many(&[DELETE]).sends(9_001, 599_705, PLAIN_DELETE).did(9_002, 599_710..599_715, CREATE);
    assert!(gone(other));
}

#[test]
fn more_work_than_that_is_not_done_where_there_are_several_readings() {
    let search = |tape: &Tape| {
        let known = known(tape);
        let search = Search::new(&known);
        search.work.set(WORK_MOST);
        search.run(u64::MAX).map(|_| ())
    };
    let released = created().did(1, 200..210, DELETE).did(2, 300..310, CREATE);
    assert_eq!(search(&released), Ok(()));
    let deleted = |tape: Tape, by| tape.command(by, 200..210, PLAIN_DELETE, None);
    let either = deleted(deleted(created(), 1), 2).did(3, 300..310, CREATE);
    assert_eq!(search(&either), Err(TooMany));
}

#[test]
fn where_each_command_follows_from_the_one_before_nothing_is_searched() {
    let at_once = |tape: &Tape| {
        let known = known(tape);
        let excused = Search::new(&known).excuses_at_once(u64::MAX);
        if excused {
            assert_eq!(Search::new(&known).run(u64::MAX), Ok(None), "so does the search");
        }
        excused
    };
    assert!(at_once(&created().did(1, 200..210, DELETE).did(2, 220..230, CREATE)));
    assert!(at_once(&created().did(2, 1_300..1_310, CREATE)), "it has expired");
    assert!(at_once(&created().command(1, 200..210, DELETE, None).did(2, 220..230, CREATE)));
    let handed_over = created().did(1, 200..260, DELETE).did(2, 210..220, CREATE);
    assert!(at_once(&handed_over), "the deletion is answered late");
    assert!(at_once(&handed_over.did(2, 225..250, DELETE).did(3, 230..240, CREATE)), "twice");
    assert!(!at_once(&created().did(2, 200..210, DELETE)));
    let both_late = created().did(1, 200..300, DELETE).did(2, 210..310, CREATE);
    let both_late = both_late.did(2, 220..230, DELETE);
    assert!(!at_once(&both_late) && !violated(&both_late), "it takes a search");
}

#[test]
fn a_key_may_have_been_deleted_although_it_would_have_expired_later() {
    // The second stands still for longer than its key lives, which it has made early: the first had
    // deleted its own. The third gives its request up, which makes the key all the same, and deletes it.
    let deleted = |deletes| {
        let first = Tape::new().did(1, 100..110, CREATE).command(1, 500..600, deletes, None);
        let third = first.command(3, 950..1_960, CREATE, None).did(3, 1_961..1_980, DELETE);
        third.did(2, 900..2_500, CREATE).did(4, 2_000..2_010, CREATE)
    };
    assert!(!violated(&deleted(DELETE)), "{:?}", witness(&deleted(DELETE)));
    // Where nothing could have ended it but its time, the second made its key when that was over.
    assert!(violated(&deleted(plain(Touch::None))));
}

#[test]
fn whoever_was_surely_harmed_is_named_and_not_one_whose_time_had_passed() {
    let late = created().did(2, 1_300..1_320, OVERWRITE).did(3, 1_301..1_321, OVERWRITE);
    let named = witness(&late).acquisitions;
    assert!(!named.contains(&1), "{named:?}");
}

/// So many holds, one after the other. Of ten in turn the request of one is lost, and the answers to another's request and to
/// the deletion of a third.
fn lossy(holds: u32, delete: Intent) -> Tape {
    (1..=holds).fold(Tape::new(), |tape, of| {
        let at_ns = u64::from(of) * 100;
        let (makes, deletes) = (at_ns..at_ns + 10, at_ns + 20..at_ns + 30);
        match of % 10 {
            0 => tape.command(of, makes, CREATE, None),
            3 => tape.command(of, makes, CREATE, None).did(of, deletes, delete),
            6 => tape.did(of, makes, CREATE).command(of, deletes, delete, None),
            _ => tape.did(of, makes, CREATE).did(of, deletes, delete),
        }
    })
}

/// Any deletion without an answer may have deleted what stays: that is too much to be tried, and need not be.
#[test]
fn a_long_lossy_history_of_keys_that_stay_is_excused_at_once() {
    for delete in [DELETE, PLAIN_DELETE] {
        assert!(!violated(&lossy(1_600, delete).stamped()));
    }
}

/// Unanswered overwrites are left out: the work grows with their square, as each may have ended any hold.
#[test]
fn the_work_grows_with_the_history_and_not_with_its_square() {
    for delete in [DELETE, PLAIN_DELETE] {
        let looks = |holds| {
            let before = LOOKS.get();
            assert!(!violated(&lossy(holds, delete)));
            LOOKS.get() - before
        };
        let (few, many) = (looks(400), looks(1_600));
        assert!(many < 5 * few, "{few} looks, and {many} in a history four times as long");
    }
}
