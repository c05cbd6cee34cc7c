//! Confidence intervals of shares and means.
//!
//! Invariant: no hits in n is not zero: the interval says what the share is at most.

use super::law::float;

/// A confidence level: the two-sided normal quantile, and n times the upper bound of a share without hits in n.
#[derive(Clone, Copy, Debug)]
struct Confidence {
    z: f64,
    none_seen: f64,
}

/// 95 %: −ln 0.05.
const USUAL: Confidence = Confidence { z: 1.959_963_984_540_054, none_seen: 2.995_732_273_553_991 };
/// 99.9 %: −ln 0.001.
const SURE: Confidence = Confidence { z: 3.290_526_731_491_926, none_seen: 6.907_755_278_982_137 };

/// A confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Best estimate.
    pub middle: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval, capped by an upper bound.
    pub(super) fn below(self, most: f64) -> Self {
        let Self { middle, low, high } = self;
        Self { middle: middle.min(most), low: low.min(most), high: high.min(most) }
    }
}

/// Wilson's interval of a share, at 95 %; without hits from 0 to the upper bound.
pub fn wilson(hits: u64, of: u64) -> Interval {
    interval(hits, of, USUAL)
}

/// The same at 99.9 %: a value outside is no coincidence.
pub fn wilson_999(hits: u64, of: u64) -> Interval {
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

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mean {
    pub(super) count: u64,
    sum: f64,
    squares: f64,
    cubes: f64,
}

impl Mean {
    #[inline]
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
        self.cubes += value * value * value;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.cubes += other.cubes;
    }

    /// The mean with its interval, for many values.
    pub(super) fn interval(&self) -> Interval {
        self.at(USUAL)
    }

    /// The same at 99.9 %.
    #[cfg(test)]
    pub(super) fn interval_999(&self) -> Interval {
        self.at(SURE)
    }

    fn at(&self, Confidence { z, .. }: Confidence) -> Interval {
        let count = float(self.count.max(1));
        let middle = self.sum / count;
        let variance = (self.squares / count - middle * middle).max(0.0);
        let spread = (variance / count).sqrt();
        // Where a few values are by far the greatest, a sample most often has too few of them: its mean is too low, and so is
        // its variance. This is the first term of the Edgeworth expansion of Student's statistic.
        let third = self.cubes / count - middle * (3.0 * variance + middle * middle);
        let skewness = third / (variance * variance.sqrt());
        let beside = match skewness > 0.0 {
            // No sample of this size can be more skewed.
            true => skewness.min(count.sqrt()) * (2.0 * z * z + 1.0) / (6.0 * count.sqrt()),
            false => 0.0,
        };
        Interval {
            middle,
            low: (middle - z * spread).max(0.0),
            high: middle + (z + beside) * spread,
        }
    }

    pub(super) fn middle(&self) -> f64 {
        self.interval().middle
    }
}

/// A mean and a 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantile {
    pub(super) mean: f64,
    pub(super) p99: u64,
    /// Upper bound of the 99th percentile; `None` with too few values.
    pub(super) p99_most: Option<u64>,
}

/// The quantile of weighted values; `None` without values.
pub(super) fn quantile(seen: &mut [(u64, f64)]) -> Option<Quantile> {
    seen.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let sum = |of: fn(&(u64, f64)) -> f64| seen.iter().map(of).sum::<f64>();
    let (total, squares) = (sum(|it| it.1), sum(|it| it.1 * it.1));
    let at = |share: f64| {
        let mut below = 0.0;
        let mut found = seen.iter().skip_while(|it| {
            below += it.1;
            below < share * total
        });
        found.next().map(|it| it.0)
    };
    // The effective sample size of weighted values.
    let count = total * total / squares.max(f64::MIN_POSITIVE);
    let most = 0.99 + USUAL.z * (0.99 * 0.01 / count).sqrt();
    let p99_most = if most < 1.0 { at(most) } else { None };
    Some(Quantile { mean: sum(|it| float(it.0) * it.1) / total, p99: at(0.99)?, p99_most })
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

    #[test]
    fn a_mean_that_a_few_great_values_make_may_be_higher() {
        let share = |scale: f64| {
            let mut mean = Mean::default();
            (0..500).for_each(|number| mean.add(if number < 5 { scale } else { 0.0 }));
            mean.interval().high / scale
        };
        let normal = 0.01 + USUAL.z * (0.01_f64 * 0.99 / 500.0).sqrt();
        // Nearly Wilson's, which is right for shares.
        let (high, wilson) = (share(1.0), wilson(5, 500).high);
        assert!(
            normal + 0.5 * (wilson - normal) < high && high < wilson,
            "{normal} {high} {wilson}"
        );
        // However small the values are.
        assert!((share(1e-90) / high - 1.0).abs() < 1e-6 && share(1e-115).is_finite());
    }

    #[test]
    fn a_percentile_of_few_is_not_known() {
        let mut few: Vec<(u64, f64)> = (1..=100).map(|it| (it, 1.0)).collect();
        let found = quantile(&mut few).expect("there are some");
        assert_eq!((found.mean, found.p99, found.p99_most), (50.5, 99, None));
        let mut many: Vec<(u64, f64)> = (1..=10_000).rev().map(|it| (it, 2.0)).collect();
        let found = quantile(&mut many).expect("there are some");
        assert_eq!(found.p99, 9_900);
        // 0.99 and 1.96 times the root of 0.0099 by 10,000.
        assert_eq!(found.p99_most, Some(9_920));
        // Nine of ten weigh next to nothing.
        let weighed = |it: u64| (it, if it.is_multiple_of(10) { 1.0 } else { 1e-9 });
        let mut uneven: Vec<(u64, f64)> = (1..=1_000).map(weighed).collect();
        assert_eq!(quantile(&mut uneven).expect("there are some").p99_most, None);
        assert_eq!(quantile(&mut []), None);
    }
}
