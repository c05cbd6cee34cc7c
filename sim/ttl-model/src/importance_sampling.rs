//! Importance sampling: the probability that a hold goes wrong, down to once a year.
//!
//! At each point where something could end a hold, the probability of that is computed: of a pause of at least a given
//! length, of a round trip of at least a given length. Holds with a pause are generated on purpose and weighted by
//! the probability of a pause; long work, work that ends near the end of its lease, and slow commands are oversampled
//! and weighted down.
//!
//! Invariant: the expectation of every sum is the probability itself, whatever is oversampled. Several independently
//! slow messages are not modelled: they share a connection, on which the first delays the others. Pauses after a
//! failure count with their mean.

use std::sync::atomic::{AtomicBool, Ordering};

use picklock::time::span_ns;
use scenarios::distribution::Tail;

use super::law::{Random, float, whole};
use super::lease::{Conditions, HoldEnd, HoldObserver, HoldStart, LeaseModel, SimulatedHold};
use super::proposal::{Proposal, ProposedHold};
use super::stat::Mean;
use super::traffic::Traffic;

const SUMS: usize = 5;

/// Weighted sums of one setting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ImportanceSampling {
    /// A hold goes wrong: it outlives its lease, or its tracked validity.
    pub(super) wrong: Mean,
    /// The same with the upper bounds of what was measured.
    pub(super) wrong_most: Mean,
    /// It does and another client takes the lock; with tracked validity, its last write arrives after that.
    pub(super) overlap: Mean,
    /// The same with the upper bounds of what was measured.
    pub(super) overlap_most: Mean,
    /// Its last write arrives after its lease, with those upper bounds, whether or not others wait.
    pub(super) late_most: Mean,
    pub(super) renewals: Mean,
    /// How many holds were drawn as they come: nothing is oversampled in them.
    pub(super) plain: u64,
}

impl ImportanceSampling {
    /// Adds so many holds; fewer once it is to stop, and what is added then is of no use.
    pub(super) fn add(
        &mut self,
        lease: &LeaseModel<'_>,
        traffic: &Traffic,
        holds: u64,
        random: &mut Random,
        stop: &AtomicBool,
    ) {
        let (proposal, unchecked) = (Proposal::of(lease), lease.unchecked());
        for _ in 0..holds {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let ProposedHold { start, weight, is_plain } = proposal.draw(random);
            self.plain += u64::from(is_plain);
            let mut sums = [0.0; SUMS];
            unmeasured_work(lease, traffic, start, &mut sums);
            let mut renewals = 0.0;
            for (start, share) in with_and_without_pause(lease.conditions, start, random) {
                renewals += story((lease, &unchecked), traffic, start, share, &mut sums, random);
            }
            for (mean, sum) in self.means().into_iter().zip(sums.into_iter().chain([renewals])) {
                mean.add(sum * weight);
            }
        }
    }

    /// By how much the share of holds that go wrong may be higher because its distributions were only measured.
    pub(super) fn unmeasured(&self) -> f64 {
        (self.wrong_most.middle() - self.wrong.middle()).max(0.0)
    }

    pub(super) fn merge(&mut self, mut other: Self) {
        self.plain += other.plain;
        self.means().into_iter().zip(other.means()).for_each(|(mean, other)| mean.merge(other));
    }

    /// In the order of the sums, then renewals.
    fn means(&mut self) -> [&mut Mean; SUMS + 1] {
        let Self { wrong, wrong_most, overlap, overlap_most, late_most, renewals, plain: _ } = self;
        [wrong, wrong_most, overlap, overlap_most, late_most, renewals]
    }
}

/// The same without pauses, and, if there may be any, with at least one; and how likely each is.
fn with_and_without_pause(
    conditions: &Conditions,
    start: HoldStart,
    random: &mut Random,
) -> impl Iterator<Item = (HoldStart, f64)> + use<> {
    let per_ns = conditions.pauses_per_ns();
    let paused = -(-per_ns * float(start.work_ns)).exp_m1();
    let calm = (HoldStart { pauses: false, ..start }, 1.0 - paused);
    let first = (paused > 0.0).then(|| {
        // The first pause, given that there is one.
        let at = -(-random.unit() * paused).ln_1p() / per_ns;
        let first = Some(whole(at).min(start.work_ns.saturating_sub(1)));
        (HoldStart { first_pause_ns: first, ..start }, paused)
    });
    std::iter::once(calm).chain(first)
}

/// Adds to the upper bounds what work may do that was longer than it was measured: if nothing renews the lease, it
/// outlasts it, or ends so near to its end that the write is late. One that is renewed only has to be renewed more often.
fn unmeasured_work(
    lease: &LeaseModel<'_>,
    traffic: &Traffic,
    start: HoldStart,
    sums: &mut [f64; SUMS],
) {
    let LeaseModel { conditions, setting, .. } = lease;
    if setting.renew.is_some() {
        return;
    }
    let work = &conditions.hold.tail;
    // The work that ends then, because pauses take their part of the time, and how much likelier it may be.
    let until = |end_ns: u64| {
        let room_ns = float(end_ns.saturating_sub(start.round_trip_ns));
        let room_ns = whole(room_ns / (1.0 + conditions.paused()));
        (room_ns, work.most_at_least(room_ns) - work.at_least(room_ns))
    };
    let lease_ns = start.round_trip_ns / 2 + span_ns(lease.options.ttl());
    let (late, overrun_ns) = match setting.tracked {
        false => {
            let (room_ns, share) = until(lease_ns);
            sums[1] += share;
            (share, beyond(work, room_ns))
        }
        true => {
            let validity_ns = span_ns(lease.options.validity());
            sums[1] += until(validity_ns).1;
            match (validity_ns + conditions.write_ns).saturating_sub(lease_ns) {
                0 => return,
                overrun_ns => (until(lease_ns.saturating_sub(conditions.write_ns)).1, overrun_ns),
            }
        }
    };
    sums[3] += late * traffic.takes_over(lease_ns, overrun_ns);
    sums[4] += late;
}

/// Simulates one hold and adds its failure probabilities; returns its weighted renewals.
fn story(
    (lease, unchecked): (&LeaseModel<'_>, &LeaseModel<'_>),
    traffic: &Traffic,
    start: HoldStart,
    weight: f64,
    sums: &mut [f64; SUMS],
    random: &mut Random,
) -> f64 {
    let pauses = lease.conditions.pause.as_ref().map(|(_, law)| &law.tail);
    let mut watch =
        RiskObserver { lease, unchecked, traffic, pauses, sums: [0.0; SUMS], asked: false };
    let end = lease.walk(start, &mut watch, random);
    watch.finish(&end, random);
    for (sum, found) in sums.iter_mut().zip(watch.sums) {
        *sum += weight * found;
    }
    weight * f64::from(end.state.renewals)
}

/// Computes at each step the probability that the hold goes wrong there.
struct RiskObserver<'a> {
    lease: &'a LeaseModel<'a>,
    unchecked: &'a LeaseModel<'a>,
    traffic: &'a Traffic,
    pauses: Option<&'a Tail>,
    /// Those of [`ImportanceSampling`], in its order.
    sums: [f64; SUMS],
    asked: bool,
}

impl RiskObserver<'_> {
    fn note(&mut self, hold: &SimulatedHold, risk: Risk) {
        self.sums[0] += risk.share;
        self.sums[1] += risk.most;
        if !self.lease.setting.tracked {
            self.overlap(hold, risk);
        }
    }

    fn overlap(&mut self, hold: &SimulatedHold, risk: Risk) {
        let taken = |overrun_ns: u64| self.traffic.takes_over(hold.lease_end_ns, overrun_ns);
        let (share, most) =
            (risk.share * taken(risk.overrun_ns), risk.most * taken(risk.most_overrun_ns));
        self.sums[2] += share;
        self.sums[3] += most;
        self.sums[4] += risk.most;
    }

    /// The end of the work: failures without anything to evaluate, and the last command.
    fn finish(&mut self, end: &HoldEnd, random: &mut Random) {
        let (hold, conditions) = (&end.state, self.lease.conditions);
        if hold.over {
            // There was nothing to evaluate: the work alone was too long.
            if !self.asked {
                self.note(hold, Risk::certain(end.overrun_ns));
            }
            return;
        }
        if self.lease.setting.tracked {
            return self.write(end, random);
        }
        if end.done_ns >= hold.lease_end_ns {
            return self.note(hold, Risk::certain(end.overrun_ns));
        }
        let left_ns = hold.lease_end_ns - end.done_ns;
        let trip = Risk::of(&conditions.round_trip.tail, left_ns.saturating_mul(2), random);
        // Half of the round trip is the way there.
        self.note(hold, trip.then(|overrun_ns| overrun_ns / 2));
    }

    /// From the last check to the write, as of a lease that nobody checks.
    fn write(&mut self, checked: &HoldEnd, random: &mut Random) {
        let conditions = self.lease.conditions;
        // How much is drawn does not shift what is drawn for the next hold.
        let mut random = Random::new(random.bits(), 0);
        let start = HoldStart::new(0, conditions.write_ns);
        for (start, weight) in with_and_without_pause(conditions, start, &mut random) {
            let mut watch =
                RiskObserver { lease: self.unchecked, sums: [0.0; SUMS], asked: false, ..*self };
            let end = self.unchecked.write(checked, start, &mut watch, &mut random);
            watch.finish(&end, &mut random);
            // Whatever happens, the work was done in time.
            for (sum, found) in self.sums.iter_mut().zip(watch.sums).skip(2) {
                *sum += weight * found;
            }
        }
    }
}

/// How likely it is that something takes too long, and by how much.
#[derive(Clone, Copy, Debug)]
struct Risk {
    /// The probability, and its upper bound of what was measured.
    share: f64,
    most: f64,
    /// By how much, drawn given that it does; and with the upper bounds.
    overrun_ns: u64,
    most_overrun_ns: u64,
}

impl Risk {
    fn certain(overrun_ns: u64) -> Self {
        Self { share: 1.0, most: 1.0, overrun_ns, most_overrun_ns: overrun_ns }
    }

    /// That something of this distribution takes `than_ns` or longer.
    fn of(tail: &Tail, than_ns: u64, random: &mut Random) -> Self {
        let (share, most, lot) =
            (tail.at_least(than_ns), tail.most_at_least(than_ns), random.unit());
        let overrun_ns = match share > 0.0 {
            true => tail.with_share(share * lot).saturating_sub(than_ns),
            false => 0,
        };
        // Of what may be longer than all that was measured, more is not known.
        let is_beyond = most > share && most * lot < tail.most_at_least(u64::MAX);
        let most_overrun_ns = if is_beyond { beyond(tail, than_ns) } else { overrun_ns };
        Self { share, most, overrun_ns, most_overrun_ns }
    }

    fn times(self, strikes: f64) -> Self {
        Self { share: self.share * strikes, most: self.most * strikes, ..self }
    }

    fn then(self, overrun: impl Fn(u64) -> u64) -> Self {
        let [overrun_ns, most_overrun_ns] = [self.overrun_ns, self.most_overrun_ns].map(overrun);
        Self { overrun_ns, most_overrun_ns, ..self }
    }
}

/// By how much something exceeds `than_ns` that took longer than all that was measured: how long is unknown; twice as long
/// is assumed.
fn beyond(tail: &Tail, than_ns: u64) -> u64 {
    tail.with_share(0.0).max(than_ns).saturating_mul(2) - than_ns
}

impl HoldObserver for RiskObserver<'_> {
    const STOPS: bool = true;

    fn pause(
        &mut self,
        hold: &SimulatedHold,
        stands_for: f64,
        fatal_ns: u64,
        then_ns: u64,
        random: &mut Random,
    ) {
        let Some(pauses) = self.pauses else { return };
        self.asked = true;
        if pauses.most_at_least(fatal_ns) > 0.0 {
            let each = Risk::of(pauses, fatal_ns, random).times(stands_for);
            let [share, most] = [each.share, each.most].map(|it| it.min(1.0));
            let risk = Risk { share, most, ..each };
            self.note(hold, risk.then(|overrun_ns| overrun_ns.saturating_add(then_ns)));
        }
    }

    fn message(&mut self, hold: &SimulatedHold, stands_for: u64, fatal_ns: u64, overrun_ns: u64) {
        self.asked = true;
        let trips = &self.lease.conditions.round_trip.tail;
        let most = trips.most_at_least(fatal_ns);
        if most > 0.0 {
            let each = Risk { share: trips.at_least(fatal_ns), most, ..Risk::certain(overrun_ns) };
            self.note(hold, each.times(float(stands_for)));
        }
    }
}

#[cfg(test)]
#[path = "importance_sampling_tests.rs"]
mod tests;
