//! A timeline has every event in its place, however operations are numbered.

use super::*;
use crate::Head;

/// The events of one acquisition, one a nanosecond from this time on, and the reason that they give.
fn of(events: impl IntoIterator<Item = (u32, u32, What)>) -> Timeline {
    let mut history = History::new(Head::default());
    for (at_ns, (acquisition, op, what)) in (100..).zip(events) {
        history.events.push(Event { at_ns, client: acquisition + 10, acquisition, op, what });
    }
    Timeline::of(&history)
}

fn one(events: &[What]) -> Acquisition {
    let all = std::iter::once(What::Acquire).chain(events.iter().copied());
    let timeline = of(all.map(|what| (1, 1, what)));
    assert_eq!(timeline.acquisitions.len(), 1);
    timeline.acquisitions[0].clone()
}

#[test]
fn an_acquisition_is_what_became_of_it() {
    let why = Text::default();
    let begun = Acquisition { number: 1, client: 11, invoke_ns: 100, ..Acquisition::default() };
    let begun = || begun.clone();
    assert_eq!(one(&[]), begun());
    for (what, end) in [
        (What::Acquired, AcquireEnd::Ok),
        (What::NotAcquired(why), AcquireEnd::Fail(why)),
        (What::AcquireUnknown(why), AcquireEnd::Info(why)),
    ] {
        assert_eq!(one(&[what]), Acquisition { end: Some((101, end)), ..begun() });
        assert_eq!(one(&[what]).acquired_ns(), (end == AcquireEnd::Ok).then_some(101));
    }
    for (what, end) in [
        (What::Released(why), ReleaseEnd::Ok(why)),
        (What::ReleaseUnknown(why), ReleaseEnd::Info(why)),
    ] {
        let (release_ns, released) = (Some(101), Some((102, end)));
        assert_eq!(one(&[What::Release, what]), Acquisition { release_ns, released, ..begun() });
    }
    let lost = one(&[What::Lost, What::Lost]);
    assert_eq!(lost, Acquisition { lost_ns: Some(101), ..begun() }, "the first counts");
    for what in [What::Phase(picklock::env::Phase::ALL[0]), What::Fence(9), What::Take] {
        assert_eq!(one(&[what]), begun());
    }
}

#[test]
fn updates_end_by_their_operation() {
    let update = Update { read: 1, written: 2, token: None };
    let why = Text::default();
    let ends = [
        (What::Updated(update), UpdateEnd::Ok(update)),
        (What::NotUpdated(why), UpdateEnd::Fail(why)),
        (What::UpdateUnknown { update, why }, UpdateEnd::Info(update)),
    ];
    for (what, end) in ends {
        let events =
            [(1, 1, What::Acquire), (1, 2, What::Update), (1, 3, What::Update), (1, 2, what)];
        let timeline = of(events);
        let [first, second] = timeline.acquisitions[0].updates[..] else { panic!("{timeline:?}") };
        assert_eq!(first, UpdateOp { op: 2, invoke_ns: 101, end: Some((103, end)) });
        assert_eq!(second, UpdateOp { op: 3, invoke_ns: 102, end: None });
    }
}

fn command(name: Text) -> What {
    let intent = Intent { touch: Touch::Delete, compares: true };
    What::Command { node: 3, name, key: Text::default(), intent }
}

#[test]
fn a_command_is_how_it_ended() {
    let why = Text::default();
    let what = What::Answered { touch: Touch::None, answer: Answer::Int(4), found: 0 };
    let answer = (101, Touch::None, Answer::Int(4));
    for (end, answer, refused) in [
        (what, Some(answer), false),
        (What::Refused(why), None, true),
        (What::Unanswered(why), None, false),
    ] {
        let timeline = of([(1, 1, command(why)), (1, 1, end)]);
        let expected = CommandOp {
            client: 11,
            acquisition: 1,
            node: 3,
            name: why,
            key: why,
            intent: Intent { touch: Touch::Delete, compares: true },
            invoke_ns: 100,
            answer,
            refused,
        };
        assert_eq!(timeline.commands, [expected]);
        assert_eq!(timeline.commands[0].done(), answer.map(|(at_ns, touch, _)| (at_ns, touch)));
    }
}

#[test]
fn commands_end_by_their_operation_however_they_are_numbered() {
    let answered =
        |value| What::Answered { touch: Touch::None, answer: Answer::Int(value), found: 0 };
    let far = 1_024;
    let numbers = [1, 2, far * 9, far + 1, 3, far * 2, far * 999, 0, far * 3 + 7];
    let sent = numbers.map(|op| (1, op, command(Text::default())));
    let ended = numbers.map(|op| (1, op, answered(i64::from(op))));
    // Whatever is answered again, or was never sent, is of no command.
    let strays = [1, far * 9, 77, far * 8].map(|op| (1, op, answered(-1)));
    let timeline = of(sent.into_iter().chain(ended.into_iter().rev()).chain(strays));
    let answers = timeline.commands.iter().map(|it| it.answer.map(|(_, _, answer)| answer));
    let expected = numbers.map(|op| Some(Answer::Int(i64::from(op))));
    assert!(answers.eq(expected), "{:?}", timeline.commands);
}

#[test]
fn what_befell_the_run_stands_beside() {
    let fault = |fault, node| What::Fault { fault, node, for_ns: 50, in_hold: false, staged: None };
    let mut history = History::new(Head::default());
    let mut say = |at_ns, client, acquisition, what| {
        history.events.push(Event { at_ns, client, acquisition, op: 0, what });
    };
    say(10, 1, 1, What::Acquire);
    say(11, 2, 2, What::Acquire);
    say(12, 0, 0, What::Acquire);
    say(20, 2, 0, fault(Fault::Crash, None));
    say(21, 2, 0, fault(Fault::Crash, None));
    say(22, 1, 0, fault(Fault::Pause, None));
    say(41, 0, 0, What::RegisterLeft(4));
    let timeline = Timeline::of(&history);
    let crashed: Vec<_> = timeline.acquisitions.iter().map(|it| it.crashed_ns).collect();
    assert_eq!(crashed, [None, Some(20)], "one dies once, and 0 is no acquisition");
    assert_eq!(timeline.register_left, Some((41, 4)));
}
