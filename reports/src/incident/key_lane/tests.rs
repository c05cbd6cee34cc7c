//! Lanes of the key, where answers came late, never came, or came from two servers that stood for one.

use history::exchange::Delivery;
use history::fault::Fault;
use history::verdict::Level;
use history::{Touch, What};
use scenarios::result::RunResult;

use crate::incident::IncidentLayout;
use crate::incident::layout::{BarKind, IncidentLane, LaneOwner};
use crate::incident::testing::{Script, TTL_MS, violated};
use crate::support;

const MS: u64 = 1_000_000;
const CREATE: Touch = Touch::Create(Some(TTL_MS * MS));

/// The picture of what client 1 did to client 2, who is harmed by the last deletion of client 1, if that is accused.
fn drawn(script: Script, until_ms: u64, accuses: bool) -> IncidentLayout {
    let history = script.finish();
    let deletes = |what: What| match what {
        What::Command { intent, .. } => intent.touch == Touch::Delete,
        _ => false,
    };
    let deletion = history.events.iter().rfind(|it| it.client == 1 && deletes(it.what));
    let level = if accuses { Level::Key } else { Level::Belief };
    let mut finding = violated(("ownership", level), "it went wrong", &[2, 1], (0, until_ms));
    if accuses {
        finding.witness.as_mut().unwrap().accused = vec![deletion.unwrap().op];
    }
    let result: RunResult = support::result(&history, vec![finding]);
    IncidentLayout::of(&history, &result).unwrap()
}

fn keys(lane: &IncidentLane) -> Vec<(BarKind, u64, u64)> {
    lane.bars.iter().map(|it| (it.kind, it.from_ns / MS, it.until_ns / MS)).collect()
}

fn ends(lane: &IncidentLane) -> Vec<&str> {
    lane.marks.iter().map(|it| it.text.as_str()).collect()
}

/// It asks for the key, and another has it.
fn in_vain(script: Script, at_ms: u64, client: u32) -> Script {
    script.command((at_ms, at_ms + 2), client, ("SET", CREATE, Some(Touch::None)))
}

#[test]
fn a_key_whose_making_was_answered_late_stood_while_others_were_refused() {
    let script = Script::new().hold((4, 230, 278), 1).hold((4, 124, 290), 2);
    let script = script.set((4, 230), 1).fault(4, 1, Fault::Delay, 0).set((122, 124), 2);
    let script = (0..10).fold(script, |it, nth| in_vain(it, 6 + 10 * nth, 2));
    let drawn = drawn(script.del((178, 180), 1), 290, true);
    let key = &drawn.lanes[0];
    assert_eq!(keys(key), [(BarKind::Owned(1), 5, 105), (BarKind::Owned(2), 123, 179)]);
    assert_eq!(ends(key), ["expires", "deleted by client 1"]);
    let late = drawn.messages.iter().find(|it| it.sent_ns == 4 * MS).unwrap();
    assert_eq!((late.request, late.reply), (Delivery::Usual, Delivery::Late));
    assert_eq!(late.text, "SET, reply late");
}

#[test]
fn a_key_stood_until_the_last_of_those_who_were_refused() {
    // It was made neither at once nor as late as its answer allows.
    let script = Script::new().hold((4, 44, 90), 1).hold((4, 132, 140), 2);
    let script = script.set((4, 44), 1).set((130, 132), 2);
    let script = (0..12).fold(script, |it, nth| in_vain(it, 46 + 7 * nth, 2));
    let drawn = drawn(script, 140, false);
    let [first, second] = keys(&drawn.lanes[0])[..] else { panic!() };
    assert_eq!(first, (BarKind::Owned(1), 31, 131));
    assert_eq!(second.1, 131);
}

#[test]
fn a_deletion_without_an_answer_ends_no_key_that_others_found() {
    let script = || {
        let script = Script::new().hold((0, 3, 20), 1).hold((30, 150, 190), 2);
        let script = script.set((1, 3), 1).command((20, 0), 1, ("DEL", Touch::Delete, None));
        script.set((148, 150), 2)
    };
    let of = |script: Script| drawn(script, 200, false).lanes[0].clone();
    let second = (BarKind::Owned(2), 149, 200);
    let found = of(in_vain(script(), 40, 2));
    assert_eq!(keys(&found), [(BarKind::Owned(1), 2, 102), second]);
    assert_eq!(ends(&found), ["expires"]);
    let unknown = of(script());
    let perhaps = (BarKind::PerhapsOwned(1), 21, 102);
    assert_eq!(keys(&unknown), [(BarKind::Owned(1), 2, 21), perhaps, second]);
    assert_eq!(ends(&unknown), ["expires at the latest"]);
    // Another key proves it.
    let proved = of(script().set((50, 52), 3));
    assert_eq!(keys(&proved)[..2], [(BarKind::Owned(1), 2, 21), (BarKind::Owned(3), 51, 149)]);
    assert_eq!(ends(&proved)[0], "deleted");
}

#[test]
fn a_deletion_that_comes_late_meets_the_key_that_it_harmed() {
    let script = Script::new().hold((0, 3, 20), 1).hold((30, 150, 190), 2).hold((30, 172, 190), 3);
    let script = script.set((1, 3), 1).command((20, 0), 1, ("DEL", Touch::Delete, None));
    let script = script.fault(20, 1, Fault::Delay, 0).set((148, 150), 2).set((170, 172), 3);
    let drawn = drawn(in_vain(script, 160, 3), 200, true);
    let [first, second, third] = keys(&drawn.lanes[0])[..] else { panic!() };
    assert_eq!((first.0, first.2), (BarKind::Owned(1), 102));
    assert_eq!((second.0, second.1, third.0), (BarKind::Owned(2), 149, BarKind::Owned(3)));
    assert!((161..171).contains(&second.2), "{second:?}");
    assert_eq!(ends(&drawn.lanes[0])[..2], ["expires", "deleted by client 1"]);
    let deletion = drawn.messages.iter().find(|it| it.harms).unwrap();
    assert_eq!((deletion.request, deletion.done_ns / MS), (Delivery::Late, second.2));
}

#[test]
fn each_primary_of_a_split_brain_has_a_key_of_its_own() {
    let split = What::Fault {
        fault: Fault::SplitBrain,
        node: Some(0),
        for_ns: 100 * MS,
        in_hold: true,
        staged: None,
    };
    let script = Script::new().hold((0, 3, 60), 1).hold((10, 112, 160), 2).note(10, 0, split);
    let script = script.set((1, 3), 1).del((60, 62), 1).set((70, 72), 1).set((110, 112), 2);
    let drawn = drawn(script, 160, false);
    let names: Vec<String> = drawn.lanes.iter().map(|it| it.owner.name()).collect();
    assert_eq!(names[..2], ["old primary", "new primary"]);
    let (old, new) = (&drawn.lanes[0], &drawn.lanes[1]);
    assert_eq!(keys(old), [(BarKind::Owned(1), 2, 61), (BarKind::Owned(1), 71, 110)]);
    assert_eq!(ends(old)[1..], ["deleted", "lost: split brain"]);
    let copy = (BarKind::PerhapsOwned(1), 10, 102);
    assert_eq!(keys(new), [copy, (BarKind::Owned(2), 111, 160)], "the replica had it, too");
    let to = |at_ms: u64| drawn.messages.iter().find(|it| it.sent_ns == at_ms * MS).unwrap().key;
    assert_eq!([to(60), to(110)], [drawn.lanes[0].owner, drawn.lanes[1].owner]);
    assert_ne!(to(60), LaneOwner::Key(Some(0)));
}

#[test]
fn a_server_that_is_down_carries_nothing_out() {
    let down = |node| What::Fault {
        fault: Fault::ServerCrash,
        node: Some(node),
        for_ns: 100 * MS,
        in_hold: true,
        staged: None,
    };
    let of = |node: u16, sent_ms: u64| {
        let script = Script::new().hold((0, 3, 60), 1).set((1, 3), 1).note(20, 0, down(node));
        let script = script.hold((10, 150, 190), 2).command((sent_ms, 0), 2, ("SET", CREATE, None));
        drawn(script.set((140, 142), 2), 200, false)
    };
    let drawn = of(0, 22);
    let key = keys(&drawn.lanes[0]);
    assert_eq!(
        key,
        [(BarKind::Owned(1), 2, 20), (BarKind::Down, 20, 120), (BarKind::Owned(2), 141, 200)]
    );
    assert_eq!(ends(&drawn.lanes[0]), ["lost: server dies"]);
    let lost = drawn.messages.iter().find(|it| it.sent_ns == 22 * MS).unwrap();
    assert_eq!((lost.request, &*lost.text), (Delivery::Lost, "SET, lost"));
    let message =
        |it: &IncidentLayout| it.messages.iter().find(|it| it.client == 2).unwrap().request;
    assert_eq!(message(&of(0, 19)), Delivery::Lost, "it would have come too late");
    assert_eq!(message(&of(1, 22)), Delivery::Unknown, "another server");
}

#[test]
fn keys_in_no_certain_order_are_dashed() {
    let write = Touch::Overwrite(Some(TTL_MS * MS));
    let of = |second_ms: u64| {
        let script = Script::new().hold((0, 10, 60), 1).hold((0, 22, 60), 2);
        let script = script.command((2, 10), 1, ("SET", write, Some(write)));
        let script = script.command((second_ms, 20), 2, ("SET", write, Some(write)));
        drawn(script, 60, false)
    };
    let kinds = |it: &IncidentLayout| it.lanes[0].bars.iter().map(|it| it.kind).collect::<Vec<_>>();
    let [overlap, behind] = [of(9), of(10)];
    assert_eq!(kinds(&overlap), [BarKind::PerhapsOwned(1), BarKind::PerhapsOwned(2)]);
    assert_eq!(ends(&overlap.lanes[0]), ["set by client 2"]);
    assert_eq!(overlap.title, "client 1 took the key and client 2 set it, in some order");
    assert_eq!(kinds(&behind), [BarKind::Owned(1), BarKind::Owned(2)]);
    assert_eq!(
        behind.title,
        "client 1's key was overwritten by client 2 while client 1 held the lock"
    );
}
