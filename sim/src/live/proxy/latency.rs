//! How long frames travel, drawn so that a seed gives the same draws again.
//!
//! Invariant: the nth frame of a direction of the nth connection of a link gets the same draw
//! whatever happens elsewhere, because every direction of every connection has its own generator.
//! Deliberately absent: bandwidth and reordering; one direction of a TCP connection is a queue.

use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

/// One-way latency of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Latency {
    /// Nothing is added; no timer is touched.
    #[default]
    None,
    /// The same for every frame.
    Fixed(Duration),
    /// Uniform between the two, each frame drawn by itself. A frame never overtakes another, so one
    /// drawn short may wait for a longer one before it.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest; a `max` below `min` counts as `min`.
        max: Duration,
    },
}

impl Latency {
    /// The latency of the next frame.
    pub(super) fn draw(self, draws: &mut Draws) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(span) => span,
            Self::Uniform { min, max } => {
                let width = max.saturating_sub(min).as_nanos() + 1;
                // The high half of a 128-bit product: uniform without division, and never `width`.
                let above = (u128::from(draws.rng.next_u64()) * width) >> 64;
                min + Duration::from_nanos(u64::try_from(above).unwrap_or(u64::MAX))
            }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPREAD: Latency =
        Latency::Uniform { min: Duration::from_nanos(10), max: Duration::from_nanos(13) };

    fn draws(seed: u64, names: [u64; 4]) -> Vec<Duration> {
        let mut draws = Draws::new(seed, names);
        (0..64).map(|_| SPREAD.draw(&mut draws)).collect()
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
    fn a_reversed_range_is_its_minimum() {
        let reversed =
            Latency::Uniform { min: Duration::from_nanos(5), max: Duration::from_nanos(1) };
        assert_eq!(reversed.draw(&mut Draws::new(0, [0; 4])), Duration::from_nanos(5));
    }
}
