//! The sweep: harm that was surely done within a hold that was certain.
//!
//! Invariant: the key was *certainly* held from the moment its creation was answered until the TTL,
//! less a margin for the server's clock, has passed since it was sent; certainty ends at once with any
//! command that may have ended the hold rightfully, or of which nobody knows what it did. A command is
//! blamed only where it was sent behind that moment and answered within that time, for then it was carried out within it.
//! Where its server has died, lost its power or been replaced, or its clock has jumped, the key counts as
//! lost. What
//! the sweep blames is to blame; what it does not blame, the search may.

use super::{Harm, Op};
use crate::history::{Loss, Touch};

/// From when to when a key was certainly held.
#[derive(Clone, Copy, Debug)]
struct Hold {
    from_ns: u64,
    until_ns: u64,
}

/// The first harm that was surely done, if any. The commands stand in the order of their sending.
pub(super) fn sweep(
    ops: &[Op],
    losses: &[Loss],
    jumps: &[(Option<u16>, u64)],
    margin_ns: u64,
) -> Option<Harm> {
    let reach = reaches(ops);
    let mut occurrences = 0;
    let mut first: Option<Harm> = None;
    for (place, creation) in ops.iter().enumerate() {
        let Some(ttl_ns) = created(creation) else { continue };
        // Whatever overlaps the creation was sent after it, or had not been answered when it was.
        let before = reach[..place].partition_point(|reach_ns| *reach_ns < creation.sent_ns);
        let lost_ns = lost(losses, creation).min(jumped(jumps, creation));
        if let Some(culprit) = follow(creation, ttl_ns, &ops[before..], (margin_ns, lost_ns)) {
            occurrences += 1;
            if first.is_none_or(|known| culprit.done_ns < known.culprit.done_ns) {
                let victim = (creation.acquisition, creation.client);
                first = Some(Harm { victim, culprit: *culprit, occurrences: 0 });
            }
        }
    }
    first.map(|harm| Harm { occurrences, ..harm })
}

/// By when all commands up to each place had surely been carried out. Never falls.
fn reaches(ops: &[Op]) -> Vec<u64> {
    let mut reach_ns = 0;
    let ends = ops.iter().map(|op| {
        reach_ns = reach_ns.max(op.done_ns);
        reach_ns
    });
    ends.collect()
}

/// The TTL of the hold that this command surely began; none for one that never expires.
fn created(op: &Op) -> Option<Option<u64>> {
    match op.touch {
        Touch::Create(ttl_ns) if !op.is_open() && op.acquisition != 0 => Some(ttl_ns),
        _ => None,
    }
}

/// From when on a hold that this command began may be lost with its server; for ever, if at all.
fn lost(losses: &[Loss], creation: &Op) -> u64 {
    let theirs = losses.iter().filter(|loss| loss.node == creation.node);
    let after = theirs.filter(|loss| loss.until_ns >= creation.sent_ns);
    after.map(|loss| loss.from_ns).min().unwrap_or(u64::MAX)
}

/// From when on a hold that this command began may have expired early, as its server's clock jumped.
fn jumped(jumps: &[(Option<u16>, u64)], creation: &Op) -> u64 {
    let theirs = jumps.iter().filter(|(node, at_ns)| {
        node.is_none_or(|node| node == creation.node) && *at_ns >= creation.sent_ns
    });
    theirs.map(|(_, at_ns)| *at_ns).min().unwrap_or(u64::MAX)
}

/// Follows a hold through the commands around it, up to the first that surely harmed it.
fn follow<'a>(
    creation: &Op,
    ttl_ns: Option<u64>,
    around: &'a [Op],
    (margin_ns, lost_ns): (u64, u64),
) -> Option<&'a Op> {
    let lives = |sent_ns: u64, ttl_ns: u64| {
        lost_ns.min(sent_ns.saturating_add(ttl_ns).saturating_sub(margin_ns))
    };
    let until_ns = ttl_ns.map_or(lost_ns, |ttl_ns| lives(creation.sent_ns, ttl_ns));
    let mut hold = Hold { from_ns: creation.done_ns, until_ns };
    let mut culprit: Option<&Op> = None;
    for op in around {
        if op.sent_ns >= hold.until_ns {
            break;
        }
        let itself = op.number == creation.number;
        if itself || op.node != creation.node || op.done_ns < creation.sent_ns {
            continue;
        }
        if op.acquisition == creation.acquisition {
            // An extension that found its own value shows that the hold had lasted; so does any that
            // was answered in time.
            let lasted = !op.is_open() && (op.compares || op.done_ns <= hold.until_ns);
            hold.until_ns = match op.touch {
                Touch::Extend(ttl_ns) if lasted => lives(op.sent_ns, ttl_ns),
                _ => hold.until_ns.min(op.sent_ns),
            };
            continue;
        }
        let inside = op.sent_ns > hold.from_ns && op.done_ns < hold.until_ns;
        let harms = matches!(op.touch, Touch::Delete | Touch::Overwrite(_) | Touch::Extend(_));
        if inside && harms {
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

#[cfg(test)]
mod tests;
