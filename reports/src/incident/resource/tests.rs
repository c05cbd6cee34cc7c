//! Which of two writes is called the harmful one.

use history::fault::Fault;
use history::verdict::Level;
use history::{Touch, What};

use crate::incident::layout::IncidentLayout;
use crate::incident::testing::{Script, violated};
use crate::support;

const MS: u64 = 1_000_000;

/// The last mark of each of two clients that write what they make of the same, while the second has the lock.
fn last_marks(script: Script) -> [(String, bool); 2] {
    let script = script.hold((0, 20, 160), 1).hold((10, 130, 180), 2);
    let history = script.update((30, 155), 1, 0).update((140, 175), 2, 0).finish();
    let both = violated(("mutual-exclusion", Level::Belief), "both had it", &[1, 2], (15, 175));
    let result = support::result(&history, vec![both]);
    let layout = IncidentLayout::of(&history, &result).unwrap();
    let lanes = &layout.lanes[layout.lanes.len() - 2..];
    [0, 1].map(|nth: usize| {
        let mark = lanes[nth].marks.last().unwrap();
        (mark.text.clone(), mark.harms)
    })
}

fn makes(script: Script, client: u32, times: (u64, u64), nodes: &[u16]) -> Script {
    let create = Touch::Create(Some(500 * MS));
    let sets = |script: Script, node: &u16| {
        script.command_at(*node, times, client, ("SET", create, Some(create)))
    };
    nodes.iter().fold(script, sets)
}

#[test]
fn whoever_has_lost_its_quorum_does_the_harm() {
    let of_five = |first: &[u16], second: &[u16]| {
        let script = Script::new().head(|it| it.nodes = Some(5));
        let (node, for_ns) = (Some(0), 0);
        let loss =
            What::Fault { fault: Fault::PowerLoss, node, for_ns, in_hold: true, staged: None };
        let script = makes(script, 1, (5, 15), first).note(40, 0, loss);
        last_marks(makes(script, 2, (115, 125), second))
    };
    let lost =
        [("writes 1: no longer has the lock", true), ("writes 1, too: one update is lost", false)];
    assert_eq!(of_five(&[0, 1, 2], &[0, 3, 4]), lost.map(|(text, harms)| (text.to_owned(), harms)));
    let undoes = [("writes 1", false), ("writes 1: undoes client 1's write", true)];
    let kept = undoes.map(|(text, harms)| (text.to_owned(), harms));
    assert_eq!(of_five(&[0, 1, 2, 3], &[0, 4]), kept, "it still has most of them");
}

#[test]
fn a_key_that_was_given_its_time_to_live_later_runs_out() {
    let forever = Touch::Create(None);
    let script = Script::new().command((5, 10), 1, ("SETNX", forever, Some(forever)));
    let lives = Touch::Extend(80 * MS);
    let script = script.command((10, 15), 1, ("PEXPIRE", lives, Some(lives)));
    let [first, second] = last_marks(makes(script, 2, (115, 125), &[0]));
    assert_eq!(first, ("writes 1: no longer has the lock".to_owned(), true));
    assert_eq!(second, ("writes 1, too: one update is lost".to_owned(), false));
}
