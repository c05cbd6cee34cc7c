//! An upper bound on the probability that a hold goes wrong, however little was simulated.
//!
//! A hold outlasts its lease only if its work, its round trips or its pauses take more than their share of the slack;
//! their distributions say how likely each is to do so (a union bound).
//!
//! Invariant: nothing is drawn and every omission rounds up: the bound is never below the probability. It is loose:
//! where failures are frequent enough to measure, simulation is tighter.

use picklock::time::span_ns;

use super::law::{float, whole};
use super::lease::LeaseModel;

/// Steps in which the slack is divided between work and everything else.
const STEPS: u64 = 24;
const MOST_PAUSES: u64 = 1_000_000;

/// What must outlast the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// The validity; if it is not tracked, the lease until the last command arrives.
    Done,
    /// The lease, until the write after the last check arrives.
    Written,
}

/// An upper bound on the probability that it does not.
pub(super) fn at_most(lease: &LeaseModel<'_>, until: Deadline) -> f64 {
    let drift = f64::from(lease.conditions.drift_ppm) / 1e6;
    let (options, tracked) = (&lease.options, lease.setting.tracked);
    // The client's clock may run fast, and renew late by running slow.
    let room_ns = match until {
        Deadline::Done if tracked => whole(float(span_ns(options.validity())) * (1.0 - drift)),
        Deadline::Done | Deadline::Written => span_ns(options.ttl()),
    };
    let write_ns = if until == Deadline::Written { lease.conditions.write_ns } else { 0 };
    // A renewal only extends a lease.
    let mut whole_hold = unrenewed(lease, room_ns, write_ns);
    if tracked && until == Deadline::Written {
        // However long the work was, its last check found the lock valid.
        let valid_ns = whole(float(span_ns(options.validity())) * (1.0 + drift)) + write_ns;
        let margin_ns = room_ns.saturating_sub(valid_ns);
        let slow = lease.conditions.round_trip.tail.most_at_least(margin_ns);
        whole_hold = whole_hold.min(slow + pauses(lease, write_ns, margin_ns / 2));
    }
    let Some(every) = lease.setting.renew else { return whole_hold };
    let every_ns = whole(float(span_ns(every)) * (1.0 + drift));
    whole_hold.min(renewed(lease, room_ns, every_ns, write_ns))
}

/// Work, two round trips and pauses fit into the slack, or one of them exceeds its part.
fn unrenewed(lease: &LeaseModel<'_>, room_ns: u64, write_ns: u64) -> f64 {
    let conditions = lease.conditions;
    let room_ns = room_ns.saturating_sub(write_ns);
    let mut least = 1.0_f64;
    for step in 1..STEPS {
        let work_ns = whole(float(room_ns) * float(step) / float(STEPS));
        let too_long = conditions.hold.tail.most_at_least(work_ns + 1);
        if too_long >= least {
            continue;
        }
        let rest_ns = room_ns - work_ns;
        for part in [4, 16, 64] {
            let trip_ns = rest_ns / part;
            let slow = 2.0 * conditions.round_trip.tail.most_at_least(trip_ns);
            let paused = pauses(lease, work_ns + write_ns, rest_ns - 2 * trip_ns);
            least = least.min(too_long + slow + paused);
        }
    }
    least
}

/// Between renewals, a round trip and pauses fit into what is left of the lease, or one of them exceeds its part.
fn renewed(lease: &LeaseModel<'_>, room_ns: u64, every_ns: u64, write_ns: u64) -> f64 {
    let conditions = lease.conditions;
    let slack_ns = room_ns.saturating_sub(every_ns);
    // One part for the acquisition or the way of the write, one for the renewal, two for pauses.
    let part_ns = slack_ns / 4;
    let trip_ns = part_ns.min(span_ns(lease.options.call_timeout()));
    let each =
        conditions.round_trip.tail.most_at_least(trip_ns) + pauses(lease, room_ns, 2 * part_ns);
    // The acquisition and the last command count as two more.
    let held_ns = conditions.mean_hold_ns() + float(write_ns) * (1.0 + conditions.paused());
    let renewals = 3.0 + held_ns / float(every_ns.max(1));
    (renewals * each).min(1.0)
}

/// An upper bound on the probability that pauses total `room_ns` or more in `run_ns` of running time: there are more
/// than a given number, or one of the fewer exceeds its part.
fn pauses(lease: &LeaseModel<'_>, run_ns: u64, room_ns: u64) -> f64 {
    let Some((per_ns, lengths)) = &lease.conditions.pause else {
        return f64::from(u8::from(room_ns == 0));
    };
    let expected = per_ns * float(run_ns);
    let with = |fewer: u64| {
        let long = match fewer {
            0 => 0.0,
            _ => expected * lengths.tail.most_at_least(room_ns.div_ceil(fewer).max(1)),
        };
        poisson_at_least(fewer + 1, expected) + long
    };
    // With a longest pause: one fewer than are needed to fill the slack.
    let by_longest = lengths.tail.longest_ns().map(|it| room_ns.saturating_sub(1) / it.max(1));
    let by_steps = std::iter::successors(Some(0), |it| Some(it + it / 2 + 1));
    let tried = by_steps.take_while(|it| *it <= MOST_PAUSES).chain(by_longest);
    if room_ns == 0 { 1.0 } else { tried.map(with).fold(1.0, f64::min) }
}

/// P(N >= events) of a Poisson variable with this mean.
fn poisson_at_least(events: u64, expected: f64) -> f64 {
    if events == 0 {
        return 1.0;
    }
    // Term by term; beyond the mean each term is smaller than the one before.
    let first = float(events);
    let mut term = (first * expected.max(1e-300).ln() - expected - ln_factorial(events)).exp();
    if expected >= first {
        return 1.0;
    }
    let (mut sum, mut next) = (0.0, first + 1.0);
    while term > sum * 1e-16 && next < first + 10_000.0 {
        sum += term;
        term *= expected / next;
        next += 1.0;
    }
    sum.min(1.0)
}

fn ln_factorial(number: u64) -> f64 {
    if number < 256 {
        return (2..=number).map(|it| float(it).ln()).sum();
    }
    // Stirling's series.
    let n = float(number);
    n * n.ln() - n + 0.5 * (2.0 * std::f64::consts::PI * n).ln() + 1.0 / (12.0 * n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_form::unrenewed as formula;
    use crate::lease::{Conditions, Setting};
    use crate::monte_carlo::shares;
    use crate::testing::{self, MS, law};

    fn conditions(hold: &str, per_s: f64, pause: &str) -> Conditions {
        let round_trip = law("lognormal:500us,p99=3ms");
        Conditions { round_trip, ..testing::conditions(hold, Some((per_s, pause))) }
    }

    fn most(conditions: &Conditions, ttl_ms: u32, renew_ms: Option<u32>) -> f64 {
        most_until(Deadline::Done, conditions, ttl_ms, renew_ms)
    }

    fn most_until(
        until: Deadline,
        conditions: &Conditions,
        ttl_ms: u32,
        renew_ms: Option<u32>,
    ) -> f64 {
        let (ttl, renew) = (ttl_ms * MS, renew_ms.map(|it| it * MS));
        let setting = Setting { ttl, renew, tracked: true };
        at_most(&LeaseModel::new(conditions, setting).expect("a setting"), until)
    }

    #[test]
    fn it_is_never_less_than_what_is_counted_or_the_formula() {
        let paused = conditions("lognormal:50ms,p99=1s", 0.5, "lognormal:100ms,p99=1s");
        let long = conditions("lognormal:2s,p99=10s", 0.5, "lognormal:100ms,p99=1s");
        for (conditions, ttl_ms, renew_ms) in [
            (&paused, 1_000, None),
            (&paused, 3_000, None),
            (&long, 2_000, Some(666)),
            (&long, 6_000, Some(2_000)),
        ] {
            let ttl = ttl_ms * MS;
            let setting = Setting { ttl, renew: renew_ms.map(|it| it * MS), tracked: true };
            let (lost, _) = shares(conditions, setting, 20_000, 1).expect("a setting");
            let most = most(conditions, ttl_ms, renew_ms);
            assert!(most >= lost, "{setting:?}: {most} {lost}");
            if renew_ms.is_none() {
                let validity_ns = span_ns(ttl);
                let formula = formula(conditions, validity_ns, validity_ns, true);
                assert!(formula.is_some_and(|it| most >= it), "{most} {formula:?}");
            }
        }
    }

    #[test]
    fn it_says_what_nobody_could_simulate() {
        let short = conditions("lognormal:20ms,p99=200ms", 1.0, "uniform:0s..100ms");
        for renew_ms in [None, Some(40_000)] {
            let most = most(&short, 120_000, renew_ms);
            assert!(0.0 < most && most < 1e-14, "{most}");
        }
        // A write of twice the TTL, during which the lease is renewed.
        let long = Conditions { write_ns: 240_000_000_000, ..short };
        let renewed = most_until(Deadline::Written, &long, 120_000, Some(40_000));
        assert!(0.0 < renewed && renewed < 1e-14, "{renewed}");
        assert_eq!(most_until(Deadline::Written, &long, 120_000, None), 1.0);
        // A second of pauses takes ten of them, and there is one in a hundred seconds.
        let always = conditions("100ms", 0.01, "100ms");
        let (one, ten) = (most(&always, 1_300, None), poisson_at_least(10, 1e-3));
        assert!(ten / 10.0 < one && one < 1e-9, "{one} {ten}");
        assert_eq!(most(&conditions("10s", 0.01, "100ms"), 1_000, None), 1.0);
    }

    #[test]
    fn rare_events_of_poisson_are_exact() {
        assert_eq!(poisson_at_least(0, 0.5), 1.0);
        assert!((poisson_at_least(1, 0.5) - (1.0 - (-0.5_f64).exp())).abs() < 1e-12);
        let five = 1e-3_f64.powi(5) / 120.0;
        assert!((poisson_at_least(5, 1e-3) / five - 1.0).abs() < 2e-3);
        assert_eq!(poisson_at_least(2, 3.0), 1.0);
        assert!(poisson_at_least(1000, 1.0) < 1e-300);
    }
}
