//! Incidents: findings that concern the same acquisitions are one story, told once.
//!
//! Invariant: every violated invariant with a witness is in exactly one incident; incidents, and findings within one,
//! stand in the order of the result.

use std::collections::BTreeSet;

use history::verdict::{Level, Witness, WitnessStep};
use scenarios::result::Invariant;

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

    /// Whether it is about what clients did at some time, rather than about the run as a whole.
    pub(crate) fn has_clients(&self) -> bool {
        self.findings.iter().any(|(_, it)| !it.acquisitions.is_empty() || !it.clients.is_empty())
    }

    /// From the first line of its stories to the last; none if nothing is told.
    pub(crate) fn span_ns(&self) -> Option<(u64, u64)> {
        let spans = self.findings.iter().filter_map(|(_, witness)| span_ns(witness));
        spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// One story of all its findings, in order of time. What the first of them tells of a moment, the others do not repeat in
    /// other words.
    pub(crate) fn story(&self) -> Vec<WitnessStep> {
        let mut merged: Vec<WitnessStep> = Vec::new();
        for (_, witness) in &self.findings {
            let told = merged.clone();
            for step in witness.short_story() {
                let is_of_moment =
                    |it: &&WitnessStep| it.at_ns == step.at_ns && it.client == step.client;
                let here = witness.short_story().iter().filter(is_of_moment).count();
                let known = told.iter().filter(is_of_moment).count();
                if known < here && !told.contains(step) {
                    merged.push(step.clone());
                }
            }
        }
        merged.sort_by_key(|it| it.at_ns);
        merged
    }

    /// All that those concerned did, each step once, in order of time.
    pub(crate) fn steps(&self) -> Vec<WitnessStep> {
        let mut merged: Vec<WitnessStep> = Vec::new();
        let mut known: BTreeSet<(u64, u32, &str)> = BTreeSet::new();
        for (nth, (_, witness)) in self.findings.iter().enumerate() {
            let steps =
                witness.steps.iter().map(|it| (it, (it.at_ns, it.client, it.text.as_str())));
            let new = steps.filter(|(_, key)| nth == 0 || !known.contains(key));
            let new: Vec<(&WitnessStep, (u64, u32, &str))> = new.collect();
            merged.extend(new.iter().map(|(it, _)| (*it).clone()));
            known.extend(new.into_iter().map(|(_, key)| key));
        }
        merged.sort_by_key(|it| it.at_ns);
        merged
    }

    fn concerns(&self, witness: &Witness) -> bool {
        self.findings.iter().any(|(_, known)| {
            let shares = known.acquisitions.iter().any(|it| witness.acquisitions.contains(it));
            let meets = known.clients.iter().any(|it| witness.clients.contains(it));
            let at_once = span_ns(known).zip(span_ns(witness));
            shares
                || meets && at_once.is_some_and(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
        })
    }
}

/// The incidents of a run.
pub(crate) fn groups(invariants: &[Invariant]) -> Vec<FindingGroup<'_>> {
    let mut groups: Vec<FindingGroup<'_>> = Vec::new();
    for (invariant, witness) in invariants.iter().filter_map(|it| Some((it, it.witness.as_ref()?)))
    {
        let (joined, mut others): (Vec<_>, Vec<_>) =
            groups.into_iter().enumerate().partition(|(_, group)| group.concerns(witness));
        // What is joined stands where the first of it stood.
        let place = joined.first().map_or(usize::MAX, |(place, _)| *place);
        let mut findings: Vec<_> =
            joined.into_iter().flat_map(|(_, group)| group.findings).collect();
        findings.push((invariant, witness));
        others.push((place, FindingGroup { findings }));
        others.sort_by_key(|(place, _)| *place);
        groups = others.into_iter().map(|(_, group)| group).collect();
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
