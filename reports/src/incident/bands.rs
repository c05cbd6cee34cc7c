//! Bands across all lanes: where two held the lock at once, or how long nobody held it.
//!
//! Invariant: a band of two holders is there only if both were certain of the lock by their own clocks; one of nobody only
//! if no client at all held it, drawn or not.

use std::collections::BTreeMap;

use history::What;
use history::fault::Fault;
use history::verdict::Level;
use scenarios::span::rounded;

use super::client_lane::DrawnHold;
use super::facts::IncidentFacts;
use super::group::FindingGroup;
use super::layout::Band;

/// The bands of this incident. `holds` are those of the drawn clients.
pub(super) fn bands(
    facts: &IncidentFacts<'_>,
    group: &FindingGroup<'_>,
    holds: &[DrawnHold],
) -> Vec<Band> {
    let overlaps = overlaps(facts, holds);
    let is_stall = group.findings.iter().any(|(it, _)| it.level == Level::Progress);
    if !overlaps.is_empty() || !is_stall {
        return overlaps;
    }
    nobody(facts).into_iter().collect()
}

fn overlaps(facts: &IncidentFacts<'_>, holds: &[DrawnHold]) -> Vec<Band> {
    let mut edges: Vec<u64> = holds.iter().flat_map(|it| [it.from_ns, it.until_ns]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut spans: Vec<(u64, u64, usize)> = Vec::new();
    for pair in edges.windows(2) {
        // Tasks of one client may share its handle, so holds count, not clients.
        let holders = holds.iter().filter(|it| it.from_ns <= pair[0] && pair[1] <= it.until_ns);
        let many = holders.count();
        if many < 2 {
            continue;
        }
        match spans.last_mut() {
            Some(last) if last.1 == pair[0] => *last = (last.0, pair[1], last.2.max(many)),
            _ => spans.push((pair[0], pair[1], many)),
        }
    }
    let did = if facts.history.head.locks { "believe they hold the lock" } else { "at work" };
    let drawn = spans.into_iter().filter_map(|(from_ns, until_ns, many)| {
        let who = if many == 2 { "both".to_owned() } else { many.to_string() };
        let text = format!("{who} {did}: {}", rounded(until_ns - from_ns));
        let (from_ns, until_ns, _) = facts.within(from_ns, until_ns)?;
        (from_ns < until_ns).then_some(Band { from_ns, until_ns, text, overlap: true })
    });
    drawn.collect()
}

/// The longest time in which no client at all held the lock.
fn nobody(facts: &IncidentFacts<'_>) -> Option<Band> {
    let head = &facts.history.head;
    let mut holders: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut promised: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut free_ns, mut longest) = (Some(facts.from_ns), (0, 0));
    let mut look = |from_ns: Option<u64>, until_ns: u64| {
        let from_ns = from_ns.unwrap_or(until_ns).max(facts.from_ns);
        if until_ns.saturating_sub(from_ns) > longest.1 - longest.0 {
            longest = (from_ns, until_ns);
        }
    };
    for event in facts.history.events.iter().take_while(|it| it.at_ns <= facts.until_ns) {
        let over =
            holders.values().map(|it| it.1).filter(|until_ns| *until_ns <= event.at_ns).max();
        holders.retain(|_, (_, until_ns)| *until_ns > event.at_ns);
        if holders.is_empty() && free_ns.is_none() {
            free_ns = over;
        }
        match event.what {
            What::ValidUntil(until_ns) => {
                promised.insert(event.acquisition, until_ns);
                if let Some(holder) = holders.get_mut(&event.acquisition) {
                    holder.1 = holder.1.max(until_ns);
                }
            }
            What::Acquired => {
                look(free_ns.take(), event.at_ns);
                let valid_ns = promised.get(&event.acquisition).copied().unwrap_or(event.at_ns);
                let until_ns = if head.tracked { valid_ns } else { u64::MAX };
                holders.insert(event.acquisition, (event.client, until_ns));
            }
            What::Release | What::Lost => {
                holders.remove(&event.acquisition);
            }
            What::Fault { fault: Fault::Crash, .. } => holders.retain(|_, it| it.0 != event.client),
            _ => {}
        }
        if holders.is_empty() && free_ns.is_none() {
            free_ns = Some(event.at_ns);
        }
    }
    look(free_ns, facts.until_ns);
    let (from_ns, until_ns) = longest;
    let text = format!("nobody works under the lock: {}", rounded(until_ns - from_ns));
    (from_ns < until_ns).then_some(Band { from_ns, until_ns, text, overlap: false })
}
