//! A release that a waiting client was not told of, because it listened too late.
//!
//! Invariant: it is drawn only where the client looked before the release, listened after it, and did not look again.

use history::Touch;

use super::facts::IncidentFacts;
use super::layout::{IncidentLane, LaneMark, LaneOwner, MarkKind, MissedNotice};
use history::tenure::TenureEnd;

/// How a client begins to listen.
const LISTENS: &str = "SUBSCRIBE";

/// What clients of the story have missed; `keys` are the lanes of the key.
pub(super) fn missed(facts: &IncidentFacts<'_>, keys: &[LaneOwner]) -> Vec<MissedNotice> {
    let listens = facts.exchanges.iter().filter(|it| {
        facts.clients.contains(&it.client)
            && facts.acquisitions.contains(&it.acquisition)
            && facts.history.text(it.name) == LISTENS
    });
    let missed = listens.filter_map(|it| {
        let listens_ns = it.answered_ns().filter(|at_ns| facts.shows(*at_ns))?;
        let looks = || {
            facts.exchanges.iter().filter(|look| {
                look.acquisition == it.acquisition
                    && facts.is_of_lock(look)
                    && matches!(look.intent.touch, Touch::Create(_))
            })
        };
        let looked_ns = looks().filter_map(|look| look.answered_ns()).min()?;
        let looks_again = looks().any(|look| look.sent_ns >= it.sent_ns);
        let released = facts.tenures.iter().filter(|tenure| {
            matches!(tenure.end, TenureEnd::Deleted { .. })
                && (looked_ns..=listens_ns).contains(&tenure.until_ns)
        });
        let released = released.max_by_key(|it| it.until_ns).filter(|_| !looks_again)?;
        let here = LaneOwner::Key(Some(released.node));
        Some(MissedNotice {
            client: it.client,
            key: if keys.contains(&here) { here } else { LaneOwner::Key(None) },
            at_ns: released.until_ns,
            listens_ns,
            text: "release announced: not listening yet".to_owned(),
        })
    });
    missed.collect()
}

/// Says in the lane of a client from when on it listens.
pub(super) fn mark(missed: &[MissedNotice], lane: &mut IncidentLane) {
    for it in missed.iter().filter(|it| lane.owner == LaneOwner::Client(it.client)) {
        let text = "listens from now on, does not look again".to_owned();
        lane.marks.push(LaneMark {
            at_ns: it.listens_ns,
            kind: MarkKind::Event,
            text,
            harms: true,
        });
    }
    lane.marks.sort_by_key(|it| (it.at_ns, it.kind));
}
