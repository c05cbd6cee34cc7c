//! Whether others can have the lock again once the victim is done with it: what a client leaves behind, such as its place in a
//! queue, may keep everybody from the lock, though its key is gone.
//!
//! Invariant: nobody is blamed for a lock that was not asked for. Each client that counts was answered, and refused.

use std::time::Instant;

use history::verdict::{Level, WitnessStep};
use picklock::time::span_ns;
use scenarios::span::rounded;

use crate::board::VICTIM;
use crate::judgement::{AttackFinding, PlanEvidence, Severity, not_acquired, ns};
use crate::plan::{AttackPlan, Target};
use crate::recorder::ClaimOf;

/// How many refusals show that clients asked: one may have begun before the lock was free.
const REFUSALS_LEAST: usize = 2;

/// How often rivals get the lock where they can: the first may have stood before what keeps the others from it.
pub(crate) const GRANTS: u32 = 2;

/// Whether a plan shows this. What strikes a server may strike every client. Without a fault, `had`: the victim had the lock.
pub(crate) fn concerns(plan: Option<&AttackPlan>, had: bool) -> bool {
    plan.map_or(had, |plan| plan.fault.target() != Target::Server)
}

/// The finding that rivals have asked for the lock since then, or since one last got it, and were refused.
pub(crate) fn judge(shown: &PlanEvidence<'_>, since: Instant) -> Option<AttackFinding> {
    let got = shown.claims.iter().filter(|it| it.of == ClaimOf::Acquired).map(|it| it.answered);
    let since = got.max().map_or(since, |got| got.max(since));
    let refusals = shown.claims.iter().filter(|it| it.client != VICTIM && it.asked >= since);
    let refusals: Vec<_> = refusals
        .filter_map(|it| match it.of {
            ClaimOf::NotAcquired(why) => Some((it, not_acquired(shown, why))),
            _ => None,
        })
        .collect();
    let (first, _) = refusals.first()?;
    let (last, said) = refusals.last().filter(|_| refusals.len() >= REFUSALS_LEAST)?;
    let (count, span) = (refusals.len(), rounded(span_ns(last.answered - since)));
    let step = |at, client, text: String| WitnessStep { at_ns: ns(at, shown.start), client, text };
    Some(AttackFinding {
        severity: Severity::Bug,
        invariant: String::from("free-again"),
        level: Level::Progress,
        summary: format!(
            "nobody got the lock any more: others asked {count} times in {span}, and the last answer was {said}"
        ),
        story: vec![
            step(since, 0, String::from("nothing goes wrong any more")),
            step(first.asked, first.client, String::from("is told to acquire")),
            step(last.answered, last.client, format!("has not got the lock: it answers {said}")),
        ],
    })
}
