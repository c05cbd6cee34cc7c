//! What is drawn of small histories, and how.

use history::fault::Fault;
use history::verdict::Level;
use history::{History, Touch, What};
use scenarios::result::RunResult;

use super::frame::{IncidentPlaces, NARROW, PlacedLabel, SMALL, WIDE};
use super::group::groups;
use super::layout::{BarKind, IncidentLane, LaneOwner};
use super::testing::{Script, TTL_MS, paused, violated};
use super::{IncidentChart, IncidentLayout, mermaid, trace};
use crate::chart::{font, svg};
use crate::support;
use history::exchange::{Delivery, exchanges};
use history::tenure::{Accused, TenureEnd, tenures};

const MS: u64 = 1_000_000;

fn layout((history, result): &(History, RunResult)) -> IncidentLayout {
    IncidentLayout::of(history, result).unwrap()
}

/// The bars of a lane: kind, and from when to when in milliseconds.
fn bars(lane: &IncidentLane) -> Vec<(BarKind, u64, u64)> {
    lane.bars.iter().map(|it| (it.kind, it.from_ns / MS, it.until_ns / MS)).collect()
}

fn owners(layout: &IncidentLayout) -> Vec<LaneOwner> {
    layout.lanes.iter().map(|it| it.owner).collect()
}

/// What is drawn if this went wrong between the beginning and the end.
fn of_script(script: Script, clients: &[u32], until_ms: u64) -> (History, RunResult) {
    let history = script.finish();
    let wrong = violated(("ownership", Level::Key), "it went wrong", clients, (0, until_ms));
    let result = support::result(&history, vec![wrong]);
    (history, result)
}

#[test]
fn a_pause_is_drawn_with_both_holds_their_overlap_and_who_deleted_the_key() {
    let layout = layout(&paused());
    let lanes = [LaneOwner::Key(None), LaneOwner::Client(1), LaneOwner::Client(2)];
    assert_eq!(owners(&layout), lanes, "in the order in which they had the lock");
    let [key, one, two] = &layout.lanes[..] else { panic!() };
    let [first, second] = bars(key)[..] else { panic!("{:?}", key.bars) };
    assert_eq!((first.0, second.0), (BarKind::Owned(1), BarKind::Owned(2)));
    assert_eq!(first.2 - first.1, TTL_MS);
    assert!(bars(one).contains(&(BarKind::Holds, 20, 160)), "{:?}", one.bars);
    assert!(bars(one).contains(&(BarKind::Stands, 40, 150)), "{:?}", one.bars);
    assert!(bars(two).contains(&(BarKind::Holds, 130, 175)), "{:?}", two.bars);
    let [band] = &layout.bands[..] else { panic!("{:?}", layout.bands) };
    assert_eq!((band.from_ns, band.until_ns, band.overlap), (130 * MS, 160 * MS, true));
    assert_eq!(band.text, "both believe they hold the lock: 30 ms");
    let ends: Vec<(&str, bool)> = key.marks.iter().map(|it| (it.text.as_str(), it.harms)).collect();
    assert_eq!(ends, [("expires", false), ("deleted by client 1", true)]);
    let said =
        |lane: &IncidentLane| lane.marks.iter().map(|it| it.text.clone()).collect::<Vec<_>>();
    assert_eq!(said(one), ["reads 0", "writes 1: no longer has the lock"]);
    assert_eq!(said(two), ["reads 0", "writes 1, too: one update is lost"]);
    let harms = |lane: &IncidentLane| lane.marks.iter().map(|it| it.harms).collect::<Vec<_>>();
    assert_eq!(
        [harms(one), harms(two)],
        [[false, true], [false, false]],
        "not the rightful holder"
    );
    let harmful: Vec<&str> =
        layout.messages.iter().filter(|it| it.harms).map(|it| it.text.as_str()).collect();
    assert_eq!(harmful, ["DEL"]);
    assert_eq!(layout.title, "client 1 deleted it");
    assert_eq!(layout.also, ["belief: both had it"]);
}

#[test]
fn nothing_violated_nothing_drawn() {
    let (history, result) = paused();
    let held = support::result(&history, vec![support::held("ownership", Level::Key)]);
    assert_eq!(IncidentLayout::of(&history, &held), None);
    assert!(IncidentLayout::of(&history, &result).is_some());
    let empty = History::new(support::head());
    assert_eq!(IncidentLayout::of(&empty, &result), None, "there is nothing to be seen");
}

#[test]
fn the_thirteenth_lane_is_left_out_and_a_note_says_so() {
    for clients in [12, 13_u32] {
        let script =
            (1..=clients).fold(Script::unlocked(), |it, client| it.hold((0, 10, 90), client));
        let all: Vec<u32> = (1..=clients).collect();
        let layout = layout(&of_script(script, &all, 100));
        assert_eq!(layout.lanes.len(), 12);
        let says = layout.notes.iter().any(|it| it == "1 client of the story left out.");
        assert_eq!(says, clients == 13, "{:?}", layout.notes);
    }
    let script = (1..=12).fold(Script::new(), |it, client| it.hold((0, 10, 90), client));
    let with_key = layout(&of_script(script.set((1, 9), 1), &(1..=12).collect::<Vec<_>>(), 100));
    assert_eq!((with_key.lanes.len(), with_key.lanes[0].owner), (12, LaneOwner::Key(None)));
}

#[test]
fn of_more_marks_than_can_be_read_those_in_the_middle_are_left_out() {
    for marks in [16, 17_u64] {
        let given = |script: Script, at_ms| script.note(10 + at_ms, 1, What::Fence(at_ms));
        let script = (0..marks).fold(Script::new().hold((0, 10, 90), 1).set((1, 9), 1), given);
        let layout = layout(&of_script(script, &[1], 100));
        assert_eq!(layout.lanes[1].marks.len(), 16);
        let says = layout.notes.contains(&"1 mark in the middle left out.".to_owned());
        assert_eq!(says, marks == 17, "{:?}", layout.notes);
    }
}

#[test]
fn each_of_several_servers_has_a_lane_up_to_five() {
    for servers in [5, 6_u16] {
        let create = Touch::Create(Some(TTL_MS * MS));
        let set = |it: Script, node| it.command_at(node, (1, 9), 1, ("SET", create, Some(create)));
        let script = (0..servers).fold(Script::new().hold((0, 10, 90), 1), set);
        let layout = layout(&of_script(script, &[1], 100));
        assert_eq!(layout.lanes.len(), 6);
        assert_eq!(layout.messages.len(), 5);
        let says = layout.notes.contains(&"1 server left out.".to_owned());
        assert_eq!(says, servers == 6, "{:?}", layout.notes);
    }
}

#[test]
fn a_lost_request_a_lost_reply_and_a_late_request_are_told_apart() {
    let create = Touch::Create(Some(TTL_MS * MS));
    let drawn = |fault: Option<(Fault, u64)>, did: Option<Touch>| {
        // As a rule, a message takes 2 ms.
        let get = ("GET", Touch::None, Some(Touch::None));
        let script = Script::new().hold((0, 60, 90), 1);
        let script = (0..4).fold(script, |it, _| it.command((1, 5), 2, get));
        let script = script.command((10, 50), 1, ("SET", create, did));
        let script = match fault {
            Some((fault, for_ms)) => script.fault(11, 1, fault, for_ms),
            None => script,
        };
        let layout = layout(&of_script(script, &[1], 100));
        let message = layout.messages.iter().find(|it| it.sent_ns == 10 * MS).cloned();
        message.map(|it| (it.request, it.reply, it.done_ns / MS, it.answered_ns.is_some(), it.text))
    };
    let said = |text: &str| text.to_owned();
    let usual = drawn(None, Some(create)).unwrap();
    assert_eq!((usual.0, usual.1, usual.3), (Delivery::Usual, Delivery::Usual, true));
    assert!((10..=50).contains(&usual.2), "{usual:?}");
    let lost = drawn(Some((Fault::LoseRequest, 0)), None).unwrap();
    assert_eq!((lost.0, lost.3, lost.4), (Delivery::Lost, false, said("SET, lost")));
    let reply = drawn(Some((Fault::LoseReply, 0)), None).unwrap();
    assert_eq!((reply.0, reply.1), (Delivery::Usual, Delivery::Lost));
    assert_eq!((reply.2, reply.4), (10, said("SET, reply lost")), "before the reply was lost");
    let late = drawn(Some((Fault::Delay, 30)), Some(create)).unwrap();
    assert!(late.2 > usual.2, "a late request arrives later: {late:?}");
    assert_eq!((late.0, late.3, late.4), (Delivery::Late, true, said("SET, late")));
    let unknown = drawn(None, None).unwrap();
    assert_eq!((unknown.0, unknown.4), (Delivery::Unknown, said("SET, no answer")));
}

#[test]
fn a_tenure_ends_by_expiry_a_deletion_an_overwriting_or_a_fault() {
    let ends = |script: Script| {
        let history = script.finish();
        let History { head, texts, events } = &history;
        let mut exchanges = exchanges(head, texts, events);
        let all = tenures(head, texts, events, &mut exchanges, &Accused::new());
        all.into_iter().map(|it| (it.client, it.end, it.is_certain)).collect::<Vec<_>>()
    };
    let made = || Script::new().hold((0, 9, 90), 1).set((1, 3), 1);
    assert_eq!(ends(made()), [(1, TenureEnd::Expired, true)]);
    // The key is made 2 ms from its sending at most.
    let by = |by, op| TenureEnd::Deleted { by, op };
    let deleted = |at_ms| ends(made().del((at_ms, at_ms + 2), 2));
    assert!(matches!(deleted(TTL_MS - 2)[..], [(1, TenureEnd::Deleted { by: 2, .. }, true)]));
    assert_eq!(deleted(TTL_MS + 3), [(1, TenureEnd::Expired, true)], "there was nothing left");
    let write = Touch::Overwrite(Some(TTL_MS * MS));
    let overwritten = ends(made().command((20, 22), 2, ("SET", write, Some(write))));
    assert!(matches!(overwritten[0].1, TenureEnd::Overwritten { by: 2, .. }), "{overwritten:?}");
    assert_eq!(overwritten[1].0, 2);
    let evicted =
        What::Fault { fault: Fault::Evict, node: Some(0), for_ns: 0, in_hold: true, staged: None };
    assert_eq!(ends(made().note(20, 0, evicted)), [(1, TenureEnd::Lost(Fault::Evict), true)]);
    let create = Touch::Create(None);
    let stays =
        ends(Script::new().hold((0, 9, 90), 1).command((1, 3), 1, ("SET", create, Some(create))));
    assert_eq!(stays, [(1, TenureEnd::Stays, true)]);
    // A creation without an answer may have been carried out, unless another is made before its end.
    let perhaps = || {
        made().del((10, 12), 1).hold((15, 99, 99), 2).command((20, 21), 2, ("SET", create, None))
    };
    let [first, second] = ends(perhaps())[..] else { panic!() };
    assert_eq!(
        (first.1, second),
        (by(1, first_deletion(&perhaps().finish())), (2, TenureEnd::Stays, false))
    );
    assert_eq!(ends(perhaps().hold((40, 99, 99), 3).set((50, 52), 3)).len(), 2, "it never was");
}

fn first_deletion(history: &History) -> u32 {
    let deletion = history.events.iter().find(|it| match it.what {
        What::Command { intent, .. } => intent.touch == Touch::Delete,
        _ => false,
    });
    deletion.unwrap().op
}

#[test]
fn a_stall_is_a_band_of_nobody_and_who_waits_has_a_lane() {
    let script = Script::new().hold((0, 10, 900), 1).set((1, 9), 1).fault(20, 1, Fault::Crash, 0);
    let script = script.operation((5, 0), 2, What::Acquire, None);
    let history = script.note(200, 0, What::Probe(-1)).finish();
    let wrong = violated(("availability", Level::Progress), "nobody got it", &[1], (9, 200));
    let layout = layout(&(history.clone(), support::result(&history, vec![wrong])));
    let [band] = &layout.bands[..] else { panic!("{:?}", layout.bands) };
    assert_eq!((band.from_ns / MS, band.until_ns / MS, band.overlap), (20, 200, false));
    assert_eq!(band.text, "nobody works under the lock: 180 ms");
    assert_eq!(layout.clients().collect::<Vec<_>>(), [1, 2]);
    let dead = bars(&layout.lanes[1]).into_iter().filter(|it| it.0 == BarKind::Dead);
    assert_eq!(dead.collect::<Vec<_>>(), [(BarKind::Dead, 20, 200)]);
}

#[test]
fn validity_that_ends_before_the_work_is_drawn_as_over() {
    let script = Script::new().head(|head| head.tracked = true).hold((0, 10, 90), 1).set((1, 9), 1);
    let script = script.note(10, 1, What::ValidUntil(60 * MS));
    let layout = layout(&of_script(script, &[1], 100));
    let lane = bars(&layout.lanes[1]);
    assert!(
        lane.contains(&(BarKind::Holds, 10, 60)) && lane.contains(&(BarKind::Overstays, 60, 90))
    );
}

#[test]
fn no_text_of_a_bar_lies_on_the_end_of_a_validity() {
    font::register().unwrap();
    let script = Script::new().head(|head| head.tracked = true).hold((0, 10, 90), 1).set((1, 9), 1);
    let script = script.note(10, 1, What::ValidUntil(50 * MS)).fault(20, 1, Fault::Pause, 60);
    let layout = layout(&of_script(script, &[1], 100));
    let lane = &layout.lanes[1];
    let stands = lane.bars.iter().position(|it| it.kind == BarKind::Stands).unwrap();
    let mut drawn = 0;
    for frame in [WIDE, NARROW] {
        let places = IncidentPlaces::new(&layout, frame).unwrap();
        let ends = places.scale.x(50 * MS);
        if let Some((middle, text)) = places.bar_text(lane, stands).unwrap() {
            let half = SMALL.width(&text).unwrap() / 2.0;
            drawn += 1;
            assert!((middle - ends).abs() > half, "{text} at {middle}, the end at {ends}");
        }
    }
    assert!(drawn > 0, "no frame has the text in its bar");
}

#[test]
fn findings_on_the_same_acquisitions_are_one_incident_told_once() {
    let (_, result) = paused();
    let [group] = &groups(&result.invariants)[..] else { panic!() };
    assert_eq!(group.findings.len(), 2);
    assert_eq!(group.story().len(), 2, "both tell the same");
    let mut apart = result.invariants.clone();
    let other = apart[1].witness.as_mut().unwrap();
    (other.acquisitions, other.clients) = (vec![8, 9], vec![8, 9]);
    assert_eq!(groups(&apart).len(), 2);
    // The same clients at the same time are one incident, and later another.
    apart[1].witness.as_mut().unwrap().clients = vec![1, 9];
    assert_eq!(groups(&apart).len(), 1);
    for step in &mut apart[1].witness.as_mut().unwrap().steps {
        step.at_ns += 161 * MS;
    }
    assert_eq!(groups(&apart).len(), 2);
}

#[test]
fn without_a_key_that_ran_out_the_write_that_undoes_another_does_the_harm() {
    let script = Script::unlocked().hold((0, 10, 90), 1).hold((0, 10, 95), 2);
    let layout =
        layout(&of_script(script.update((20, 60), 1, 0).update((30, 80), 2, 0), &[1, 2], 99));
    let last = |lane: &IncidentLane| lane.marks.last().map(|it| (it.text.clone(), it.harms));
    assert_eq!(last(&layout.lanes[0]), Some(("writes 1".to_owned(), false)));
    assert_eq!(
        last(&layout.lanes[1]),
        Some(("writes 1: undoes client 1's write".to_owned(), true))
    );
}

/// A key that nobody gives back: what is drawn if this command made it, and what the key's lane shows.
fn left_behind(script: Script, level: Level) -> (IncidentLayout, Vec<(BarKind, u64, u64)>) {
    let history = script.finish();
    let mut wrong = violated(("orphan", level), "a key was left", &[1], (0, 95));
    let made = history.events.iter().find(|it| match it.what {
        What::Command { intent, .. } => matches!(intent.touch, Touch::Create(_)),
        _ => false,
    });
    wrong.witness.as_mut().unwrap().accused = vec![made.unwrap().op];
    let result = support::result(&history, vec![wrong]);
    let layout = layout(&(history, result));
    let key = bars(&layout.lanes[0]);
    (layout, key)
}

#[test]
fn a_key_that_is_left_behind_is_red_and_not_the_command_that_made_it() {
    let crash = Script::new().hold((0, 10, 300), 1).set((1, 3), 1).fault(40, 1, Fault::Crash, 0);
    let (layout, key) = left_behind(crash.note(99, 0, What::Probe(-1)), Level::Progress);
    assert_eq!(key, [(BarKind::Owned(1), 2, 95), (BarKind::Left, 40, 95)]);
    assert!(layout.messages.iter().all(|it| !it.harms), "{:?}", layout.messages);
    // It is given back: whatever it is accused of, it was not left.
    let given = Script::new().hold((0, 10, 90), 1).set((1, 3), 1).del((90, 92), 1);
    let (layout, key) = left_behind(given, Level::Key);
    assert_eq!(key, [(BarKind::Owned(1), 2, 91)]);
    assert!(layout.messages.iter().any(|it| it.harms && it.text == "SET"), "{:?}", layout.messages);
}

#[test]
fn a_release_that_fails_for_good_is_drawn_and_does_the_harm() {
    let of = |again: bool| {
        let script = Script::new().hold((0, 10, 50), 1).set((1, 3), 1);
        let script = script.refused((51, 53), 1, ("EVALSHA", Touch::Delete), "NOSCRIPT No script");
        let mut script = if again { script.del((54, 56), 1) } else { script };
        let failed = What::Released(script.word("not released"));
        let (layout, _) = left_behind(script.note(57, 1, failed), Level::Progress);
        let of_release = layout.messages.into_iter().filter(|it| it.text.starts_with("EVALSHA"));
        of_release.map(|it| (it.text, it.harms)).collect::<Vec<_>>()
    };
    assert_eq!(of(false), [("EVALSHA fails: NOSCRIPT".to_owned(), true)]);
    assert_eq!(of(true), [], "it was sent as a text then");
}

#[test]
fn what_a_client_is_told_before_it_listens_is_drawn_as_missed() {
    let of = |looks_again: bool| {
        let create = Touch::Create(Some(TTL_MS * MS));
        let script = Script::new().hold((0, 10, 40), 1).set((1, 3), 1).del((41, 43), 1);
        let script = script.operation((2, 0), 2, What::Acquire, None);
        let script = script.command((3, 5), 2, ("SET", create, Some(Touch::None)));
        let script = script.listens((6, 60), 2);
        let script = if looks_again {
            script.command((61, 63), 2, ("SET", create, Some(Touch::None)))
        } else {
            script
        };
        layout(&of_script(script, &[1, 2], 90))
    };
    let layout = of(false);
    let [missed] = &layout.missed[..] else { panic!("{:?}", layout.missed) };
    assert_eq!((missed.client, missed.at_ns / MS, missed.listens_ns / MS), (2, 42, 60));
    let says = |text: &str| layout.lanes[2].marks.iter().any(|it| it.text.starts_with(text));
    assert!(says("listens from now on"), "{:?}", layout.lanes[2].marks);
    assert!(
        mermaid(&layout).contains("K--xC2: 42.0 ms: release announced"),
        "{}",
        mermaid(&layout)
    );
    assert_eq!(of(true).missed, []);
}

#[test]
fn tries_in_vain_are_left_out_unless_there_is_one_and_what_comes_behind_the_harm_is() {
    let create = Touch::Create(Some(TTL_MS * MS));
    let tries = |many: u64| {
        let script = Script::new().hold((0, 10, 90), 1).set((1, 3), 1);
        let script = script.operation((2, 0), 2, What::Acquire, None);
        let one = |it: Script, nth: u64| {
            it.command((20 + nth * 5, 22 + nth * 5), 2, ("SET", create, Some(Touch::None)))
        };
        let layout = layout(&of_script((0..many).fold(script, one), &[1, 2], 95));
        layout.messages.iter().filter(|it| it.client == 2).count()
    };
    assert_eq!([tries(1), tries(2)], [1, 0]);
    // The story of the pause goes on until 175 ms; the last that belongs to the harm is the end of client 2's hold.
    let layout = layout(&paused());
    assert_eq!(layout.until_ns / MS, 175);
    let (history, mut result) = paused();
    result.invariants.iter_mut().for_each(|it| {
        it.witness.as_mut().unwrap().steps[1].at_ns = 195 * MS;
    });
    assert_eq!(self::layout(&(history.clone(), result.clone())).until_ns / MS, 180);
    result.invariants[0].name = "honesty".to_owned();
    assert_eq!(self::layout(&(history, result)).until_ns / MS, 195, "another story is not cut");
}

#[test]
fn labels_overlap_neither_each_other_nor_the_edges() {
    font::register().unwrap();
    let busy = (1..=11).fold(Script::new().set((1, 9), 1).del((50, 51), 1), |script, client| {
        let at_ms = 9 + u64::from(client);
        let script = script.hold((0, at_ms, 80), client).update((20, 70), client, 0);
        script.fault(30, client, Fault::Pause, 5).set((40, 41), client).del((42, 43), client)
    });
    let busy = of_script(busy, &(1..=11).collect::<Vec<_>>(), 100);
    for incident in [&paused(), &busy] {
        let layout = layout(incident);
        for frame in [WIDE, NARROW] {
            let places = IncidentPlaces::new(&layout, frame).unwrap();
            let all: Vec<&PlacedLabel> = places.labels.iter().chain(&places.band_labels).collect();
            for (nth, one) in all.iter().enumerate() {
                assert!(one.x >= 0.0 && one.x + one.width <= frame.width, "{one:?}");
                for other in &all[nth + 1..] {
                    let apart = one.x + one.width < other.x || other.x + other.width < one.x;
                    assert!(
                        apart || (one.baseline - other.baseline).abs() >= 13.9,
                        "{one:?} {other:?}"
                    );
                }
            }
            assert!(places.lanes.is_sorted_by(|one, other| one.bars.1 < other.bars.0));
        }
    }
}

#[test]
fn pictures_are_the_same_each_time_and_say_what_they_show() {
    let incident = paused();
    let layout = layout(&incident);
    let wide = svg(&IncidentChart::wide(&layout).unwrap()).unwrap();
    assert_eq!(wide, svg(&IncidentChart::wide(&self::layout(&incident)).unwrap()).unwrap());
    let narrow = svg(&IncidentChart::narrow(&layout).unwrap()).unwrap();
    for drawing in [&wide, &narrow] {
        assert!(drawing.contains("<title>Timeline: client 1 deleted it</title>"));
        for text in
            ["client 1", "both believe they hold the lock: 30 ms", "deleted by client 1", "reads 0"]
        {
            assert!(drawing.contains(text), "{text}");
        }
        assert!(!drawing.contains("NaN") && !drawing.contains("<script"));
    }
    assert!(wide.contains("width=\"800\"") && narrow.contains("width=\"320\""));
    let text = mermaid(&layout);
    assert_eq!(text, mermaid(&layout));
    let lines = [
        "sequenceDiagram",
        "  participant K as lock's key",
        "  participant C1 as client 1",
        "  C1->>K: 160.0 ms: DEL",
        "  Note over C1: 40.0 ms: stands still 110 ms",
        "  Note over K,C2: both believe they hold the lock: 30 ms, from 130.0 to 160.0 ms",
    ];
    for line in lines {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let bad = "a</text><script>x()</script>\"&;#\n```\nend \u{1b}[31m";
    let script = Script::new().hold((0, 10, 90), 1);
    let create = Touch::Create(Some(TTL_MS * MS));
    let history = script.command((1, 9), 1, (bad, create, Some(create))).finish();
    let wrong = violated(("ownership", Level::Key), bad, &[1], (0, 100));
    let mut result = support::result(&history, vec![wrong]);
    (result.scenario, result.lock) = (bad.to_owned(), bad.to_owned());
    let layout = layout(&(history.clone(), result));
    for chart in [IncidentChart::wide(&layout), IncidentChart::narrow(&layout)] {
        let drawing = svg(&chart.unwrap()).unwrap();
        assert!(!drawing.contains("<script") && !drawing.contains('\u{1b}'), "{drawing}");
    }
    let text = mermaid(&layout);
    let first =
        |line: &str| line.trim_start().split([' ', '-']).next().unwrap_or_default().to_owned();
    let known = ["sequenceDiagram", "accTitle:", "participant", "Note", "K", "C1"];
    assert!(text.lines().all(|line| known.contains(&first(line).as_str())), "{text}");
    assert!(!text.contains('<') && !text.contains('`') && !text.contains('\u{1b}'), "{text}");
    let mut traced = Vec::new();
    trace(&history, &mut traced).unwrap();
    serde_json::from_slice::<serde_json::Value>(&traced).unwrap();
}

#[test]
fn a_trace_nests_and_each_message_has_both_ends() {
    let history = support::bonus_pool();
    let mut traced = Vec::new();
    trace(&history, &mut traced).unwrap();
    let traced: serde_json::Value = serde_json::from_slice(&traced).unwrap();
    let events = traced["traceEvents"].as_array().unwrap();
    let names: Vec<&str> = events
        .iter()
        .filter(|it| it["ph"] == "M")
        .filter_map(|it| it["args"]["name"].as_str())
        .collect();
    assert!(names.contains(&"client 7") && names.contains(&"key, server 0"), "{names:?}");
    let number = |it: &serde_json::Value| it.as_f64().unwrap();
    let mut open: std::collections::BTreeMap<u64, Vec<f64>> = std::collections::BTreeMap::new();
    let mut flows: std::collections::BTreeMap<u64, Vec<&str>> = std::collections::BTreeMap::new();
    for event in events {
        let ts = number(&event["ts"]);
        match event["ph"].as_str().unwrap() {
            "X" => {
                let stack = open.entry(event["tid"].as_u64().unwrap()).or_default();
                stack.retain(|until| *until > ts + 1e-6);
                let until = ts + number(&event["dur"]);
                assert!(stack.iter().all(|it| until <= *it + 1e-6), "{event}");
                stack.push(until);
            }
            ph @ ("s" | "f") => flows.entry(event["id"].as_u64().unwrap()).or_default().push(ph),
            _ => {}
        }
    }
    assert!(flows.len() > 100 && flows.values().all(|it| it.len() == 2 && it[0] != it[1]));
}
