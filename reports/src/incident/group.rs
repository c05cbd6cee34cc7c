//! Incidents: findings that concern the same acquisitions are one story, told once.
//!
//! Invariant: every violated invariant with a witness is in exactly one incident; incidents, and findings within one,
//! stand in the order of the result.

use history::verdict::{Level, Witness, WitnessStep};
use scenarios::result::Invariant;

/// Longer merged stories are told apart.
const LINES_MOST: usize = 16;

/// Violations that concern the same acquisitions, or the same clients at the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct FindingGroup<'a> {
    pub(crate) findings: Vec<(&'a Invariant, &'a Witness)>,
}

impl<'a> FindingGroup<'a> {
    /// The first finding: its summary is the headline.
    pub(crate) fn first(&self) -> Option<(&'a Invariant, &'a Witness)> {
        self.findings.first().copied()
    }

    /// From the first line of its stories to the last; none if nothing is told.
    pub(crate) fn span_ns(&self) -> Option<(u64, u64)> {
        let spans = self.findings.iter().filter_map(|(_, witness)| span_ns(witness));
        spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// One story of all its findings: each line once, in order of time. None if it would be too long.
    pub(crate) fn story(&self) -> Option<Vec<WitnessStep>> {
        let mut merged: Vec<WitnessStep> = Vec::new();
        for (_, witness) in &self.findings {
            for step in witness.short_story() {
                // The story of the first finding has the better words for what happened at one moment.
                let is_told = merged.iter().any(|it| it.at_ns == step.at_ns && it.client == step.client);
                let own = witness.short_story().iter();
                let is_alone = own.filter(|it| it.at_ns == step.at_ns && it.client == step.client).count() == 1;
                if !merged.contains(step) && !(is_told && is_alone) {
                    merged.push(step.clone());
                }
            }
        }
        merged.sort_by_key(|it| it.at_ns);
        (merged.len() <= LINES_MOST).then_some(merged)
    }

    fn concerns(&self, witness: &Witness) -> bool {
        self.findings.iter().any(|(_, known)| {
            let shares = known.acquisitions.iter().any(|it| witness.acquisitions.contains(it));
            let meets = known.clients.iter().any(|it| witness.clients.contains(it));
            let at_once = span_ns(known).zip(span_ns(witness));
            shares || meets && at_once.is_some_and(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
        })
    }
}

/// The incidents of a run.
pub(crate) fn groups(invariants: &[Invariant]) -> Vec<FindingGroup<'_>> {
    let mut groups: Vec<FindingGroup<'_>> = Vec::new();
    for (invariant, witness) in invariants.iter().filter_map(|it| Some((it, it.witness.as_ref()?))) {
        let mut joined = FindingGroup::default();
        let mut place = None;
        groups.retain_mut(|group| {
            let joins = group.concerns(witness);
            if joins {
                joined.findings.append(&mut group.findings);
            }
            !joins
        });
        joined.findings.push((invariant, witness));
        // What was joined stands where its first finding stood.
        let first = joined.findings[0].0;
        let at = |it: &Invariant| invariants.iter().position(|other| std::ptr::eq(other, it));
        for (nth, group) in groups.iter().enumerate() {
            if place.is_none() && at(group.findings[0].0) > at(first) {
                place = Some(nth);
            }
        }
        groups.insert(place.unwrap_or(groups.len()), joined);
    }
    groups
}

/// The incident that says most: at the most levels; of several, one in which the resource was harmed; then the first.
pub(crate) fn most_telling<'a, 'b>(groups: &'b [FindingGroup<'a>]) -> Option<&'b FindingGroup<'a>> {
    let says = |group: &FindingGroup<'_>| {
        let mut levels: Vec<Level> = group.findings.iter().map(|(it, _)| it.level).collect();
        levels.dedup();
        (levels.len(), levels.contains(&Level::Effect))
    };
    let told = groups.iter().filter(|it| it.span_ns().is_some());
    told.rev().max_by_key(|it| says(it))
}

fn span_ns(witness: &Witness) -> Option<(u64, u64)> {
    let story = witness.short_story();
    Some((story.first()?.at_ns, story.last()?.at_ns))
}
