//! Figures of repeated measurements.
//!
//! Invariant: a figure is one that was measured, and none between two of them.

use std::time::Duration;

/// The value that so many of a hundred do not exceed; the lower one where that falls between two.
///
/// # Panics
/// Without a value.
pub fn percentile<T: PartialOrd + Copy>(values: &[T], percent: usize) -> T {
    let mut values = values.to_vec();
    values.sort_by(|one, other| one.partial_cmp(other).expect("figures can be compared"));
    values[(values.len() - 1) * percent / 100]
}

/// The median: one disturbance does not show in it.
///
/// # Panics
/// Without a value.
pub fn median<T: PartialOrd + Copy>(values: &[T]) -> T {
    percentile(values, 50)
}

/// The median, and the least and the greatest: how noisy the machine was.
///
/// # Panics
/// Without a value.
pub fn spread(values: &[f64], digits: usize) -> String {
    let [least, middle, greatest] = [0, 50, 100].map(|percent| percentile(values, percent));
    format!("{middle:.digits$} ({least:.digits$} to {greatest:.digits$})")
}

/// In milliseconds.
pub fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// In microseconds.
pub fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4, 1, 2, 3]), 2);
        assert_eq!(median(&[7]), 7);
    }

    #[test]
    fn a_spread_has_the_least_and_the_greatest() {
        assert_eq!(spread(&[2.0, -1.04, 30.0], 1), "2.0 (-1.0 to 30.0)");
        assert_eq!(spread(&[7.4], 0), "7 (7 to 7)");
    }

    #[test]
    fn percentiles_reach_from_the_least_to_the_greatest() {
        let values: Vec<u32> = (0..=100).rev().collect();
        assert_eq!([0, 1, 99, 100].map(|it| percentile(&values, it)), [0, 1, 99, 100]);
        assert_eq!(percentile(&values[1..], 99), 98);
    }
}
