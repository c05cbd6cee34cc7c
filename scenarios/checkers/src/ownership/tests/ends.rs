//! How holds end by themselves: with their TTL, or with the time of their stamp; and who is nobody's harm.

use super::*;

#[test]
fn a_stamped_hold_may_be_taken_over_when_its_time_has_passed_and_not_before() {
    let end = 100 + TTL_NS;
    let taken = |span| created().stamped().did(2, span, TAKE_OVER);
    assert!(violated(&taken(end - 10..end - 1)));
    assert!(!violated(&taken(end - 10..end)), "it may have passed by then");
    assert!(!violated(&taken(end..end + 10)));
    // The next hold is as good as any, and ends by its own time.
    let next = |span| taken(end..end + 10).did(3, span, TAKE_OVER);
    assert!(violated(&next(end + 20..end + 30)));
    assert!(!violated(&next(end + TTL_NS..end + TTL_NS + 10)));
    assert!(violated(&taken(end..end + 10).did(1, end + 20..end + 30, PLAIN_DELETE)));
}

#[test]
fn a_stamped_hold_leaves_its_key_behind_which_is_nobodys() {
    let end = 100 + TTL_NS;
    let late = || created().did(2, end + 10..end + 20, PLAIN_DELETE);
    assert!(violated(&late()), "a key that has expired cannot be deleted: it was created as late");
    assert!(!violated(&late().stamped()), "one whose time has passed can");
    let within = created().stamped().did(2, end - 20..end - 10, PLAIN_DELETE);
    assert!(violated(&within));
}

#[test]
fn a_stamp_counts_from_the_sending_however_late_it_is_carried_out() {
    // Acquisition 1 is let in by the deletion of 3, which is sent long after its request.
    let end = 100 + TTL_NS;
    let taken = || {
        let before = Tape::new().did(3, 10..20, CREATE).did(1, 100..400, CREATE);
        before.did(3, 300..310, DELETE).did(2, end..end + 10, TAKE_OVER)
    };
    assert!(violated(&taken()), "the server counts from when it carries a command out");
    assert!(!violated(&taken().stamped()), "a client has counted before");
}

#[test]
fn a_servers_clock_has_no_part_in_a_stamp() {
    let jumped = || created().struck(Fault::ClockStep, 0, 150).did(2, 200..210, TAKE_OVER);
    assert!(!violated(&jumped()));
    assert!(violated(&jumped().stamped()));
}

#[test]
fn a_stamp_without_an_answer_is_over_when_its_time_has_passed_since_its_sending() {
    let end = 100 + TTL_NS;
    let extend = Intent { touch: Touch::Extend(TTL_NS), compares: false };
    for harm in [PLAIN_DELETE, extend] {
        for made in [CREATE, TAKE_OVER] {
            let free = || Tape::new().stamped().did(2, 10..20, CREATE).did(2, 30..40, DELETE);
            let late = |done| free().command(1, 100..110, made, None).did(2, end - 50..done, harm);
            assert!(violated(&late(end - 1)));
            assert!(!violated(&late(end)), "it may have passed by then");
        }
    }
}

/// A key that surely has expired is not the one that is found: that came for no reason known.
#[test]
fn who_meets_a_key_that_is_there_when_the_last_has_surely_expired_has_harmed_nobody() {
    let end = 110 + TTL_NS;
    let extend = Intent { touch: Touch::Extend(TTL_NS), compares: false };
    for harm in [DELETE, PLAIN_DELETE, EXTEND, extend] {
        let met = |tape: Tape, sent| violated(&tape.did(2, sent..sent + 10, harm));
        assert!(met(created(), end), "it may have been created as late as it was answered");
        assert!(!met(created(), end + 1));
        assert!(met(created().margin(7), end + 7), "within the margin of the clock");
        assert!(!met(created().margin(7), end + 8));
        // Whatever may have prolonged the hold, by whomever.
        let extended = || created().did(1, 600..610, EXTEND);
        assert!(met(extended(), 610 + TTL_NS));
        assert!(!met(extended(), 611 + TTL_NS));
        let open = |by, sent, intent| created().command(by, sent..sent + 1, intent, None);
        for (by, intent) in [(1, EXTEND), (1, extend), (3, extend)] {
            assert!(met(open(by, 600, intent), end + TTL_NS));
            assert!(!met(open(by, 600, intent), end + TTL_NS + 1));
            assert!(!met(open(by, end + 1, intent), end + 50), "sent too late");
        }
        assert!(!met(open(3, 600, EXTEND), end + 1), "it compares");
        let both = open(1, 600, extend).command(3, end + 5..end + 6, extend, None);
        assert!(met(both.clone(), end + 2 * TTL_NS));
        assert!(!met(both, end + 2 * TTL_NS + 1));
        let jumped = |at_ns| created().struck(Fault::ClockStep, 0, at_ns);
        assert!(met(jumped(500), 9_000), "the server's clock may have gone back");
        assert!(!met(jumped(90), 9_000), "that was before");
        // A request that nobody has answered may have made it.
        for made in [CREATE, TAKE_OVER] {
            for by in [1, 3] {
                assert!(met(open(by, 600, made), 9_000));
            }
            assert!(!met(open(2, 600, made), 9_000), "perhaps its own");
            assert!(!met(open(1, 9_020, made), 9_000), "sent after it");
        }
    }
    let for_ever = Intent { touch: Touch::Create(None), compares: false };
    let tape = Tape::new().did(1, 100..110, for_ever).did(2, 50..60, EXTEND);
    assert!(violated(&tape.did(2, 9_000..9_010, PLAIN_DELETE)));
}

/// A stamped key that is there is in the way of who creates one, however long its time has passed.
#[test]
fn a_key_is_created_in_place_of_a_stamped_one_only_when_somebody_has_deleted_that() {
    // Either 2 came first, and then there was no room for 1; or 1 did, and 2 overwrote its key.
    let both = |stamped: bool| {
        let tape = if stamped { Tape::new().stamped() } else { Tape::new() };
        tape.did(2, 10..900, TAKE_OVER).did(1, 300..1_200, CREATE)
    };
    assert!(!violated(&both(false)), "it had expired");
    assert!(violated(&both(true)));
    let deleted =
        |by, sent, delete| violated(&both(true).command(by, sent..sent + 1, delete, None));
    assert!(!deleted(2, 400, DELETE), "its own");
    assert!(!deleted(3, 1_100, PLAIN_DELETE), "its time had passed");
    assert!(violated(&both(true).command(3, 1_201..1_202, PLAIN_DELETE, None)), "too late");
    assert!(deleted(3, 400, DELETE), "it was not its own");
    // One that deletes what is left may be one that nobody has heard of again, and its time may be to come.
    let end = 100 + TTL_NS;
    let next = |delete_ns, create_ns: u64| {
        let tape = created().stamped().command(3, delete_ns..delete_ns + 1, PLAIN_DELETE, None);
        violated(&tape.did(2, create_ns..create_ns + 10, CREATE))
    };
    assert!(!next(200, end + 50));
    assert!(!next(200, end - 10));
    assert!(next(200, end - 11), "whoever deleted it, did so before its time had passed");
}

#[test]
fn a_client_without_an_acquisition_can_do_harm_and_the_run_cannot() {
    // Answered within the certain hold, or perhaps after it, which is left to the search.
    for done_ns in [210, 100 + TTL_NS] {
        let harms = |client| {
            let tape = created().did(0, 200..done_ns, PLAIN_DELETE);
            let mut checker = Ownership::new(&tape.history().head);
            tape.show_to(&mut checker);
            let mut known = checker.by_server().remove(0);
            known.ops[1].client = client;
            judged(&known).unwrap().is_some()
        };
        assert!(harms(7));
        assert!(!harms(0));
    }
}

/// A false alarm: 2 was blamed for harm to 3, who may have made the key, although a client without an acquisition may as well.
#[test]
fn what_a_client_may_have_made_without_an_acquisition_is_nobodys() {
    let plainly = Intent { touch: Touch::Extend(TTL_NS), compares: false };
    for harm in [PLAIN_DELETE, plainly] {
        let free = created().did(1, 120..130, DELETE).sends(3, 135, CREATE).sends(4, 140, CREATE);
        let harms = |others: &[u32]| {
            let tape = free.clone().did(2, 200..210, harm);
            let mut history = tape.history();
            let without = history.events.iter_mut().filter(|it| others.contains(&it.client));
            without.for_each(|it| it.acquisition = 0);
            let findings = crate::judge(&history, true);
            findings
                .iter()
                .any(|it| it.name == "ownership" && matches!(it.verdict, Verdict::Violated(_)))
        };
        assert!(harms(&[]));
        assert!(!harms(&[4]));
        assert!(!harms(&[3]));
    }
}
