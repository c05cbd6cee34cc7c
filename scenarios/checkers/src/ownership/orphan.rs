//! Whose key was left while nobody got the lock, and who freed a lock beside which somebody slept on.
//!
//! Invariant: a key is called somebody's only where an answer says that its command made it; where that
//! command has no answer, it is said that the key may be.

use std::collections::BTreeMap;

use history::Touch;
use history::verdict::{Verdict, WitnessStep};

use super::{Loss, Op, Ownership};

/// A key that stood for a time.
#[derive(Clone, Copy, Debug)]
struct Stood<'a> {
    /// What made it, or last overwrote or extended it.
    by: &'a Op,
    from_ns: u64,
    /// When it expires, and when it was gone for another reason, if ever.
    until_ns: u64,
    ended_ns: u64,
}

/// Where a command went while two servers stood for one: the client that had made the key before stayed with the old one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrimarySide {
    /// There was one, or it was the new one, whose keys stay.
    Only,
    /// It was the old one: what it did ended with it.
    Old,
    Unknown,
}

impl Stood<'_> {
    fn within(&self, from_ns: u64, until_ns: u64) -> u64 {
        let ended_ns = self.ended_ns.min(self.until_ns).min(until_ns.saturating_add(1));
        ended_ns.saturating_sub(self.from_ns.max(from_ns))
    }
}

impl Ownership {
    /// Adds to the story of a stall, which lasts from the first to the last step, whose key was left. False where none was.
    pub(super) fn explain_orphan(&self, verdict: &mut Verdict) -> bool {
        let Verdict::Violated(witness) = verdict else { return false };
        let (Some(from_ns), Some(until_ns)) =
            (witness.steps.first().map(|it| it.at_ns), witness.steps.last().map(|it| it.at_ns))
        else {
            return false;
        };
        let Some(orphan) = self.orphan(from_ns, until_ns) else { return false };
        let client = orphan.by.client;
        let text = if orphan.by.is_open() {
            "the key that is left may be its own: what would make it has no answer"
        } else {
            "its key is left, and nobody else can have the lock"
        };
        let step = |at_ns, text: &str| WitnessStep { at_ns, client, text: text.to_owned() };
        let last = witness.steps.len() - 1;
        let left_ns = orphan.from_ns.clamp(from_ns, until_ns);
        witness.steps.insert(last, step(left_ns, text));
        // Nobody knows when a command without an answer was carried out.
        let expires = !orphan.by.is_open() && orphan.until_ns <= orphan.ended_ns;
        if expires && (from_ns..=until_ns).contains(&orphan.until_ns) {
            witness.steps.insert(last + 1, step(orphan.until_ns, "its key expires"));
        }
        // The orphan is the cause; what the waiting client did adds nothing.
        witness.acquisitions = vec![orphan.by.acquisition];
        witness.accused.push(orphan.by.number);
        if !witness.clients.contains(&client) {
            witness.clients.push(client);
        }
        true
    }

    /// Adds to the story of a sleep or a stall beside a free lock who had freed the lock. The story begins with the first step.
    pub(super) fn explain_release(&self, verdict: &mut Verdict) {
        let Verdict::Violated(witness) = verdict else { return };
        let Some(from_ns) = witness.steps.first().map(|it| it.at_ns) else { return };
        let deletes = self.ops.iter().filter(|op| op.touch == Touch::Delete);
        let before = deletes.filter(|op| op.done_ns <= from_ns);
        let freed = before.max_by_key(|op| op.done_ns);
        // A key that expires frees the lock as well, and tells nobody.
        let stood = self.stood();
        let is_over = |it: &&Stood<'_>| !self.stamped && it.until_ns <= it.ended_ns.min(from_ns);
        let over = stood.iter().filter(is_over);
        let expired = over
            .max_by_key(|it| it.until_ns)
            .filter(|it| !it.by.is_open() && freed.is_none_or(|freed| freed.done_ns < it.until_ns));
        if let Some(it) = expired {
            let text = "its key expires".to_owned();
            let step = WitnessStep { at_ns: it.until_ns, client: it.by.client, text };
            witness.steps.insert(0, step);
        }
        if let Some(op) = expired.map(|it| it.by).or(freed) {
            witness.acquisitions.push(op.acquisition);
            if !witness.clients.contains(&op.client) {
                witness.clients.push(op.client);
            }
        }
    }

    /// The key that stood for the longest of this time. One that may have been made later than it was sent for
    /// comes last, for it may have stood at any time.
    fn orphan(&self, from_ns: u64, until_ns: u64) -> Option<Stood<'_>> {
        let within = |it: &Stood<'_>| it.within(from_ns, until_ns);
        let half_ns = (until_ns - from_ns) / 2;
        let stood = self.stood();
        let long = stood.iter().filter(|it| within(it) > half_ns).copied();
        let late =
            |it: &&Stood<'_>| it.by.is_open() && it.from_ns <= until_ns && it.ended_ns > from_ns;
        let longest = long.max_by_key(|it| (within(it), !it.by.is_open(), it.from_ns));
        longest.or_else(|| stood.iter().find(late).copied())
    }

    /// The time in which two servers stood for this one, if it was then.
    fn split(&self, node: u16, at_ns: u64) -> Option<&Loss> {
        let lasts = |it: &&Loss| it.node == node && it.from_ns < it.until_ns;
        let mut splits = self.losses.iter().filter(lasts);
        splits.find(|it| (it.from_ns..=it.until_ns).contains(&at_ns))
    }

    /// To which of two servers that stand for one this command was sent.
    fn side(&self, op: &Op) -> PrimarySide {
        let Some(split) = self.split(op.node, op.done_ns) else { return PrimarySide::Only };
        if op.sent_ns < split.from_ns || split.until_ns == u64::MAX {
            return PrimarySide::Unknown;
        }
        let makes = |it: &&Op| {
            let makes = matches!(it.touch, Touch::Create(_) | Touch::Overwrite(_));
            makes && it.node == op.node && it.done_ns <= split.from_ns
        };
        match self.ops.iter().filter(makes).max_by_key(|it| it.done_ns) {
            Some(holder) if holder.client == op.client => PrimarySide::Old,
            Some(_) => PrimarySide::Only,
            None => PrimarySide::Unknown,
        }
    }

    /// Every key that stood, or may have.
    fn stood(&self) -> Vec<Stood<'_>> {
        let mut ops: Vec<&Op> = self.ops.iter().filter(|op| op.acquisition != 0).collect();
        let at_ns = |op: &Op| if op.is_open() { op.sent_ns } else { op.done_ns };
        ops.sort_by_key(|op| (at_ns(op), op.number));
        let (mut over, mut standing, mut open) = (Vec::new(), BTreeMap::new(), Vec::new());
        for op in ops {
            let now_ns = at_ns(op);
            let lives = |ttl_ns: Option<u64>| match ttl_ns {
                Some(ttl_ns) => now_ns.saturating_add(ttl_ns),
                None => u64::MAX,
            };
            let made = |ttl_ns| Stood {
                by: op,
                from_ns: now_ns,
                until_ns: lives(ttl_ns),
                ended_ns: u64::MAX,
            };
            let side = self.side(op);
            match op.touch {
                _ if side == PrimarySide::Old => {}
                Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) if op.is_open() => {
                    open.push(made(ttl_ns));
                }
                _ if op.is_open() => {}
                Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => {
                    let before = standing.insert(op.node, made(ttl_ns));
                    over.extend(before.map(|it| Stood { ended_ns: now_ns, ..it }));
                    // What could be made afterwards shows that those before it were gone.
                    let gone =
                        |it: &mut Stood<'_>| it.by.node == op.node && it.from_ns <= op.sent_ns;
                    let ended = open.extract_if(.., gone);
                    over.extend(ended.map(|it| Stood { ended_ns: now_ns, ..it }));
                }
                Touch::Extend(ttl_ns) => {
                    if let Some(it) = standing.get_mut(&op.node) {
                        (it.by, it.until_ns) = (op, lives(Some(ttl_ns)));
                    }
                }
                // It may be the other's key that is gone.
                Touch::Delete | Touch::Unknown if side == PrimarySide::Unknown => {}
                Touch::Delete | Touch::Unknown => {
                    let before = standing.remove(&op.node);
                    over.extend(before.map(|it| Stood { ended_ns: now_ns, ..it }));
                }
                Touch::None => {}
            }
        }
        over.into_iter().chain(standing.into_values()).chain(open).collect()
    }
}

#[cfg(test)]
mod tests;
