//! A continuous distribution as a table of quantiles, finer towards both ends.
//!
//! Invariant: what is drawn never falls as the choice rises, choice 0 gives the shortest of all, and
//! what is drawn at a knot is exact.

/// Each half of the choices is cut into octaves by its distance from the end, and an octave into so
/// many pieces: so the last millionth has as many knots as the first half.
const PIECES: u32 = 64;
const PIECE_BITS: u32 = PIECES.ilog2();
/// A distance from the end is below 2³¹; the last knot is the middle.
const KNOTS: usize = ((31 - PIECE_BITS + 1) * PIECES + 1) as usize;
/// The lower half of the choices.
const HALF: u32 = 1 << 31;

/// Quantiles in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuantileTable {
    /// From the shortest up to the middle, and from the longest down to it.
    knots: Box<[u64; 2 * KNOTS]>,
}

impl QuantileTable {
    /// The table of a distribution with this middle, from the durations that have a given share
    /// (from 2⁻³³ to a half) of all others below them, and above them.
    pub(super) fn new(
        middle_ns: u64,
        below_ns: impl Fn(f64) -> u64,
        above_ns: impl Fn(f64) -> u64,
    ) -> Self {
        // What is not written below are the two knots of the middle.
        let mut knots = Box::new([middle_ns; 2 * KNOTS]);
        // Rounding may let neighbours change places by a nanosecond, which must not show.
        let (mut least_ns, mut most_ns) = (0, u64::MAX);
        for knot in 0..KNOTS - 1 {
            // A choice stands for the middle of its 2³² part of all.
            let share = (f64::from(distance(knot)) + 0.5) / 4_294_967_296.0;
            least_ns = below_ns(share).clamp(least_ns, middle_ns);
            most_ns = above_ns(share).clamp(middle_ns, most_ns);
            (knots[knot], knots[KNOTS + knot]) = (least_ns, most_ns);
        }
        Self { knots }
    }

    /// The duration of this choice. Without a branch: which half it is, nobody could predict.
    #[inline]
    pub(super) fn at(&self, choice: u32) -> u64 {
        let is_upper = choice >= HALF;
        let half = usize::from(is_upper);
        let distance = if is_upper { !choice } else { choice };
        let shift = (distance | PIECES).ilog2() - PIECE_BITS;
        let knot = half * KNOTS + (shift * PIECES + (distance >> shift)) as usize;
        let (from_ns, to_ns) = (self.knots[knot], self.knots[knot + 1]);
        // How far beyond the knot, in 2³² parts of the way to the next.
        let beyond = u64::from(distance & ((1 << shift) - 1)) << (32 - shift);
        let width_ns = from_ns.abs_diff(to_ns);
        let part = (u128::from(width_ns) * u128::from(beyond)) >> 32;
        let part = u64::try_from(part).unwrap_or(width_ns);
        // All bits where the way leads down, for that negates what is added.
        let down = (half as u64).wrapping_neg();
        from_ns.wrapping_add((part ^ down).wrapping_sub(down))
    }
}

/// How far a knot is from the end of its half.
fn distance(knot: usize) -> u32 {
    let knot = u32::try_from(knot).unwrap_or(u32::MAX);
    if knot < 2 * PIECES {
        return knot;
    }
    (knot % PIECES + PIECES) << (knot / PIECES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_is_drawn_exactly() {
        // The nanoseconds are the choices themselves.
        let whole = |share: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "exact")]
            let choice = (share * 4_294_967_296.0 - 0.5) as u64;
            choice
        };
        let table = QuantileTable::new(1 << 31, whole, |share| u64::from(u32::MAX) - whole(share));
        for bit in 0..32 {
            for near in [0, 1, 2, 3, 61, 62, 63, 64, 65] {
                for choice in [(1 << bit) + near, !((1 << bit) + near), near, !near] {
                    let off = u64::from(choice).abs_diff(table.at(choice));
                    assert!(off <= 1, "{choice}: {}", table.at(choice));
                }
            }
        }
    }

    #[test]
    fn every_knot_is_found_by_its_distance() {
        assert_eq!(distance(KNOTS - 1), HALF);
        for knot in 0..KNOTS - 1 {
            let distance = distance(knot);
            let shift = (distance | PIECES).ilog2() - PIECE_BITS;
            assert_eq!((shift * PIECES + (distance >> shift)) as usize, knot);
        }
    }

    #[test]
    fn what_falls_by_mistake_is_levelled() {
        let table = QuantileTable::new(50, |share| if share < 0.1 { 40 } else { 30 }, |_| 60);
        assert_eq!((table.at(0), table.at(HALF / 2), table.at(HALF - 1)), (40, 40, 49));
        assert_eq!(table.at(u32::MAX), 60);
    }
}
