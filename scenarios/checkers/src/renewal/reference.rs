//! Who does not renew its hold in random histories, as one finds it who looks at all of them again for each acquisition.

use history::fault::Fault;
use history::{Event, History, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::checker;
use crate::interface::lasts_until_ns;
use crate::random::{Step, blamed, config, count, steps};
use crate::testing::Tape;

/// A renewal that was sent before the validity ended, and how it had ended by then.
struct Renewal {
    sent_ns: u64,
    node: u16,
    end: Option<(u64, What)>,
}

/// Half of the scripts renew, and who waits tries to.
fn history(tape: &Tape, steps: &[Step]) -> History {
    let mut history = crate::random::history(tape, steps);
    for event in &mut history.events {
        match &mut event.what {
            What::Command { intent: history::Intent { touch, .. }, .. }
            | What::Answered { touch, .. }
                if *touch == Touch::Unknown && event.op % 2 == 0 =>
            {
                *touch = Touch::Extend(100);
            }
            What::Phase(phase) if *phase == Phase::Wait => *phase = Phase::RenewBeforeSend,
            _ => {}
        }
    }
    history
}

/// When the validity of an acquisition ends, and when its client was last told so before that.
fn validity(events: &[&Event]) -> Option<(u64, u64)> {
    let told = events.iter().filter_map(|it| match it.what {
        What::ValidUntil(until_ns) => Some((until_ns, it.at_ns)),
        _ => None,
    });
    told.fold(None, |known: Option<(u64, u64)>, (until_ns, at_ns)| match known {
        Some(known) if known.0 <= at_ns => Some(known),
        _ => Some((until_ns.max(known.map_or(0, |it| it.0)), at_ns)),
    })
}

fn strikes(event: &Event, client: u32) -> Option<(Fault, u64)> {
    match event.what {
        What::Fault { fault, for_ns, .. } if [0, client].contains(&event.client) => {
            Some((fault, lasts_until_ns(fault, event.at_ns, for_ns)))
        }
        _ => None,
    }
}

fn renewals(history: &History, acquisition: u32, until_ns: u64) -> Vec<Renewal> {
    let before: Vec<&Event> = history.events.iter().filter(|it| it.at_ns < until_ns).collect();
    let ends = |op| {
        let mut of = before.iter().filter(move |it| it.op == op);
        of.rfind(|it| !matches!(it.what, What::Command { .. })).map(|it| (it.at_ns, it.what))
    };
    let sent = before.iter().filter(|it| it.acquisition == acquisition);
    let sent = sent.filter_map(|it| match it.what {
        What::Command { node, intent, .. } if matches!(intent.touch, Touch::Extend(_)) => {
            Some(Renewal { sent_ns: it.at_ns, node, end: ends(it.op) })
        }
        _ => None,
    });
    sent.collect()
}

/// Whether a server has refused the last two renewals or more, and served another client after the first of them.
fn is_refused_again(history: &History, renewals: &[Renewal], client: u32, until_ns: u64) -> bool {
    let mut ended: Vec<_> = renewals.iter().filter_map(|it| Some((it.end?, it.node))).collect();
    ended.sort_unstable_by_key(|((at_ns, _), _)| *at_ns);
    let Some(&(_, node)) = ended.last() else { return false };
    let is_struck = |from_ns| {
        let span = from_ns..until_ns;
        let mut events = history.events.iter().filter(|it| span.contains(&it.at_ns));
        events.any(|it| strikes(it, client).is_some_and(|(fault, _)| fault.is_of_message()))
    };
    let refused = ended.iter().rev().take_while(|((at_ns, what), it)| {
        matches!(what, What::Refused(_)) && *it == node && !is_struck(*at_ns)
    });
    let refused: Vec<u64> = refused.map(|((at_ns, _), _)| *at_ns).collect();
    let Some(&first_ns) = refused.last() else { return false };
    let on_node = |op| {
        let sent = |it: &&Event| it.op == op && matches!(it.what, What::Command { .. });
        let sent = history.events.iter().find(sent);
        sent.is_some_and(|it| matches!(it.what, What::Command { node: it, .. } if it == node))
    };
    let serves = |it: &Event| {
        it.client != client && matches!(it.what, What::Answered { .. }) && on_node(it.op)
    };
    let span = first_ns..until_ns;
    let mut meanwhile = history.events.iter().filter(|it| span.contains(&it.at_ns));
    refused.len() > 1 && meanwhile.any(serves)
}

fn is_to_blame(history: &History, acquisition: u32) -> bool {
    let head = &history.head;
    let of: Vec<&Event> =
        history.events.iter().filter(|it| it.acquisition == acquisition).collect();
    let Some(&&Event { at_ns: began_ns, client, .. }) =
        of.iter().find(|it| it.what == What::Acquire)
    else {
        return false;
    };
    let is_end = |it: &&&Event| {
        use What::{AcquireUnknown, Lost, NotAcquired, Release};
        matches!(it.what, Lost | Release | NotAcquired(_) | AcquireUnknown(_))
    };
    let end = of.iter().find(is_end);
    if end.is_some_and(|it| !matches!(it.what, What::Lost | What::Release)) {
        return false;
    }
    let end_ns = end.copied().or(history.events.last()).unwrap().at_ns;
    let of: Vec<&Event> = of.into_iter().filter(|it| it.at_ns < end_ns).collect();
    let Some((until_ns, told_ns)) = validity(&of).filter(|it| it.0 <= end_ns) else { return false };
    let faults = || {
        let by_then = history.events.iter().filter(|it| it.at_ns < until_ns);
        by_then.filter_map(|it| Some((it.at_ns, strikes(it, client)?)))
    };
    let excuses = |(at_ns, (fault, _)): (u64, (Fault, u64))| match fault {
        Fault::Drift => true,
        Fault::Pause | Fault::Crash => at_ns > began_ns,
        _ => false,
    };
    let asks = of.iter().filter(|it| it.what == What::Phase(Phase::AcquireBeforeSend));
    let asked_ns = asks.map(|it| it.at_ns).filter(|it| *it < until_ns).max().unwrap_or(began_ns);
    let is_over = until_ns - asked_ns.min(until_ns) > head.longest_hold_ns.unwrap_or(u64::MAX);
    if faults().any(excuses) || is_over {
        return false;
    }
    let hinders =
        |fault| matches!(fault, Fault::Pause | Fault::Crash | Fault::Partition | Fault::Failover);
    let hindered = faults().filter(|(_, (fault, _))| hinders(*fault));
    let hindered =
        hindered.filter(|(at_ns, (_, until_ns))| *at_ns > began_ns || *until_ns > began_ns);
    let hindered_ns = hindered.map(|it| it.0.max(began_ns)).min().filter(|it| *it < until_ns);

    let renewals = renewals(history, acquisition, until_ns);
    let before: Vec<&Event> = of.into_iter().filter(|it| it.at_ns < until_ns).collect();
    let begins = |it: &Event| it.what == What::Phase(Phase::RenewBeforeSend);
    let tells = |it: &Event| matches!(it.what, What::Acquire | What::Acquired);
    let sends_or_hears = |it: &Event| it.op > 0 && !matches!(it.what, What::Acquire);
    let last = |what: &dyn Fn(&Event) -> bool| {
        before.iter().filter(|it| what(it)).map(|it| it.at_ns).max().unwrap_or(0)
    };
    let renewed =
        renewals.iter().flat_map(|it| [Some(it.sent_ns), it.end.map(|it| it.0)]).flatten();
    let renewed_ns = renewed.max().unwrap_or(0).max(last(&tells)).max(told_ns);
    let is_script = |it: &Event| {
        let sent = |it: &&Event| matches!(it.what, What::Command { intent, .. } if intent.touch == Touch::Unknown);
        before.iter().copied().filter(sent).any(|sent| sent.op == it.op)
    };
    let moved_ns = renewed_ns.max(last(&begins)).max(last(&is_script));
    let heard_ns = renewed_ns.max(last(&sends_or_hears));
    let idle_ns = until_ns.saturating_sub(moved_ns);
    let begun = |by_ns: u64| {
        before.iter().filter(|it| begins(it) && (renewed_ns..by_ns).contains(&it.at_ns)).count()
    };
    if renewals.iter().any(|it| it.end.is_none()) {
        return idle_ns > head.ttl_ns / 5 * 3 && hindered_ns.is_none();
    }
    let last_end = renewals.iter().filter_map(|it| it.end).max_by_key(|it| it.0);
    let failed =
        last_end.is_some_and(|(_, it)| matches!(it, What::Refused(_) | What::Unanswered(_)));
    let free_ns = hindered_ns.unwrap_or(until_ns);
    idle_ns > head.ttl_ns / 5 * 3
        || free_ns.saturating_sub(heard_ns) > head.ttl_ns / 2 && begun(free_ns) >= 4
        || hindered_ns.is_none() && failed && begun(until_ns) == 0 && idle_ns > head.ttl_ns / 4
        || is_refused_again(history, &renewals, client, until_ns)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn who_is_blamed_did_not_renew(steps in steps(), longest in prop::option::of(50..200_u64), nodes in 1..3_u16) {
        let tape = Tape::tracked().with(|it| (it.renewed, it.exact, it.ttl_ns) = (true, true, 100));
        let tape = tape.with(|it| (it.longest_hold_ns, it.nodes) = (longest, Some(nodes)));
        let history = history(&tape, &steps);
        let blamed = blamed(&history, &mut *checker(&history.head).unwrap());
        prop_assert_eq!(blamed, count(&history, |it| is_to_blame(&history, it)));
    }
}
