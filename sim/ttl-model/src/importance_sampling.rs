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
use super::lease::{HoldEnd, HoldObserver, HoldStart, HoldState, LeaseModel};
use super::stat::Mean;
use super::traffic::Traffic;

/// How often long work, and slow commands, are drawn on purpose.
const LONG_WORK: f64 = 0.35;
const SLOW_TRIP: f64 = 0.15;
/// The rarest that is drawn on purpose.
const RAREST: f64 = 1e-16;
/// How many sums there are of what goes wrong.
const SUMS: usize = 5;

/// What has been added up of one setting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ImportanceSampling {
    /// A hold goes wrong: it outlives its lease, or where validity is kept its validity.
    pub(super) wrong: Mean,
    /// The same with pauses as long as they may be where they were measured.
    pub(super) wrong_most: Mean,
    /// It does, and another takes the lock meanwhile; where validity is kept, its last write comes after that.
    pub(super) overlap: Mean,
    /// The same with pauses as long as they may be.
    pub(super) overlap_most: Mean,
    /// Its last write comes after the end of its lease, with pauses as long as they may be, whoever waits for it.
    pub(super) late_most: Mean,
    /// Renewals of a hold.
    pub(super) renewals: Mean,
}

impl ImportanceSampling {
    /// Adds up so many holds.
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
            let per_ns = lease.conditions.pause.as_ref().map_or(0.0, |(per_ns, _)| *per_ns);
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
            let [wrong, wrong_most, overlap, overlap_most, late_most] = sums;
            self.wrong.add(wrong * weight);
            self.wrong_most.add(wrong_most * weight);
            self.overlap.add(overlap * weight);
            self.overlap_most.add(overlap_most * weight);
            self.late_most.add(late_most * weight);
            self.renewals.add(renewals * weight);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.wrong.merge(&other.wrong);
        self.wrong_most.merge(&other.wrong_most);
        self.overlap.merge(&other.overlap);
        self.overlap_most.merge(&other.overlap_most);
        self.late_most.merge(&other.late_most);
        self.renewals.merge(&other.renewals);
    }
}

/// A hold's beginning, and how much it weighs for having been chosen.
fn start(lease: &LeaseModel<'_>, random: &mut Random) -> (HoldStart, f64) {
    let conditions = lease.conditions;
    let lot = random.unit();
    let (mut work, mut trip) = (random.unit(), random.unit());
    match lot {
        lot if lot < LONG_WORK => work = RAREST.powf(work),
        lot if lot < LONG_WORK + SLOW_TRIP => trip = RAREST.powf(trip),
        _ => {}
    }
    // How dense the tail's lot is, beside an even one.
    let tilted = |share: f64| if share >= RAREST { 1.0 / (share * -RAREST.ln()) } else { 0.0 };
    let plain = 1.0 - LONG_WORK - SLOW_TRIP;
    let density = plain + LONG_WORK * tilted(work) + SLOW_TRIP * tilted(trip);
    let (hold, round_trip) = (&conditions.hold.tail, &conditions.round_trip.tail);
    let (work_ns, round_trip_ns) = (hold.with_share(work), round_trip.with_share(trip));
    let start = HoldStart {
        work_ns,
        round_trip_ns,
        first_pause_ns: None,
        pauses: true,
        crash_ns: u64::MAX,
    };
    // What is answered too late is no hold.
    (start, if lease.is_granted(round_trip_ns) { 1.0 / density } else { 0.0 })
}

/// Lets one hold go by, and adds how likely it was to go wrong; gives its renewals, weighed alike.
fn story(
    lease: &LeaseModel<'_>,
    traffic: &Traffic,
    start: HoldStart,
    weight: f64,
    sums: &mut [f64; SUMS],
    random: &mut Random,
) -> f64 {
    let pause = lease.conditions.pause.as_ref();
    let mut watch = RiskObserver {
        lease,
        traffic,
        pauses: pause.map(|(_, law)| &law.tail),
        sums: [0.0; SUMS],
        asked: false,
    };
    let end = lease.walk(start, &mut watch, random);
    watch.finish(&end, pause.map_or(0.0, |(per_ns, _)| *per_ns), random);
    for (sum, found) in sums.iter_mut().zip(watch.sums) {
        *sum += weight * found;
    }
    weight * f64::from(end.state.renewals)
}

/// Asks at each turn how likely it is that the hold goes wrong there.
struct RiskObserver<'a> {
    lease: &'a LeaseModel<'a>,
    traffic: &'a Traffic,
    pauses: Option<&'a Tail>,
    /// Those of [`ImportanceSampling`], in its order.
    sums: [f64; SUMS],
    /// Whether anything has been asked.
    asked: bool,
}

impl RiskObserver<'_> {
    /// A hold goes wrong with this probability (at most with that), and outlasts its lease by so much.
    fn note(&mut self, hold: &HoldState, share: f64, most: f64, overrun_ns: u64) {
        self.sums[0] += share;
        self.sums[1] += most;
        if !self.lease.setting.tracked {
            self.overlap(hold, share, most, overrun_ns);
        }
    }

    fn overlap(&mut self, hold: &HoldState, share: f64, most: f64, overrun_ns: u64) {
        let taken = self.traffic.takes_over(hold.lease_end_ns, overrun_ns);
        self.sums[2] += share * taken;
        self.sums[3] += most * taken;
        self.sums[4] += most;
    }

    /// The end of the work: what has gone wrong without anything to ask, and the last command.
    fn finish(&mut self, end: &HoldEnd, pauses_per_ns: f64, random: &mut Random) {
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
        let left_ns = hold.lease_end_ns - end.done_ns;
        if !self.lease.setting.tracked {
            // The write leaves when the work is done.
            let late = conditions.round_trip.tail.at_least(2 * left_ns);
            let overrun_ns = overrun(&conditions.round_trip.tail, late, 2 * left_ns, random) / 2;
            self.note(hold, late, late, overrun_ns);
            return;
        }
        // It looks, and writes a moment later.
        let left_ns = left_ns.saturating_sub(conditions.write_ns);
        let late = conditions.round_trip.tail.at_least((2 * left_ns).max(1));
        let overrun_ns = overrun(&conditions.round_trip.tail, late, 2 * left_ns, random) / 2;
        self.overlap(hold, late, late, overrun_ns);
        if let Some(pauses) = self.pauses {
            let strikes = -(-pauses_per_ns * float(conditions.write_ns)).exp_m1();
            let way_ns = conditions.round_trip.draw(random) / 2;
            let fatal_ns = left_ns.saturating_sub(way_ns).max(1);
            let (share, most) = (pauses.at_least(fatal_ns), pauses.most_at_least(fatal_ns));
            let overrun_ns = overrun(pauses, share, fatal_ns, random);
            self.overlap(hold, strikes * share, strikes * most, overrun_ns);
        }
    }
}

/// By how much something is longer than this that is at least as long, which has this share.
fn overrun(tail: &Tail, share: f64, than_ns: u64, random: &mut Random) -> u64 {
    let chosen = share * random.unit();
    // What was measured has nothing beyond its longest; what may be there is taken for twice as long.
    if share == 0.0 {
        return than_ns;
    }
    tail.with_share(chosen).saturating_sub(than_ns)
}

impl HoldObserver for RiskObserver<'_> {
    const STOPS: bool = true;

    fn pause(&mut self, hold: &HoldState, fatal_ns: u64, then_ns: u64, random: &mut Random) {
        let Some(pauses) = self.pauses else { return };
        self.asked = true;
        let (share, most) = (pauses.at_least(fatal_ns), pauses.most_at_least(fatal_ns));
        if most > 0.0 {
            let overrun_ns = overrun(pauses, share, fatal_ns, random).saturating_add(then_ns);
            self.note(hold, share, most, overrun_ns);
        }
    }

    fn message(
        &mut self,
        hold: &HoldState,
        stands_for: u64,
        fatal_ns: u64,
        overrun_ns: u64,
        _: &mut Random,
    ) {
        self.asked = true;
        let each = self.lease.conditions.round_trip.tail.at_least(fatal_ns);
        let share = each * float(stands_for);
        if share > 0.0 {
            self.note(hold, share, share, overrun_ns);
        }
    }
}
