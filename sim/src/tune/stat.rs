//! Shares and means with what they may be.
//!
//! Invariant: nothing seen is never nothing: of no hits in n there is what the share is at most.
//! Deliberately absent: judgement.

use super::law::float;

/// How sure one wants to be: the point of a standard normal variable beyond which half of the rest lies, and
/// what the share is at most, times n, where of n none was hit.
#[derive(Clone, Copy, Debug)]
struct Confidence {
    z: f64,
    none_seen: f64,
}

/// 95 %: −ln 0.05.
const USUAL: Confidence = Confidence { z: 1.959_963_984_540_054, none_seen: 2.995_732_273_553_991 };
/// 99.9 %: −ln 0.001.
const SURE: Confidence = Confidence { z: 3.290_526_731_491_926, none_seen: 6.907_755_278_982_137 };

/// A number between two others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// The best guess.
    pub middle: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// Wilson's interval of a share; of none seen, from 0 to what it is at most. With a confidence of 95 %.
pub fn wilson(hits: u64, of: u64) -> Interval {
    interval(hits, of, USUAL)
}

/// The same with a confidence of 99.9 %: what lies outside is no accident.
pub fn wilson_surely(hits: u64, of: u64) -> Interval {
    interval(hits, of, SURE)
}

fn interval(hits: u64, of: u64, Confidence { z, none_seen }: Confidence) -> Interval {
    let (hits, of) = (float(hits), float(of.max(1)));
    if hits == 0.0 {
        return Interval { middle: 0.0, low: 0.0, high: (none_seen / of).min(1.0) };
    }
    let share = hits / of;
    let middle = (share + z * z / (2.0 * of)) / (1.0 + z * z / of);
    let spread =
        z / (1.0 + z * z / of) * (share * (1.0 - share) / of + z * z / (4.0 * of * of)).sqrt();
    let (low, high) = ((middle - spread).max(0.0), (middle + spread).min(1.0));
    Interval { middle: share, low, high }
}

/// The mean of what has been added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mean {
    pub(super) count: u64,
    sum: f64,
    squares: f64,
}

impl Mean {
    #[inline]
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// The mean; as good as certain within its interval where many were added up.
    pub(super) fn interval(&self) -> Interval {
        let count = float(self.count.max(1));
        let middle = self.sum / count;
        let variance = (self.squares / count - middle * middle).max(0.0);
        let spread = USUAL.z * (variance / count).sqrt();
        Interval { middle, low: (middle - spread).max(0.0), high: middle + spread }
    }

    pub(super) fn middle(&self) -> f64 {
        self.interval().middle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_of_many_is_no_zero() {
        let none = wilson(0, 1_000_000);
        assert_eq!((none.middle, none.low), (0.0, 0.0));
        assert!((none.high - 3.0e-6).abs() < 1e-8);
        assert_eq!(wilson(0, 1).high, 1.0);
        let all = wilson(10, 10);
        assert!(all.low > 0.7 && all.high <= 1.0);
        // From Wilson's formula by hand.
        let some = wilson(10, 100);
        assert!((some.low - 0.0552).abs() < 1e-4 && (some.high - 0.1744).abs() < 1e-4);
    }

    #[test]
    fn a_mean_knows_how_good_it_is() {
        let mut parts = [Mean::default(), Mean::default()];
        for number in 0..1000_u32 {
            parts[(number % 2) as usize].add(f64::from(number % 10));
        }
        let [mut mean, other] = parts;
        mean.merge(&other);
        let Interval { middle, low, high } = mean.interval();
        assert_eq!(middle, 4.5);
        assert!((high - low - 2.0 * USUAL.z * (8.25_f64 / 1000.0).sqrt()).abs() < 1e-9);
        assert_eq!(Mean::default().interval(), Interval::default());
    }
}
