//! Labels in rows above and below a lane, beside the moments that they name.
//!
//! Invariant: two labels of a row never overlap, and none lies outside the given ends.

/// How far apart two labels of a row stand at least.
const GAP: f64 = 6.0;

/// Rows of labels, the first nearest to what they name.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelRows {
    rows: Vec<Vec<(f64, f64)>>,
}

impl LabelRows {
    /// A place for a label of this width beside this point: its row, and where it begins. Rows are added as needed.
    pub(crate) fn place(&mut self, x: f64, width: f64, (left, right): (f64, f64)) -> (usize, f64) {
        let ahead = |begin: f64| begin.min(right - width).max(left);
        let begins = [ahead(x - width / 2.0), ahead(x - 4.0), ahead(x - width + 4.0)];
        for (number, row) in self.rows.iter_mut().enumerate() {
            let is_free = |begin: &f64| {
                row.iter().all(|it| *begin > it.1 + GAP || begin + width + GAP < it.0)
            };
            if let Some(&begin) = begins.iter().find(|it| is_free(it)) {
                row.push((begin, begin + width));
                return (number, begin);
            }
        }
        self.rows.push(vec![(begins[0], begins[0] + width)]);
        (self.rows.len() - 1, begins[0])
    }

    /// How many rows there are.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_share_a_row_if_they_fit_and_never_overlap() {
        let mut rows = LabelRows::default();
        let ends = (0.0, 200.0);
        assert_eq!(rows.place(100.0, 40.0, ends), (0, 80.0));
        assert_eq!(rows.place(30.0, 40.0, ends), (0, 10.0));
        // Moved aside, it fits beside the first.
        assert_eq!(rows.place(131.0, 40.0, ends), (0, 127.0));
        assert_eq!(rows.place(100.0, 40.0, ends), (1, 80.0));
        assert_eq!(rows.count(), 2);
    }

    #[test]
    fn none_lies_outside() {
        let mut rows = LabelRows::default();
        assert_eq!(rows.place(0.0, 50.0, (10.0, 100.0)), (0, 10.0));
        assert_eq!(rows.place(100.0, 30.0, (10.0, 100.0)), (0, 70.0));
        assert_eq!(
            rows.place(50.0, 300.0, (10.0, 100.0)).1,
            10.0,
            "too wide: it begins at the left"
        );
    }
}
