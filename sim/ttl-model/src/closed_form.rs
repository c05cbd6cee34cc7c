//! The probability that a hold without renewal goes wrong, in closed form, for tests to compare with.
//!
//! Invariant: nothing is drawn. Integrals are sums over quantiles, as fine in the tail, which end exactly where a duration
//! is too long by itself. They are right to two in a thousand. There is no formula for pauses so frequent that four in one
//! hold matter, nor for round trips that take a noticeable part of the lease: few quantiles stand for them, and every
//! acquisition counts as granted.

use super::law::{Law, float};
use super::lease::Conditions;
use scenarios::distribution::Tail;

/// The most pauses per hold, on average, for which the closed form is valid.
const FEW: f64 = 0.1;
/// More pauses in a hold count as so many.
const MOST_PAUSES: u32 = 3;
const RAREST: f64 = 1e-17;
const PARTS_OF_WORK: u32 = 240;
const PARTS_OF_TRIPS: u32 = 6;
/// Of one pause or two, and of three, which are so rare that fewer parts do.
const PARTS_OF_PAUSES: [u32; MOST_PAUSES as usize] = [40, 40, 10];

/// The durations between two tail probabilities, and one of them that stands for all.
#[derive(Clone, Copy, Debug)]
struct Part {
    above: f64,
    below: f64,
    ns: u64,
}

impl Part {
    fn of(tail: &Tail, above: f64, below: f64) -> Self {
        Self { above, below, ns: tail.with_share((above * below).sqrt()) }
    }
}

/// A law in parts, as fine in the last billionth as in the first half.
#[derive(Debug)]
struct Parts<'a> {
    tail: &'a Tail,
    parts: Vec<Part>,
}

impl<'a> Parts<'a> {
    fn of(law: &'a Law, parts: u32) -> Self {
        // Linear up to the median, geometric in the tail.
        let even = (1..=parts).map(|part| 1.0 - 0.5 * f64::from(part) / f64::from(parts));
        let far = (1..=parts).map(|part| 0.5 * RAREST.powf(f64::from(part) / f64::from(parts)));
        let mut above = 1.0;
        let cut = |below: f64| Part::of(&law.tail, std::mem::replace(&mut above, below), below);
        let mut parts: Vec<Part> = even.chain(far).map(cut).collect();
        // Of a constant one part is left.
        parts.dedup_by(|later, kept| {
            let is_same = later.ns == kept.ns;
            if is_same {
                kept.below = later.below;
            }
            is_same
        });
        Self { tail: &law.tail, parts }
    }

    /// The probability that a duration exceeds `room_ns`, alone or by what follows in the time that it leaves.
    fn exceed(&self, room_ns: u64, then: impl Fn(u64) -> f64) -> f64 {
        let alone = self.tail.at_least(room_ns);
        let shorter = self.parts.iter().take_while(|it| it.above > alone);
        let follows = |part: &Part| {
            // A part that is cut counts only as far as it is shorter: its middle alone would be on either side.
            let it = match part.below < alone {
                true => Part::of(self.tail, part.above, alone),
                false => *part,
            };
            (it.above - it.below) * then(room_ns.saturating_sub(it.ns))
        };
        alone + shorter.map(follows).sum::<f64>()
    }

    /// The probability that so many of them, one at least, exceed `room_ns` together.
    fn exceed_together(&self, count: u32, room_ns: u64) -> f64 {
        match count {
            0 | 1 => self.tail.at_least(room_ns),
            _ => self.exceed(room_ns, |left_ns| self.exceed_together(count - 1, left_ns)),
        }
    }
}

/// The probability that a hold without renewal outlasts its lease, or if `tracked` its validity. `None` without a closed
/// form.
pub(crate) fn unrenewed(
    conditions: &Conditions,
    lease_ns: u64,
    validity_ns: u64,
    tracked: bool,
) -> Option<f64> {
    let per_ns = conditions.pauses_per_ns();
    if per_ns * conditions.hold.mean_ns() > FEW {
        return None;
    }
    let work = Parts::of(&conditions.hold, PARTS_OF_WORK);
    let pauses = conditions
        .pause
        .as_ref()
        .map(|(_, law)| PARTS_OF_PAUSES.map(|parts| Parts::of(law, parts)));
    let paused = |work_ns: u64, left_ns: u64| {
        let Some(pauses) = &pauses else { return 0.0 };
        let expected = per_ns * float(work_ns);
        let (mut exactly, mut sum) = ((-expected).exp(), 0.0);
        let mut at_least = -(-expected).exp_m1();
        for (count, parts) in (1..).zip(pauses) {
            exactly *= expected / f64::from(count);
            let weight = if count < MOST_PAUSES { exactly } else { at_least };
            if weight > 1e-12 {
                sum += weight * parts.exceed_together(count, left_ns);
            }
            at_least -= exactly;
        }
        sum
    };
    let last_half = conditions.round_trip.median_ns() / 2;
    let room_ns = |trip_ns: u64| match tracked {
        true => validity_ns.saturating_sub(trip_ns),
        false => lease_ns.saturating_sub(trip_ns / 2 + last_half),
    };
    let trips = Parts::of(&conditions.round_trip, PARTS_OF_TRIPS);
    let with = |trip: &Part| {
        let room_ns = room_ns(trip.ns);
        let share = work.exceed(room_ns, |left_ns| paused(room_ns - left_ns, left_ns));
        (trip.above - trip.below) * share
    };
    Some(trips.parts.iter().map(with).sum())
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
    fn it_is_what_was_found_by_drawing_hold_by_hold() {
        // Counted by a program that shares no code with this one, in a billion holds each: sure to a thousandth.
        let found = conditions("lognormal:50ms,p99=1s", Some((0.5, "lognormal:200ms,p99=3s")));
        for (ttl_ms, validity_ms, [outlived, lost]) in [
            (400, 394, [0.070_522, 0.071_902]),
            (700, 691, [0.032_546, 0.033_179]),
            // Three pauses in one of a hundred of them.
            (1_900, 1_879, [0.005_663_1, 0.005_793_7]),
        ] {
            let [ttl_ns, validity_ns] = [ttl_ms, validity_ms].map(|ms| ms * 1_000_000);
            for (tracked, counted) in [(false, outlived), (true, lost)] {
                let share = unrenewed(&found, ttl_ns, validity_ns, tracked).expect("a formula");
                assert!((share / counted - 1.0).abs() < 2e-3, "{ttl_ms}: {share} {counted}");
            }
        }
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
