//! Who is to blame in random histories, as one finds it who looks at all of them again for each acquisition.

use history::fault::Fault;
use history::{Event, History, Touch, What};
use proptest::prelude::*;

use super::checker;
use crate::interface::lasting;
use crate::random::{blamed, config, count, history, steps};
use crate::testing::Tape;

/// Whether this acquisition asked again for what it had been refused for good, or said too late or too early that it has not got it.
fn is_to_blame(history: &History, acquisition: u32) -> bool {
    let head = &history.head;
    let (nodes, tries_for_ns) = (head.nodes.unwrap(), head.tries_for_ns.unwrap());
    let fails_within_ns = head.fails_within_ns.unwrap();
    let mut events = history.events.iter();
    let Some(&Event { at_ns: began_ns, client, .. }) =
        events.find(|it| it.acquisition == acquisition && it.what == What::Acquire)
    else {
        return false;
    };
    let mut sent = Vec::new();
    let drifts_by = |now_ns| {
        let drift = |it: &Event| matches!(it.what, What::Fault { fault: Fault::Drift, .. });
        history.events.iter().any(|it| it.at_ns <= now_ns && drift(it))
    };
    // The last request to each server that has ended, as it was sent: refused for good, or not.
    let mut last: Vec<Option<(u32, bool)>> = vec![None; nodes.into()];
    let mut hopeless_ns: Option<u64> = None;
    let last_ns = history.events.last().unwrap().at_ns;
    for event in events {
        let Event { at_ns, op, what, .. } = *event;
        if event.client == client
            && matches!(what, What::Fault { fault: Fault::Pause | Fault::Crash, .. })
        {
            return false;
        }
        if event.acquisition != acquisition {
            continue;
        }
        let late = |since_ns: u64| at_ns - since_ns > fails_within_ns && !drifts_by(at_ns);
        match what {
            What::Command { node, intent, .. } if matches!(intent.touch, Touch::Create(_)) => {
                let refused = last[usize::from(node)].is_some_and(|(_, refused)| refused);
                if hopeless_ns.is_some() && refused {
                    return true;
                }
                sent.push((op, node));
            }
            What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
                let Some(&(_, node)) = sent.iter().find(|it| it.0 == op) else { continue };
                let refused =
                    matches!(what, What::Refused(why) if lasting(history.texts.get(why)).is_some());
                let last_of = &mut last[usize::from(node)];
                *last_of = (*last_of).max(Some((op, refused)));
                let count = last.iter().flatten().filter(|(_, refused)| *refused).count();
                let is_hopeless = nodes as usize - count <= nodes as usize / 2;
                hopeless_ns = is_hopeless.then(|| hopeless_ns.unwrap_or(at_ns));
            }
            What::Acquired | What::AcquireUnknown(_) => return hopeless_ns.is_some_and(late),
            What::NotAcquired(_) => {
                let some = last.iter().flatten().any(|(_, refused)| *refused);
                let early = some && at_ns - began_ns < tries_for_ns && !drifts_by(at_ns);
                return hopeless_ns.map_or(early, late);
            }
            _ => {}
        }
    }
    hopeless_ns.is_some_and(|since_ns| last_ns - since_ns > fails_within_ns && !drifts_by(last_ns))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn who_is_blamed_is_to_blame(steps in steps(), nodes in 1..4_u16) {
        let limits = (Some(30), Some(60), Some(nodes));
        let tape = Tape::new().with(|it| (it.fails_within_ns, it.tries_for_ns, it.nodes) = limits);
        let history = history(&tape, &steps);
        let blamed = blamed(&history, &mut *checker(&history.head).unwrap());
        prop_assert_eq!(blamed, count(&history, |it| is_to_blame(&history, it)));
    }
}
