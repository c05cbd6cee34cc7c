//! Distributions ready to sample, with their tails and means, and the generator they are sampled with.
//!
//! Invariant: what is drawn follows from the seed alone.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use scenarios::distribution::{Distribution, Sampler, Tail};

/// A distribution, ready to be drawn from and to be asked for its far end.
#[derive(Clone, Debug)]
pub struct Law {
    distribution: Distribution,
    sampler: Sampler,
    /// How likely it is to last longer than so long.
    pub tail: Tail,
    mean_ns: f64,
}

impl Law {
    /// The law of this distribution.
    ///
    /// # Panics
    /// Where its file has not been read.
    pub fn new(distribution: &Distribution) -> Self {
        let (sampler, tail) = (distribution.sampler(), distribution.tail());
        // The middles of equal parts, finer at the far end, where a heavy tail has its weight.
        const PARTS: u32 = 1 << 16;
        const FINE: u32 = 1 << 10;
        let wide = float(u64::from(PARTS - 1));
        let body: f64 = (0..PARTS - 1)
            .map(|part| float(sampler.at((part << 16) + (1 << 15))) / (wide + 1.0))
            .sum();
        let last: f64 = (0..FINE)
            .map(|part| {
                let share = (f64::from(part) + 0.5) / f64::from(FINE) / (wide + 1.0);
                float(tail.with_share(share)) / f64::from(FINE) / (wide + 1.0)
            })
            .sum();
        Self { distribution: distribution.clone(), sampler, tail, mean_ns: body + last }
    }

    /// The law of what takes so many times as long.
    pub fn stretched(&self, by: f64) -> Self {
        Self::new(&self.distribution.stretched(by))
    }

    /// Its mean, to about a thousandth.
    pub fn mean_ns(&self) -> f64 {
        self.mean_ns
    }

    /// Half of all are shorter.
    pub fn median_ns(&self) -> u64 {
        self.sampler.at(1 << 31)
    }

    /// A draw, in nanoseconds.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.sampler.always().unwrap_or_else(|| self.sampler.at(random.choice()))
    }
}

/// A named generator.
#[derive(Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The generator of this part of what has this seed.
    pub fn new(seed: u64, part: u64) -> Self {
        // Two odd constants keep parts and seeds that are near each other apart.
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ part.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self(Pcg64Mcg::seed_from_u64(mixed))
    }

    #[inline]
    pub(super) fn choice(&mut self) -> u32 {
        self.0.next_u32()
    }

    #[inline]
    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Between 0 and 1, neither of which is drawn.
    #[inline]
    pub(super) fn unit(&mut self) -> f64 {
        (float(self.0.next_u64() >> 12) + 0.5) / 4_503_599_627_370_496.0
    }

    /// A time until something that happens so many times in a nanosecond.
    #[inline]
    pub fn gap(&mut self, per_ns: f64) -> u64 {
        if per_ns > 0.0 { whole(-self.unit().ln() / per_ns) } else { u64::MAX }
    }
}

/// As near as a floating-point number comes.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "104 days are exact, and no more is asked")]
pub fn float(number: u64) -> f64 {
    number as f64
}

/// The whole number below, or the nearest there is.
#[inline]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_the_formulas() {
        let law = |text: &str| Law::new(&text.parse().expect("a distribution"));
        assert!((law("3ms").mean_ns() / 3e6 - 1.0).abs() < 1e-6);
        assert!((law("uniform:1ms..3ms").mean_ns() / 2e6 - 1.0).abs() < 1e-4);
        // Of a log-normal one: median times e to half the square of sigma.
        let sigma = 16_f64.ln() / 2.326_347_874;
        let mean_ns = 5e6 * (sigma * sigma / 2.0).exp();
        assert!((law("lognormal:5ms,p99=80ms").mean_ns() / mean_ns - 1.0).abs() < 2e-3);
    }

    #[test]
    fn parts_of_one_seed_differ_and_are_the_same_again() {
        let first = |seed, part| Random::new(seed, part).choice();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
        assert_eq!(Random::new(1, 1).gap(0.0), u64::MAX);
    }
}
