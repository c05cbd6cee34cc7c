//! Whose key is named, and what of the cause stands in the story.

use history::fault::Fault;
use history::verdict::Witness;
use history::{Intent, Touch};

use crate::testing::{CREATE, DELETE, TTL_NS, Tape};

const OVERWRITE: Intent = Intent { touch: Touch::Overwrite(Some(TTL_NS)), compares: false };
const FOR_EVER: Intent = Intent { touch: Touch::Create(None), compares: false };

fn told(witness: &Witness) -> Vec<String> {
    let line =
        |it: &history::verdict::WitnessStep| format!("{} {} {}", it.at_ns, it.client, it.text);
    witness.story.iter().map(line).collect()
}

/// Two want the lock from 100 on, and get it at the end.
fn stalled(tape: Tape, end_ns: u64) -> Tape {
    let tape = tape.waited(8, 8, 100..end_ns).did(8, end_ns - 10..end_ns - 1, CREATE);
    tape.refused(9, 9, 100..end_ns + 5).available_within(200)
}

#[test]
fn a_stall_names_who_made_the_key_that_nobody_was_told_of() {
    let tape = Tape::new().unknown(1, 1, 40..70).struck(Fault::LoseReply, 1, 60);
    let tape = stalled(tape.command(1, 45..70, CREATE, None), 45 + TTL_NS + 50);
    let witness = tape.witness("availability");
    assert_eq!(
        (witness.acquisitions.as_slice(), witness.clients.as_slice()),
        (&[1][..], &[8, 1][..])
    );
    assert_eq!(
        told(&witness),
        [
            "60 1 is sent a reply that is lost",
            "70 1 does not know whether it has the lock: reset",
            "70 1 CMD is never answered: reset",
            "100 8 wants the lock, and nobody has it from now on",
            "100 1 the key that is left may be its own: what would make it has no answer",
            "1095 8 the stall ends",
        ]
    );
}

#[test]
fn a_stall_names_who_wrote_the_key_anew_after_its_release() {
    let tape = Tape::new().hold(1, 1, 20..60).did(1, 10..15, CREATE).did(1, 61..65, DELETE);
    let tape = tape.struck(Fault::Delay, 1, 58).did(1, 59..90, OVERWRITE);
    let witness = stalled(tape, 90 + TTL_NS + 50).witness("availability");
    let told = told(&witness);
    for line in [
        "58 1 waits: one of its messages is late",
        "90 1 CMD on the lock is answered: the key is set, to live 1 µs",
        "100 1 its key is left, and nobody else can have the lock",
        "1090 1 its key expires",
    ] {
        assert!(told.iter().any(|it| it == line), "{line}: {told:?}");
    }
}

#[test]
fn a_key_that_was_made_within_the_stall_is_left_from_then_on() {
    let witness = stalled(Tape::new().did(1, 110..120, CREATE), 1_150).witness("availability");
    let told = told(&witness);
    let place = |line: &str| told.iter().position(|it| it == line);
    let made = place("120 1 CMD on the lock is answered: the key is its own for 1 µs");
    let left = place("120 1 its key is left, and nobody else can have the lock");
    assert!(made.is_some() && made < left, "{told:?}");
}

#[test]
fn a_stall_beside_no_key_accuses_nobody() {
    let released = || Tape::new().did(1, 10..15, CREATE).did(1, 61..65, DELETE);
    let alone = stalled(released(), 900).witness("availability");
    assert_eq!((alone.accused.as_slice(), alone.clients.as_slice()), (&[][..], &[8, 1][..]));
    let lines = told(&alone);
    for line in [
        "65 1 CMD on the lock is answered: the key is deleted",
        "100 8 wants the lock, and nobody has it from now on",
        "900 8 the stall ends",
    ] {
        assert!(lines.iter().any(|it| it == line), "{line}: {lines:?}");
    }
    // One that stood for less than half of the time did not keep them out.
    let short = stalled(Tape::new().did(1, 10..15, CREATE), 1_900).witness("availability");
    assert_eq!(short.accused.len(), 1, "{:?}", told(&short));
    let short = stalled(Tape::new().did(1, 10..15, CREATE), 2_000).witness("availability");
    assert_eq!(short.accused, [0; 0], "{:?}", told(&short));
    // Nor did one that another made after it show to be gone.
    let tape = Tape::new().command(1, 10..30, CREATE, None).did(2, 40..50, CREATE);
    let gone = stalled(tape.did(2, 60..70, DELETE), 900).witness("availability");
    assert_eq!(gone.accused, [0; 0], "{:?}", told(&gone));
}

#[test]
fn what_has_no_answer_may_have_been_carried_out_late() {
    let released = Tape::new().did(1, 10..15, CREATE).did(1, 61..65, DELETE);
    let renewed = released.command(1, 50..55, OVERWRITE, None);
    let witness = stalled(renewed, 3_000).witness("availability");
    assert_eq!(witness.accused, [3], "{:?}", told(&witness));
    assert!(told(&witness).iter().all(|it| !it.contains("expires")), "nobody knows when");
}

#[test]
fn a_key_that_stays_is_its_makers_who_died() {
    let tape = Tape::new().acquires(1, 5).did(1, 10..15, FOR_EVER).crash(1, 20);
    let witness = tape.probe(500, -1).witness("deadlock-freedom");
    assert_eq!(
        told(&witness),
        [
            "15 1 CMD on the lock is answered: the key is its own for ever",
            "20 1 dies",
            "500 1 its key is left, and nobody else can have the lock",
            "500 0 PTTL of the lock's key answers -1",
        ]
    );
    assert_eq!(witness.clients, [1]);
}

#[test]
fn what_an_old_primary_deletes_stays_on_the_new_one() {
    let left = |next: u32, exact| {
        let tape = Tape::new().with(|it| it.exact = exact).did(1, 10..15, FOR_EVER);
        let tape = tape.server_lost(Fault::SplitBrain, 0, 20..200).did(1, 61..65, DELETE);
        let tape = tape.did(next, 70..75, FOR_EVER).did(next, 81..85, DELETE);
        tape.probe(500, -1).witness("deadlock-freedom").accused
    };
    assert_eq!(left(1, true), [1], "the holder is alone with the old primary");
    assert_eq!(left(2, true), [0; 0], "another shows that the key is gone on the new one");
    assert_eq!(left(1, false), [3], "nobody can say when the old primary stepped down");
}

#[test]
fn who_freed_the_lock_stands_beside_who_slept_on() {
    use picklock::env::Phase;
    let tape = Tape::new().hold(1, 1, 20..60).did(1, 10..15, CREATE).did(1, 61..65, DELETE);
    let tape = tape.acquires(2, 30).command(2, 31..40, CREATE, Some(Touch::None));
    let tape = tape.phase(2, 41, Phase::Wait).phase(2, 900, Phase::Wait);
    let witness = tape.with(|it| it.woken_within_ns = Some(100)).witness("wake-up");
    assert_eq!(
        (witness.acquisitions.as_slice(), witness.clients.as_slice()),
        (&[2, 1][..], &[2, 1][..])
    );
    let told = told(&witness);
    for line in [
        "40 2 CMD on the lock is answered: another has it",
        "65 1 CMD on the lock is answered: the key is deleted",
        "65 2 sleeps, and the lock is free from now on",
    ] {
        assert!(told.iter().any(|it| it == line), "{line}: {told:?}");
    }
}

#[test]
fn who_sleeps_beside_a_key_that_has_expired_is_told_of_with_whoever_had_it() {
    use picklock::env::Phase;
    let tape = Tape::new().hold(1, 1, 20..5_000).did(1, 10..15, CREATE);
    let tape = tape.struck_for(Fault::Pause, 1, 25..4_000);
    let tape = tape.acquires(2, 30).command(2, 31..40, CREATE, Some(Touch::None));
    let tape = tape.phase(2, 41, Phase::Wait).phase(2, 4_500, Phase::Wait);
    let witness = tape.with(|it| it.woken_within_ns = Some(100)).witness("wake-up");
    assert_eq!(witness.clients, [2, 1]);
    let told = told(&witness);
    let expires = 15 + TTL_NS;
    for line in [
        "20 1 has the lock: its key lives 1 µs".to_owned(),
        "25 1 stands still for 3.98 µs".to_owned(),
        format!("{expires} 1 its key expires"),
        format!("{expires} 2 sleeps, and the lock is free from now on"),
    ] {
        assert!(told.contains(&line), "{line}: {told:?}");
    }
    assert!(!told.iter().any(|it| it.contains("begins to release")), "that was later: {told:?}");
}
