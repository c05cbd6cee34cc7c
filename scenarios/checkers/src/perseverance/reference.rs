//! Who gives up too soon in random histories, as one finds it who looks at all of them again for each acquisition.

use history::fault::Fault;
use history::words::NOT_SENT;
use history::{Event, History, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::checker;
use crate::interface::{lasting, passing};
use crate::random::{blamed, config, count, history, steps};
use crate::testing::Tape;

/// A command of an acquisition, and how it had ended when the acquisition did.
struct Sent {
    op: u32,
    node: u16,
    touch: Touch,
    compares: bool,
    sent_ns: u64,
    end: Option<(u64, What)>,
}

impl Sent {
    fn asks(&self) -> bool {
        // A script that compares goes on from what was had before.
        matches!(self.touch, Touch::Create(_) | Touch::Overwrite(_))
            || self.touch == Touch::Unknown && !self.compares
    }

    fn is_granted(&self) -> bool {
        let made = |touch| matches!(touch, Touch::Create(_) | Touch::Overwrite(_));
        made(self.touch)
            && matches!(self.end, Some((_, What::Answered { touch, .. })) if made(touch))
    }

    fn gives_back(&self) -> bool {
        matches!(self.touch, Touch::Delete | Touch::Unknown | Touch::Extend(0))
    }

    /// Whether its end is a reason to ask again, or none to ask any more.
    fn may_ask_again(&self, history: &History) -> (bool, bool) {
        match self.end {
            Some((_, What::Refused(why))) => {
                let why = history.texts.get(why);
                (passing(why).is_some(), lasting(why).is_some())
            }
            Some((_, What::Unanswered(_))) => (true, false),
            _ => (false, false),
        }
    }
}

/// Whether this acquisition gave up although it might have tried again, or had been granted the lock.
fn gives_up_too_soon(history: &History, acquisition: u32) -> bool {
    let (nodes, tries_for_ns) = (history.head.nodes.unwrap(), history.head.tries_for_ns.unwrap());
    let of = history.events.iter().filter(|it| it.acquisition == acquisition);
    let is_end = |it: &&Event| {
        matches!(it.what, What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_))
    };
    let Some(end) = of.clone().find(is_end).filter(|it| it.what != What::Acquired) else {
        return false;
    };
    let until: Vec<&Event> = of.take_while(|it| it.at_ns < end.at_ns).collect();
    let began_ns = until[0].at_ns;
    let sent = until.iter().filter_map(|it| {
        let What::Command { node, intent, .. } = it.what else { return None };
        let ends = until.iter().find(|end| end.op == it.op && end.at_ns > it.at_ns);
        let end = ends.map(|end| (end.at_ns, end.what));
        let history::Intent { touch, compares } = intent;
        Some(Sent { op: it.op, node, touch, compares, sent_ns: it.at_ns, end })
    });
    let sent: Vec<Sent> = sent.collect();
    let is_round = |it: &&&Event| it.what == What::Phase(Phase::AcquireBeforeSend);
    let round_ns = until.iter().rfind(is_round).map_or(began_ns, |it| it.at_ns);
    let has = |node: &u16| {
        sent.iter().any(|it| {
            let returned =
                sent.iter().any(|by| by.gives_back() && by.node == it.node && by.op > it.op);
            it.node == *node && it.is_granted() && it.sent_ns >= round_ns && !returned
        })
    };
    let drift = |it: &Event| matches!(it.what, What::Fault { fault: Fault::Drift, .. });
    let drifts = history.events.iter().any(|it| it.at_ns < end.at_ns && drift(it));
    let granted = (0..nodes).filter(has).count();
    if 2 * granted > nodes.into() && end.at_ns <= round_ns + history.head.ttl_ns / 2 && !drifts {
        return true;
    }
    let asked = || sent.iter().filter(|it| it.asks());
    let last = |node| asked().rfind(|it| it.node == node);
    let refused = (0..nodes).filter_map(last).filter(|it| it.may_ask_again(history).1).count();
    let may_ask_again = match nodes {
        1 => last(0).is_some_and(|it| it.end.is_none() || it.may_ask_again(history).0),
        _ => asked()
            .filter(|it| it.end.is_some())
            .max_by_key(|it| it.end.map(|(at_ns, _)| at_ns))
            .is_some_and(|it| it.may_ask_again(history).0),
    };
    let says_not_sent = |why| history.texts.get(why).starts_with(NOT_SENT);
    let not_sent = matches!(end.what, What::NotAcquired(why) if says_not_sent(why));
    let may_ask_again = may_ask_again || not_sent;
    let others = usize::from(nodes) - refused;
    may_ask_again && others > usize::from(nodes) / 2 && end.at_ns - began_ns < tries_for_ns
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn who_is_blamed_gave_up_too_soon(steps in steps(), nodes in 1..4_u16) {
        let tape = Tape::new().with(|it| (it.tries_for_ns, it.nodes) = (Some(200), Some(nodes)));
        let history = history(&tape, &steps);
        let blamed = blamed(&history, &mut *checker(&history.head).unwrap());
        prop_assert_eq!(blamed, count(&history, |it| gives_up_too_soon(&history, it)));
    }
}
