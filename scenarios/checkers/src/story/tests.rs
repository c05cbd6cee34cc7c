//! Stories: every event in words, and of every violation the steps of those concerned.

use history::verdict::Level;
use history::{Answer, History, Intent, Update};

use super::*;
use crate::testing::{CREATE, DELETE, LOCK, Tape};

#[test]
fn lists_are_told_as_people_do() {
    let words = |words: &[&str]| and(&words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    assert_eq!(words(&["3"]), "3");
    assert_eq!(words(&["3", "9"]), "3 and 9");
    assert_eq!(words(&["3", "9", "12"]), "3, 9 and 12");
}

/// What is told of one event, in a run whose pool and lock are known by their keys.
fn told(head: &Head, texts: &Texts, what: What, invoked: Option<What>) -> Option<String> {
    let event = |what| Event { at_ns: 500, client: 1, acquisition: 1, op: 1, what };
    describe(head, texts, &event(what), invoked.map(event).as_ref())
}

fn head() -> Head {
    Head { locks: true, lock_key: LOCK.to_owned(), ..Head::default() }
}

#[test]
fn what_clients_do_is_told_in_words() {
    let mut texts = Texts::default();
    let why = texts.intern("a reason");
    let update = Update { read: 3, written: 4, token: None };
    for (what, text, lockless) in [
        (What::Acquire, Some("asks for the lock"), None),
        (What::Acquired, Some("has the lock"), Some("goes ahead")),
        (What::Release, Some("begins to release"), Some("has done")),
        (What::Released(why), Some("is told: a reason"), None),
    ] {
        let locks = head();
        assert_eq!(told(&locks, &texts, what, None).as_deref(), text);
        let none = Head { locks: false, ..head() };
        assert_eq!(told(&none, &texts, what, None).as_deref(), lockless);
    }
    for (what, text) in [
        (What::NotAcquired(why), "does not get the lock: a reason"),
        (What::AcquireUnknown(why), "does not know whether it has the lock: a reason"),
        (What::ReleaseUnknown(why), "does not know what came of its release: a reason"),
        (What::Lost, "learns that its lock is lost"),
        (What::Taken { prize: 7, left: 6 }, "wins prize 7; 6 are left"),
        (What::TakeUnknown { prize: 7, why }, "does not know whether it won prize 7: a reason"),
        (What::NotTaken(why), "takes no prize: a reason"),
        (What::Updated(update), "writes 4 to the register, in which it read 3"),
        (
            What::UpdateUnknown { update, why },
            "does not know whether it wrote 4 to the register, in which it read 3: a reason",
        ),
        (What::NotUpdated(why), "writes nothing to the register: a reason"),
        (What::ValidUntil(2_500), "may rely on its lock for 2 µs"),
    ] {
        assert_eq!(told(&head(), &texts, what, None).as_deref(), Some(text));
    }
    assert_eq!(told(&head(), &texts, What::Probe(-2), None), None);
}

#[test]
fn what_came_of_a_command_is_told_with_what_it_was_sent_to() {
    let mut texts = Texts::default();
    let (name, lock, other) = (texts.intern("CMD"), texts.intern(LOCK), texts.intern("other"));
    let why = texts.intern("a reason");
    let none = Touch::None;
    let command = |key, touch| What::Command {
        node: 0,
        name,
        key,
        intent: Intent { touch, compares: false },
    };
    let answered = |touch, answer| What::Answered { touch, answer, found: 0 };
    let on_lock = |intent, what| told(&head(), &texts, what, Some(command(lock, intent)));
    for (touch, did) in [
        (Touch::Create(Some(2_000)), "the key is its own for 2 µs"),
        (Touch::Create(None), "the key is its own for ever"),
        (Touch::Overwrite(Some(1_000)), "the key is set, to live 1 µs"),
        (Touch::Overwrite(None), "the key is set, to live for ever"),
        (Touch::Delete, "the key is deleted"),
        (Touch::Extend(3_000), "the key lives 3 µs from now"),
    ] {
        let expected = format!("CMD on the lock is answered: {did}");
        assert_eq!(on_lock(touch, answered(touch, Answer::Ok)), Some(expected));
    }
    for (answer, did) in [
        (Answer::Nil, "nothing"),
        (Answer::Ok, "OK"),
        (Answer::Int(-5), "-5"),
        (Answer::Text(why), "a reason"),
        (Answer::List, "a list"),
    ] {
        let expected = Some(format!("CMD on the lock is answered: {did}"));
        assert_eq!(on_lock(none, answered(none, answer)), expected);
        assert_eq!(on_lock(Touch::Unknown, answered(Touch::Unknown, answer)), expected);
        let create = Touch::Create(None);
        assert_eq!(on_lock(create, answered(none, answer)), None, "a try that did not succeed");
    }
    let elsewhere = |head: &Head, what| told(head, &texts, what, Some(command(other, none)));
    let ok = answered(none, Answer::Ok);
    let pool = Head { resource: Some(0), ..head() };
    let register = Head { register: Some(0), ..pool.clone() };
    assert_eq!(elsewhere(&pool, ok).unwrap(), "CMD on the pool is answered: OK");
    assert_eq!(elsewhere(&register, ok).unwrap(), "CMD on the register is answered: OK");
    let unknown = Head { resource: None, ..register.clone() };
    assert_eq!(elsewhere(&unknown, ok).unwrap(), "CMD on other is answered: OK", "its key");
    assert_eq!(on_lock(none, What::Refused(why)).unwrap(), "CMD is refused: a reason");
    assert_eq!(on_lock(none, What::Unanswered(why)).unwrap(), "CMD is never answered: a reason");
    let server = Head { resource: Some(1), ..register.clone() };
    assert_eq!(elsewhere(&server, ok).unwrap(), "CMD is answered: OK", "no key of a resource");
    let none = texts.intern("");
    let intent = Intent { touch: Touch::None, compares: false };
    let keyless = What::Command { node: 0, name, key: none, intent };
    assert_eq!(told(&register, &texts, ok, Some(keyless)).unwrap(), "CMD is answered: OK");
    assert_eq!(told(&head(), &texts, ok, None), None, "of what was never sent nothing is told");
    assert_eq!(told(&head(), &texts, ok, Some(What::Acquire)), None, "nor of what is no command");
}

/// A finding of a violation that concerns these.
fn violated(of: &[(u32, u32)]) -> Finding {
    let verdict = Verdict::Violated(witness("a summary".to_owned(), of));
    Finding { name: "mutual-exclusion", level: Level::Belief, verdict }
}

fn steps(history: &History, findings: &mut [Finding]) -> Vec<(u64, u32, String)> {
    let mut stories = StoryWriter::new(&history.head, findings);
    history.events.iter().for_each(|event| stories.see(event, &history.texts));
    stories.write(findings);
    let Verdict::Violated(witness) = &findings[0].verdict else { panic!("not violated") };
    witness.steps.iter().map(|step| (step.at_ns, step.client, step.text.clone())).collect()
}

#[test]
fn a_story_is_of_those_concerned_in_the_order_of_the_history() {
    let history = Tape::new()
        .hold(1, 11, 100..300)
        .did(1, 95..99, CREATE)
        .hold(2, 12, 120..200)
        .hold(3, 13, 130..140)
        .history();
    let told = steps(&history, &mut [violated(&[(2, 12), (1, 11), (2, 12)])]);
    let expected = [
        (95, 11, "asks for the lock"),
        (99, 1, "CMD on the lock is answered: the key is its own for 1 µs"),
        (100, 11, "has the lock"),
        (115, 12, "asks for the lock"),
        (120, 12, "has the lock"),
        (200, 12, "begins to release"),
        (205, 12, "is told: released"),
        (300, 11, "begins to release"),
        (305, 11, "is told: released"),
    ];
    assert_eq!(told, expected.map(|(at_ns, client, text)| (at_ns, client, text.to_owned())));
}

#[test]
fn a_note_takes_the_place_of_no_command() {
    // In a history from elsewhere a note may stand between a command and its answer.
    let mut history = Tape::new().did(1, 95..99, CREATE).lost(1, 97).history();
    assert_eq!(steps(&history, &mut [violated(&[(1, 1)])]).len(), 2);
    history = Tape::new().did(1, 95..99, CREATE).history();
    history.events.iter_mut().for_each(|event| event.op = 0);
    let told = steps(&history, &mut [violated(&[(1, 1)])]);
    assert_eq!(told, [], "a command without a number has no answer");
}

#[test]
fn only_where_somebody_is_concerned_is_there_anything_to_tell() {
    let head = head();
    let idle = |findings: &[Finding]| StoryWriter::new(&head, findings).is_idle();
    assert!(idle(&[]));
    assert!(idle(&[Finding { verdict: Verdict::Held, ..violated(&[(1, 1)]) }]));
    assert!(idle(&[violated(&[])]));
    assert!(!idle(&[violated(&[(1, 1)])]));
    // Steps that a checker has told itself are left alone.
    let step = WitnessStep { at_ns: 5, client: 0, text: "a step".to_owned() };
    let own = Witness { steps: vec![step], ..Witness::default() };
    let mut findings = [Finding { verdict: Verdict::Violated(own), ..violated(&[]) }];
    assert_eq!(steps(&Tape::new().history(), &mut findings).len(), 1);
}

#[test]
fn a_long_story_is_cut() {
    let told = |losses: u64| {
        let tape = (0..losses).fold(Tape::new(), |tape, at_ns| tape.lost(1, at_ns));
        steps(&tape.history(), &mut [violated(&[(1, 1)])]).len()
    };
    assert_eq!(told(STEPS_MOST as u64 - 1), STEPS_MOST - 1);
    assert_eq!(told(STEPS_MOST as u64 + 1), STEPS_MOST);
}

#[test]
fn faults_are_told_in_words() {
    for (client, fault, for_ns, text) in [
        (1, Fault::Pause, 0, Some("stands still")),
        (1, Fault::Pause, 5_000, Some("stands still for 5 µs")),
        (1, Fault::Delay, 5_000, Some("waits: one of its messages is late by 5 µs")),
        (1, Fault::Delay, 0, Some("waits: one of its messages is late")),
        (0, Fault::Delay, 5_000, None),
        (1, Fault::Drift, 5_000, None),
        (0, Fault::ClockStep, 5_000, Some("lets the server's clock jump by 5 µs")),
        (1, Fault::ClockStep, 5_000, Some("has its clock jump by 5 µs")),
        (1, Fault::Partition, 5_000, Some("is cut off for 5 µs")),
    ] {
        assert_eq!(fault.story(client, for_ns).as_deref(), text, "{client} {fault:?} {for_ns}");
    }
}

#[test]
fn a_witness_names_everybody_once() {
    let witness = witness(String::new(), &[(1, 11), (2, 11), (1, 11)]);
    assert_eq!((witness.acquisitions, witness.clients), (vec![1, 2], vec![11, 11]));
    assert_eq!(witness.occurrences, 1);
}

#[test]
fn faults_of_those_concerned_and_of_servers_stand_in_the_story() {
    let tape = Tape::new().hold(1, 1, 100..400).hold(2, 2, 200..300).hold(3, 3, 500..600);
    let tape = tape.crash(3, 220).crash(1, 250).server_lost(Fault::PowerLoss, 0, 260..270);
    let tape = tape.server_lost(Fault::Failover, 0, 900..910);
    let witness = tape.witness("mutual-exclusion");
    let told = |text: &str| witness.steps.iter().any(|step| step.text == text);
    assert_eq!(witness.steps.iter().filter(|step| step.text == "dies").count(), 1);
    assert!(told("cuts the server's power for 10 ns"));
    assert!(!witness.steps.iter().any(|step| step.text.contains("primary")), "after the end");
}

fn told_of(tape: &Tape, name: &str) -> Vec<String> {
    let story = tape.witness(name).story;
    story.iter().map(|it| format!("{} {} {}", it.at_ns, it.client, it.text)).collect()
}

#[test]
fn a_fault_behind_an_answer_takes_the_key_behind_it() {
    let holds = |tape: Tape| tape.did(1, 10..15, CREATE).hold(1, 1, 15..60);
    let strikes = |tape: Tape| tape.server_lost(Fault::Evict, 0, 15..15);
    let next = |tape: Tape| tape.did(2, 20..25, CREATE).hold(2, 2, 25..50);
    let told = told_of(&next(strikes(holds(Tape::new()))), "mutual-exclusion");
    let expected = [
        "15 1 has the lock: its key lives 1 µs",
        "15 0 evicts the lock's key",
        "15 1 its key is gone",
    ];
    assert_eq!(told[..3], expected);
    let told = told_of(&next(holds(strikes(Tape::new()))), "mutual-exclusion");
    assert_eq!(told[..2], [expected[1], "15 1 has the lock: its key is gone already"]);
}

#[test]
fn a_key_that_gets_its_time_by_a_command_of_its_own_expires_in_the_story() {
    let touch = |touch| Intent { touch, compares: false };
    let tape = Tape::new().did(1, 10..15, touch(Touch::Create(None)));
    let tape = tape.did(1, 20..25, touch(Touch::Extend(100)));
    let tape = tape.did(2, 150..155, CREATE).hold(2, 2, 155..300).hold(1, 1, 160..200);
    let expected = [
        "122 1 its key expires",
        "155 2 has the lock: its key lives 1 µs",
        "160 1 has the lock: its key has expired already",
    ];
    assert_eq!(told_of(&tape, "mutual-exclusion")[..3], expected);
}

#[test]
fn the_deletion_of_another_is_told_when_it_is_answered_as_where_it_is_to_blame() {
    let plain = Intent { touch: Touch::Delete, compares: false };
    let story = |name, until_ns| {
        let tape = Tape::new().did(1, 10..15, CREATE).hold(1, 1, 15..90);
        let tape = tape.did(3, 20..until_ns, plain);
        told_of(&tape.did(2, 40..50, CREATE).hold(2, 2, 50..80), name)
    };
    let line = "30 3 deletes the key of client 1".to_owned();
    assert!(story("ownership", 30).contains(&line));
    let told = story("mutual-exclusion", 30);
    assert_eq!(told[1], line, "{told:?}");
    // Whoever was told of the next key before is not said to have had it before the deletion.
    let told = story("mutual-exclusion", 60);
    assert!(told[1].ends_with(" 3 is deleting the key of client 1"), "{told:?}");
}

#[test]
fn who_could_take_the_lock_only_after_a_jump_of_the_servers_clock_did_so_behind_it() {
    // The request of client 1 was on its way for long, and the reply came as fast as others.
    let tape = Tape::new().did(1, 95..400, CREATE).did(2, 96..110, CREATE);
    let tape = tape.did(1, 800..810, DELETE).command(2, 900..910, DELETE, Some(Touch::None));
    let tape = tape.hold(1, 1, 400..800).hold(2, 2, 110..900);
    let jumped = tape.clone().struck_for(Fault::ClockStep, 0, 200..10_200);
    assert_eq!(
        told_of(&jumped, "mutual-exclusion")[..4],
        [
            "110 2 has the lock: its key lives 1 µs",
            "200 0 lets the server's clock jump by 10 µs",
            "200 2 its key is gone",
            "400 1 has the lock: its key lives 1 µs",
        ]
    );
    // One that came before has no part in it.
    let before = tape.struck_for(Fault::ClockStep, 0, 50..10_050);
    let told = told_of(&before, "mutual-exclusion");
    assert!(told.contains(&"400 1 has the lock: its key is gone already".to_owned()), "{told:?}");
}

#[test]
fn a_key_goes_as_much_sooner_as_its_servers_clock_jumps() {
    let tape = Tape::new().did(1, 10..20, CREATE).hold(1, 1, 20..1_900);
    let jumps = |tape: Tape, at_ns, by| tape.struck_for(Fault::ClockStep, 0, at_ns..at_ns + by);
    let told = |tape: Tape| {
        let tape = tape.did(2, 930..940, CREATE).hold(2, 2, 940..1_800);
        told_of(&tape, "mutual-exclusion").into_iter().find(|it| it.ends_with("is gone"))
    };
    assert_eq!(told(jumps(tape.clone(), 30, 100)).unwrap(), "915 1 its key is gone");
    assert_eq!(told(jumps(tape.clone(), 30, 985)).unwrap(), "30 1 its key is gone");
    assert_eq!(told(jumps(tape.clone(), 500, 2_000)).unwrap(), "500 1 its key is gone");
    assert_eq!(
        told(jumps(jumps(tape.clone(), 400, 100), 500, 5)).unwrap(),
        "915 1 its key is gone"
    );
    let several = jumps(jumps(tape, 400, 50), 500, 50);
    assert_eq!(told(several).unwrap(), "935 1 its key is gone", "both together");
}

#[test]
fn a_key_that_is_given_its_time_to_live_later_expires() {
    let forever = Intent { touch: Touch::Create(None), compares: false };
    let lives = Intent { touch: Touch::Extend(100), compares: true };
    let tape = Tape::new().did(1, 10..20, forever).did(1, 20..30, lives).hold(1, 1, 30..300);
    let told = told_of(&tape.did(2, 140..150, CREATE).hold(2, 2, 150..200), "mutual-exclusion");
    let expected = [
        "30 1 has the lock: its key lives 100 ns",
        "125 1 its key expires",
        "150 2 has the lock: its key lives 1 µs",
    ];
    assert_eq!(told[..3], expected, "{told:?}");
}

#[test]
fn whoever_deletes_after_its_own_key_was_taken_deletes_anothers() {
    let plain = Intent { touch: Touch::Delete, compares: false };
    let told = |robbed: bool, sent_ns| {
        let tape = Tape::new().did(1, 10..15, CREATE).hold(1, 1, 15..90);
        let tape = if robbed { tape.did(3, 20..30, plain) } else { tape };
        let tape = if robbed { tape.did(2, 40..50, CREATE) } else { tape };
        told_of(&tape.hold(2, 2, 50..80).did(1, sent_ns..94, plain), "mutual-exclusion")
    };
    let deletes = "94 1 CMD on the lock is answered: the key is deleted".to_owned();
    // In the history of an attack, a command is sent when it is carried out.
    for sent_ns in [91, 94] {
        let (own, anothers) = (told(false, sent_ns), told(true, sent_ns));
        assert!(own.contains(&deletes), "{own:?}");
        assert!(anothers.contains(&format!("{deletes}, though not its own")), "{anothers:?}");
    }
}

#[test]
fn a_refused_script_is_told_where_it_is_not_sent_once_more() {
    let told = |tape: Tape| {
        let tape = tape.did(1, 10..15, CREATE).hold(1, 1, 15..60).hold(2, 2, 25..50);
        let tape = tape.refused_with(1, 61..62, DELETE, "NOSCRIPT No matching script.");
        told_of(&tape, "mutual-exclusion")
            .contains(&"62 1 CMD is refused: NOSCRIPT No matching script.".to_owned())
    };
    assert!(told(Tape::new()));
    assert!(told(Tape::new().calls(1, 20..21, "EVAL")), "that was another");
    assert!(!told(Tape::new().calls(1, 63..64, "EVAL")));
}

#[test]
fn the_update_that_was_lost_stands_in_a_story_of_any_length() {
    let writes = |tape: Tape, client, from: u64, reads: std::ops::Range<i64>| {
        reads
            .zip((from..).step_by(10))
            .fold(tape, |tape, (read, at_ns)| tape.update(client, at_ns..at_ns + 1, read, None))
    };
    let tape = Tape::register().hold(1, 1, 100..900).hold(2, 2, 305..950);
    let tape = writes(writes(tape, 1, 110, 0..50), 2, 315, 19..60);
    let told = told_of(&tape, "no-lost-update");
    let lost = "writes 20 to the register, in which it read 19";
    for line in [format!("301 1 {lost}"), format!("316 2 {lost}")] {
        assert!(told.contains(&line), "{line}: {told:?}");
    }
    assert!(told.iter().any(|it| it.ends_with("2 has the lock")), "{told:?}");
    assert!(told.len() <= 12, "{told:?}");
}

#[test]
fn faults_beside_what_is_at_issue_give_way_to_what_was_done() {
    let pauses = |tape: Tape, client, from: u64, count: u64| {
        let at = |nth| from + 10 * nth..from + 10 * nth + 5;
        (0..count).fold(tape, |tape, nth| tape.struck_for(Fault::Pause, client, at(nth)))
    };
    let told = |before, behind| {
        let tape = Tape::new().acquires(1, 90).acquires(2, 90);
        let tape = pauses(pauses(tape, 1, 100, before), 2, 100, before);
        let tape = tape.did(1, 600..610, CREATE).did(2, 620..630, CREATE);
        let tape = tape.hold(1, 1, 610..800).hold(2, 2, 630..700);
        let tape = pauses(tape, 1, 650, 2);
        told_of(&pauses(pauses(tape, 1, 801, behind), 2, 701, behind), "mutual-exclusion")
    };
    let pauses = |told: &[String]| told.iter().filter(|it| it.contains("stands still")).count();
    assert_eq!(pauses(&told(1, 0)), 4, "there is room: {:?}", told(1, 0));
    for told in [told(9, 0), told(0, 9)] {
        assert_eq!(pauses(&told), 2, "{told:?}");
        assert!(told.iter().any(|it| it.starts_with("630 2 has the lock")), "{told:?}");
    }
}
