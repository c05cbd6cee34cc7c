//! Importance sampling: the probability that a hold goes wrong, down to once a year.
//!
//! At each point where something could end a hold, the probability of that is computed: of a pause of at least a given
//! length, of a round trip of at least a given length. Holds with a pause are generated on purpose and weighted by
//! the probability of a pause; long work and slow commands are oversampled and weighted down.
//!
//! Invariant: the expectation of every sum is the probability itself, whatever is oversampled. Several independently
//! slow messages are not modelled: they share a connection, on which the first delays the others. Pauses after a
//! failure count with their mean.

use scenarios::distribution::Tail;

use super::law::{Random, float, whole};
use super::lease::{HoldEnd, HoldObserver, HoldStart, LeaseModel, SimulatedHold};
use super::stat::Mean;
use super::traffic::Traffic;

/// The share of samples with long work, and with a slow command.
const LONG_WORK: f64 = 0.35;
const SLOW_TRIP: f64 = 0.15;
/// The smallest tail probability that is oversampled.
const RAREST: f64 = 1e-16;
const SUMS: usize = 5;

/// Weighted sums of one setting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ImportanceSampling {
    /// A hold goes wrong: it outlives its lease, or its tracked validity.
    pub(super) wrong: Mean,
    /// The same with the upper bound of measured pauses.
    pub(super) wrong_most: Mean,
    /// It does and another client takes the lock; with tracked validity, its last write arrives after that.
    pub(super) overlap: Mean,
    /// The same with the upper bound of measured pauses.
    pub(super) overlap_most: Mean,
    /// Its last write arrives after its lease, with the upper bound of pauses, whether or not others wait.
    pub(super) late_most: Mean,
    pub(super) renewals: Mean,
}

impl ImportanceSampling {
    pub(super) fn add(
        &mut self,
        lease: &LeaseModel<'_>,
        traffic: &Traffic,
        holds: u64,
        random: &mut Random,
    ) {
        for _ in 0..holds {
            let (start, weight) = start(lease, random);
            let mut sums = [0.0; SUMS];
            let per_ns = lease.conditions.pauses_per_ns();
            let paused = -(-per_ns * float(start.work_ns)).exp_m1();
            let calm = HoldStart { pauses: false, ..start };
            let mut renewals = story(lease, traffic, calm, 1.0 - paused, &mut sums, random);
            if paused > 0.0 {
                // The first pause, given that there is one.
                let at = -(-random.unit() * paused).ln_1p() / per_ns;
                let first = Some(whole(at).min(start.work_ns.saturating_sub(1)));
                let start = HoldStart { first_pause_ns: first, ..start };
                renewals += story(lease, traffic, start, paused, &mut sums, random);
            }
            for (mean, sum) in self.means().into_iter().zip(sums.into_iter().chain([renewals])) {
                mean.add(sum * weight);
            }
        }
    }

    pub(super) fn merge(&mut self, mut other: Self) {
        self.means().into_iter().zip(other.means()).for_each(|(mean, other)| mean.merge(other));
    }

    /// In the order of the sums, then renewals.
    fn means(&mut self) -> [&mut Mean; SUMS + 1] {
        let Self { wrong, wrong_most, overlap, overlap_most, late_most, renewals } = self;
        [wrong, wrong_most, overlap, overlap_most, late_most, renewals]
    }
}

/// The start of a hold, and its weight.
fn start(lease: &LeaseModel<'_>, random: &mut Random) -> (HoldStart, f64) {
    let conditions = lease.conditions;
    let lot = random.unit();
    let (mut work, mut trip) = (random.unit(), random.unit());
    match lot {
        lot if lot < LONG_WORK => work = RAREST.powf(work),
        lot if lot < LONG_WORK + SLOW_TRIP => trip = RAREST.powf(trip),
        _ => {}
    }
    // Density of the tail proposal relative to the uniform one.
    let tilted = |share: f64| if share >= RAREST { 1.0 / (share * -RAREST.ln()) } else { 0.0 };
    let plain = 1.0 - LONG_WORK - SLOW_TRIP;
    let density = plain + LONG_WORK * tilted(work) + SLOW_TRIP * tilted(trip);
    let (hold, round_trip) = (&conditions.hold.tail, &conditions.round_trip.tail);
    let start = HoldStart::new(round_trip.with_share(trip), hold.with_share(work));
    // A reply that comes too late is no hold.
    (start, if lease.is_granted(start.round_trip_ns) { 1.0 / density } else { 0.0 })
}

/// Simulates one hold and adds its failure probabilities; returns its weighted renewals.
fn story(
    lease: &LeaseModel<'_>,
    traffic: &Traffic,
    start: HoldStart,
    weight: f64,
    sums: &mut [f64; SUMS],
    random: &mut Random,
) -> f64 {
    let pauses = lease.conditions.pause.as_ref().map(|(_, law)| &law.tail);
    let mut watch = RiskObserver { lease, traffic, pauses, sums: [0.0; SUMS], asked: false };
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
    traffic: &'a Traffic,
    pauses: Option<&'a Tail>,
    /// Those of [`ImportanceSampling`], in its order.
    sums: [f64; SUMS],
    asked: bool,
}

impl RiskObserver<'_> {
    /// Adds a failure with its probability, its upper bound, and by how much the lease is outlasted.
    fn note(&mut self, hold: &SimulatedHold, share: f64, most: f64, overrun_ns: u64) {
        self.sums[0] += share;
        self.sums[1] += most;
        if !self.lease.setting.tracked {
            self.overlap(hold, share, most, overrun_ns);
        }
    }

    fn overlap(&mut self, hold: &SimulatedHold, share: f64, most: f64, overrun_ns: u64) {
        let taken = self.traffic.takes_over(hold.lease_end_ns, overrun_ns);
        self.sums[2] += share * taken;
        self.sums[3] += most * taken;
        self.sums[4] += most;
    }

    /// The end of the work: failures without anything to evaluate, and the last command.
    fn finish(&mut self, end: &HoldEnd, random: &mut Random) {
        let (hold, conditions) = (&end.state, self.lease.conditions);
        if hold.over {
            // There was nothing to evaluate: the work alone was too long.
            if !self.asked {
                self.note(hold, 1.0, 1.0, end.overrun_ns);
            }
            return;
        }
        if end.done_ns >= hold.lease_end_ns {
            return self.note(hold, 1.0, 1.0, end.overrun_ns);
        }
        let tracked = self.lease.setting.tracked;
        // The write is sent when the work is done; a client that checks its validity writes a moment later.
        let writes_after_ns = if tracked { conditions.write_ns } else { 0 };
        let left_ns = (hold.lease_end_ns - end.done_ns).saturating_sub(writes_after_ns);
        let late = conditions.round_trip.tail.at_least((2 * left_ns).max(1));
        let overrun_ns = overrun(&conditions.round_trip.tail, late, 2 * left_ns, random) / 2;
        if !tracked {
            return self.note(hold, late, late, overrun_ns);
        }
        self.overlap(hold, late, late, overrun_ns);
        if let Some(pauses) = self.pauses {
            let strikes = -(-conditions.pauses_per_ns() * float(conditions.write_ns)).exp_m1();
            let way_ns = conditions.round_trip.draw(random) / 2;
            let fatal_ns = left_ns.saturating_sub(way_ns).max(1);
            let (share, most) = (pauses.at_least(fatal_ns), pauses.most_at_least(fatal_ns));
            let overrun_ns = overrun(pauses, share, fatal_ns, random);
            self.overlap(hold, strikes * share, strikes * most, overrun_ns);
        }
    }
}

/// Draws the excess over `than_ns`, given that it is exceeded; `share` is that probability.
fn overrun(tail: &Tail, share: f64, than_ns: u64, random: &mut Random) -> u64 {
    let chosen = share * random.unit();
    // Measurements have no tail beyond their longest value; assume twice that length.
    if share == 0.0 {
        return than_ns;
    }
    tail.with_share(chosen).saturating_sub(than_ns)
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
        let (share, most) = (pauses.at_least(fatal_ns), pauses.most_at_least(fatal_ns));
        if most > 0.0 {
            let overrun_ns = overrun(pauses, share, fatal_ns, random).saturating_add(then_ns);
            let [share, most] = [share, most].map(|each| (each * stands_for).min(1.0));
            self.note(hold, share, most, overrun_ns);
        }
    }

    fn message(&mut self, hold: &SimulatedHold, stands_for: u64, fatal_ns: u64, overrun_ns: u64) {
        self.asked = true;
        let each = self.lease.conditions.round_trip.tail.at_least(fatal_ns);
        let share = each * float(stands_for);
        if share > 0.0 {
            self.note(hold, share, share, overrun_ns);
        }
    }
}
