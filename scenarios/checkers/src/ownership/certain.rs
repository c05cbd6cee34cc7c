//! Harm that was surely done within a hold that was certain.
//!
//! Invariant: the key was *certainly* held from the moment its creation was answered until the TTL, less
//! a margin for the server's clock, has passed since it was sent; certainty ends at once with any
//! command that may have ended the hold rightfully, or of which nobody knows what it did. A command is
//! blamed only where it was sent behind that moment and answered within that time, for then it was
//! carried out within it. Where its server has died, lost its power or been replaced, or its clock has
//! jumped, the key counts as lost. Nothing is certain of a hold whose creation overlaps a command that
//! was sent before it, so each hold is followed forward only. Who is blamed here is to blame; whom it
//! does not blame, the search may.

use history::Touch;

use super::{Blame, Harm, KeyLog, Op};

/// From when to when a key was certainly held.
#[derive(Clone, Copy, Debug)]
struct KeyHold {
    from_ns: u64,
    until_ns: u64,
}

/// The first harm that was surely done, if any.
pub(super) fn harm(known: &KeyLog) -> Option<Harm> {
    CertainHolds { known, looks: 0 }.harm()
}

/// The certain holds of one server's key.
struct CertainHolds<'a> {
    known: &'a KeyLog,
    /// How many commands were looked at in following holds.
    looks: usize,
}

impl<'a> CertainHolds<'a> {
    fn harm(&mut self) -> Option<Harm> {
        let ops = &self.known.ops;
        let (mut reach_ns, mut occurrences) = (0, 0);
        let mut first: Option<Blame> = None;
        for (place, creation) in ops.iter().enumerate() {
            let overlapped = reach_ns >= creation.sent_ns;
            reach_ns = reach_ns.max(creation.done_ns);
            let Some(ttl_ns) = created(creation).filter(|_| !overlapped) else { continue };
            if let Some(culprit) = self.follow(creation, ttl_ns, &ops[place + 1..]) {
                occurrences += 1;
                let at_ns = culprit.sent_ns;
                if first.is_none_or(|known| at_ns < known.at_ns) {
                    let victim = (creation.acquisition, creation.client);
                    first = Some(Blame { at_ns, victim, culprit: *culprit });
                }
            }
        }
        first.map(|blame| Harm { blames: vec![blame], occurrences })
    }

    /// Until when what was granted at this time is surely not lost: its server may lose its memory, or have
    /// its clock jump.
    fn kept_ns(&self, creation: &Op) -> u64 {
        let losses = self.known.losses.iter().filter(|it| it.until_ns >= creation.sent_ns);
        let jumps = self.known.jumps.iter().filter(|at_ns| **at_ns >= creation.sent_ns);
        losses.map(|it| it.from_ns).chain(jumps.copied()).min().unwrap_or(u64::MAX)
    }

    /// Follows a hold through the commands behind it, up to the first that surely harmed it.
    fn follow(&mut self, creation: &Op, ttl_ns: Option<u64>, behind: &'a [Op]) -> Option<&'a Op> {
        let (kept_ns, margin_ns) = (self.kept_ns(creation), self.known.margin_ns);
        let lives = |sent_ns: u64, ttl_ns: u64| {
            kept_ns.min(sent_ns.saturating_add(ttl_ns).saturating_sub(margin_ns))
        };
        let until_ns = ttl_ns.map_or(kept_ns, |ttl_ns| lives(creation.sent_ns, ttl_ns));
        let mut hold = KeyHold { from_ns: creation.done_ns, until_ns };
        // By when every command of its own that has set its life so far had been carried out.
        let mut set_ns = creation.done_ns;
        let mut culprit: Option<&Op> = None;
        for op in behind {
            self.looks += 1;
            if op.sent_ns >= hold.until_ns {
                break;
            }
            if op.acquisition == creation.acquisition {
                // An extension that found its own value shows that the hold had lasted; so does any that
                // was answered in time.
                let lasted = !op.is_open() && (op.compares || op.done_ns <= hold.until_ns);
                hold.until_ns = match op.touch {
                    Touch::Extend(ttl_ns) if lasted => {
                        let until_ns = lives(op.sent_ns, ttl_ns);
                        // Of two that overlap, either may have been the last.
                        let is_last = op.sent_ns > set_ns;
                        if is_last { until_ns } else { hold.until_ns.min(until_ns) }
                    }
                    _ => hold.until_ns.min(op.sent_ns),
                };
                set_ns = set_ns.max(op.done_ns);
                continue;
            }
            let inside = op.sent_ns > hold.from_ns && op.done_ns < hold.until_ns;
            let harms = matches!(op.touch, Touch::Delete | Touch::Overwrite(_) | Touch::Extend(_));
            if inside && harms && !op.is_of_run() {
                if culprit.is_none_or(|known| op.done_ns < known.done_ns) {
                    culprit = Some(op);
                }
            } else {
                // It may have ended the hold, or shows that it had ended.
                hold.until_ns = hold.until_ns.min(op.sent_ns);
            }
        }
        // What cut the certainty short may stand behind the one that was blamed before it.
        culprit.filter(|op| op.done_ns < hold.until_ns)
    }
}

/// The TTL of the hold that this command surely began; none for one that never expires.
fn created(op: &Op) -> Option<Option<u64>> {
    match op.touch {
        Touch::Create(ttl_ns) if !op.is_open() && op.acquisition != 0 => Some(ttl_ns),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
