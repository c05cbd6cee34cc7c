//! Who relies on what it does not have in random histories, or gives up what it has, as one finds it who looks at all of them again
//! for each thing that is said.

use std::collections::{BTreeMap, BTreeSet};

use history::fault::Fault;
use history::words::LOST;
use history::{Event, History, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::checker;
use crate::random::{Step, blamed, config, steps_of};
use crate::testing::Tape;

/// No lock is handed on. Who waits decides to write, begins to renew, or has its work told that the lock is lost.
fn history(tape: &Tape, steps: &[Step]) -> History {
    let mut history = crate::random::history(tape, steps);
    let lost = history.texts.intern(LOST);
    for event in &mut history.events {
        match &mut event.what {
            What::Command { intent: history::Intent { touch, .. }, .. }
            | What::Answered { touch, .. }
                if *touch == Touch::Unknown =>
            {
                *touch = Touch::Extend(100);
            }
            What::Phase(Phase::Wait) => {
                event.what = match event.at_ns % 4 {
                    0 => What::Phase(Phase::HoldBeforeWrite),
                    1 => What::NotUpdated(lost),
                    _ => What::Phase(Phase::RenewBeforeSend),
                };
            }
            _ => {}
        }
    }
    history
}

/// A command, and what it was answered by now.
#[derive(Clone, Copy)]
struct Sent {
    op: u32,
    node: u16,
    touch: Touch,
    sent_ns: u64,
    end: Option<(u64, What)>,
}

impl Sent {
    fn answered(&self) -> Option<(u64, Touch)> {
        match self.end {
            Some((at_ns, What::Answered { touch, .. })) => Some((at_ns, touch)),
            _ => None,
        }
    }

    /// Until when the key lives, if this has been done to it then; none if that gives it no life.
    fn lives_until_ns(&self, touch: Touch) -> Option<u64> {
        match touch {
            Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => {
                Some(ttl_ns.map_or(u64::MAX, |ttl_ns| self.sent_ns + ttl_ns))
            }
            Touch::Extend(ttl_ns) => Some(self.sent_ns + ttl_ns),
            _ => None,
        }
    }
}

/// An acquisition as it is known at some time.
struct Known<'a> {
    history: &'a History,
    now_ns: u64,
    client: u32,
    /// Its own events before that.
    events: Vec<&'a Event>,
}

impl<'a> Known<'a> {
    fn before(history: &'a History, event: &Event) -> Self {
        let Event { at_ns: now_ns, client, acquisition, .. } = *event;
        let events = history.events.iter().take_while(|it| it.at_ns < now_ns);
        let events = events.filter(|it| it.acquisition == acquisition).collect();
        Self { history, now_ns, client, events }
    }

    /// Until when it may rely on its lock, and when it was told so.
    fn until(&self) -> Option<(u64, u64)> {
        let (mut known, mut acquired): (Option<(u64, u64)>, _) = (None, false);
        for event in &self.events {
            match event.what {
                What::Acquired => acquired = known.is_some(),
                What::ValidUntil(until_ns) => {
                    let counts = known.is_none_or(|(known_ns, _)| {
                        until_ns > known_ns && (!acquired || event.at_ns < known_ns)
                    });
                    if counts {
                        known = Some((until_ns, event.at_ns));
                    }
                }
                _ => {}
            }
        }
        known
    }

    /// It has learnt of the loss, or begun to release.
    fn is_over(&self) -> bool {
        self.events.iter().any(|it| matches!(it.what, What::Lost | What::Release))
    }

    fn drifts(&self, client: impl Fn(u32) -> bool, since_ns: u64) -> bool {
        let span = since_ns..self.now_ns;
        let mut events = self.history.events.iter().filter(|it| span.contains(&it.at_ns));
        events.any(|it| {
            client(it.client) && matches!(it.what, What::Fault { fault: Fault::Drift, .. })
        })
    }

    /// The same, unless its clock has begun to drift since.
    fn certain_until_ns(&self) -> Option<u64> {
        let (until_ns, told_ns) = self.until()?;
        (!self.drifts(|it| it == self.client, told_ns)).then_some(until_ns)
    }

    fn sent(&self) -> Vec<Sent> {
        let sent = self.events.iter().filter_map(|it| {
            let What::Command { node, intent, .. } = it.what else { return None };
            let ends = self.events.iter().find(|end| end.op == it.op && end.at_ns > it.at_ns);
            let end = ends.map(|end| (end.at_ns, end.what));
            Some(Sent { op: it.op, node, touch: intent.touch, sent_ns: it.at_ns, end })
        });
        sent.collect()
    }

    /// On how many servers it has its key, by the last answer of each.
    fn has_keys(&self) -> usize {
        let mut last = BTreeMap::new();
        for it in self.sent() {
            if let Some((_, touch)) = it.answered() {
                last.insert(it.node, it.lives_until_ns(touch).is_some());
            }
        }
        last.values().filter(|has| **has).count()
    }

    /// Until when it surely has what it has renewed: half of the TTL, from when it asked for that.
    fn renewed_until_ns(&self) -> u64 {
        let (nodes, ttl_ns) = (self.history.head.nodes.unwrap(), self.history.head.ttl_ns);
        let sent = self.sent();
        let (mut round_ns, mut alone, mut granted) = (u64::MAX, false, BTreeSet::new());
        let (mut least_ns, mut renewed_ns, mut told) = (u64::MAX, 0, false);
        for event in &self.events {
            let (now_ns, op) = (event.at_ns, event.op);
            told |= matches!(event.what, What::ValidUntil(_));
            let ends = !matches!(event.what, What::Command { .. });
            let sent = sent.iter().find(|it| it.op == op).filter(|_| told);
            match (event.what, sent) {
                (What::Phase(Phase::RenewBeforeSend), _) if told => {
                    alone = round_ns > now_ns || now_ns - round_ns >= ttl_ns / 4;
                    (round_ns, granted) = (now_ns, BTreeSet::new());
                }
                (_, Some(&Sent { node, touch: Touch::Extend(asked_ns), sent_ns, end, .. })) => {
                    // A shorter one may be carried out last.
                    if asked_ns < least_ns {
                        (least_ns, renewed_ns) = (asked_ns, renewed_ns.min(sent_ns));
                    }
                    let events = self.events.iter().copied().filter(|it| it.at_ns < now_ns);
                    let then = Known { now_ns, events: events.collect(), ..*self };
                    let known_ns = then.certain_until_ns().unwrap_or(0);
                    let Some((_, What::Answered { touch: Touch::Extend(got_ns), .. })) = end else {
                        continue;
                    };
                    if !ends || now_ns >= known_ns.max(renewed_ns) {
                        continue;
                    }
                    let mut from_ns = sent_ns;
                    if nodes > 1 {
                        if sent_ns < round_ns || now_ns - sent_ns > ttl_ns / 20 || !alone {
                            continue;
                        }
                        granted.insert(node);
                        if 2 * granted.len() <= nodes.into() {
                            continue;
                        }
                        from_ns = round_ns;
                    }
                    renewed_ns = renewed_ns.max(from_ns + got_ns.min(least_ns) / 2);
                }
                _ => {}
            }
        }
        renewed_ns
    }

    /// Until when the one key that it has lives at least, for all that it knows.
    fn lives_until_ns(&self) -> u64 {
        let sent = self.sent();
        let frees = |it: &&Sent| matches!(it.touch, Touch::Delete | Touch::Extend(0));
        let freed_op = sent.iter().filter(frees).map(|it| it.op).max().unwrap_or(0);
        let granted = |it: &Sent| it.lives_until_ns(it.answered()?.1);
        let made_ns = sent.iter().filter(|it| it.op > freed_op).filter_map(granted).max();
        let open = |it: &&Sent| matches!(it.end, None | Some((_, What::Unanswered(_))));
        let open = sent.iter().filter(open).filter_map(|it| it.lives_until_ns(it.touch)).max();
        let before_ns = sent.iter().filter_map(granted).max().filter(|_| open.is_some());
        made_ns.or(open.max(before_ns)).unwrap_or(self.now_ns + self.history.head.ttl_ns)
    }
}

/// Whether this is not to be.
fn is_wrong(history: &History, event: &Event) -> bool {
    let known = Known::before(history, event);
    let drifts = || known.drifts(|_| true, 0);
    let (now_ns, head) = (event.at_ns, &history.head);
    match event.what {
        What::Acquired | What::Phase(Phase::HoldBeforeWrite) => {
            let is_late = known.certain_until_ns().is_some_and(|until_ns| now_ns >= until_ns);
            known.until().is_none() || known.is_over() || is_late
        }
        What::NotUpdated(_) => {
            let valid = known.until().is_some_and(|(until_ns, _)| now_ns < until_ns);
            valid && !known.is_over() && !drifts()
        }
        What::Lost => {
            let until_ns = known.certain_until_ns().unwrap_or(0).max(known.renewed_until_ns());
            let nodes = usize::from(head.nodes.unwrap());
            known.until().is_some()
                && !known.is_over()
                && now_ns < until_ns
                && 2 * known.has_keys() > nodes
        }
        What::ValidUntil(until_ns) => {
            !drifts() && until_ns > known.lives_until_ns().saturating_sub(head.margin_ns)
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn who_is_blamed_is_wrong(steps in steps_of(3), several: bool, margin_ns in 0..10_u64) {
        let nodes = if several { 3 } else { 1 };
        let tape = Tape::tracked().margin(margin_ns).with(|it| (it.exact, it.ttl_ns) = (true, 100));
        let tape = tape.with(|it| it.nodes = Some(nodes));
        // Of several servers it is another question when their keys may be gone: where clocks drift it is not asked.
        let tape = if several { tape.struck(Fault::Drift, 0, 0) } else { tape };
        let history = history(&tape, &steps);
        let blamed = blamed(&history, &mut *checker(&history.head).unwrap());
        let wrong = history.events.iter().filter(|it| is_wrong(&history, it)).count();
        prop_assert_eq!(blamed, wrong);
    }
}
