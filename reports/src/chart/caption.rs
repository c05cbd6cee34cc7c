//! What a chart says above itself.
//!
//! Invariant: no text of a scenario or server reaches a picture with control characters in it.

use scenarios::history::History;

use crate::format::{counted, plain};
use crate::latency::{Latencies, Operation};

/// Of which run a chart is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caption {
    /// The scenario's name.
    pub scenario: String,
    /// The recipe's name.
    pub lock: String,
    /// How many clients.
    pub clients: u32,
    /// The world's name.
    pub world: String,
    /// What every drawn number follows from.
    pub seed: u64,
}

impl Caption {
    /// The caption of this history.
    pub fn of(history: &History) -> Self {
        let head = &history.head;
        Self {
            scenario: head.scenario.clone(),
            lock: head.lock.clone(),
            clients: head.clients,
            world: head.world.clone(),
            seed: head.seed,
        }
    }

    /// The title.
    pub(super) fn title(&self) -> String {
        let clients = counted(u64::from(self.clients), "client", "clients");
        let Self { scenario, lock, world, .. } = self;
        let title = format!("Latency by percentile — {scenario}, {lock}, {clients}, {world}");
        plain(&title).into_owned()
    }

    /// The line below the title: how much was measured.
    pub(super) fn subtitle(&self, latencies: &Latencies) -> String {
        let commands: u64 = latencies
            .iter()
            .filter(|(operation, _)| matches!(operation, Operation::Command(_)))
            .map(|(_, distribution)| distribution.count())
            .sum();
        let mut parts =
            vec![counted(latencies.count(&Operation::Acquire), "acquisition", "acquisitions")];
        let refused = latencies.count(&Operation::Refusal);
        if refused > 0 {
            parts.push(counted(refused, "refusal", "refusals"));
        }
        parts.push(counted(latencies.count(&Operation::Release), "release", "releases"));
        parts.push(counted(commands, "answered command", "answered commands"));
        format!("{}; seed {}", parts.join(", "), self.seed)
    }
}
