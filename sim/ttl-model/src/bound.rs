//! An upper bound on the probability that a hold goes wrong, however little was simulated.
//!
//! A hold outlasts its lease only if its work, its round trips or its pauses take more than their share of the slack;
//! their distributions say how likely each is to do so (a union bound).
//!
//! Invariant: nothing is drawn and every omission rounds up: the bound is never below the probability. It is loose:
//! where failures are frequent enough to measure, simulation is tighter.

use picklock::time::span_ns;

use super::closed_form::poisson_at_least;
use super::law::{float, whole};
use super::lease::LeaseModel;

/// In so many steps the room is divided between the work and all that comes beside it.
const STEPS: u64 = 24;
/// No more pauses than these are tried to make up for the room.
const MOST_PAUSES: u64 = 1_000_000;

/// What has to last until the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// The validity, or where none is kept the lease until the last command arrives.
    Done,
    /// The lease, until what was written after the last look arrives.
    Written,
}

/// How likely it is at most that it does not.
pub(super) fn at_most(lease: &LeaseModel<'_>, until: Deadline) -> f64 {
    let drift = f64::from(lease.conditions.drift_ppm) / 1e6;
    let (options, tracked) = (&lease.options, lease.setting.tracked);
    // The client's clock may run fast, and renew late by running slow.
    let room_ns = match until {
        Deadline::Done if tracked => whole(float(span_ns(options.validity())) * (1.0 - drift)),
        Deadline::Done | Deadline::Written => span_ns(options.ttl()),
    };
    let write_ns = if until == Deadline::Written { lease.conditions.write_ns } else { 0 };
    // A renewal only ever makes a lease longer.
    let whole_hold = unrenewed(lease, room_ns, write_ns);
    let Some(every) = lease.setting.renew else { return whole_hold };
    let every_ns = whole(float(span_ns(every)) * (1.0 + drift));
    whole_hold.min(renewed(lease, room_ns, every_ns, write_ns))
}

/// Work, two round trips and pauses fit into the room, or one of them takes more than its part.
fn unrenewed(lease: &LeaseModel<'_>, room_ns: u64, write_ns: u64) -> f64 {
    let conditions = lease.conditions;
    let room_ns = room_ns.saturating_sub(write_ns);
    let mut least = 1.0_f64;
    for step in 1..STEPS {
        let work_ns = whole(float(room_ns) * float(step) / float(STEPS));
        let too_long = conditions.hold.tail.at_least(work_ns + 1);
        if too_long >= least {
            continue;
        }
        let rest_ns = room_ns - work_ns;
        for part in [4, 16, 64] {
            let trip_ns = rest_ns / part;
            let slow = 2.0 * conditions.round_trip.tail.at_least(trip_ns);
            let paused = pauses(lease, work_ns + write_ns, rest_ns - 2 * trip_ns);
            least = least.min(too_long + slow + paused);
        }
    }
    least
}

/// From each renewal to the next, a round trip and pauses fit into what is left of the lease when it is due; or one
/// of them takes more than its part.
fn renewed(lease: &LeaseModel<'_>, room_ns: u64, every_ns: u64, write_ns: u64) -> f64 {
    let conditions = lease.conditions;
    let slack_ns = room_ns.saturating_sub(every_ns);
    // One part for the acquisition or the write, one for the renewal, two for pauses.
    let part_ns = slack_ns / 4;
    if write_ns >= part_ns {
        return 1.0;
    }
    let trip_ns = part_ns.min(span_ns(lease.options.call_timeout()));
    let each = conditions.round_trip.tail.at_least(trip_ns) + pauses(lease, room_ns, 2 * part_ns);
    // The acquisition and the last command are two more.
    let renewals = 3.0 + conditions.mean_hold_ns() / float(every_ns.max(1));
    (renewals * each).min(1.0)
}

/// How likely pauses take `room_ns` or longer, at most, while their process runs for `run_ns`: there are at least so
/// many, or else one of the fewer takes more than its part.
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
    // Where there is a longest, one fewer than it takes of these.
    let by_longest = lengths.tail.longest_ns().map(|it| room_ns.saturating_sub(1) / it.max(1));
    let by_steps = std::iter::successors(Some(0), |it| Some(it + it / 2 + 1));
    let tried = by_steps.take_while(|it| *it <= MOST_PAUSES).chain(by_longest);
    if room_ns == 0 { 1.0 } else { tried.map(with).fold(1.0, f64::min) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::closed_form::unrenewed as formula;
    use crate::law::Law;
    use crate::lease::{Conditions, Setting};
    use crate::monte_carlo::shares;

    const MS: Duration = Duration::from_millis(1);

    fn law(text: &str) -> Law {
        Law::new(&text.parse().expect("a distribution"))
    }

    fn conditions(hold: &str, per_s: f64, pause: &str) -> Conditions {
        Conditions {
            hold: law(hold),
            round_trip: law("lognormal:500us,p99=3ms"),
            pause: Some((per_s / 1e9, law(pause))),
            drift_ppm: 0,
            write_ns: 1_000_000,
        }
    }

    fn most(conditions: &Conditions, ttl_ms: u32, renew_ms: Option<u32>) -> f64 {
        let (ttl, renew) = (ttl_ms * MS, renew_ms.map(|it| it * MS));
        let setting = Setting { ttl, renew, tracked: true };
        at_most(&LeaseModel::new(conditions, setting).expect("a setting"), Deadline::Done)
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
        // A second of pauses takes ten of them, and there is one in a hundred seconds.
        let always = conditions("100ms", 0.01, "100ms");
        let (one, ten) = (most(&always, 1_300, None), poisson_at_least(10, 1e-3));
        assert!(ten / 10.0 < one && one < 1e-9, "{one} {ten}");
        assert_eq!(most(&conditions("10s", 0.01, "100ms"), 1_000, None), 1.0);
    }
}
