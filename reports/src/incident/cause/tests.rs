//! The titles of small incidents.

use history::fault::Fault;
use history::verdict::Level;
use history::{Event, Touch, What, words};

use crate::incident::layout::{BarKind, IncidentLayout};
use crate::incident::testing::{Script, TTL_MS, violated};
use crate::support;

const MS: u64 = 1_000_000;

/// What is drawn of this, if the first command on the key is to blame for a stall, and the first deletion for a key that
/// was taken.
fn layout(script: Script, level: Level, clients: &[u32], until_ms: u64) -> IncidentLayout {
    let history = script.finish();
    let mut wrong = violated(("wrong", level), "it went wrong", clients, (0, until_ms));
    let mut commands = history.events.iter().filter(|it| matches!(it.what, What::Command { .. }));
    let accused = match level {
        Level::Progress => commands.next(),
        Level::Key => commands.find(|it| is_deletion(it)),
        _ => None,
    };
    wrong.witness.as_mut().unwrap().accused = accused.map(|it| it.op).into_iter().collect();
    let result = support::result(&history, vec![wrong]);
    IncidentLayout::of(&history, &result).unwrap()
}

fn is_deletion(event: &Event) -> bool {
    matches!(event.what, What::Command { intent, .. } if intent.touch == Touch::Delete)
}

fn fault(fault: Fault, node: Option<u16>) -> What {
    What::Fault { fault, node, for_ns: 0, in_hold: true, staged: None }
}

#[test]
fn of_two_holders_the_key_that_ended_first_is_named_and_how() {
    let both = |end: fn(Script) -> Script| {
        let script = Script::new().hold((0, 10, 160), 1).set((1, 3), 1);
        let script = end(script).hold((0, 130, 180), 2).set((125, 127), 2);
        layout(script, Level::Belief, &[1, 2], 180)
    };
    let evicted = both(|it| it.note(20, 0, fault(Fault::Evict, Some(0))));
    assert_eq!(
        evicted.title,
        "client 1's key was evicted by the server while client 1 held the lock"
    );
    assert_eq!(evicted.also, ["belief: it went wrong"], "what was found is still said");
    let expired = both(|it| it);
    assert_eq!(expired.title, "client 1's key expired while client 1 held the lock");
    let deleted = both(|it| it.del((30, 32), 2));
    assert_eq!(
        deleted.title,
        "client 1's key was deleted by client 2 while client 1 held the lock"
    );
    let of_two = both(|it| {
        let create = Touch::Create(Some(TTL_MS * MS));
        let other = it.command_at(1, (4, 6), 1, ("SET", create, Some(create)));
        other.note(20, 0, fault(Fault::Evict, Some(0)))
    });
    assert_eq!(of_two.title, "it went wrong", "one key of two is not the lock");
    let own = both(|it| it.del((30, 32), 1));
    assert_eq!((own.title.as_str(), own.also.len()), ("it went wrong", 0), "nothing says why");
}

#[test]
fn a_key_that_nobody_holds_has_a_reason() {
    let title = |script: Script| layout(script, Level::Progress, &[1], 95).title;
    let made = || Script::new().hold((0, 10, 300), 1).set((1, 3), 1);
    let dies = made().fault(42, 1, Fault::Crash, 0).note(99, 0, What::Probe(-1));
    assert_eq!(title(dies), "client 1 died with the lock: its key stood for 60 ms more");
    let create = Touch::Create(None);
    let stays =
        Script::new().hold((0, 10, 300), 1).command((1, 3), 1, ("SETNX", create, Some(create)));
    let dies = stays.fault(42, 1, Fault::Crash, 0).note(99, 0, What::Probe(-1));
    assert_eq!(title(dies), "client 1 died with the lock: its key never expires");

    let mut refused = Script::new().hold((0, 10, 50), 1).set((1, 3), 1).refused(
        (51, 53),
        1,
        ("EVALSHA", Touch::Delete),
        "NOSCRIPT No script",
    );
    let failed = What::Released(refused.word("not released"));
    let refused = refused.note(57, 1, failed);
    assert_eq!(
        title(refused),
        "client 1 could not release the lock (NOSCRIPT): its key stood for 45 ms more"
    );
}

#[test]
fn what_is_lost_or_late_is_named() {
    let create = Touch::Create(Some(TTL_MS * MS));
    let asked = || Script::new().operation((0, 0), 1, What::Acquire, None);
    let sent = || asked().command((1, 0), 1, ("SET", create, None));
    let gives_up = |mut script: Script, at_ms: u64| {
        let why = script.word("no answer");
        script.note(at_ms, 1, What::AcquireUnknown(why)).note(99, 0, What::Probe(-1))
    };
    let lost = gives_up(sent().fault(2, 1, Fault::LoseReply, 0), 40);
    let drawn = layout(lost, Level::Progress, &[1], 95);
    let title = "client 1 took the lock with SET, but the reply was lost: its key stood for";
    assert!(drawn.title.starts_with(title), "{}", drawn.title);

    let mut late = sent().fault(1, 1, Fault::Delay, 60);
    let released = late.word(words::RELEASED);
    let late = late.note(40, 1, What::Released(released)).note(99, 0, What::Probe(-1));
    let drawn = layout(late, Level::Progress, &[1], 95);
    let title = "client 1 released the lock, and its SET arrived after that: its key stood for";
    assert!(drawn.title.starts_with(title), "{}", drawn.title);
}

#[test]
fn who_is_stopped_before_it_sends_sends_when_it_goes_on() {
    let script = Script::new().hold((0, 10, 50), 1).set((1, 3), 1).hold((0, 130, 180), 2);
    let script = script.set((115, 117), 2).fault(52, 1, Fault::Pause, 0).del((52, 140), 1);
    let drawn = layout(script, Level::Key, &[1, 2], 180);
    let sent = drawn.messages.iter().find(|it| it.text == "DEL").unwrap();
    assert_eq!((sent.sent_ns / MS, sent.done_ns / MS), (138, 139));
    let one = drawn.lanes.iter().flat_map(|it| &it.bars);
    let stands = one.filter(|it| it.kind == BarKind::Stands);
    let stands: Vec<_> = stands.map(|it| (it.from_ns / MS, it.until_ns / MS)).collect();
    assert_eq!(stands, [(52, 138)]);
}

#[test]
fn whoever_lost_the_key_and_nothing_else_has_its_harm_named() {
    let script = Script::new().hold((0, 10, 90), 1).set((1, 3), 1).del((30, 32), 2);
    let drawn = layout(script, Level::Key, &[1, 2], 95);
    let harm = "Risk, without damage in this incident: client 1 worked for 59 ms under a lock that anybody could have taken.";
    assert_eq!((drawn.title.as_str(), &drawn.also[..]), ("it went wrong", &[harm.to_owned()][..]));
}

#[test]
fn of_several_servers_the_key_is_named_with_which_the_quorum_went() {
    let create = Touch::Create(Some(TTL_MS * MS));
    let sets = |script: Script, client, times, nodes: std::ops::Range<u16>| {
        let set = |script: Script, node| {
            script.command_at(node, times, client, ("SET", create, Some(create)))
        };
        nodes.fold(script, set)
    };
    let title = |first, loses: bool| {
        let script = Script::new().head(|it| it.nodes = Some(5)).hold((0, 10, 90), 1);
        let script = sets(script, 1, (1, 3), first);
        let loss = fault(Fault::PowerLoss, Some(0));
        let script = if loses { script.note(20, 0, loss) } else { script };
        layout(script.hold((0, 60, 99), 2), Level::Belief, &[1, 2], 99).title
    };
    let lost = "client 1's key on server 0 was lost (power-loss) while client 1 held the lock: 2 of 5 servers had it still";
    assert_eq!(title(0..3, true), lost);
    assert_eq!(title(0..4, true), "it went wrong", "three are a quorum");
    assert_eq!(title(0..3, false), "it went wrong");
    let script = Script::new().head(|it| it.nodes = Some(5)).hold((0, 10, 160), 1);
    let script = sets(script, 1, (1, 3), 0..5).hold((0, 130, 180), 2);
    let expired = layout(script, Level::Belief, &[1, 2], 180).title;
    assert_eq!(expired, "client 1's keys expired while client 1 held the lock");
}
