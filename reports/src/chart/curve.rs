//! From a distribution to the points of its line.
//!
//! Invariant: a line begins at the fastest operation and ends at the slowest, never falls, and is made
//! of level and upright pieces alone: at each percentile it stands at a time that was counted.

use super::axis::{Percentiles, Times};
use crate::latency::LatencyHistogram;

/// Steps smaller than this in both directions, in parts of the scale, are not drawn.
const GRAIN: f64 = 0.003;

/// The points, on scales from 0 to 1; none where there is no sample.
pub(super) fn points(
    distribution: &LatencyHistogram,
    percentiles: Percentiles,
    times: Times,
) -> Vec<(f64, f64)> {
    let samples = distribution.count();
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut below = 0;
    for step in distribution.histogram().iter_recorded() {
        let count = step.count_since_last_iteration();
        if count == 0 {
            continue;
        }
        let x = percentiles.at(below, samples);
        let y = times.at(distribution.clamp_ns(step.value_iterated_to()));
        match points.last() {
            None => points.push((x, y)),
            Some(&(last_x, last_y)) if x - last_x >= GRAIN || y - last_y >= GRAIN => {
                points.extend([(x, last_y), (x, y)]);
            }
            Some(_) => {}
        }
        below += count;
    }
    if let Some(&(_, last_y)) = points.last() {
        // The slowest operation is the one a reader looks for: it is never thinned out.
        let (x, y) = (percentiles.at(samples - 1, samples), times.at(distribution.max_ns()));
        points.extend([(x, last_y), (x, y)]);
        points.dedup();
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(samples: &[u64]) -> Vec<(f64, f64)> {
        let mut distribution = LatencyHistogram::default();
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

    #[test]
    fn every_piece_of_a_line_is_level_or_upright() {
        for samples in [&[1, 5, 5, 9][..], &[7; 3], &[1, 1_000_000, 2, 1_000_000_000, 3]] {
            let points = drawn(samples);
            let is_step = |pair: &[(f64, f64)]| pair[0].0 == pair[1].0 || pair[0].1 == pair[1].1;
            assert!(points.windows(2).all(is_step), "{points:?}");
        }
        // Half of four operations took 1 ns and half 9: the step stands at the median.
        let points = drawn(&[1, 1, 9, 9]);
        let half = Percentiles::up_to(4).at(2, 4);
        assert_eq!(points.iter().filter(|point| point.0 == half).count(), 2);
    }
}
