//! From a distribution to the points of its line.
//!
//! Invariant: a line begins at the fastest operation and ends at the slowest, and never falls.

use super::axis::{Percentiles, Times};
use crate::latency::Distribution;

/// Points closer than this, in parts of the scale, look like one.
const GRAIN: f64 = 0.003;

/// The points, on scales from 0 to 1; none where there is no sample.
pub(super) fn points(
    distribution: &Distribution,
    percentiles: Percentiles,
    times: Times,
) -> Vec<(f64, f64)> {
    let samples = distribution.count();
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut below = 0;
    let mut last = None;
    for step in distribution.histogram().iter_recorded() {
        let at = times.at(distribution.clamp_ns(step.value_iterated_to()));
        let count = step.count_since_last_iteration();
        if count == 0 {
            continue;
        }
        for rank in [below, below + count - 1] {
            let point = (percentiles.at(rank, samples), at);
            let far =
                |&(x, y): &(f64, f64)| (point.0 - x).abs() >= GRAIN || (point.1 - y).abs() >= GRAIN;
            if points.last().is_none_or(far) {
                points.push(point);
            }
            last = Some(point);
        }
        below += count;
    }
    // The slowest operation is the one a reader looks for: it is never thinned out.
    if let Some(last) = last.filter(|last| points.last() != Some(last)) {
        points.push((last.0, times.at(distribution.max_ns())));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(samples: &[u64]) -> Vec<(f64, f64)> {
        let mut distribution = Distribution::new();
        for &ns in samples {
            distribution.record(ns);
        }
        let times = Times::covering(distribution.min_ns(), distribution.max_ns());
        points(&distribution, Percentiles::up_to(distribution.count()), times)
    }

    #[test]
    fn nothing_has_no_points_and_one_sample_has_one() {
        assert_eq!(drawn(&[]), []);
        assert_eq!(drawn(&[5]).len(), 1);
    }

    #[test]
    fn equal_samples_are_level() {
        let points = drawn(&[3_000_000; 100]);
        assert_eq!((points[0].0, points[points.len() - 1].0), (0.0, 1.0));
        assert!(points.iter().all(|point| point.1 == points[0].1));
    }

    #[test]
    fn a_line_never_falls_and_ends_at_the_slowest() {
        let samples: Vec<u64> = (1..=5000).map(|it| it * it * 1000).collect();
        let points = drawn(&samples);
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        assert!(points.len() < 1000, "{}", points.len());
        let times = Times::covering(1000, 25_000_000_000);
        assert_eq!(points[points.len() - 1], (1.0, times.at(25_000_000_000)));
    }
}
