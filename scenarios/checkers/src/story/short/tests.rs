//! Short stories: what they keep, what they say of the key, and how long they are.

use history::{Answer, Update};

use super::*;

fn step(at_ns: u64, acquisition: u32, part: StepKind, text: &str) -> StoryStep {
    let step = WitnessStep { at_ns, client: acquisition, text: text.to_owned() };
    let lives = |ttl_ns: Option<u64>| KeyLife {
        made_ns: at_ns,
        until_ns: ttl_ns.map_or(u64::MAX, |ttl_ns| at_ns + ttl_ns),
        end: ttl_ns.map_or(KeyEnd::Stays, |_| KeyEnd::Expires),
    };
    let key = match part {
        StepKind::Made(ttl_ns) | StepKind::Overwritten(ttl_ns) => Some(lives(ttl_ns)),
        _ => None,
    };
    StoryStep { acquisition, key, ..StoryStep::new(step, part) }
}

/// The same key, which ended so.
fn ended(until_ns: u64, end: KeyEnd, steps: [StoryStep; 3]) -> [StoryStep; 3] {
    steps.map(|it| {
        let key = it.key.map(|key| KeyLife { until_ns, end, ..key });
        StoryStep { key, ..it }
    })
}

/// A command of this client that ended a key, and was answered at once.
fn by(client: u32) -> KeyEnding {
    KeyEnding { client, answered_ns: 0, is_behind: true, is_told: true }
}

/// Two acquisitions, each of the client of its number.
fn story(level: Level, steps: &[StoryStep]) -> Vec<String> {
    blaming(&[], level, steps)
}

/// The same, where these operations are to blame, and client 2 is harmed.
fn blaming(ops: &[u32], level: Level, steps: &[StoryStep]) -> Vec<String> {
    let (acquisitions, clients) = (vec![2, 1], vec![2, 1]);
    let witness = Witness { acquisitions, clients, accused: ops.to_vec(), ..Witness::default() };
    let lines = shorten(false, level, &witness, steps);
    lines.iter().map(|it| format!("{} {} {}", it.at_ns, it.client, it.text)).collect()
}

fn takes(at_ns: u64, who: u32, ttl_ns: Option<u64>) -> [StoryStep; 3] {
    [
        step(at_ns - 1, who, StepKind::Detail, "asks"),
        step(at_ns, who, StepKind::Made(ttl_ns), "SET"),
        step(at_ns + 1, who, StepKind::Has, "has the lock"),
    ]
}

#[test]
fn a_key_that_nobody_deletes_expires_before_another_is_made() {
    let harm = StoryStep { op: 9, ..step(320, 1, StepKind::Deleted, "DEL") };
    let end = [harm, step(321, 1, StepKind::Detail, "is told")];
    let steps = [&takes(100, 1, Some(200))[..], &takes(310, 2, Some(200)), &end].concat();
    let told = [
        "101 1 has the lock: its key lives 200 ns",
        "300 1 its key expires",
        "311 2 has the lock: its key lives 200 ns",
        "320 1 deletes the key of client 2",
    ];
    assert_eq!(blaming(&[9], Level::Key, &steps), told);
    assert_eq!(story(Level::Key, &steps)[3], "320 1 DEL", "another is to blame");
    assert_eq!(blaming(&[9, 8], Level::Key, &steps)[3], "320 1 DEL", "or another");
    let belief = blaming(&[9], Level::Belief, &steps);
    assert_eq!(belief[3], "320 1 DEL", "only ownership knows whose it was");
    let gone = ended(299, KeyEnd::Gone, takes(100, 1, Some(200)));
    let early = [&gone[..], &takes(299, 2, Some(200))].concat();
    assert_eq!(story(Level::Key, &early)[1], "299 1 its key is gone");
    let gone = ended(900, KeyEnd::Gone, takes(100, 1, None));
    let forever = [&gone[..], &takes(900, 2, Some(200))].concat();
    let told = story(Level::Key, &forever);
    assert_eq!(told[..2], ["101 1 has the lock: its key never expires", "900 1 its key is gone"]);
}

#[test]
fn of_several_servers_each_has_a_key_of_its_own() {
    let at = |server, it: StoryStep| StoryStep { server: Some(server), ..it };
    let made = |at_ns, who, server| at(server, step(at_ns, who, StepKind::Made(Some(200)), "SET"));
    let has = |at_ns, who| step(at_ns, who, StepKind::Has, "has the lock");
    let first = [made(100, 1, 0), made(110, 1, 1), has(111, 1)];
    let second = [made(305, 2, 0), made(320, 2, 1), has(321, 2)];
    let told = [
        "111 1 has the lock: its key lives 200 ns",
        "300 1 its key at server 0 expires",
        "310 1 its key at server 1 expires",
        "321 2 has the lock: its key lives 200 ns",
    ];
    assert_eq!(story(Level::Belief, &[first, second].concat()), told);
}

#[test]
fn a_renewal_that_is_refused_stands_in_a_story_of_belief() {
    let refused = |at_ns, who, text| step(at_ns, who, StepKind::Unheard, text);
    // Too many to be told all.
    let tries = (0..20).map(|at_ns| refused(at_ns, 2, "SET is refused"));
    let renewals = [refused(150, 1, "PEXPIRE is refused"), refused(160, 1, "refused again")];
    let release = [step(400, 1, StepKind::Release, "releases"), refused(401, 1, "DEL is refused")];
    let (first, second) = (takes(100, 1, Some(200)), takes(310, 2, Some(200)));
    let steps: Vec<StoryStep> =
        tries.chain(first).chain(renewals).chain(second).chain(release).collect();
    let told = [
        "101 1 has the lock: its key lives 200 ns",
        "150 1 PEXPIRE is refused",
        "300 1 its key expires",
        "311 2 has the lock: its key lives 200 ns",
        "400 1 releases",
    ];
    assert_eq!(story(Level::Belief, &steps), told);
    assert!(!story(Level::Effect, &steps).contains(&told[1].to_owned()));
}

#[test]
fn a_key_that_is_deleted_or_lives_longer_does_not_expire() {
    let deleted = [step(150, 1, StepKind::Deleted, "DEL")];
    let first = ended(150, KeyEnd::Deleted(by(1)), takes(100, 1, Some(200)));
    let steps = [&first[..], &deleted, &takes(400, 2, Some(200))].concat();
    assert!(story(Level::Key, &steps).iter().all(|it| !it.contains("expires")));
    let longer = [step(250, 1, StepKind::Extended(200), "PEXPIRE")];
    let first = ended(450, KeyEnd::Expires, takes(100, 1, Some(200)));
    let steps = [&first[..], &longer, &takes(460, 2, Some(200))].concat();
    let told = story(Level::Key, &steps);
    assert_eq!(told[1..3], ["250 1 PEXPIRE", "450 1 its key expires"]);
}

#[test]
fn what_was_taken_and_never_had_is_said() {
    let steps =
        [step(100, 1, StepKind::Made(Some(200)), "SET"), step(101, 1, StepKind::Turn, "dies")];
    assert_eq!(story(Level::Belief, &steps), ["100 1 SET", "101 1 dies"]);
}

#[test]
fn each_level_keeps_what_it_is_about() {
    let parts = [
        StepKind::Has,
        StepKind::Release,
        StepKind::Look,
        StepKind::Work,
        StepKind::Answer,
        StepKind::Turn,
        StepKind::Fault,
        StepKind::Unheard,
        StepKind::Detail,
    ];
    let steps = |many: u64| -> Vec<StoryStep> {
        let all = (0..many)
            .flat_map(|round| parts.map(|part| step(round, 1, part, &format!("{part:?}"))));
        all.collect()
    };
    let told = |level, many| {
        let mut told = story(level, &steps(many));
        told.dedup();
        told.iter().map(|it| it[4..].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(told(Level::Key, 1), ["Has", "Work", "Answer", "Turn", "Fault", "Unheard"]);
    assert_eq!(
        told(Level::Belief, 1),
        ["Has", "Release", "Work", "Answer", "Turn", "Fault", "Unheard"]
    );
    assert_eq!(
        told(Level::Effect, 1),
        ["Has", "Look", "Work", "Answer", "Turn", "Fault", "Unheard"]
    );
    // Three rounds are too many for all of it, and four for more than the least.
    assert_eq!(told(Level::Belief, 3)[..4], ["Has", "Release", "Turn", "Fault"]);
    assert_eq!(story(Level::Belief, &steps(3)).len(), 12);
    assert_eq!(told(Level::Belief, 4)[..3], ["Has", "Fault", "Has"]);
}

#[test]
fn no_story_is_longer_than_a_dozen_lines() {
    let steps = |many: u64| -> Vec<StoryStep> {
        (0..many).map(|at_ns| step(at_ns, 1, StepKind::Has, "has the lock")).collect()
    };
    let dozen = story(Level::Key, &steps(12));
    assert!(dozen.len() == 12 && dozen.iter().all(|it| it.ends_with("has the lock")), "{dozen:?}");
    let long = story(Level::Key, &steps(40));
    assert_eq!(long.len(), 12);
    assert_eq!(long[6], "6 0 29 steps left out");
    assert_eq!((&*long[5], &*long[7]), ("5 1 has the lock", "35 1 has the lock"));
}

#[test]
fn who_had_the_lock_and_how_its_key_ended_is_told_before_what_was_done() {
    let works = |at_ns: u64, who| {
        (0..20).map(move |nth| step(at_ns + nth, who, StepKind::Work, &format!("writes {nth}")))
    };
    let steps: Vec<StoryStep> = takes(100, 1, Some(200))
        .into_iter()
        .chain(works(110, 1))
        .chain([step(200, 1, StepKind::Fault, "stands still")])
        .chain(takes(310, 2, Some(200)))
        .chain(works(320, 2))
        .collect();
    let told = story(Level::Effect, &steps);
    for line in [
        "101 1 has the lock: its key lives 200 ns",
        "200 1 stands still",
        "300 1 its key expires",
        "311 2 has the lock: its key lives 200 ns",
        "339 2 writes 19",
    ] {
        assert!(told.contains(&line.to_owned()), "{line}: {told:?}");
    }
    assert!(told.len() <= 12, "{told:?}");
}

#[test]
fn what_the_command_to_blame_did_is_said_of_its_victim() {
    for (part, text) in [
        (StepKind::Deleted, "deletes the key of client 2"),
        (StepKind::Overwritten(None), "overwrites the key of client 2"),
        (StepKind::Extended(7), "extends the key of client 2, to live 7 ns from now"),
        (StepKind::Unheard, "harms the key of client 2: CMD"),
    ] {
        let steps = [StoryStep { op: 9, ..step(5, 1, part, "CMD") }];
        assert_eq!(blaming(&[9], Level::Key, &steps), [format!("5 1 {text}")]);
    }
}

#[test]
fn the_command_to_blame_stands_in_a_story_of_any_length() {
    for blamed in 0..40 {
        let steps: Vec<StoryStep> = (0..40)
            .map(|at_ns| {
                let op = if at_ns == blamed { 9 } else { 0 };
                StoryStep { op, ..step(at_ns, 1, StepKind::Has, "has the lock") }
            })
            .collect();
        let told = blaming(&[9], Level::Belief, &steps);
        assert!(told.contains(&format!("{blamed} 1 has the lock")), "{blamed} {told:?}");
        assert!((10..=12).contains(&told.len()), "{blamed} {told:?}");
    }
}

#[test]
fn a_story_of_progress_keeps_the_fault_behind_the_key_that_was_left() {
    let steps = |fault: StepKind, at_ns: u64| -> Vec<StoryStep> {
        let mut steps: Vec<StoryStep> =
            (0..40).map(|at_ns| step(10 * at_ns, 3, StepKind::Has, "has the lock")).collect();
        steps.push(StoryStep { op: 9, ..step(205, 1, StepKind::Made(None), "SET") });
        steps.push(step(at_ns, 1, fault, "is struck"));
        steps.push(step(5, 2, StepKind::Fault, "is struck, too"));
        steps.push(step(305, 1, StepKind::Told, "its key is left"));
        steps.sort_by_key(|it| it.step.at_ns);
        steps
    };
    for (fault, at_ns) in [(StepKind::Fault, 195), (StepKind::Fault, 215), (StepKind::Death, 215)] {
        let told = blaming(&[9], Level::Progress, &steps(fault, at_ns));
        for line in
            [format!("{at_ns} 1 is struck"), "205 1 SET".into(), "305 1 its key is left".into()]
        {
            assert!(told.contains(&line), "{line}: {told:?}");
        }
        assert!(told.len() <= 12, "{told:?}");
    }
}

#[test]
fn every_event_has_its_part() {
    let mut texts = Texts::default();
    let head = Head { lock_key: "the lock".to_owned(), ..Head::default() };
    let [lock, other, why, name] =
        ["the lock", "the register", "a reason", "SET"].map(|it| texts.intern(it));
    let no_script = texts.intern("NOSCRIPT No matching script");
    let update = Update { read: 0, written: 1, token: None };
    let plain = |what| StepKind::of(&head, &texts, what, None);
    for (what, part) in [
        (What::Acquired, StepKind::Has),
        (What::Release, StepKind::Release),
        (What::Updated(update), StepKind::Work),
        (What::UpdateUnknown { update, why }, StepKind::Work),
        (What::NotUpdated(why), StepKind::Work),
        (What::Taken { prize: 1, left: 0 }, StepKind::Work),
        (What::TakeUnknown { prize: 1, why }, StepKind::Work),
        (What::NotTaken(why), StepKind::Work),
        (What::NotAcquired(why), StepKind::Turn),
        (What::AcquireUnknown(why), StepKind::Turn),
        (What::Lost, StepKind::Turn),
        (What::Refused(no_script), StepKind::Detail),
        (What::Refused(why), StepKind::Unheard),
        (What::Unanswered(no_script), StepKind::Unheard),
        (What::ReleaseUnknown(why), StepKind::Unheard),
        (What::Fence(7), StepKind::Look),
        (What::Acquire, StepKind::Detail),
        (What::Released(why), StepKind::Detail),
    ] {
        assert_eq!(plain(what), part, "{what:?}");
    }
    let answered = |key, intends, touch| {
        let intent = Intent { touch: intends, compares: false };
        let invoked = What::Command { node: 0, name, key, intent };
        StepKind::of(
            &head,
            &texts,
            What::Answered { touch, answer: Answer::Ok, found: 0 },
            Some(invoked),
        )
    };
    for (key, intends, touch, part) in [
        (lock, Touch::Create(Some(5)), Touch::Create(Some(5)), StepKind::Made(Some(5))),
        (lock, Touch::Overwrite(None), Touch::Overwrite(None), StepKind::Overwritten(None)),
        (lock, Touch::Extend(5), Touch::Extend(5), StepKind::Extended(5)),
        (lock, Touch::Delete, Touch::Delete, StepKind::Deleted),
        (lock, Touch::Delete, Touch::None, StepKind::Detail),
        (lock, Touch::None, Touch::None, StepKind::Answer),
        (other, Touch::None, Touch::None, StepKind::Look),
        (other, Touch::Overwrite(None), Touch::Overwrite(None), StepKind::Detail),
    ] {
        assert_eq!(answered(key, intends, touch), part, "{intends:?} {touch:?}");
    }
}

#[test]
fn whoever_is_told_late_may_have_a_key_that_is_gone() {
    let late = |made_ns, until_ns, end| {
        let mut steps = takes(230, 1, Some(200));
        steps[1].key = Some(KeyLife { made_ns, until_ns, end });
        let steps = [&takes(224, 2, Some(200))[..], &steps].concat();
        story(Level::Key, &steps)
    };
    let told = [
        "206 1 its key expires",
        "225 2 has the lock: its key lives 200 ns",
        "231 1 has the lock: its key has expired already",
    ];
    assert_eq!(late(6, 206, KeyEnd::Expires), told);
    let said = |end| late(6, 100, end).pop().unwrap();
    assert_eq!(said(KeyEnd::Gone), "231 1 has the lock: its key is gone already");
    let (deleted, overwritten) = (KeyEnd::Deleted, KeyEnd::Overwritten);
    for (client, end) in [(2, deleted as fn(KeyEnding) -> KeyEnd), (3, overwritten)] {
        let how = if client == 2 { "deleted" } else { "overwritten" };
        let certain = format!("231 1 has the lock: its key is {how} already");
        let answered_ns = 231;
        assert_eq!(said(end(KeyEnding { answered_ns, ..by(client) })), certain);
        let perhaps = format!("231 1 has the lock: its key may be {how} already");
        let answered_ns = 232;
        assert_eq!(said(end(KeyEnding { answered_ns, ..by(client) })), perhaps);
        assert_eq!(said(end(KeyEnding { is_behind: false, ..by(client) })), perhaps);
    }
    let steps = takes(230, 1, Some(200)).map(|it| {
        let made = |key: KeyLife| KeyLife { made_ns: 130, until_ns: 330, ..key };
        StoryStep { key: it.key.map(made), ..it }
    });
    assert_eq!(story(Level::Key, &steps), ["231 1 has the lock: its key lives 99 ns more"]);
}

#[test]
fn a_command_without_an_answer_does_its_harm_when_it_arrives() {
    let harm = |client: u32, is_late| {
        let late = LateCommand {
            sent_ns: 203,
            done_ns: 3_260,
            is_late,
            name: "DEL".to_owned(),
            touch: Touch::Delete,
        };
        let mut sent = step(2_203, client, StepKind::Unheard, "DEL is never answered");
        (sent.op, sent.late) = (9, Some(late));
        let steps = [&[sent][..], &takes(3_253, 2, Some(200))].concat();
        blaming(&[9], Level::Key, &steps)
    };
    assert_eq!(harm(1, true)[0], "3254 2 has the lock: its key lives 200 ns");
    let text = "its DEL, sent at 203 ns, arrives only now and deletes the key of";
    assert_eq!(harm(1, true)[1], format!("3260 1 {text} client 2"));
    assert_eq!(harm(2, true)[1], format!("3260 2 {text} its later hold"));
    let text = "its DEL, which is never answered, deletes the key of client 2";
    assert_eq!(harm(1, false)[1], format!("3260 1 {text}"));
}

#[test]
fn a_stamp_is_over_and_no_key_expires() {
    let told = |ttl_ns: Option<u64>| {
        let first = ended(310, KeyEnd::Overwritten(by(2)), takes(100, 1, ttl_ns));
        let second = takes(310, 2, Some(200));
        let witness = Witness::default();
        let lines = shorten(true, Level::Key, &witness, &[&first[..], &second].concat());
        lines.iter().map(|it| format!("{} {} {}", it.at_ns, it.client, it.text)).collect::<Vec<_>>()
    };
    let lines = [
        "101 1 has the lock: its stamp is valid 200 ns",
        "300 1 its stamp is over",
        "311 2 has the lock: its stamp is valid 200 ns",
    ];
    assert_eq!(told(Some(200)), lines);
    assert_eq!(told(Some(0))[..], ["101 1 has the lock: its key is stamped as over", lines[2]]);
}

#[test]
fn a_story_of_progress_ends_when_it_is_over() {
    let told = step(50, 2, StepKind::Told, "the stall ends");
    let steps = [&takes(10, 1, Some(20))[..], &[told], &takes(60, 2, Some(20))].concat();
    assert_eq!(story(Level::Progress, &steps).last().unwrap(), "50 2 the stall ends");
    assert_eq!(story(Level::Key, &steps).last().unwrap(), "61 2 has the lock: its key lives 20 ns");
}

#[test]
fn what_is_said_twice_is_told_once() {
    let broken = |client| step(5, client, StepKind::Fault, "has its connection broken");
    let between = step(5, 1, StepKind::Detail, "CMD is refused");
    let between = [between.clone(), between.clone(), between];
    let told =
        story(Level::Key, &[&between[..], &[broken(1)], &takes(6, 3, None), &[broken(2)]].concat());
    assert_eq!(told[..2], ["5 1 has its connection broken", "5 2 has its connection broken"]);
    assert_eq!(told.len(), 3);
}
