//! The far end of a distribution: how likely a duration of at least so long is, however unlikely.
//!
//! Invariant: a longer duration is never more likely. A formula is exact as far as a double goes, far
//! beyond the 2⁻³² part that a choice can name; of what was measured nothing is known beyond the longest
//! value, and [`Tail::most_at_least`] says how likely it may be all the same.

use picklock::time::span_ns;

use super::Distribution;
use super::portable::{exp, float, ln, normal_quantile, rounded};
use crate::span::Span;

/// Below this share the tables' quantile is not made for it.
const RARE: f64 = 1e-9;
/// One-sided, for "at most so many at 95 %" where nothing was seen: −ln 0.05.
const NONE_SEEN: f64 = 2.995_732_273_553_991;
/// The point of a standard normal variable beyond which 2.5 % lie.
const Z: f64 = 1.959_963_984_540_054;

/// The far end of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail(TailKind);

#[derive(Clone, Debug, PartialEq)]
enum TailKind {
    /// Both are the same where nothing else is drawn.
    Uniform {
        min_ns: u64,
        max_ns: u64,
    },
    LogNormal {
        median: f64,
        sigma: f64,
        floor_ns: u64,
        cap_ns: Option<u64>,
    },
    Measured(Box<[Reached]>),
}

/// A measured value, and how many reached it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reached {
    ns: u64,
    share: f64,
    most: f64,
}

impl Distribution {
    /// Its far end.
    ///
    /// # Panics
    /// Where its file has not been [read](Self::read).
    pub fn tail(&self) -> Tail {
        let always =
            |span: Span| TailKind::Uniform { min_ns: span_ns(span.0), max_ns: span_ns(span.0) };
        Tail(match self {
            Self::Constant(span) => always(*span),
            Self::Uniform(it) => {
                TailKind::Uniform { min_ns: span_ns(it.min.0), max_ns: span_ns(it.max.0) }
            }
            Self::LogNormal(shape) => match shape.sigma() {
                None => always(shape.median),
                Some(sigma) => TailKind::LogNormal {
                    median: float(span_ns(shape.median.0)),
                    sigma,
                    floor_ns: shape.floor.map_or(0, |it| span_ns(it.0)),
                    cap_ns: shape.cap.map(|it| span_ns(it.0)),
                },
            },
            Self::Histogram(histogram) => {
                let total = histogram.count();
                assert!(total > 0, "a histogram is read before it is asked: {histogram:?}");
                let mut left = total;
                let mut reached = Vec::new();
                for bucket in histogram.buckets() {
                    let share = float(left) / float(total);
                    reached.push(Reached {
                        ns: span_ns(bucket.value.0),
                        share,
                        most: most(left, total),
                    });
                    left -= bucket.count;
                }
                reached.push(Reached { ns: u64::MAX, share: 0.0, most: most(0, total) });
                TailKind::Measured(reached.into())
            }
        })
    }
}

impl Tail {
    /// The share of all durations that are at least so long.
    pub fn at_least(&self, ns: u64) -> f64 {
        match &self.0 {
            TailKind::Uniform { min_ns, max_ns } => match () {
                () if ns <= *min_ns => 1.0,
                () if ns > *max_ns => 0.0,
                () => float(max_ns - ns + 1) / float(max_ns - min_ns + 1),
            },
            TailKind::LogNormal { median, sigma, floor_ns, cap_ns } => match () {
                () if ns <= *floor_ns => 1.0,
                () if cap_ns.is_some_and(|cap_ns| ns > cap_ns) => 0.0,
                () => beyond(ln(float(ns.max(1)) / median) / sigma),
            },
            TailKind::Measured(reached) => look_up(reached, ns).map_or(0.0, |it| it.share),
        }
    }

    /// The same as far as it is known: of a formula, the same; of what was measured, what it is at most,
    /// with a confidence of 95 %.
    pub fn most_at_least(&self, ns: u64) -> f64 {
        match &self.0 {
            TailKind::Measured(reached) => look_up(reached, ns).map_or(0.0, |it| it.most),
            _ => self.at_least(ns),
        }
    }

    /// The duration that this share of all reach or exceed: the longest of all for 0.
    pub fn with_share(&self, share: f64) -> u64 {
        match &self.0 {
            TailKind::Uniform { min_ns, max_ns } => {
                let below = rounded(float(max_ns - min_ns) * share.clamp(0.0, 1.0));
                max_ns - below.min(max_ns - min_ns)
            }
            TailKind::LogNormal { median, sigma, floor_ns, cap_ns } => {
                let ns = rounded(median * exp(sigma * point_beyond(share)));
                ns.clamp(*floor_ns, cap_ns.unwrap_or(u64::MAX))
            }
            TailKind::Measured(reached) => {
                let known = &reached[..reached.len() - 1];
                let place = known.partition_point(|it| it.share >= share);
                known[place.saturating_sub(1)].ns
            }
        }
    }

    /// The longest there is, where that is certain; what was measured could have been longer.
    pub fn longest_ns(&self) -> Option<u64> {
        match &self.0 {
            TailKind::Uniform { max_ns, .. } => Some(*max_ns),
            TailKind::LogNormal { cap_ns, .. } => *cap_ns,
            TailKind::Measured(_) => None,
        }
    }
}

/// How many reach this long.
fn look_up(reached: &[Reached], ns: u64) -> Option<&Reached> {
    reached.get(reached.partition_point(|it| it.ns < ns))
}

/// What share of all `hits` of `total` are at most, with a confidence of 95 %.
fn most(hits: u64, total: u64) -> f64 {
    let (hits, total) = (float(hits), float(total));
    if hits == 0.0 {
        return (NONE_SEEN / total).min(1.0);
    }
    let share = hits / total;
    let middle = share + Z * Z / (2.0 * total);
    let spread = Z * (share * (1.0 - share) / total + Z * Z / (4.0 * total * total)).sqrt();
    ((middle + spread) / (1.0 + Z * Z / total)).min(1.0)
}

/// How likely a standard normal variable is beyond this point, to six digits however far it is.
///
/// Press et al., "Numerical Recipes", 6.2: the rational approximation of erfc with a relative error
/// below 1.2e-7 everywhere.
fn beyond(point: f64) -> f64 {
    let z = point.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * z);
    let terms = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let (mut sum, mut left) = (0.0, terms.len());
    while left > 0 {
        left -= 1;
        sum = sum * t + terms[left];
    }
    let far = 0.5 * t * exp(sum - z * z);
    if point < 0.0 { 1.0 - far } else { far }
}

/// The point beyond which a standard normal variable lies with this probability.
fn point_beyond(share: f64) -> f64 {
    if share >= RARE {
        return -normal_quantile(share.min(1.0 - RARE));
    }
    let wanted = ln(share.max(1e-290));
    let mut point = (-2.0 * wanted).sqrt();
    // Newton on the logarithm, which is nearly a parabola there: five steps are more than enough.
    for _ in 0..5 {
        let off = ln(beyond(point)) - wanted;
        point += off / (point + 1.0 / point);
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(text: &str) -> Tail {
        text.parse::<Distribution>().expect("a distribution").tail()
    }

    #[test]
    fn both_sides_of_every_bound() {
        let constant = tail("5ms");
        assert_eq!((constant.at_least(5_000_000), constant.at_least(5_000_001)), (1.0, 0.0));
        let uniform = tail("uniform:1ms..3ms");
        assert_eq!((uniform.at_least(1_000_000), uniform.at_least(3_000_001)), (1.0, 0.0));
        assert!((uniform.at_least(2_000_000) - 0.5).abs() < 1e-6);
        assert_eq!((uniform.with_share(0.0), uniform.with_share(1.0)), (3_000_000, 1_000_000));
        let capped = tail("lognormal:5ms,p99=80ms,floor=1ms,cap=1s");
        assert_eq!((capped.at_least(1_000_000), capped.at_least(1_000_000_001)), (1.0, 0.0));
        assert!(capped.at_least(1_000_000_000) > 0.0);
        assert_eq!(
            (capped.longest_ns(), constant.longest_ns()),
            (Some(1_000_000_000), Some(5_000_000))
        );
    }

    #[test]
    fn a_long_tail_is_known_far_beyond_what_is_drawn() {
        let tail = tail("lognormal:5ms,p99=80ms");
        assert!((tail.at_least(5_000_000) - 0.5).abs() < 1e-6);
        assert!((tail.at_least(80_000_000) / 0.01 - 1.0).abs() < 1e-5);
        for share in [0.9, 0.3, 1e-3, 1e-6, 1e-9, 1e-10, 1e-12, 1e-15, 1e-20] {
            let back = tail.at_least(tail.with_share(share));
            assert!((back / share - 1.0).abs() < 1e-4, "{share}: {back}");
        }
        // From tables of the normal distribution: beyond 6 standard deviations.
        assert!((beyond(6.0) / 9.865_876_450_376_98e-10 - 1.0).abs() < 1e-6);
        assert!((beyond(-1.0) - 0.841_344_746_068_543).abs() < 1e-7);
        assert_eq!(tail.longest_ns(), None);
    }

    #[test]
    fn the_tail_agrees_with_what_is_drawn() {
        for text in ["lognormal:5ms,p99=80ms", "uniform:200us..2ms", "3ms"] {
            let shape = text.parse::<Distribution>().expect("a distribution");
            let (sampler, tail) = (shape.sampler(), shape.tail());
            for part in [1_u32, 10, 100, 1_000, 30_000] {
                let choice = u32::MAX / 65_536 * part;
                let share = 1.0 - (f64::from(choice) + 0.5) / 4_294_967_296.0;
                let (drawn, asked) = (sampler.at(choice), tail.with_share(share));
                assert!(drawn.abs_diff(asked) <= asked / 1_000 + 1, "{text}: {drawn} {asked}");
            }
        }
    }

    #[test]
    fn beyond_what_was_measured_there_is_a_bound_and_no_zero() {
        use crate::distribution::{Bucket, Histogram};
        use std::time::Duration;
        let bucket = |ms, count| Bucket { value: Span(Duration::from_millis(ms)), count };
        let counts = [bucket(1, 900), bucket(10, 90), bucket(50, 10)];
        let tail = Distribution::Histogram(Histogram::new(counts).expect("it counts")).tail();
        assert_eq!(tail.at_least(1_000_000), 1.0);
        assert_eq!(tail.at_least(1_000_001), 0.1);
        assert_eq!(tail.at_least(50_000_000), 0.01);
        assert_eq!(tail.at_least(50_000_001), 0.0);
        assert!((tail.most_at_least(50_000_001) - 3.0e-3).abs() < 1e-4);
        let most = tail.most_at_least(50_000_000);
        assert!(0.01 < most && most < 0.019, "{most}");
        assert_eq!((tail.with_share(1.0), tail.with_share(0.1)), (1_000_000, 10_000_000));
        assert_eq!((tail.with_share(0.05), tail.with_share(1e-9)), (10_000_000, 50_000_000));
        assert!(tail.longest_ns().is_none());
    }
}
