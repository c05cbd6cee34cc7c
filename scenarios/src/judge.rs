//! From a history to a result: verdicts, figures and what a reader must know.
//!
//! Invariant: everything but the circumstances follows from the history, so that judging a stored
//! history again gives the same result, whether it is read as a whole or event by event.

mod counts;

use std::collections::BTreeMap;

use crate::checker;
use crate::history::{Head, History};
use crate::recipe::Validity;
use crate::result::{Invariant, LatencyFigures, RunResult, SCHEMA, ServerFacts, Stats};
use crate::verdict::{Finding, worst};

pub use counts::Counts;

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
    let findings = checker::check(history, circumstances.complete);
    let mut counts = Counts::new(&history.head);
    history.events.iter().for_each(|event| counts.see(event, &history.texts));
    sum_up(&history.head, findings, counts, circumstances)
}

/// The result of a history with this head, of which this was found and counted.
pub fn sum_up(
    head: &Head,
    findings: Vec<Finding>,
    counts: Counts<'_>,
    circumstances: Circumstances,
) -> RunResult {
    let invariants: Vec<Invariant> = findings.into_iter().map(Invariant::from).collect();
    let stats = Stats {
        server_commands: circumstances.server_commands,
        latencies: circumstances.latencies,
        ..counts.stats()
    };
    let mut remarks = circumstances.remarks;
    if circumstances.complete {
        remarks.extend(miscounted(&stats));
    }
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
        remarks,
        stats,
        replay: circumstances.replay,
    }
}

/// Commands that no script calls and no environment sends by itself: what the server counts of them
/// is what clients sent.
const COUNTED: [&str; 3] = ["SET", "EVAL", "EVALSHA"];

/// Where server and history disagree on what was sent: then something went past picklock.
fn miscounted(stats: &Stats) -> Option<String> {
    let server = stats.server_commands.as_ref()?;
    let count = |counts: &BTreeMap<String, u64>, name: &str| counts.get(name).copied().unwrap_or(0);
    let differs = |name: &&str| count(server, name) != count(&stats.commands, name);
    let name = COUNTED.into_iter().find(differs)?;
    let (sent, carried_out) = (count(&stats.commands, name), count(server, name));
    Some(format!(
        "clients sent {sent} {name} and the server carried out {carried_out}: requests were lost or \
         refused, or somebody else used the server"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_in_counts_is_remarked_on() {
        let counts = |set, get| BTreeMap::from([("SET".to_owned(), set), ("GET".to_owned(), get)]);
        let stats =
            |server| Stats { commands: counts(5, 1), server_commands: server, ..Stats::default() };
        assert_eq!(miscounted(&stats(None)), None, "a server that others use, too");
        assert_eq!(miscounted(&stats(Some(counts(5, 9)))), None, "scripts call GET");
        assert!(miscounted(&stats(Some(counts(4, 1)))).unwrap().contains("sent 5 SET"));
    }
}
