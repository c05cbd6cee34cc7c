//! A timeline has every event in its place, however operations are numbered.

use super::*;
use crate::history::Head;

/// So far ahead a number is found without the map.
const AHEAD: u32 = 1_024;

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
    for (what, end) in [
        (What::Taken { prize: 3, left: 2 }, TakeEnd::Ok { prize: 3, left: 2 }),
        (What::NotTaken(why), TakeEnd::Fail(why)),
        (What::TakeUnknown { prize: 3, why }, TakeEnd::Info { prize: 3 }),
    ] {
        let (take_ns, taken) = (Some(101), Some((102, end)));
        assert_eq!(one(&[What::Take, what]), Acquisition { take_ns, taken, ..begun() });
    }
    let fenced = one(&[What::Acquired, What::Fence(9)]);
    let end = Some((101, AcquireEnd::Ok));
    assert_eq!(fenced, Acquisition { end, fence: Some(9), ..begun() });
    let lost = one(&[What::ValidUntil(900), What::ValidUntil(950), What::Lost, What::Lost]);
    let validity = vec![(101, 900), (102, 950)];
    assert_eq!(lost, Acquisition { validity, lost_ns: Some(103), ..begun() }, "the first counts");
    assert_eq!(one(&[What::Phase(picklock::env::Phase::ALL[0])]), begun());
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
        assert_eq!(timeline.commands[0].is_open(), answer.is_none() && !refused);
    }
}

#[test]
fn commands_end_by_their_operation_however_they_are_numbered() {
    let answered =
        |value| What::Answered { touch: Touch::None, answer: Answer::Int(value), found: 0 };
    let far = AHEAD;
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
fn a_number_that_is_used_again_is_the_later_commands() {
    for (before, op) in [(0, 5), (0, AHEAD * 5), (AHEAD, 3_000)] {
        // The same number lies far ahead at first, and near when it is used again.
        let mut open = OpenIndex::default();
        open.insert(op, 1);
        if before > 0 {
            (1..4).for_each(|step| open.insert(before * step - 1, 9));
        }
        open.insert(op, 2);
        assert_eq!((open.remove(op), open.remove(op)), (Some(2), None), "{op}");
    }
}

#[test]
fn numbers_one_by_one_need_no_map_and_those_far_ahead_no_memory() {
    let ahead = AHEAD;
    let mut open = OpenIndex::default();
    open.insert(ahead, 7);
    assert_eq!((open.near.len(), open.far.len()), (0, 1), "too far ahead");
    open.insert(ahead - 1, 8);
    assert_eq!((open.near.len(), open.far.len()), (OpenIndex::AHEAD, 1), "just near enough");
    open.insert(2 * ahead - 1, 9);
    assert_eq!((open.near.len(), open.far.len()), (2 * OpenIndex::AHEAD, 1));
    open.insert(3, 10);
    assert_eq!(open.near.len(), 2 * OpenIndex::AHEAD, "it never shrinks");
    let found = [ahead, ahead - 1, 2 * ahead - 1, 3].map(|op| open.remove(op));
    assert_eq!(found, [Some(7), Some(8), Some(9), Some(10)]);
    assert_eq!(open.remove(3), None);
    open.insert(4, OpenIndex::NONE as usize);
    assert_eq!(
        open.remove(4),
        Some(OpenIndex::NONE as usize),
        "a place that means none is kept apart"
    );
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
    say(30, 0, 0, fault(Fault::Failover, Some(4)));
    say(31, 0, 0, fault(Fault::ClockStep, Some(5)));
    say(40, 0, 0, What::PoolLeft(3));
    say(41, 0, 0, What::RegisterLeft(4));
    say(42, 0, 0, What::Probe(7));
    say(43, 0, 0, What::Probe(-2));
    let timeline = Timeline::of(&history);
    assert!(timeline.faulted);
    assert_eq!(timeline.acquisitions.len(), 2, "0 is no acquisition");
    assert_eq!(timeline.acquisition(1).unwrap().crashed_ns, None);
    assert_eq!(timeline.acquisition(2).unwrap().crashed_ns, Some(20), "one dies once");
    assert_eq!(timeline.acquisition(3), None);
    assert_eq!(timeline.losses, [Loss { node: 4, from_ns: 30, until_ns: 80 }]);
    assert_eq!((timeline.pool_left, timeline.register_left), (Some((40, 3)), Some((41, 4))));
    assert_eq!((timeline.probes, timeline.end_ns), (vec![(42, 7), (43, -2)], 43));
    assert!(!Timeline::of(&History::default()).faulted);
}
