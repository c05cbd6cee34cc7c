//! What becomes of foreign keys in random histories, as one finds it who looks at all of them again for each command.

use history::fault::{Fault, Whom};
use history::{Declared, Event, History, Touch, What};
use picklock::env::Phase;

use super::{NAME, TOLD};
use crate::agreement::{Command, Said, agree, blames, commands};
use crate::random::{Step, steps_of};
use crate::testing::Tape;

/// Who waits is no client any more: somebody keeps something under the key of a server, or the server loses all that it has. Nobody
/// gets the lock.
fn history(nodes: u16, steps: &[Step]) -> History {
    let staged =
        Declared { kind: Fault::ForeignKey, on: Whom::Primary, in_hold: false, subscribes: false };
    let tape = Tape::new().with(|it| (it.honest, it.nodes) = (true, Some(nodes)));
    let mut history = crate::random::history(&tape.with(|it| it.staged = vec![staged]), steps);
    let mut until_ns = vec![0; usize::from(nodes)];
    let [held, why] =
        ["held by another", "not sent: no connection"].map(|it| history.texts.intern(it));
    for event in &mut history.events {
        let at_ns = event.at_ns;
        match &mut event.what {
            What::Phase(Phase::Wait) => {
                let node = u16::try_from(at_ns / 4).unwrap() % nodes;
                let there = at_ns < until_ns[usize::from(node)];
                let fault = match at_ns % 4 {
                    _ if there => Fault::Flush,
                    0 => Fault::ForeignKey,
                    _ => Fault::ForeignList,
                };
                let for_ns = if there { 0 } else { at_ns * 37 % 800 };
                until_ns[usize::from(node)] = at_ns + for_ns;
                let node = Some(node);
                let what = What::Fault { fault, node, for_ns, in_hold: false, staged: None };
                *event = Event { at_ns, client: 0, acquisition: 0, op: 0, what };
            }
            What::NotAcquired(told) if at_ns % 3 == 0 => *told = why,
            What::Acquired => event.what = What::NotAcquired(held),
            _ => {}
        }
    }
    history
}

/// What was under the key of the server all the while that this command took, and until when.
fn found(history: &History, command: &Command) -> Option<(Fault, u64)> {
    let (answered_ns, _) = command.did()?;
    let of_node = history.events.iter().filter_map(|it| match it.what {
        What::Fault { fault, node, for_ns, .. } if node == Some(command.node) => {
            Some((it.at_ns, fault, for_ns))
        }
        _ => None,
    });
    let (from_ns, fault, for_ns) =
        of_node.clone().rfind(|(from_ns, ..)| *from_ns < command.sent_ns)?;
    let lost_ns = of_node.map(|it| it.0).find(|at_ns| *at_ns > from_ns).unwrap_or(u64::MAX);
    let until_ns = lost_ns.min(from_ns + for_ns);
    (fault != Fault::Flush && answered_ns < until_ns).then_some((fault, until_ns))
}

fn harmed(history: &History) -> Said {
    let commands = commands(history);
    let found = || commands.iter().filter(|it| found(history, it).is_some());
    let harms = |it: &&Command| !matches!(it.did().unwrap().1, Touch::None | Touch::Unknown);
    blames(found().filter(harms).count(), found().next().is_some())
}

fn told(history: &History) -> Said {
    let commands = commands(history);
    let refused = history.events.iter().filter(|it| {
        let by_then = commands.iter().filter(|command| {
            let answered = command.did().is_some_and(|(at_ns, _)| at_ns < it.at_ns);
            command.acquisition == it.acquisition && answered
        });
        let last = by_then.max_by_key(|command| command.did().map(|(at_ns, _)| at_ns));
        let found = last.and_then(|command| found(history, command));
        let is_list = found
            .is_some_and(|(fault, until_ns)| fault == Fault::ForeignList && it.at_ns < until_ns);
        is_list && matches!(it.what, What::NotAcquired(_))
    });
    let lied = refused.clone().filter(|it| {
        let What::NotAcquired(why) = it.what else { return false };
        history.head.nodes == Some(1) && history.texts.get(why) == "held by another"
    });
    blames(lied.count(), refused.count() > 0)
}

#[test]
fn what_is_harmed_was_there() {
    agree(NAME, 50, (1..3_u16, steps_of(2)), |(nodes, steps)| {
        let history = history(nodes, &steps);
        let harmed = harmed(&history);
        (history, harmed)
    });
}

#[test]
fn who_is_told_of_another_has_found_no_list() {
    agree(TOLD, 200, (1..3_u16, steps_of(2)), |(nodes, steps)| {
        let history = history(nodes, &steps);
        let told = told(&history);
        (history, told)
    });
}
