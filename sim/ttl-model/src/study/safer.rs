//! Which settings are safer than others whatever happens, so that what is certain of one is certain of the other.
//!
//! A lease that lasts for longer ends later, and a renewal only ever makes it end later still. So whatever ends a
//! hold under the safer setting ends it under the other, too.
//!
//! Invariant: nothing is carried from one setting to another that is not safer at every moment of every hold. A
//! longer TTL that is renewed less often in proportion is safer only where it has more left just before a renewal
//! than the other just after one. Deliberately absent: how often a lease is taken over, which is not the less
//! the longer it lasts.

use picklock::time::span_ns;

use crate::lease::{Lease, Setting};

/// What is certain of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Most {
    /// The share of holds that go wrong, at most.
    pub(super) wrong: f64,
    /// The share of holds whose last write comes after their lease, at most, whoever has the lock by then.
    pub(super) late: f64,
}

/// Gives every setting what is certain of those that it is safer than.
pub(super) fn carry(leases: &[Lease<'_>], most: &mut [Option<Most>]) {
    let before = most.to_vec();
    for (lease, most) in leases.iter().zip(most) {
        let Some(most) = most else { continue };
        let others = leases.iter().zip(&before).filter(|(other, _)| is_safer(lease, other));
        for (_, other) in others {
            let Some(other) = other else { continue };
            most.wrong = most.wrong.min(other.wrong);
            // Who was cut off there writes nothing, and here perhaps writes late.
            let cut_off = if lease.setting.tracked { other.wrong } else { 0.0 };
            most.late = most.late.min(other.late + cut_off);
        }
    }
}

/// Whether whatever ends a hold under `lease` ends it under `other`, too.
fn is_safer(lease: &Lease<'_>, other: &Lease<'_>) -> bool {
    let Setting { ttl, renew, tracked } = lease.setting;
    if tracked != other.setting.tracked || ttl < other.setting.ttl {
        return false;
    }
    match (renew, other.setting.renew) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(every), Some(others)) => {
            let (validity, longest) = (lease.options.validity(), other.options.ttl());
            every == others || span_ns(validity) >= span_ns(longest) + span_ns(every)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::law::Law;
    use crate::lease::Conditions;

    #[test]
    fn what_is_certain_is_carried_to_what_is_safer_and_to_nothing_else() {
        let law = |text: &str| Law::new(&text.parse().expect("a distribution"));
        let conditions = Conditions {
            hold: law("1s"),
            round_trip: law("1ms"),
            pause: None,
            drift_ppm: 0,
            write_ns: 0,
        };
        let s = Duration::from_secs;
        let settings = [
            (s(10), None),
            (s(20), None),
            (s(5), Some(s(2))),
            (s(6), Some(s(2))),
            (s(6), Some(s(3))),
            (s(12), Some(s(4))),
            (s(30), Some(s(10))),
        ];
        let of = |(ttl, renew)| Lease::new(&conditions, Setting { ttl, renew, tracked: true });
        let leases: Vec<Lease<'_>> = settings.map(|it| of(it).expect("a setting")).into();
        let safer = |place: usize| -> Vec<usize> {
            let all = 0..leases.len();
            all.filter(|it| *it != place && is_safer(&leases[*it], &leases[place])).collect()
        };
        assert_eq!(safer(0), [1, 5, 6]);
        assert_eq!(safer(1), [6]);
        assert_eq!(safer(2), [3, 5, 6]);
        assert_eq!(safer(3), [5, 6], "3 s is renewed more seldom than 2 s at the same TTL");
        assert_eq!(safer(5), [6]);
        let mut most: Vec<Option<Most>> = vec![Some(Most { wrong: 0.5, late: 0.5 }); leases.len()];
        most[0] = Some(Most { wrong: 0.1, late: 0.01 });
        most[4] = None;
        carry(&leases, &mut most);
        assert_eq!(most[1], Some(Most { wrong: 0.1, late: 0.11 }));
        assert_eq!(most[2], Some(Most { wrong: 0.5, late: 0.5 }));
        assert_eq!(most[4], None);
    }
}
