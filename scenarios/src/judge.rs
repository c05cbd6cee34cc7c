//! From a history to a result: verdicts, figures and what a reader must know.
//!
//! Invariant: everything but the circumstances follows from the history, so that judging a stored
//! history again gives the same result.

use std::collections::BTreeMap;

use crate::checker;
use crate::history::{AcquireEnd, History, TakeEnd, Timeline};
use crate::recipe::Validity;
use crate::result::{Invariant, LatencyFigures, RunResult, SCHEMA, ServerFacts, Stats, Tally};
use crate::verdict::worst;

/// What a history does not say.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// The server it was made against.
    pub server: ServerFacts,
    /// False where the run was interrupted.
    pub complete: bool,
    /// What deserves attention.
    pub remarks: Vec<String>,
    /// The command line that runs the same again.
    pub replay: String,
    /// Commands that the server counted, where it is ours alone.
    pub server_commands: Option<BTreeMap<String, u64>>,
    /// Latency of each kind of operation, as the reports measure it.
    pub latencies: Vec<LatencyFigures>,
}

/// Judges a history.
pub fn judge(history: &History, circumstances: Circumstances) -> RunResult {
    let head = &history.head;
    let findings = checker::check(history, circumstances.complete);
    let invariants: Vec<Invariant> = findings.into_iter().map(Invariant::from).collect();
    let validity = if head.tracked { Validity::Tracked } else { Validity::None };
    RunResult {
        schema: SCHEMA.to_owned(),
        scenario: head.scenario.clone(),
        lock: head.lock.clone(),
        validity: validity.name().to_owned(),
        world: head.world.clone(),
        server: circumstances.server,
        seed: head.seed,
        verdict: worst(invariants.iter().map(|it| it.verdict)),
        complete: circumstances.complete,
        invariants,
        remarks: circumstances.remarks,
        stats: Stats {
            server_commands: circumstances.server_commands,
            latencies: circumstances.latencies,
            ..stats(history)
        },
        replay: circumstances.replay,
    }
}

fn stats(history: &History) -> Stats {
    let timeline = Timeline::of(history);
    let mut acquisitions = Tally::default();
    let mut won = 0;
    for it in &timeline.acquisitions {
        acquisitions.invoked += 1;
        match it.end {
            Some((_, AcquireEnd::Ok)) => acquisitions.ok += 1,
            Some((_, AcquireEnd::Fail(_))) => acquisitions.failed += 1,
            Some((_, AcquireEnd::Info(_))) | None => acquisitions.unknown += 1,
        }
        won += u32::from(matches!(it.taken, Some((_, TakeEnd::Ok { .. }))));
    }
    let mut commands = BTreeMap::new();
    for command in &timeline.commands {
        *commands.entry(history.text(command.name).to_owned()).or_default() += 1;
    }
    Stats {
        clients: history.head.clients,
        duration_ns: history.duration_ns(),
        acquisitions,
        winners: history.head.prizes.map(|_| won),
        commands,
        ..Stats::default()
    }
}
