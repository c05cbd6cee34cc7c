//! Log-normal: what many small delays multiply to, with a long tail.
//!
//! Invariant: half of what is drawn lies below the median and one in a hundred above the p99,
//! whatever floor and cap there are; what would lie beyond a bound becomes the bound. Deliberately
//! absent: mean and deviation as parameters; nobody reads those off a dashboard.

use picklock::time::span_ns;

use super::error::DistributionError;
use super::portable::{exp, ln, normal_quantile};
use super::sampler::Sampler;
use super::table::QuantileTable;
use crate::span::{MOST, Span};

/// A log-normal distribution, by two of its quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogNormal {
    median: Span,
    p99: Span,
    floor: Option<Span>,
    cap: Option<Span>,
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
            return Err(DistributionError::P99BelowMedian { median, p99 });
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
            return Err(DistributionError::FloorAboveMedian { floor, median });
        }
        if let Some(cap) = cap.filter(|cap| *cap < p99) {
            return Err(DistributionError::CapBelowP99 { cap, p99 });
        }
        Ok(Self { floor, cap, ..self })
    }

    /// Half of all are shorter.
    pub fn median(self) -> Span {
        self.median
    }

    /// One in a hundred is longer.
    pub fn p99(self) -> Span {
        self.p99
    }

    /// Nothing is shorter.
    pub fn floor(self) -> Option<Span> {
        self.floor
    }

    /// Nothing is longer.
    pub fn cap(self) -> Option<Span> {
        self.cap
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
        let [median_ns, p99_ns] = [self.median, self.p99].map(|span| span_ns(span.0));
        if median_ns == p99_ns {
            return Sampler::constant(median_ns);
        }
        let floor_ns = self.floor.map_or(0, |floor| span_ns(floor.0));
        // Without a cap, the longest duration there is: the tail of a wide one reaches into aeons.
        let cap_ns = span_ns(self.cap.map_or(MOST, |cap| cap.0));
        let [median, p99] = [median_ns, p99_ns].map(to_float);
        let sigma = ln(p99 / median) / -normal_quantile(0.01);
        let quantile_ns = |point: f64| {
            let value_ns = (median * exp(sigma * point)).round();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            let value_ns = value_ns as u64;
            value_ns.clamp(floor_ns, cap_ns)
        };
        Sampler::table(QuantileTable::new(
            median_ns,
            |share| quantile_ns(normal_quantile(share)),
            |share| quantile_ns(-normal_quantile(share)),
        ))
    }
}

/// Durations beyond 104 days lose their last nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "said above")]
fn to_float(ns: u64) -> f64 {
    ns as f64
}
