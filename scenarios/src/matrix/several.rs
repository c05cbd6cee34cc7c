//! The matrix on several servers: one beside the other, and added up.
//!
//! Invariant: what one server has shown is never taken for what another has; only how many cells stand how
//! is added up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Matrix, Totals};

/// The version of the format.
const SCHEMA: &str = "picklock/matrices/1";

/// What was found of every recipe in every scenario, on several servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "picklock matrices")]
pub struct Several {
    /// The format: `picklock/matrices/1`.
    pub schema: String,
    /// How many cells stand how, of all servers.
    pub totals: Totals,
    /// The matrix on each server, in the order in which they were named.
    pub matrices: Vec<Matrix>,
}

impl Several {
    /// These, together.
    pub fn new(matrices: Vec<Matrix>) -> Self {
        let totals = Totals::sum(&matrices);
        Self { schema: SCHEMA.to_owned(), totals, matrices }
    }
}

impl Totals {
    /// Those of all.
    pub fn sum(matrices: &[Matrix]) -> Self {
        let add = |sum: Self, it: &Matrix| Self {
            as_expected: sum.as_expected + it.totals.as_expected,
            different: sum.different + it.totals.different,
            vacuous: sum.vacuous + it.totals.vacuous,
            unclaimed: sum.unclaimed + it.totals.unclaimed,
            not_run: sum.not_run + it.totals.not_run,
        };
        matrices.iter().fold(Self::default(), add)
    }
}
