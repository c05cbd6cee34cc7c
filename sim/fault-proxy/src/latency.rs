//! Latencies of frames, drawn reproducibly from a seed.
//!
//! Invariant: the nth frame of a direction of the nth connection of a link gets the same draw whatever happens
//! elsewhere, because every direction of every connection has its own generator. Frames are never reordered: one
//! direction of a TCP connection is a queue.

use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use scenarios::distribution::{Distribution, Sampler};

/// One-way latency of a direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Latency {
    /// Nothing is added; no timer is touched.
    #[default]
    None,
    /// The same for every frame.
    Fixed(Duration),
    /// Each frame draws its own. A frame never overtakes another, so one drawn short may wait for a
    /// longer one before it.
    Drawn(Sampler),
}

impl From<&Distribution> for Latency {
    fn from(distribution: &Distribution) -> Self {
        let sampler = distribution.sampler();
        match sampler.always() {
            Some(0) => Self::None,
            Some(ns) => Self::Fixed(Duration::from_nanos(ns)),
            None => Self::Drawn(sampler),
        }
    }
}

impl Latency {
    /// The latency of the next frame.
    pub(super) fn draw(&self, draws: &mut Draws) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(span) => *span,
            Self::Drawn(sampler) => Duration::from_nanos(sampler.at(draws.rng.next_u32())),
        }
    }
}

/// The generator of one direction of one connection.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    rng: Pcg64Mcg,
}

impl Draws {
    /// The generator named by these numbers.
    pub(super) fn new(seed: u64, names: [u64; 4]) -> Self {
        let mix = |state: u64, name: u64| {
            // SplitMix64, so that neighbouring names give unrelated streams.
            let mut z = state.wrapping_add(name).wrapping_add(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let low = names.into_iter().fold(mix(seed, 0), mix);
        let high = mix(low, 1);
        Self { rng: Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low)) }
    }

    /// A number below this one.
    pub(super) fn below(&mut self, end: u32) -> u32 {
        let scaled = (u64::from(self.rng.next_u32()) * u64::from(end)) >> 32;
        u32::try_from(scaled).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(seed: u64, names: [u64; 4]) -> Vec<Duration> {
        let spread = Latency::Drawn(Sampler::uniform(10, 13));
        let mut draws = Draws::new(seed, names);
        (0..64).map(|_| spread.draw(&mut draws)).collect()
    }

    #[test]
    fn a_seed_and_a_name_give_the_same_draws() {
        assert_eq!(draws(7, [1, 2, 3, 0]), draws(7, [1, 2, 3, 0]));
        assert_ne!(draws(7, [1, 2, 3, 0]), draws(7, [1, 2, 3, 1]));
        assert_ne!(draws(7, [1, 2, 3, 0]), draws(8, [1, 2, 3, 0]));
    }

    #[test]
    fn both_ends_are_drawn_and_nothing_beyond() {
        let spans = draws(1, [0; 4]);
        assert_eq!(spans.iter().min(), Some(&Duration::from_nanos(10)));
        assert_eq!(spans.iter().max(), Some(&Duration::from_nanos(13)));
    }

    #[test]
    fn a_distribution_that_never_varies_is_not_drawn_from() {
        let latency = |text: &str| Latency::from(&text.parse::<Distribution>().unwrap());
        assert_eq!(latency("uniform:0s..0s"), Latency::None);
        assert_eq!(latency("uniform:5ms..5ms"), Latency::Fixed(Duration::from_millis(5)));
        assert!(matches!(latency("lognormal:1ms,p99=5ms"), Latency::Drawn(_)));
    }
}
