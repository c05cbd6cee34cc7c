//! Faults as people name them: one for the wire, or one for certain commands.
//!
//! Invariant: a text that says something which a fault of its kind has not is refused with its place.
//! Deliberately absent: where a fault is put; a switchboard
//! does that.

mod text;

pub use text::{FaultError, Written};

use super::effect::{Effect, Toxicity};
use super::gate::Gate;
use super::rule::{Action, Rule, Side};

/// A fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// On the wire.
    Wire {
        /// In which directions.
        sides: Vec<Side>,
        /// What befalls them.
        effect: Effect,
        /// On which part of the connections.
        toxicity: Toxicity,
    },
    /// At certain commands.
    Command(Rule),
}

impl Fault {
    /// The same fault on this part of the connections.
    #[must_use]
    pub fn on(self, part: Toxicity) -> Self {
        match self {
            Self::Wire { sides, effect, .. } => Self::Wire { sides, effect, toxicity: part },
            Self::Command(rule) => Self::Command(rule.toxicity(part)),
        }
    }

    /// The part of the connections that it befalls.
    pub fn toxicity(&self) -> Toxicity {
        match self {
            Self::Wire { toxicity, .. } => *toxicity,
            Self::Command(rule) => rule.toxicity,
        }
    }

    /// The gate that it holds frames at, if it does.
    pub fn gate(&self) -> Option<Gate> {
        match self {
            Self::Command(Rule { action: Action::Hold(_, gate), .. }) => Some(gate.clone()),
            _ => None,
        }
    }
}
