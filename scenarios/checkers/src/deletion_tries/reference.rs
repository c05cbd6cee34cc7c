//! Whose deletions are given up in random histories, as one finds it who looks at all of them again for each server of an acquisition.

use std::collections::BTreeSet;

use history::fault::Fault;
use history::{Event, History, Intent, Touch, What};
use picklock::env::Phase;
use proptest::prelude::*;

use super::checker;
use crate::interface::{frees, keeps_from_sending, lasts_until_ns, makes, passing};
use crate::random::{Step, blamed, config, steps_of};
use crate::testing::Tape;

/// Whatever does not ask for the key deletes it, and is refused more often than not.
fn history(tape: &Tape, steps: &[Step]) -> History {
    let mut history = crate::random::history(tape, steps);
    let oom = history.texts.intern("OOM");
    let mut deletions = BTreeSet::new();
    for event in &mut history.events {
        match &mut event.what {
            What::Command { intent: Intent { touch, .. }, .. }
                if !matches!(touch, Touch::Create(_)) =>
            {
                deletions.insert(event.op);
                if *touch != Touch::Unknown {
                    *touch = Touch::Delete;
                }
            }
            What::Answered { touch, .. } if deletions.contains(&event.op) => match touch {
                Touch::None | Touch::Unknown => {}
                _ if event.at_ns % 4 > 0 => event.what = What::Refused(oom),
                _ => *touch = Touch::Delete,
            },
            _ => {}
        }
    }
    history
}

/// A command, and how it has ended.
#[derive(Clone, Copy, Debug)]
struct Sent {
    client: u32,
    sent_ns: u64,
    intent: Intent,
    end: Option<(u64, What)>,
}

impl Sent {
    /// The same, as it was known at this time.
    fn by(self, now_ns: u64) -> Self {
        Self { end: self.end.filter(|it| it.0 <= now_ns), ..self }
    }

    /// It may have made the key.
    fn may_have_made(&self) -> bool {
        let nothing =
            |(_, end)| matches!(end, What::Answered { touch: Touch::None, .. } | What::Refused(_));
        makes(self.intent.touch) && !self.end.is_some_and(nothing)
    }

    /// It has deleted the acquisition's own key.
    fn has_deleted(&self) -> bool {
        let deleted = |(_, end)| matches!(end, What::Answered { touch: Touch::Delete, .. });
        self.intent.compares && frees(self.intent.touch) && self.end.is_some_and(deleted)
    }

    /// When it was refused with an error that passes.
    fn refused_ns(&self, history: &History) -> Option<u64> {
        match self.end {
            Some((at_ns, What::Refused(why))) => {
                passing(history.texts.get(why)).is_some().then_some(at_ns)
            }
            _ => None,
        }
    }
}

fn sent(history: &History, acquisition: u32, node: u16) -> Vec<Sent> {
    let sent = history.events.iter().filter(|it| it.acquisition == acquisition);
    let sent = sent.filter_map(|it| match it.what {
        What::Command { node: to, intent, .. } if to == node => {
            let is_end =
                |end: &&Event| end.op == it.op && !matches!(end.what, What::Command { .. });
            let end = history.events.iter().find(is_end).map(|it| (it.at_ns, it.what));
            Some(Sent { client: it.client, sent_ns: it.at_ns, intent, end })
        }
        _ => None,
    });
    sent.collect()
}

/// When it sent the first of what something may have come of there: before, nothing can have.
fn begun_ns(all: &[Sent]) -> u64 {
    let nothing = |now_ns: &u64| {
        let mut by_then = all.iter().filter(|it| it.sent_ns < *now_ns);
        by_then.all(|it| !frees(it.intent.touch) && !it.by(*now_ns).may_have_made())
    };
    let nothing_ns = all.iter().filter_map(|it| it.end).map(|it| it.0).filter(nothing).max();
    let begun = all.iter().find(|it| Some(it.sent_ns) > nothing_ns);
    begun.map_or(0, |it| it.sent_ns)
}

/// Whether the client may have been unable to send anything from then on, by a fault that began by that time.
fn is_excused(history: &History, all: &[Sent], by_ns: u64) -> bool {
    let (client, sent_ns) = (all[0].client, begun_ns(all));
    history.events.iter().filter(|it| it.at_ns <= by_ns).any(|it| match it.what {
        What::Fault { fault, for_ns, .. } => {
            let counts = match it.client {
                0 => fault != Fault::ScriptFlush,
                struck => struck == client && keeps_from_sending(fault),
            };
            counts && lasts_until_ns(fault, it.at_ns, for_ns) >= sent_ns
        }
        _ => false,
    })
}

/// Those that delete, and whether all of them have been answered.
fn deletions(all: &[Sent]) -> (Vec<Sent>, bool) {
    let all: Vec<Sent> = all.iter().copied().filter(|it| frees(it.intent.touch)).collect();
    let ended = |it: &Sent| matches!(it.end, Some((_, What::Answered { .. } | What::Refused(_))));
    let are_ended = all.iter().all(ended);
    (all, are_ended)
}

/// Whether the clean-up of the one key that it may have made there was refused in the end, while there was time for another.
fn gave_up_cleaning(history: &History, acquisition: u32, all: &[Sent]) -> bool {
    let last_ns = history.events.last().unwrap().at_ns;
    all.iter().filter(|it| makes(it.intent.touch)).any(|key| {
        let due_ns = last_ns.min(key.sent_ns + history.head.ttl_ns);
        let by_then: Vec<Sent> =
            all.iter().filter(|it| it.sent_ns <= due_ns).map(|it| it.by(due_ns)).collect();
        let of = |it: &&Event| it.acquisition == acquisition && it.at_ns <= due_ns;
        let got = history.events.iter().filter(of).any(|it| it.what == What::Acquired);
        let asked = by_then.iter().filter(|it| it.may_have_made()).count();
        let (deletions, are_ended) = deletions(&by_then);
        let refused = deletions.last().filter(|it| it.sent_ns > key.sent_ns);
        let refused_ns = refused.and_then(|it| it.refused_ns(history));
        let in_time = |at_ns| at_ns - key.sent_ns < history.head.ttl_ns / 2;
        asked == 1
            && key.by(due_ns).may_have_made()
            && !got
            && are_ended
            && refused_ns.is_some_and(in_time)
            && !deletions.iter().any(Sent::has_deleted)
            && !is_excused(history, all, due_ns)
    })
}

/// Whether a release was refused several times, one after the other, and given up.
fn gave_up_releasing(history: &History, acquisition: u32, all: &[Sent]) -> bool {
    let of = || history.events.iter().filter(|it| it.acquisition == acquisition);
    let Some(release) = of().find(|it| it.what == What::Release) else { return false };
    let (deletions, are_ended) = deletions(all);
    let Some((first, last)) = deletions.first().zip(deletions.last()) else { return false };
    let may_clean_up = |now_ns| {
        let by_then = all.iter().filter(|it| it.sent_ns < now_ns).map(|it| it.by(now_ns));
        let by_then: Vec<Sent> = by_then.collect();
        let asked = by_then.iter().filter(|it| it.may_have_made()).count();
        let deleted = by_then.iter().filter(|it| it.has_deleted()).count();
        let begun = of().filter(|it| it.what == What::Phase(Phase::AcquireBeforeSend));
        let begun_ns = begun.filter(|it| it.at_ns < now_ns).map(|it| it.at_ns).max().unwrap_or(0);
        let asks = by_then.iter().filter(|it| it.may_have_made()).map(|it| it.sent_ns);
        asked.saturating_sub(deleted) > 1 || asks.max().unwrap_or(0) < begun_ns
    };
    let refused_ns = |it: &Sent| it.refused_ns(history);
    deletions.len() > 1
        && are_ended
        && deletions.iter().all(|it| refused_ns(it).is_some())
        && first.sent_ns > release.at_ns
        && !deletions.iter().any(|it| may_clean_up(it.sent_ns))
        && refused_ns(last).unwrap() - first.sent_ns < history.head.ttl_ns / 20
        && !is_excused(history, all, u64::MAX)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn who_is_blamed_gave_up(steps in steps_of(3), nodes in 1..3_u16, ttl_ns in prop_oneof![100..800_u64, 800..8_000_u64]) {
        let tape = Tape::new().with(|it| (it.honest, it.nodes, it.ttl_ns) = (true, Some(nodes), ttl_ns));
        let history = history(&tape, &steps);
        let blamed = blamed(&history, &mut *checker(&history.head).unwrap());
        let acquisitions: BTreeSet<u32> = history.events.iter().map(|it| it.acquisition).collect();
        let pairs = acquisitions.iter().flat_map(|it| (0..nodes).map(move |node| (*it, node)));
        let gave_up = |&(acquisition, node): &(u32, u16)| {
            let all = sent(&history, acquisition, node);
            !all.is_empty()
                && (gave_up_cleaning(&history, acquisition, &all)
                    || gave_up_releasing(&history, acquisition, &all))
        };
        prop_assert_eq!(blamed, pairs.filter(gave_up).count());
    }
}
