//! Which settings dominate others, so that an upper bound of one also bounds the other.
//!
//! A longer lease ends later, and a renewal only makes it end later still: whatever ends a hold under the dominating
//! setting ends it under the other, too.
//!
//! Invariant: a bound is carried only to a setting that is safer at every moment of every hold. A longer TTL that is
//! renewed proportionally less often is safer only if just before a renewal it has more left than the other just
//! after one. How often a lease is taken over is not carried: it does not fall with the length of the lease.

use picklock::time::span_ns;

use crate::lease::{LeaseModel, Setting};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UpperBounds {
    /// Of the share of holds that go wrong.
    pub(super) wrong: f64,
    /// Of the share of holds whose last write arrives after their lease, whoever has the lock by then.
    pub(super) late: f64,
}

/// Carries the bounds of each setting to those that dominate it.
pub(super) fn carry(leases: &[LeaseModel<'_>], most: &mut [Option<UpperBounds>]) {
    let before = most.to_vec();
    for (lease, most) in leases.iter().zip(most) {
        let Some(most) = most else { continue };
        let others = leases.iter().zip(&before).filter(|(other, _)| dominates(lease, other));
        for (_, other) in others {
            let Some(other) = other else { continue };
            most.wrong = most.wrong.min(other.wrong);
            // A hold that was cut off under the other setting may write late under this one.
            let cut_off = if lease.setting.tracked { other.wrong } else { 0.0 };
            most.late = most.late.min(other.late + cut_off);
        }
    }
}

/// Whether whatever ends a hold under `lease` ends it under `other`, too.
fn dominates(lease: &LeaseModel<'_>, other: &LeaseModel<'_>) -> bool {
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
    use crate::testing::conditions;

    #[test]
    fn what_is_certain_is_carried_to_what_dominates_and_to_nothing_else() {
        let conditions = conditions("1s", None);
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
        let of = |(ttl, renew)| LeaseModel::new(&conditions, Setting { ttl, renew, tracked: true });
        let leases: Vec<LeaseModel<'_>> = settings.map(|it| of(it).expect("a setting")).into();
        let safer = |place: usize| -> Vec<usize> {
            let all = 0..leases.len();
            all.filter(|it| *it != place && dominates(&leases[*it], &leases[place])).collect()
        };
        assert_eq!(safer(0), [1, 5, 6]);
        assert_eq!(safer(1), [6]);
        assert_eq!(safer(2), [3, 5, 6]);
        assert_eq!(safer(3), [5, 6], "3 s is renewed more seldom than 2 s at the same TTL");
        assert_eq!(safer(5), [6]);
        let mut most: Vec<Option<UpperBounds>> =
            vec![Some(UpperBounds { wrong: 0.5, late: 0.5 }); leases.len()];
        most[0] = Some(UpperBounds { wrong: 0.1, late: 0.01 });
        most[4] = None;
        carry(&leases, &mut most);
        assert_eq!(most[1], Some(UpperBounds { wrong: 0.1, late: 0.11 }));
        assert_eq!(most[2], Some(UpperBounds { wrong: 0.5, late: 0.5 }));
        assert_eq!(most[4], None);
    }
}
