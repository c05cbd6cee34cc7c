//! The random numbers of scripts: lrand48's, from its own start in each server, as in redis-server 7.
//!
//! Invariant: a server draws the same numbers from its start on; they run on from script to script. This is no source of randomness for
//! anything but `math.random`.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;

/// The generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drand48(u64);

impl Drand48 {
    /// As a process finds it that has never seeded it.
    pub const START: Self = Self(0x1234_ABCD_330E);

    /// As `srand48(seed)` leaves it.
    pub const fn new(seed: u32) -> Self {
        Self((seed as u64) << 16 | 0x330E)
    }

    /// The next number of `lrand48`, of 31 bits.
    pub fn draw(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        u32::try_from(self.0 >> 17).expect("31 bits are left of 48")
    }

    /// The next number at least 0 and below 1, as `math.random()` gives it.
    pub fn unit(&mut self) -> f64 {
        const MAX: u32 = i32::MAX as u32;
        f64::from(self.draw() % MAX) / f64::from(MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_draw_of_a_server_is_the_one_redis_makes() {
        let mut random = Drand48::START;
        assert_eq!((random.unit() * 1000.0).floor() + 1.0, 397.0);
    }
}
