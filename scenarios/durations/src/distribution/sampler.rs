//! From a choice to a duration.
//!
//! Invariant: a choice is a number of 32 bits; 0 gives the shortest duration, and a higher choice never
//! a shorter one. So a list of choices replays what was drawn, and shrinking a choice shortens a delay.

use std::sync::Arc;

use super::steps::Steps;
use super::table::QuantileTable;

/// A distribution made ready for drawing. Clones share their tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampler(SamplerKind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum SamplerKind {
    Constant(u64),
    Uniform { min_ns: u64, width_ns: u64 },
    Table(Arc<QuantileTable>),
    Steps(Arc<Steps>),
}

impl Sampler {
    /// Always so many nanoseconds.
    pub fn constant(ns: u64) -> Self {
        Self(SamplerKind::Constant(ns))
    }

    /// From `min_ns` to `max_ns` nanoseconds, both included; a `max_ns` below `min_ns` counts as it.
    pub fn uniform(min_ns: u64, max_ns: u64) -> Self {
        match max_ns.saturating_sub(min_ns) {
            0 => Self::constant(min_ns),
            width_ns => Self(SamplerKind::Uniform { min_ns, width_ns }),
        }
    }

    pub(super) fn table(table: QuantileTable) -> Self {
        Self(SamplerKind::Table(Arc::new(table)))
    }

    pub(super) fn steps(steps: Steps) -> Self {
        Self(SamplerKind::Steps(Arc::new(steps)))
    }

    /// The nanoseconds of this choice, where every choice of 32 bits is as likely as any other.
    #[inline]
    pub fn at(&self, choice: u32) -> u64 {
        match &self.0 {
            SamplerKind::Constant(ns) => *ns,
            SamplerKind::Uniform { min_ns, width_ns } => {
                // The high part of the product: uniform without a division.
                let part = (u128::from(choice) * (u128::from(*width_ns) + 1)) >> 32;
                min_ns + u64::try_from(part).unwrap_or(*width_ns)
            }
            SamplerKind::Table(table) => table.at(choice),
            SamplerKind::Steps(steps) => steps.at(choice),
        }
    }

    /// The nanoseconds, where every choice gives the same: nothing needs to be drawn then.
    #[inline]
    pub fn always(&self) -> Option<u64> {
        match self.0 {
            SamplerKind::Constant(ns) => Some(ns),
            _ => None,
        }
    }
}
