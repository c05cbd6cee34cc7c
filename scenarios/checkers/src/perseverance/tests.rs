//! Who gives up too soon: both sides of each boundary.

use crate::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};
use history::fault::Fault;
use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
use history::{Intent, Touch};
use picklock::env::Phase;

fn asked(tape: Tape) -> Tape {
    tape.with(|it| it.tries_for_ns = Some(500))
}

fn outcome(tape: Tape) -> Outcome {
    asked(tape).outcome("perseverance")
}

#[test]
fn a_grant_counts_in_the_round_in_which_it_was_asked_for() {
    let asked = |at_ns| {
        let tape = Tape::new().with(|it| it.nodes = Some(1)).did(1, at_ns..120, CREATE);
        outcome(tape.phase(1, 110, Phase::AcquireBeforeSend).refused(1, 1, 100..130))
    };
    assert_eq!((asked(111), asked(109)), (Violated, NotApplicable));
}

#[test]
fn an_unknown_script_may_be_a_request() {
    let refused = |compares| {
        let script = Intent { touch: Touch::Unknown, compares };
        outcome(Tape::new().refused_command(1, 105..110, script).refused(1, 1, 100..200))
    };
    assert_eq!((refused(false), refused(true)), (Violated, NotApplicable));
}

#[test]
fn a_request_without_an_end_has_no_answer() {
    let open =
        |tape: Tape, end_ns| outcome(tape.refused(1, 1, 100..end_ns).with(|it| it.nodes = Some(1)));
    assert_eq!(open(Tape::new().sends(1, 105, CREATE), 599), Violated);
    assert_eq!(open(Tape::new().sends(1, 105, CREATE), 600), Held);
    assert_eq!(open(Tape::new().sends(1, 105, DELETE), 599), NotApplicable);
    let of_several = Tape::new().sends(1, 105, CREATE).refused(1, 1, 100..599);
    assert_eq!(outcome(of_several.with(|it| it.nodes = Some(3))), NotApplicable);
}

/// False alarms with `notify` and `queue`.
#[test]
fn who_listens_has_used_its_retries_up_once_all_its_attempts_are_begun() {
    let tried = |attempts: u64, listens: &str| {
        let tape = (0..attempts).fold(Tape::new().calls(1, 101..102, listens), |tape, nth| {
            tape.phase(1, 103 + nth, Phase::AcquireBeforeSend)
        });
        let tape = tape.refused_command(1, 107..110, CREATE).refused(1, 1, 100..120);
        outcome(tape.with(|it| it.attempts_most = Some(2)))
    };
    assert_eq!((tried(1, "SUBSCRIBE"), tried(2, "SUBSCRIBE")), (Violated, Held));
    assert_eq!(tried(2, "GET"), Violated, "who does not listen pauses");
}

#[test]
fn who_may_not_listen_need_not_ask_again() {
    let listened = |client, error| {
        let tape = Tape::new().command(1, 101..105, CREATE, None).to(0, "channel");
        let tape = tape.refused_call(client, 106..110, "SUBSCRIBE", error);
        outcome(tape.refused(1, 1, 100..120))
    };
    assert_eq!(listened(1, "NOAUTH Authentication required."), Held);
    assert_eq!(listened(1, "OOM"), Violated, "that passes");
    assert_eq!(listened(2, "NOAUTH Authentication required."), Violated, "another client");
}

/// It asks at 100, and is refused with OOM at 110.
fn refused() -> Tape {
    Tape::new().refused_command(1, 105..110, CREATE)
}

#[test]
fn who_gives_up_before_its_retries_can_be_used_up_is_blamed() {
    assert_eq!(outcome(refused().refused(1, 1, 100..599)), Violated);
    assert_eq!(outcome(refused().refused(1, 1, 100..600)), Held);
    assert_eq!(outcome(refused().waited(1, 1, 100..200)), Held, "it got the lock");
    assert_eq!(outcome(refused().unknown(1, 1, 100..200)), Violated, "whatever it may have");
    assert_eq!(outcome(refused().acquires(1, 100)), Held, "it goes on");
    let answered = refused().did(1, 120..130, CREATE).refused(1, 1, 100..200);
    assert_eq!(outcome(answered), Held, "another request was not refused");
    let other = refused().refused(1, 1, 100..800).refused(2, 2, 100..200);
    assert_eq!(outcome(other), Held, "another acquisition");
}

#[test]
fn a_request_without_an_answer_is_no_reason() {
    let unanswered = || Tape::new().command(1, 105..110, CREATE, None);
    assert_eq!(outcome(unanswered().refused(1, 1, 100..599)), Violated);
    assert_eq!(outcome(unanswered().refused(1, 1, 100..600)), Held);
    assert_eq!(outcome(unanswered().unknown(1, 1, 100..200)), Violated);
    assert_eq!(outcome(unanswered().waited(1, 1, 100..200)), Held, "it got the lock");
    let again = unanswered().did(1, 120..130, CREATE).refused(1, 1, 100..200);
    assert_eq!(outcome(again), Held, "another request was answered");
    let denied = Tape::new().refused_with(1, 101..104, CREATE, "NOPERM no permissions");
    let denied = denied.command(1, 105..110, DELETE, None).refused(1, 1, 100..200);
    assert_eq!(outcome(denied), NotApplicable, "what had no answer gives the lock back");
    let told = asked(unanswered().refused(1, 1, 100..200)).witness("perseverance").summary;
    let says = "client 1 gave up 100 ns after it had asked for the lock, because a request had no answer: another \
                may have one, and its retries take 500 ns at least";
    assert_eq!(told, says);
}

#[test]
fn what_became_of_an_earlier_request_says_nothing() {
    let one = |tape: Tape| outcome(tape.with(|it| it.nodes = Some(1)));
    let denied = |tape: Tape| tape.refused_with(1, 120..130, CREATE, "NOPERM no");
    let open = Tape::new().refused(1, 1, 100..200).sends(1, 105, CREATE);
    assert_eq!(one(denied(open.clone())), NotApplicable, "the last was refused for good");
    assert_eq!(one(open.command(1, 120..130, CREATE, Some(Touch::None))), NotApplicable);
    let late = Tape::new().refused(1, 1, 100..200).command(1, 105..140, CREATE, None);
    assert_eq!(one(denied(late)), NotApplicable, "known to have no answer only then");
    let last = Tape::new().refused(1, 1, 100..200).refused_with(1, 105..110, CREATE, "NOPERM");
    assert_eq!(one(last.sends(1, 120, CREATE)), Violated);
}

#[test]
fn who_is_refused_for_good_by_so_many_that_the_others_are_no_quorum_gives_up() {
    let answers = |denied: u16| {
        let tape = Tape::new().resource(3);
        let tape = (0..denied).fold(tape, |tape, node| {
            tape.to(node, LOCK).refused_with(1, 101..110 + u64::from(node), CREATE, "NOPERM")
        });
        let tape = tape.to(2, LOCK).command(1, 102..115, CREATE, None);
        outcome(tape.refused(1, 1, 100..120))
    };
    assert_eq!((answers(1), answers(2)), (Violated, Held));
}

#[test]
fn whom_its_caller_has_stopped_did_not_give_up() {
    assert_eq!(
        outcome(refused().unknown_because(1, 1, 100..200, "dropped before it had ended")),
        Held
    );
    assert_eq!(outcome(refused().refused_because(1, 1, 100..200, history::words::DROPPED)), Held);
}

#[test]
fn no_connection_is_no_reason() {
    let ends = |end_ns| outcome(Tape::new().not_sent(1, 100..end_ns));
    assert_eq!((ends(599), ends(600)), (Violated, Held));
    let denied = Tape::new().refused_with(1, 105..110, CREATE, "NOPERM no");
    let denied = denied.with(|it| it.nodes = Some(1)).not_sent(1, 100..200);
    assert_eq!(outcome(denied), NotApplicable, "it was refused for good before");
    let told = asked(Tape::new().not_sent(1, 100..200)).witness("perseverance").summary;
    let says = "client 1 gave up 100 ns after it had asked for the lock, because it got no connection: there may be \
                one later, and its retries take 500 ns at least";
    assert_eq!(told, says);
}

#[test]
fn only_errors_that_pass_are_no_reason() {
    let answers = |why: &'static str| {
        let tape = Tape::new().refused_with(1, 105..110, CREATE, why).refused(1, 1, 100..200);
        outcome(tape)
    };
    assert_eq!(answers("LOADING Redis is loading the dataset in memory"), Violated);
    assert_eq!(answers("BUSY"), Violated);
    assert_eq!(answers("BUSYKEY Target key name already exists."), NotApplicable);
    assert_eq!(answers("NOSCRIPT No matching script."), NotApplicable);
    assert_eq!(answers("NOPERM this user has no permissions"), NotApplicable);
    assert_eq!(answers("not sent: no connection"), NotApplicable);
}

#[test]
fn who_is_granted_the_lock_takes_it() {
    let round = |servers: u16, granted: u16, end_ns| {
        let tape = Tape::new().resource(servers).phase(1, 100, Phase::AcquireBeforeSend);
        let tape =
            (0..granted).fold(tape, |tape, node| tape.to(node, LOCK).did(1, 101..110, CREATE));
        tape.refused(1, 1, 10..end_ns)
    };
    assert_eq!(outcome(round(5, 3, 120)), Violated);
    assert_eq!(outcome(round(1, 1, 120)), Violated);
    assert_eq!(outcome(round(5, 2, 120)), NotApplicable, "no quorum");
    assert_eq!(outcome(round(5, 3, 100 + TTL_NS / 2)), Violated);
    assert_eq!(outcome(round(5, 3, 101 + TTL_NS / 2)), NotApplicable, "it may be too late");
    let returned = round(5, 3, 120).to(1, LOCK).sends(1, 115, DELETE);
    assert_eq!(outcome(returned), NotApplicable, "one was given back");
    let early = round(1, 1, 120).to(0, LOCK).sends(1, 105, DELETE);
    assert_eq!(outcome(early), NotApplicable, "it was given back before it was known");
    let again = round(5, 3, 150).phase(1, 130, Phase::AcquireBeforeSend);
    assert_eq!(outcome(again), NotApplicable, "another round");
    let replicas = round(1, 1, 120).phase(1, 112, Phase::AcquireBetween);
    assert_eq!(outcome(replicas), NotApplicable, "replicas do not know of it");
    let drifts = round(1, 1, 120).struck(Fault::Drift, 1, 5);
    assert_eq!(outcome(drifts), NotApplicable, "its clock may have run ahead");
    let twice = round(3, 1, 120).to(0, LOCK).did(1, 111..115, CREATE);
    assert_eq!(outcome(twice), NotApplicable, "one server is no quorum of three");
    let waits = round(1, 1, 120).to(0, "").calls(1, 112..115, "WAIT");
    assert_eq!(outcome(waits), NotApplicable, "too few replicas, perhaps");
    let script = Intent { touch: Touch::Unknown, compares: false };
    let handed_on = round(1, 0, 120).command(1, 101..110, script, Some(CREATE.touch));
    assert_eq!(outcome(handed_on), NotApplicable, "it may have made the key for another");
    let told = asked(round(1, 1, 120)).witness("perseverance").summary;
    let says = "client 1 ended without the lock, though it had been granted 20 ns before, for 1 µs";
    assert_eq!(told, says);
}

#[test]
fn it_is_asked_of_recipes_that_claim_it() {
    let tape = refused().refused(1, 1, 100..200);
    assert!(tape.findings().iter().all(|it| it.name != "perseverance"));
    assert_eq!(outcome(Tape::new().refused(1, 1, 100..200)), NotApplicable);
}

#[test]
fn the_witness_says_how_soon_it_gave_up() {
    let tape = asked(refused().refused(1, 1, 100..200).refused(2, 2, 100..110));
    let witness = tape.witness("perseverance");
    let says = "client 1 gave up 100 ns after it had asked for the lock, because a server answered OOM: that \
                passes, and its retries take 500 ns at least";
    assert_eq!((witness.summary.as_str(), witness.occurrences), (says, 1));
}
