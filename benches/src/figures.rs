//! Figures of repeated measurements.
//!
//! Invariant: a figure is the median of what was measured, so one disturbance does not show in it.

/// The median; the lower of two in the middle.
///
/// # Panics
/// Without a value.
pub fn median<T: PartialOrd + Copy>(values: &[T]) -> T {
    let mut values = values.to_vec();
    values.sort_by(|one, other| one.partial_cmp(other).expect("figures can be compared"));
    values[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_stands_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4, 1, 2, 3]), 2);
        assert_eq!(median(&[7]), 7);
    }
}
