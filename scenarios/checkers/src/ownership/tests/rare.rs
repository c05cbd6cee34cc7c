//! What one history in a million shows: commands without an answer, of which it matters which was carried out.

use super::*;

const OVERWRITE: Intent = TAKE_OVER;
const UNKNOWN: Intent = Intent { touch: Touch::Unknown, compares: false };

const fn create(ttl_ns: u64) -> Intent {
    Intent { touch: Touch::Create(Some(ttl_ns)), compares: false }
}

const fn overwrite(ttl_ns: u64) -> Intent {
    Intent { touch: Touch::Overwrite(Some(ttl_ns)), compares: false }
}

const fn extend(ttl_ns: u64) -> Intent {
    Intent { touch: Touch::Extend(ttl_ns), compares: false }
}

const CUT_SHORT: Intent = Intent { touch: Touch::Extend(0), compares: true };

#[test]
fn who_has_sent_two_deletions_may_have_removed_with_one_what_another_had_left_behind() {
    // 2 deletes its own by comparing, then 3's, if its time has passed, and makes room for 1.
    let tape = |ttl_ns| {
        let made = Tape::new().stamped().did(2, 5..321, create(250)).did(1, 22..416, create(4_000));
        let tape = made.did(3, 83..462, create(ttl_ns));
        violated(&tape.sends(2, 103, PLAIN_DELETE).sends(2, 173, DELETE))
    };
    assert!(!tape(250));
    assert!(tape(400));
}

#[test]
fn a_life_may_have_been_cut_short_before_a_deletion_was_sent() {
    // 3 overwrites the key when 2's time has passed, if 1's life was cut short at once.
    let tape = |cut_short: bool| {
        let made = Tape::new().did(1, 66..384, create(4_000));
        let cut = if cut_short { made.sends(1, 1_661, CUT_SHORT) } else { made };
        let next = cut.did(2, 2_888..3_070, CREATE).sends(1, 3_027, DELETE);
        violated(&next.did(3, 3_716..3_943, OVERWRITE))
    };
    assert!(!tape(true));
    assert!(tape(false));
}

#[test]
fn of_two_that_cut_a_life_short_the_one_that_cuts_it_shorter_may_have_done_so() {
    let tape = |lives: &[u64]| {
        let made = Tape::new().did(1, 100..110, create(4_000));
        let extends =
            lives.iter().map(|&ttl_ns| Intent { touch: Touch::Extend(ttl_ns), compares: true });
        let cut = extends.fold(made, |tape, intent| tape.sends(1, 200, intent));
        violated(&cut.did(2, 1_500..1_600, CREATE).did(3, 2_500..2_550, OVERWRITE))
    };
    assert!(!tape(&[1_390, 0]));
    assert!(!tape(&[0, 1_390]));
}

#[test]
fn a_life_may_have_been_cut_short_and_the_key_handed_over_later() {
    // 2 makes its key twice. What it sends between may end the first, or hand the second to somebody else.
    let tape = |cut_short: bool| {
        let made = Tape::new().did(2, 100..110, create(4_000));
        let cut = if cut_short { made.sends(2, 50, CUT_SHORT) } else { made };
        let again = cut.sends(2, 500, UNKNOWN).did(2, 600..610, CREATE);
        violated(&again.did(1, 800..810, extend(250)))
    };
    assert!(!tape(true));
    assert!(tape(false));
}

#[test]
fn what_nobody_knows_may_have_made_a_key_that_is_nobodys() {
    let tape = |made| {
        let free = Tape::new().sends(3, 50, made).did(2, 100..110, CREATE).did(2, 120..130, DELETE);
        violated(&free.did(3, 300..310, extend(1_000)).did(2, 400..410, extend(1_000)))
    };
    assert!(!tape(UNKNOWN));
    assert!(tape(CREATE));
}

#[test]
fn what_another_has_left_behind_is_deleted_and_ones_own_still_to_come() {
    // 1 deletes what 2 has left behind, and overwrites its own with a stamp that has passed.
    let tape = |left: bool| {
        let tape = Tape::new().stamped();
        let made = if left { tape.sends(2, 0, create(250)) } else { tape };
        let own = made.did(2, 790..791, DELETE).sends(1, 846, overwrite(250));
        let deleted = own.did(1, 2_300..2_301, PLAIN_DELETE).did(1, 2_750..2_751, OVERWRITE);
        violated(&deleted.did(3, 3_470..3_471, OVERWRITE))
    };
    assert!(!tape(true));
    assert!(tape(false));
}

#[test]
fn whose_value_is_found_was_there_when_another_extended_the_key() {
    // 3 may have extended its own key, but then 1 would have found that.
    let made = Tape::new().did(2, 14..259, create(4_000)).did(2, 100..430, extend(250));
    let sent = made.sends(1, 751, CREATE).did(3, 1_066..1_432, extend(4_000));
    let extended = sent.sends(3, 1_078, CREATE);
    assert!(!violated(&extended));
    assert!(violated(&extended.did(1, 1_946..2_369, OVERWRITE).found(6, 3)));
}

#[test]
fn of_two_stamps_of_its_own_the_one_that_is_over_later_may_have_been_deleted() {
    // 1 deletes what it has overwritten the key with, and leaves behind what 2 deletes.
    let tape = |ttl_ns| {
        let made = Tape::new().stamped().did(2, 21..30, PLAIN_DELETE).sends(1, 104, create(ttl_ns));
        let deleted = made.sends(1, 119, overwrite(4_000)).did(1, 176..278, DELETE);
        violated(&deleted.did(2, 370..772, PLAIN_DELETE).did(1, 286..540, create(4_000)))
    };
    assert!(!tape(250));
    assert!(tape(800));
}

#[test]
fn a_life_may_have_been_cut_short_and_the_next_be_deleted() {
    // 3 makes its key twice, and ends both: only one of them by deleting it.
    let tape = |cut_short: bool| {
        let made = Tape::new().did(3, 34..415, create(4_000));
        let cut = if cut_short { made.sends(3, 259, overwrite(1_000)) } else { made };
        let again = cut.did(3, 1_151..1_410, create(4_000)).sends(3, 1_162, DELETE);
        violated(&again.did(1, 1_620..1_952, OVERWRITE))
    };
    assert!(!tape(true));
    assert!(tape(false));
}

#[test]
fn who_has_ended_its_own_by_comparing_may_have_ended_anothers_with_what_does_not() {
    let first = Tape::new().did(2, 126..250, CREATE).sends(2, 278, PLAIN_DELETE);
    let deleted = first.did(1, 377..436, CREATE).sends(2, 388, DELETE);
    assert!(violated(&deleted.did(3, 401..778, CREATE)), "2 has deleted 1's key");
    // The same, by lives that are as good as none.
    let first = Tape::new().sends(1, 47, CREATE).did(1, 179..186, OVERWRITE).found(2, 1);
    let next = first.did(2, 202..487, CREATE).sends(1, 213, extend(1)).sends(1, 237, CUT_SHORT);
    assert!(violated(&next.did(2, 335..464, create(250))), "1 has ended 2's key");
}

#[test]
fn who_extends_a_key_when_its_own_has_surely_expired_extends_anothers() {
    // 2 has cut the life of 3's key short, and made its own, which 3 extends.
    let cut = Tape::new().did(3, 190..498, create(4_000)).did(2, 264..478, extend(1));
    let extended = cut.sends(2, 451, CREATE).did(3, 504..870, extend(4_000));
    assert!(violated(&extended.sends(2, 919, DELETE).did(2, 1_170..1_336, create(250))));
}

#[test]
fn a_server_may_come_back_with_a_key_where_there_was_none() {
    // 2 deletes what 1 has extended: its own key, or what the server had come back with after 1 had deleted that.
    let tape = |lost| {
        let made = Tape::new().did(1, 100..110, CREATE).did(1, 200..210, DELETE);
        let again = made.server_lost(Fault::Failover, 0, lost).sends(1, 220, CREATE);
        violated(&again.did(1, 400..410, EXTEND).did(2, 500..510, PLAIN_DELETE))
    };
    assert!(!tape(150..300));
    assert!(tape(50..80));
}

#[test]
fn what_is_found_later_has_not_cut_a_life_short() {
    // 1 cuts the life of its own key short with one of two, and 3 finds the other.
    let tape = |found| {
        let made = Tape::new().stamped().did(1, 100..110, create(4_000));
        let cut = made.sends(1, 150, overwrite(250)).sends(1, 200, overwrite(300));
        let next = cut.did(2, 600..610, overwrite(10));
        violated(&next.did(3, 700..710, OVERWRITE).found(5, found))
    };
    assert!(!tape(2));
    assert!(!tape(3));
}

#[test]
fn what_is_found_later_was_not_left_behind_and_deleted() {
    let tape = || {
        let free = Tape::new().stamped().did(2, 0..5, create(4_000)).did(2, 6..9, DELETE);
        let sent = free.sends(1, 10, overwrite(250)).sends(2, 20, overwrite(250));
        let own = sent.sends(3, 30, overwrite(300)).did(3, 500..510, PLAIN_DELETE);
        let made = own.did(3, 600..610, create(4_000)).did(2, 700..710, overwrite(50));
        made.did(1, 800..810, OVERWRITE)
    };
    assert!(!violated(&tape()));
    assert!(!violated(&tape().found(9, 3)));
    assert!(!violated(&tape().found(9, 4)));
}

#[test]
fn what_is_found_later_did_not_end_ones_own() {
    // 2 overwrites 1's key and deletes that, or cuts it short with what it finds later; 1 finds what could have spared it.
    let tape = |found_own| {
        let made = Tape::new().did(1, 100..110, create(4_000)).sends(1, 120, overwrite(10));
        let sent = made.sends(2, 150, overwrite(4_000)).sends(2, 160, overwrite(10));
        let ended = sent.sends(2, 200, DELETE).did(3, 300..310, CREATE).did(3, 320..330, DELETE);
        let own = ended.did(2, 400..410, OVERWRITE).found(8, 4).did(2, 420..430, DELETE);
        violated(&own.did(1, 500..510, OVERWRITE).found(10, found_own))
    };
    assert!(!tape(0));
    assert!(tape(2));
}

#[test]
fn of_two_that_cut_a_life_short_either_may_be_kept_for_the_next_hold() {
    // 3 ends its first key with a life of 250, and its second with a life of 1.
    let tape = |cut| {
        let made = Tape::new().did(3, 0..1, create(4_000)).sends(3, 10, overwrite(250));
        let again = made.sends(3, 250, cut).did(3, 280..281, create(4_000));
        violated(&again.did(1, 300..301, OVERWRITE))
    };
    assert!(!tape(Intent { touch: Touch::Extend(1), compares: true }));
    assert!(tape(Intent { touch: Touch::Extend(50), compares: true }));
}

#[test]
fn who_has_two_that_make_its_key_may_have_cut_its_life_short_with_the_first() {
    // 2 extends what it has created, and ends that with what it had sent before.
    let tape = |ttl_ns| {
        let made = Tape::new().did(1, 0..1, create(250)).sends(2, 10, overwrite(ttl_ns));
        let extended = made.sends(2, 20, create(1_000)).did(2, 400..401, extend(4_000));
        violated(&extended.did(3, 700..701, OVERWRITE))
    };
    assert!(!tape(250));
    assert!(tape(500));
}

#[test]
fn who_cannot_have_met_its_own_key_has_met_anothers() {
    // If 3 had made a key, it would still be there.
    let tape = |ttl_ns| {
        let made = Tape::new().did(1, 60..592, create(250)).sends(2, 24, create(1_000));
        let extended = made.did(3, 1_020..1_974, extend(ttl_ns)).sends(3, 1_861, create(1_000));
        violated(&extended.did(1, 1_983..2_820, create(1_000)))
    };
    assert!(tape(1_000));
    assert!(!tape(950));
}
