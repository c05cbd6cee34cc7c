//! Faults: what can go wrong, as data that every world reads alike.
//!
//! Invariant: a fault left out of a scenario never strikes. Deliberately absent: how a world makes
//! it happen.

mod staged;
mod swarm;
mod told;
mod whom;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use staged::{By, Staged, Trigger, Until, Ways, When};
pub use swarm::{Chance, Strike, Swarm};
pub use whom::Whom;

/// What went wrong.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A client stood still.
    Pause,
    /// A client died.
    Crash,
    /// A message took longer than its latency says.
    Delay,
    /// A request was lost on its way.
    LoseRequest,
    /// A reply was lost on its way.
    LoseReply,
    /// A connection broke.
    Reset,
    /// A client was cut off from a server, one way or both.
    Partition,
    /// Clocks run apart.
    Drift,
    /// A wall clock jumped, a server's or a client's.
    ClockStep,
    /// The server forgot its scripts.
    ScriptFlush,
    /// The primary died, and a replica took its place with what it had.
    Failover,
    /// A server was without power: of its file, what had not been synced is gone.
    PowerLoss,
    /// A server's process died and was started again.
    ServerCrash,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 13] = [
        Self::Pause,
        Self::Crash,
        Self::Delay,
        Self::LoseRequest,
        Self::LoseReply,
        Self::Reset,
        Self::Partition,
        Self::Drift,
        Self::ClockStep,
        Self::ScriptFlush,
        Self::Failover,
        Self::PowerLoss,
        Self::ServerCrash,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Crash => "crash",
            Self::Delay => "delay",
            Self::LoseRequest => "lose-request",
            Self::LoseReply => "lose-reply",
            Self::Reset => "reset",
            Self::Partition => "partition",
            Self::Drift => "drift",
            Self::ClockStep => "clock-step",
            Self::ScriptFlush => "script-flush",
            Self::Failover => "failover",
            Self::PowerLoss => "power-loss",
            Self::ServerCrash => "server-crash",
        }
    }

    /// Whether a server may have lost keys by it that it had granted.
    pub const fn loses_keys(self) -> bool {
        matches!(self, Self::Failover | Self::PowerLoss | Self::ServerCrash)
    }

    /// Whether it happens to a message on its way.
    pub const fn is_of_message(self) -> bool {
        matches!(self, Self::Delay | Self::LoseRequest | Self::LoseReply | Self::Reset)
    }

    /// The fault of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own() {
        for fault in Fault::ALL {
            assert_eq!(Fault::from_name(fault.name()), Some(fault));
        }
    }
}
