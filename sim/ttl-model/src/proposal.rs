//! From what importance sampling draws work and round trips: as they come, and those that matter more often.
//!
//! Invariant: whatever can come as it comes can be drawn, and its weight is its own density by that of the proposal.

use picklock::time::span_ns;

use super::law::{Random, float, whole};
use super::lease::{HoldStart, LeaseModel};

/// The share of samples with long work, with a slow command, and with work that ends near the end of its lease.
const LONG_WORK: f64 = 0.35;
const SLOW_TRIP: f64 = 0.15;
const NEAR_END: f64 = 0.25;
/// The smallest tail probability that is oversampled.
const RAREST: f64 = 1e-16;
/// Strata on each side of the end of a lease, of which each is four times as near as the one before.
const STRATA: u32 = 8;

/// What a lease's holds are drawn from.
pub(super) struct Proposal<'a> {
    lease: &'a LeaseModel<'a>,
    /// Tail probabilities of work between which it ends near the end of the lease; none if that is renewed.
    strata: Vec<(f64, f64)>,
    /// The share of samples for them.
    near_end: f64,
}

/// A hold to sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProposedHold {
    pub(super) start: HoldStart,
    /// 0 if its acquisition is not answered in time.
    pub(super) weight: f64,
    /// Whether nothing was oversampled in it.
    pub(super) is_plain: bool,
}

impl<'a> Proposal<'a> {
    pub(super) fn of(lease: &'a LeaseModel<'a>) -> Self {
        let strata = if lease.setting.renew.is_none() { strata(lease) } else { Vec::new() };
        let near_end = if strata.is_empty() { 0.0 } else { NEAR_END };
        Self { lease, strata, near_end }
    }

    pub(super) fn draw(&self, random: &mut Random) -> ProposedHold {
        let (lot, mut work, mut trip) = (random.unit(), random.unit(), random.unit());
        let mut is_plain = false;
        match lot {
            lot if lot < LONG_WORK => work = RAREST.powf(work),
            lot if lot < LONG_WORK + SLOW_TRIP => trip = RAREST.powf(trip),
            lot if lot < LONG_WORK + SLOW_TRIP + self.near_end => work = self.near_end(work),
            _ => is_plain = true,
        }
        let (lease, conditions) = (self.lease, self.lease.conditions);
        let (hold, round_trip) = (&conditions.hold.tail, &conditions.round_trip.tail);
        let start = HoldStart::new(round_trip.with_share(trip), hold.with_share(work));
        // A reply that comes too late is no hold; the client asks again until it has one.
        let is_granted = lease.is_granted(start.round_trip_ns);
        let weight = match is_granted {
            true => 1.0 / (self.density(work, trip) * lease.granted),
            false => 0.0,
        };
        ProposedHold { start, weight, is_plain: is_plain && is_granted }
    }

    /// The density of the proposal relative to the uniform one.
    fn density(&self, work: f64, trip: f64) -> f64 {
        let tilted = |share: f64| if share >= RAREST { 1.0 / (share * -RAREST.ln()) } else { 0.0 };
        let is_in = |(low, high): &&(f64, f64)| (*low..=*high).contains(&work);
        let each = 1.0 / float(self.strata.len().max(1) as u64);
        let near = self.strata.iter().find(is_in).map_or(0.0, |(low, high)| each / (high - low));
        let plain = 1.0 - LONG_WORK - SLOW_TRIP - self.near_end;
        plain + LONG_WORK * tilted(work) + SLOW_TRIP * tilted(trip) + self.near_end * near
    }

    /// A tail probability in one of the strata, each as likely.
    fn near_end(&self, lot: f64) -> f64 {
        let place = lot * float(self.strata.len() as u64);
        let nth = usize::try_from(whole(place)).unwrap_or(usize::MAX);
        let (low, high) = self.strata[nth.min(self.strata.len() - 1)];
        low + (high - low) * place.fract()
    }
}

/// A write is late only if the work ends just before its lease, and most work that is too long is hardly so.
fn strata(lease: &LeaseModel<'_>) -> Vec<(f64, f64)> {
    let (options, conditions) = (&lease.options, lease.conditions);
    let lasts = if lease.setting.tracked { options.validity() } else { options.ttl() };
    let room_ns = span_ns(lasts).saturating_sub(conditions.round_trip.median_ns());
    let end_ns = room_ns.saturating_sub(paused_ns(lease, room_ns));
    let part_ns = |nth: u32| end_ns >> (2 * nth);
    let before = (1..=STRATA).map(|nth| end_ns - part_ns(nth));
    let after = (1..=STRATA).rev().map(|nth| end_ns + part_ns(nth));
    let reach: Vec<f64> = before.chain(after).map(|ns| conditions.hold.tail.at_least(ns)).collect();
    reach.windows(2).map(|it| (it[1], it[0])).filter(|(low, high)| low < high).collect()
}

/// How long pauses take of this time, most often: none if there is hardly ever one.
fn paused_ns(lease: &LeaseModel<'_>, span_ns: u64) -> u64 {
    lease.conditions.pause.as_ref().map_or(0, |(per_ns, law)| {
        // Those in the time that is left for work.
        let work_ns = float(span_ns) / (1.0 + lease.conditions.paused());
        whole((per_ns * work_ns).floor() * law.mean_ns())
    })
}
