//! When commands on the lock's key were carried out, as far as their answers say more than when they were answered.
//!
//! Invariant: an answered command stays between its sending and its answer.

use super::Exchange;
use crate::Touch;

/// So many commands around one can overlap with it.
const AROUND: usize = 16;

/// Puts deletions before the creations that need them, as far as answers allow.
pub(crate) fn settle_deletions(
    exchanges: &mut [Exchange],
    is_of_lock: impl Fn(&Exchange) -> bool + Copy,
) {
    let places: Vec<usize> =
        (0..exchanges.len()).filter(|it| is_of_lock(&exchanges[*it])).collect();
    let is = |it: &Exchange, deletes: bool| match it.touch() {
        Touch::Delete => deletes,
        Touch::Create(_) => !deletes && it.is_certain(),
        _ => false,
    };
    for (nth, &place) in places.iter().enumerate() {
        if !is(&exchanges[place], false) || exchanges[place].answered_ns().is_none() {
            continue;
        }
        // Commands stand in the order of their sending: those around overlap with it.
        let around = nth.saturating_sub(AROUND)..(nth + AROUND).min(places.len());
        for &other in &places[around] {
            let (made, deleted) = (exchanges[place], exchanges[other]);
            let overlaps = deleted.sent_ns < made.latest_ns() && made.sent_ns < deleted.latest_ns();
            let is_other = deleted.acquisition != made.acquisition && deleted.node == made.node;
            if !is(&deleted, true) || !is_other || !overlaps || deleted.done_ns < made.done_ns {
                continue;
            }
            // Only a deletion that met its owner's key can have made room for the creation.
            let from_ns = made.sent_ns.max(deleted.sent_ns);
            let until_ns = made.latest_ns().min(deleted.latest_ns());
            let is_its_own = deleted.intent.compares && deleted.is_certain();
            if is_its_own || stands(&exchanges[..place], &deleted, is_of_lock) {
                let middle_ns = from_ns.midpoint(until_ns);
                exchanges[other].done_ns = deleted.done_ns.min(middle_ns);
                exchanges[place].done_ns = made.done_ns.max(middle_ns + 1);
            }
        }
    }
}

/// Whether the key that this deletion is about was still there when it was sent: not expired, and deleted by nobody.
fn stands(
    before: &[Exchange],
    deletion: &Exchange,
    is_of_lock: impl Fn(&Exchange) -> bool + Copy,
) -> bool {
    let here = before.iter().filter(|it| it.node == deletion.node && is_of_lock(it));
    let (mut made_ns, mut until_ns, mut deleted_ns) = (None, 0, 0);
    for it in here {
        match it.touch() {
            Touch::Create(ttl_ns) if it.acquisition == deletion.acquisition => {
                made_ns = Some(it.done_ns);
                until_ns = ttl_ns.map_or(u64::MAX, |ttl_ns| it.done_ns.saturating_add(ttl_ns));
            }
            Touch::Delete if it.op != deletion.op && it.is_certain() => {
                deleted_ns = deleted_ns.max(it.done_ns);
            }
            _ => {}
        }
    }
    made_ns.is_some_and(|made_ns| deleted_ns < made_ns && deletion.sent_ns < until_ns)
}

/// Puts a command behind the one whose value it found.
pub(crate) fn settle_overwrites(
    exchanges: &mut [Exchange],
    is_of_lock: impl Fn(&Exchange) -> bool + Copy,
) {
    for place in 0..exchanges.len() {
        let it = exchanges[place];
        if it.found == 0 || !is_of_lock(&it) {
            continue;
        }
        let Ok(found) = exchanges.binary_search_by_key(&it.found, |it| it.op) else { continue };
        let found_ns = exchanges[found].done_ns;
        if found_ns >= it.done_ns && it.answered_ns().is_some_and(|at_ns| at_ns > found_ns) {
            exchanges[place].done_ns = found_ns.midpoint(it.latest_ns());
        }
    }
}

/// A request that a fault held up arrives behind the deletion of its client's key: before that it could do no harm.
pub(crate) fn release_held_up(
    exchanges: &mut [Exchange],
    is_of_lock: impl Fn(&Exchange) -> bool + Copy,
) {
    for place in 0..exchanges.len() {
        let it = exchanges[place];
        if !it.is_held_up || !is_of_lock(&it) {
            continue;
        }
        let deletions = exchanges.iter().filter(|other| {
            let is_its_own = other.acquisition == it.acquisition && other.node == it.node;
            is_its_own && is_of_lock(other) && other.touch() == Touch::Delete && other.is_certain()
        });
        if let Some(deleted_ns) = deletions.map(|other| other.done_ns).max() {
            let usual_ns = it.done_ns - it.sent_ns;
            exchanges[place].done_ns = it.done_ns.max(deleted_ns.saturating_add(usual_ns));
        }
    }
}
