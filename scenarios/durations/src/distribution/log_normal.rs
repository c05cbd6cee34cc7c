//! Log-normal: what many small delays multiply to, with a long tail.
//!
//! Invariant: half of what is drawn lies below the median and one in a hundred above the p99,
//! whatever floor and cap there are; what would lie beyond a bound becomes the bound. Deliberately
//! absent: mean and deviation as parameters; nobody reads those off a dashboard.

use picklock::time::span_ns;

use super::error::DistributionError;
use super::portable::{exp, float, ln, normal_quantile, rounded};
use super::sampler::Sampler;
use super::table::QuantileTable;
use crate::span::{MOST, Span};

/// A log-normal distribution, by two of its quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogNormal {
    /// Half of all are shorter.
    pub(super) median: Span,
    /// One in a hundred is longer.
    pub(super) p99: Span,
    pub(super) floor: Option<Span>,
    pub(super) cap: Option<Span>,
}

impl LogNormal {
    /// The distribution with this median and this 99th percentile.
    ///
    /// # Errors
    /// [`DistributionError::MedianZero`], and [`DistributionError::P99BelowMedian`]. Equal they may
    /// be: nothing else is drawn then.
    pub fn new(median: Span, p99: Span) -> Result<Self, DistributionError> {
        if median.0.is_zero() {
            return Err(DistributionError::MedianZero);
        }
        if p99 < median {
            return Err(DistributionError::P99BelowMedian(p99, median));
        }
        Ok(Self { median, p99, floor: None, cap: None })
    }

    /// The same within these bounds.
    ///
    /// # Errors
    /// [`DistributionError::FloorAboveMedian`] and [`DistributionError::CapBelowP99`].
    pub fn within(self, floor: Option<Span>, cap: Option<Span>) -> Result<Self, DistributionError> {
        let Self { median, p99, .. } = self;
        if let Some(floor) = floor.filter(|floor| *floor > median) {
            return Err(DistributionError::FloorAboveMedian(floor, median));
        }
        if let Some(cap) = cap.filter(|cap| *cap < p99) {
            return Err(DistributionError::CapBelowP99(cap, p99));
        }
        Ok(Self { floor, cap, ..self })
    }

    /// The deviation of the logarithm; `None` where nothing but the median is drawn.
    pub(super) fn sigma(self) -> Option<f64> {
        let [median, p99] = [self.median, self.p99].map(|it| float(span_ns(it.0)));
        (self.median < self.p99).then(|| ln(p99 / median) / -normal_quantile(0.01))
    }

    /// Everything so many times as long.
    pub(super) fn stretched(self, by: f64) -> Self {
        let Self { median, p99, floor, cap } = self;
        let bound = |it: Option<Span>| it.map(|span| span.stretched(by));
        Self {
            median: median.stretched(by),
            p99: p99.stretched(by),
            floor: bound(floor),
            cap: bound(cap),
        }
    }

    pub(super) fn sampler(self) -> Sampler {
        let median_ns = span_ns(self.median.0);
        let Some(sigma) = self.sigma() else { return Sampler::constant(median_ns) };
        let floor_ns = self.floor.map_or(0, |floor| span_ns(floor.0));
        // Without a cap, the longest duration there is: the tail of a wide one reaches into aeons.
        let cap_ns = span_ns(self.cap.map_or(MOST, |cap| cap.0));
        let median = float(median_ns);
        let quantile_ns = |point: f64| rounded(median * exp(sigma * point)).clamp(floor_ns, cap_ns);
        Sampler::table(QuantileTable::new(
            median_ns,
            |share| quantile_ns(normal_quantile(share)),
            |share| quantile_ns(-normal_quantile(share)),
        ))
    }
}
