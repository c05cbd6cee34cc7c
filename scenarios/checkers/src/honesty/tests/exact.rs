//! What is false where times are exact.

use super::*;

/// The same, where nothing comes between what happens and its stamp.
fn exactly(tape: Tape) -> Outcome {
    outcome(tape.with(|it| it.exact = true))
}

/// The same, where scripts compare.
fn by_scripts(tape: Tape) -> Outcome {
    named(tape.with(|it| it.exact = true), "EVALSHA", |intent| intent.compares)
}

/// Acquisition 1 of client 1 has had the lock from 20 until 70 at the latest; acquisition 2 has it from 90 on, on this
/// server.
fn followed(node: u16) -> Tape {
    let short = Intent { touch: Touch::Create(Some(50)), compares: false };
    let tape = Tape::new().waited(1, 1, 1..21).did(1, 10..20, short);
    tape.waited(2, 2, 2..91).to(node, LOCK).did(2, 80..90, CREATE)
}

/// Acquisition 1 is told that it has already expired, by a script that looked from 201 to 210.
fn found_expired(tape: Tape) -> Tape {
    let tape = tape.to(0, LOCK).command(1, 201..210, DELETE, Some(Touch::None));
    tape.releases_told(1, 200..211, EXPIRED)
}

#[test]
fn already_expired_is_false_where_another_has_it_on_the_same_server() {
    assert_eq!(by_scripts(found_expired(followed(0))), Violated);
    assert_eq!(exactly(found_expired(followed(0))), Held, "a command does not tell which");
    assert_eq!(by_scripts(found_expired(followed(1))), Held, "here nobody had it");
    let extended = |acquisition, ttl_ns| followed(0).did(acquisition, 100..110, plainly(ttl_ns));
    for acquisition in [1, 2, 3] {
        assert_eq!(by_scripts(found_expired(extended(acquisition, 111))), Held, "{acquisition}");
        assert_eq!(
            by_scripts(found_expired(extended(acquisition, 112))),
            Violated,
            "{acquisition}"
        );
    }
    let deleted = followed(0).did(3, 100..110, DELETE);
    assert_eq!(by_scripts(found_expired(deleted)), Held, "it may share the value");
    let of_its_own = followed(0).did(3, 1..5, CREATE).did(3, 6..110, DELETE);
    assert_eq!(by_scripts(found_expired(of_its_own)), Violated);
}

#[test]
fn a_request_in_vain_lets_no_key_live_on() {
    // Acquisition 3 has had a key that is over by 60, and asks again in vain.
    let short = Intent { touch: Touch::Create(Some(50)), compares: false };
    let vain = Tape::new().acquires(3, 5).did(3, 10..20, short);
    let vain = vain.command(3, 150..160, CREATE, Some(Touch::None));
    let tape = vain.waited(1, 1, 70..91).did(1, 80..90, short);
    assert_eq!(by_scripts(found_expired(tape)), Held);
}

#[test]
fn who_extends_whosever_key_is_there_may_end_it() {
    let expired = |tape: Tape| {
        let tape = tape.to(0, LOCK).command(1, 210..250, DELETE, Some(Touch::None));
        exactly(told(tape, EXPIRED))
    };
    let answered = |span, ttl_ns, did| expired(granted().command(2, span, plainly(ttl_ns), did));
    for touch in [Some(plainly(150).touch), None] {
        assert_eq!(answered(150..160, 150, touch), Held, "{touch:?}");
        assert_eq!(answered(150..160, 151, touch), Violated, "{touch:?}");
    }
    assert_eq!(answered(150..160, 150, Some(Touch::None)), Violated, "it found no key");
    assert_eq!(expired(granted().refused_command(2, 150..160, plainly(150))), Violated);
    assert_eq!(expired(granted().sends(2, 150, plainly(150))), Held);
    assert_eq!(expired(granted().to(1, LOCK).did(2, 150..160, plainly(150))), Violated);
    let before = |done_ns| {
        let tape = Tape::new().did(2, 20..done_ns, plainly(50)).waited(1, 1, 40..100);
        expired(tape.did(1, 91..99, CREATE))
    };
    assert_eq!(before(90), Violated, "that was another key");
    assert_eq!(before(91), Held);
}

#[test]
fn who_extends_whosever_key_is_there_may_keep_it() {
    let gone_ns = 99 + TTL_NS;
    let released = |tape: Tape, found| {
        let tape = tape.to(0, LOCK).command(1, 3_001..3_010, DELETE, found);
        exactly(tape.releases(1, 3_000..3_011))
    };
    assert_eq!(released(granted(), None), Violated);
    assert_eq!(released(granted(), Some(Touch::Delete)), Held, "its key was there");
    let extended = |tape: Tape, span, ttl_ns| tape.did(2, span, plainly(ttl_ns));
    assert_eq!(released(extended(granted(), 150..160, 2_841), None), Held);
    assert_eq!(released(extended(granted(), 150..160, 2_840), None), Violated);
    assert_eq!(released(granted().sends(2, 150, plainly(10)), None), Held, "it may come late");
    assert_eq!(released(extended(granted(), gone_ns..1_110, 5_000), None), Held);
    assert_eq!(
        released(extended(granted(), gone_ns + 1..1_110, 5_000), None),
        Violated,
        "too late"
    );
    let twice = extended(extended(granted(), 150..160, 1_000), 1_160..1_170, 5_000);
    assert_eq!(released(twice, None), Held);
    let elsewhere = extended(granted().to(1, LOCK), 150..160, 5_000);
    assert_eq!(released(elsewhere, None), Violated);
    assert_eq!(released(granted().did(2, 150..160, EXTEND), None), Held, "it may share the value");
    let of_its_own = Tape::new().did(2, 10..20, CREATE).waited(1, 1, 40..100);
    let of_its_own = of_its_own.did(1, 91..99, CREATE).did(2, 95..160, EXTEND);
    assert_eq!(released(of_its_own, None), Violated);
    let given_back =
        Tape::new().waited(1, 1, 40..100).did(1, 50..60, CREATE).did(1, 61..70, DELETE);
    assert_eq!(released(given_back.did(1, 91..99, CREATE), None), Violated, "the key before it");
}

#[test]
fn released_is_false_where_the_key_had_gone_before_anything_was_sent() {
    let gone_ns = 99 + TTL_NS;
    let released = |tape: Tape, sent_ns: u64| {
        let tape = tape.command(1, sent_ns..sent_ns + 5, DELETE, None);
        exactly(tape.releases_told(1, sent_ns - 1..gone_ns + 100, "released"))
    };
    assert_eq!(released(granted(), gone_ns + 1), Violated);
    assert_eq!(released(granted(), gone_ns), Held);
    let renewed = granted().did(1, 120..130, EXTEND);
    assert_eq!(released(renewed, gone_ns + 1), Held);
    let perhaps = granted().command(1, 120..130, EXTEND, None);
    assert_eq!(released(perhaps, gone_ns + 1), Held, "it may have been extended");
    let handed_on = granted().valid(1, 120, gone_ns + 1);
    assert_eq!(released(handed_on, gone_ns + 1), Held, "another made the key that it relies on");
    let drifts = granted().struck(Fault::Drift, 0, 50);
    assert_eq!(released(drifts, gone_ns + 1), Held, "the server's clock may be slow");
    let late = Tape::new().waited(1, 1, 40..100).sends(1, 41, CREATE).did(1, 91..99, CREATE);
    assert_eq!(released(late, gone_ns + 1), Held, "another request may still arrive");
}

#[test]
fn a_key_that_never_expires_does_not_go_by_itself() {
    let made = |ttl_ns| Intent { touch: Touch::Create(ttl_ns), compares: false };
    let holds = |ttl_ns| Tape::new().waited(1, 1, 40..100).did(1, 91..99, made(ttl_ns));
    let released = |tape: Tape| exactly(tape.releases(1, 3_000..3_100));
    let unanswered = |tape: Tape| tape.command(1, 3_001..3_005, DELETE, None);
    assert_eq!(released(unanswered(holds(Some(TTL_NS)))), Violated);
    assert_eq!(released(unanswered(holds(None))), Held);
    assert_eq!(released(unanswered(holds(Some(TTL_NS)).stamped())), Held);
    // A TTL of its own ends it, unless this may have been set before the key was made.
    let expires = |span| unanswered(holds(None).did(1, span, EXTEND));
    assert_eq!(released(expires(99..110)), Violated);
    assert_eq!(released(expires(98..110)), Held);
    assert_eq!(released(expires(1_995..2_001)), Held, "that is not over yet");
}

#[test]
fn taken_by_another_needs_another() {
    let nothing = || granted().command(1, 210..290, DELETE, Some(Touch::None));
    let taken = |tape| exactly(told(tape, TAKEN));
    let gone = |tape: Tape| tape.did(1, 101..102, Intent { touch: Touch::Extend(1), ..EXTEND });
    assert_eq!(taken(gone(nothing())), Violated);
    assert_eq!(taken(gone(nothing()).did(2, 150..160, CREATE)), Held);
    assert_eq!(taken(gone(nothing()).sends(2, 50, CREATE)), Held, "it may have come by now");
    assert_eq!(taken(gone(nothing()).did(2, 10..20, CREATE)), Violated, "before it asked");
    let refused = gone(nothing()).command(2, 150..160, CREATE, Some(Touch::None));
    assert_eq!(taken(refused), Violated);
    let handed = gone(nothing()).command(2, 150..160, HAND_ON, Some(Touch::Unknown));
    assert_eq!(taken(handed), Held, "to whom, nobody knows");
    let foreign = |at_ns| gone(nothing()).struck(Fault::ForeignKey, 0, at_ns);
    assert_eq!(taken(foreign(150)), Held, "the run has put something else there");
    assert_eq!(taken(foreign(50)), Violated, "that had gone before it asked");
}

#[test]
fn who_knows_all_answers_is_not_told_that_nobody_knows() {
    let unknown = |tape: Tape, why| exactly(tape.release_unknown(1, 200..300, why));
    let nothing = || granted().command(1, 210..290, DELETE, Some(Touch::None));
    assert_eq!(unknown(nothing(), "reset"), Violated);
    let in_real_time = nothing().release_unknown(1, 200..300, "reset").with(|it| it.exact = false);
    assert_eq!(outcome(in_real_time), NotApplicable, "its call may have been given up meanwhile");
    assert_eq!(unknown(nothing(), "dropped half-way"), NotApplicable);
    assert_eq!(unknown(granted(), "not sent"), NotApplicable);
    assert_eq!(unknown(nothing().command(1, 220..230, DELETE, None), "reset"), NotApplicable);
    let refused = nothing().refused_command(1, 292..295, DELETE);
    assert_eq!(unknown(refused, "reset"), Violated, "what was refused did nothing");
    let gave_back = granted().refused_command(1, 150..160, DELETE);
    let again = gave_back.command(1, 210..290, DELETE, Some(Touch::None));
    assert_eq!(unknown(again, "reset"), NotApplicable, "it may be what was given back before");
    let asked =
        |answer| exactly(Tape::new().command(1, 50..60, CREATE, answer).unknown(1, 1, 40..100));
    assert_eq!(asked(Some(Touch::None)), Violated);
    assert_eq!(asked(None), NotApplicable);
    assert_eq!(asked(Some(CREATE.touch)), NotApplicable, "it is being given back");
    assert_eq!(asked(Some(EXTEND.touch)), NotApplicable, "its own key was there");
    assert_eq!(exactly(Tape::new().unknown(1, 1, 40..100)), NotApplicable);
    // A script that nobody knows may have made the key, unless its answer says no.
    let refused = || Tape::new().command(1, 50..60, CREATE, Some(Touch::None));
    let script =
        |answer| exactly(refused().command(1, 70..80, SCRIPT, answer).unknown(1, 1, 40..100));
    assert_eq!(script(Some(Touch::None)), Violated);
    for answer in [Some(Touch::Unknown), Some(CREATE.touch), None] {
        assert_eq!(script(answer), NotApplicable, "{answer:?}");
    }
    // So may a request on another key, which only reads of it are not.
    let elsewhere = |name: &str| {
        let tape = refused().to(0, "queue").sends(1, 70, READ).unknown(1, 1, 40..100);
        named(tape.with(|it| it.exact = true), name, |intent| intent == READ)
    };
    assert_eq!(elsewhere("RPUSH"), NotApplicable);
    for name in ["GET", "SUBSCRIBE", "WAIT", "PING"] {
        assert_eq!(elsewhere(name), Violated, "{name}");
    }
}

#[test]
fn protected_work_has_something_to_release() {
    let protected = |tape| exactly(told(tape, PROTECTED));
    let nothing = || granted().command(1, 210..290, DELETE, Some(Touch::None));
    assert_eq!(protected(nothing()), Violated);
    assert_eq!(protected(granted().did(1, 210..290, DELETE)), Held);
    assert_eq!(protected(granted().command(1, 210..290, DELETE, None)), Held, "nobody knows");
    assert_eq!(protected(granted().refused_command(1, 210..290, DELETE)), Held);
    assert_eq!(protected(granted()), Held, "it cannot send anything");
    let of_two = || granted().to(1, "lock").did(1, 91..99, CREATE);
    let here = |tape: Tape| tape.command(1, 210..290, DELETE, Some(Touch::None));
    let refuses = |tape: Tape| tape.refused_command(1, 210..290, DELETE);
    assert_eq!(protected(here(here(of_two()).to(0, "lock"))), Violated);
    assert_eq!(protected(refuses(here(of_two()).to(0, "lock"))), Held, "one may still have it");
}
