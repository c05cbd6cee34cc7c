//! The probability that a hold without renewal goes wrong, in closed form, for tests to compare with.
//!
//! Invariant: nothing is drawn; sums over quantiles approximate the integrals, finer in the tail. There is none for pauses so
//! frequent that three in one hold matter, nor for round trips that take a noticeable part of the lease: few quantiles stand
//! for them, and every acquisition counts as granted.

use super::law::{Law, float};
use super::lease::Conditions;

/// The most pauses per hold, on average, for which the closed form is valid.
const FEW: f64 = 0.1;
const RAREST: f64 = 1e-17;
const PARTS_OF_WORK: u32 = 120;
const PARTS_OF_TRIPS: u32 = 6;
const PARTS_OF_PAUSES: u32 = 40;

/// A quadrature node: a duration and its weight.
#[derive(Clone, Copy, Debug)]
struct QuadratureNode {
    ns: u64,
    weight: f64,
}

/// Quadrature nodes of a law, as fine in the last billionth as in the first half.
fn nodes(law: &Law, parts: u32) -> Vec<QuadratureNode> {
    // Linear up to the median, geometric in the tail.
    let even = (1..=parts).map(|part| 1.0 - 0.5 * f64::from(part) / f64::from(parts));
    let far = (1..=parts).map(|part| 0.5 * RAREST.powf(f64::from(part) / f64::from(parts)));
    let mut above = 1.0;
    let cut = |below: f64| {
        let (weight, share) = (above - below, (above * below).sqrt());
        above = below;
        QuadratureNode { ns: law.tail.with_share(share), weight }
    };
    let mut nodes: Vec<QuadratureNode> = even.chain(far).map(cut).collect();
    nodes.dedup_by(|later, kept| {
        let same = later.ns == kept.ns;
        kept.weight += if same { later.weight } else { 0.0 };
        same
    });
    nodes
}

/// The probability that a hold without renewal outlasts its lease, or if `tracked` its validity. `None` without a closed
/// form.
pub(crate) fn unrenewed(
    conditions: &Conditions,
    lease_ns: u64,
    validity_ns: u64,
    tracked: bool,
) -> Option<f64> {
    let trips = nodes(&conditions.round_trip, PARTS_OF_TRIPS);
    let work = nodes(&conditions.hold, PARTS_OF_WORK);
    let (per_ns, pauses) = (conditions.pauses_per_ns(), conditions.pause.as_ref().map(|it| &it.1));
    if per_ns * conditions.hold.mean_ns() > FEW {
        return None;
    }
    let lengths = pauses.map_or(Vec::new(), |law| nodes(law, PARTS_OF_PAUSES));
    let last_half = conditions.round_trip.median_ns() / 2;
    let mut share = 0.0;
    for trip in &trips {
        let room_ns = match tracked {
            true => validity_ns.saturating_sub(trip.ns),
            false => lease_ns.saturating_sub(trip.ns / 2 + last_half),
        };
        share += trip.weight * conditions.hold.tail.at_least(room_ns);
        for it in &work {
            let weight = trip.weight * it.weight;
            // Work that is too long by itself is already counted.
            let Some(left_ns) = room_ns.checked_sub(it.ns).filter(|left_ns| *left_ns > 0) else {
                continue;
            };
            let Some(pauses) = pauses else { continue };
            let many = per_ns * float(it.ns);
            let one = many * (-many).exp();
            let more = -(-many).exp_m1() - one;
            share += weight * one * pauses.tail.at_least(left_ns);
            // Two pauses; the rare cases of more count as two.
            if more > 1e-12 && weight * more > share * 1e-6 {
                let two: f64 = lengths
                    .iter()
                    .map(|it| it.weight * pauses.tail.at_least(left_ns.saturating_sub(it.ns)))
                    .sum();
                share += weight * more * two;
            }
        }
    }
    Some(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conditions;

    #[test]
    fn without_pauses_it_is_the_tail_of_the_work() {
        let even = conditions("uniform:0s..1s", None);
        let share = unrenewed(&even, 752_000_000, 700_000_000, false).expect("a formula");
        assert!((share - 0.25).abs() < 1e-3, "{share}");
        let share = unrenewed(&even, 752_000_000, 502_000_000, true).expect("a formula");
        assert!((share - 0.5).abs() < 2e-3, "{share}");
    }

    #[test]
    fn one_pause_is_enough_or_it_takes_two() {
        // 100 ms of work with a pause every ten seconds: one in a hundred holds has one.
        let one = conditions("100ms", Some((0.1, "1s")));
        let share = unrenewed(&one, 1_000_000_000, 0, false).expect("a formula");
        assert!((share - (1.0 - (-0.01_f64).exp())).abs() < 1e-9, "{share}");
        // A TTL that takes two of them.
        let share = unrenewed(&one, 2_000_000_000, 0, false).expect("a formula");
        let two = 1.0 - (-0.01_f64).exp() - 0.01 * (-0.01_f64).exp();
        assert!((share / two - 1.0).abs() < 1e-6, "{share} {two}");
        assert_eq!(unrenewed(&conditions("2s", Some((0.1, "1s"))), 1, 1, false), None);
    }
}
