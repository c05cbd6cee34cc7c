//! Faults as users name them: on the wire, or on certain commands.
//!
//! Invariant: a text with an option that its fault does not have is refused, with the position.

mod text;

#[cfg(test)]
pub(crate) use text::tests::shown;
pub use text::{FaultError, ParsedFault};

use super::effect::{Effect, Toxicity};
use super::gate::Gate;
use super::ids::Side;
use super::rule::{Action, Rule};

/// A fault.
#[derive(Clone, Debug)]
pub enum ProxyFault {
    /// On the wire.
    Wire {
        /// In which directions.
        sides: Vec<Side>,
        /// The effect.
        effect: Effect,
        /// On which part of the connections.
        toxicity: Toxicity,
    },
    /// At certain commands.
    Command(Rule),
}

impl ProxyFault {
    /// The same fault on this part of the connections.
    #[must_use]
    pub fn on(self, part: Toxicity) -> Self {
        match self {
            Self::Wire { sides, effect, .. } => Self::Wire { sides, effect, toxicity: part },
            Self::Command(rule) => Self::Command(rule.toxicity(part)),
        }
    }

    /// The share of connections it strikes.
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
