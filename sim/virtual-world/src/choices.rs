//! Every decision of a schedule, through one source.
//!
//! Invariant: 0 is always the benign choice (no fault, the shortest latency, first come first
//! served), and the list of what was chosen replays the schedule. Deliberately absent: what clients
//! draw for themselves (tokens, jitter); that follows from the seed and is no choice.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Where decisions come from.
#[derive(Clone, Debug)]
pub struct Choices {
    source: ChoiceSource,
    taken: Option<Vec<u32>>,
}

#[derive(Clone, Debug)]
enum ChoiceSource {
    Seeded(Pcg64Mcg),
    /// A list, and 0 beyond its end.
    Listed {
        list: Vec<u32>,
        next: usize,
    },
}

impl Default for Choices {
    /// Benign throughout.
    fn default() -> Self {
        Self::listed(Vec::new())
    }
}

impl Choices {
    /// Decisions drawn from a seed.
    pub fn seeded(seed: u64) -> Self {
        Self { source: ChoiceSource::Seeded(Pcg64Mcg::seed_from_u64(seed)), taken: None }
    }

    /// Decisions from a list; beyond its end everything is benign.
    pub fn listed(list: Vec<u32>) -> Self {
        Self { source: ChoiceSource::Listed { list, next: 0 }, taken: None }
    }

    /// The same, but the choices are recorded.
    #[must_use]
    pub fn recorded(self) -> Self {
        Self { taken: Some(Vec::new()), ..self }
    }

    /// The choices, if they were recorded.
    pub fn taken(&self) -> &[u32] {
        self.taken.as_deref().unwrap_or_default()
    }

    /// One of `ways`, from 0. With one way or none there is nothing to choose.
    pub fn pick(&mut self, ways: u32) -> u32 {
        if ways <= 1 {
            return 0;
        }
        let chosen = match &mut self.source {
            ChoiceSource::Seeded(generator) => {
                // The high half of the product: uniform, and below `ways`.
                let bits = u64::from(generator.next_u32());
                u32::try_from((bits * u64::from(ways)) >> 32).unwrap_or(0)
            }
            ChoiceSource::Listed { list, next } => {
                let listed = list.get(*next).copied().unwrap_or(0);
                *next += 1;
                listed.min(ways - 1)
            }
        };
        if let Some(taken) = &mut self.taken {
            taken.push(chosen);
        }
        chosen
    }

    /// A number of nanoseconds from 0 to `most_ns`, in 2^32 steps.
    pub fn span(&mut self, most_ns: u64) -> u64 {
        if most_ns == 0 {
            return 0;
        }
        let part = u128::from(self.pick(u32::MAX));
        u64::try_from((part * (u128::from(most_ns) + 1)) >> 32).unwrap_or(most_ns)
    }

    /// True with a probability of this many in 65,536.
    pub fn strikes(&mut self, per_64k: u32) -> bool {
        // The upper end, so that 0 is the benign choice.
        per_64k > 0 && self.pick(1 << 16) >= (1 << 16) - per_64k.min(1 << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(choices: &mut Choices) -> Vec<u64> {
        let mut all = Vec::new();
        for round in 0..200_u32 {
            all.push(u64::from(choices.pick(2 + round % 7)));
            all.push(choices.span(1_000_000));
            all.push(u64::from(choices.strikes(1 << 14)));
        }
        all
    }

    #[test]
    fn what_was_taken_replays_what_a_seed_drew() {
        let mut seeded = Choices::seeded(9).recorded();
        let drawn = some(&mut seeded);
        let mut listed = Choices::listed(seeded.taken().to_vec());
        assert_eq!(some(&mut listed), drawn);
        assert_ne!(some(&mut Choices::seeded(10)), drawn);
        let strikes = drawn.iter().skip(2).step_by(3).sum::<u64>();
        assert!((20..80).contains(&strikes), "a quarter of 200: {strikes}");
    }

    #[test]
    fn the_empty_list_is_benign() {
        assert!(some(&mut Choices::listed(Vec::new())).iter().all(|choice| *choice == 0));
    }

    #[test]
    fn both_ends_of_a_span_are_reached_and_nothing_beyond() {
        let mut choices = Choices::seeded(1);
        let spans: Vec<u64> = (0..100).map(|_| choices.span(3)).collect();
        assert_eq!((spans.iter().min(), spans.iter().max()), (Some(&0), Some(&3)));
        assert_eq!(Choices::listed(vec![u32::MAX]).span(3), 3);
        assert_eq!(Choices::listed(vec![5]).pick(3), 2, "a list of another world");
    }
}
