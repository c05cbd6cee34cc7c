//! Labels beside the lines they belong to, without overlap.
//!
//! Invariant: two labels are at least a label apart, and all lie between the given ends as long as
//! there is room for them.

/// Where labels stand that want to stand at these places, in the same order: as near as can be.
pub(crate) fn spread(wanted: &[f64], apart: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]).then(a.cmp(&b)));
    // Each label less those before it: where these fall, labels are too close, and such a group
    // stands around the mean of what its members want.
    let before: Vec<f64> =
        (0_u32..).map(f64::from).map(|it: f64| it * apart).take(order.len()).collect();
    let mut groups: Vec<(f64, u32)> = Vec::new();
    for (&it, before) in order.iter().zip(&before) {
        let mut group = (wanted[it] - before, 1);
        while let Some(last) = groups.pop_if(|last| last.0 > group.0) {
            group = (mean(last, group), last.1 + group.1);
        }
        groups.push(group);
    }
    let most = (high - before.last().copied().unwrap_or_default()).max(low);
    let mut placed = wanted.to_vec();
    let means = groups.into_iter().flat_map(|(mean, size)| (0..size).map(move |_| mean));
    for ((&it, before), mean) in order.iter().zip(&before).zip(means) {
        placed[it] = mean.clamp(low, most) + before;
    }
    placed
}

/// The mean of two groups, each given as its mean and its size.
fn mean(a: (f64, u32), b: (f64, u32)) -> f64 {
    let (in_a, in_b) = (f64::from(a.1), f64::from(b.1));
    (a.0 * in_a + b.0 * in_b) / (in_a + in_b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_room_stay_where_they_want() {
        assert_eq!(spread(&[80.0, 10.0], 20.0, (0.0, 100.0)), [80.0, 10.0]);
        assert_eq!(spread(&[], 20.0, (0.0, 100.0)), [0.0; 0]);
    }

    #[test]
    fn crowded_labels_keep_their_order_and_distance() {
        assert_eq!(spread(&[50.0, 49.0, 51.0], 20.0, (0.0, 100.0)), [50.0, 30.0, 70.0]);
        assert_eq!(spread(&[99.0, 99.0, 99.0], 20.0, (0.0, 100.0)), [60.0, 80.0, 100.0]);
        assert_eq!(spread(&[-5.0, -9.0], 20.0, (0.0, 100.0)), [20.0, 0.0]);
    }
}
