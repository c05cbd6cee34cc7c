//! Plain Monte Carlo: one hold after the other, drawn from its distributions.
//!
//! Invariant: holds are independent of each other except in the queue, which is walked in order.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::tuning::IfTaken;
use picklock::OptionsError;

use super::law::{Random, float, whole};
use super::lease::{Conditions, HoldStart, LeaseModel, NoObserver, Setting};
use super::polling::PollingClients;
use super::stat::{Mean, Quantile, quantile};
use super::traffic::Traffic;

/// Holds of a part for which a crash is simulated.
const CRASHES: u64 = 2_000;
/// Holds of a part whose wait is recorded; those before them fill the queue.
const REMEMBERED: u64 = 2_000;

#[derive(Clone, Debug, Default)]
pub(super) struct MonteCarlo {
    pub(super) holds: u64,
    /// Holds whose validity ended before their work.
    pub(super) lost: u64,
    /// Holds whose last command arrived after the end of their lease.
    pub(super) outlived: u64,
    /// The probability that another client took the lock before the last command; of holds without tracked validity.
    pub(super) overlap: Mean,
    pub(super) renewals: Mean,
    /// How long each hold kept the lock, in nanoseconds.
    pub(super) kept: Mean,
    pub(super) kept_squares: Mean,
    /// Ticks from the acquisition until the lock is free; if clients skip.
    pub(super) ticks: Mean,
    /// Takeover times after a crash, weighted by the probability of the crash.
    takeovers: Vec<(u64, f64)>,
    /// Ticks missed after a crash, with the same weight; if clients skip.
    missed: Vec<(u64, f64)>,
    waits: Vec<u64>,
    /// How many clients still wait when one has the lock.
    pub(super) waiting: Mean,
}

/// The shares of uncontended holds that lose their validity, and that outlive their lease, for validation against the
/// shipped lock.
///
/// # Errors
/// [`OptionsError`] if the lock refuses the setting.
pub fn shares(
    conditions: &Conditions,
    setting: Setting,
    holds: u64,
    seed: u64,
) -> Result<(f64, f64), OptionsError> {
    let lease = LeaseModel::new(conditions, setting)?;
    let if_taken = IfTaken::Wait;
    let alone = Traffic { clients: 1, every_ns: 1, locks: 1, poll_ns: 1, if_taken, waiting: 0.0 };
    let mut counted = MonteCarlo::default();
    let never = AtomicBool::new(false);
    counted.add(&lease, &alone, holds, &mut Random::new(seed, u64::MAX), &never);
    Ok((float(counted.lost) / float(holds), float(counted.outlived) / float(holds)))
}

impl MonteCarlo {
    /// Adds so many holds; fewer once it is to stop, and what is added then is of no use.
    pub(super) fn add(
        &mut self,
        lease: &LeaseModel<'_>,
        traffic: &Traffic,
        holds: u64,
        random: &mut Random,
        stop: &AtomicBool,
    ) {
        let (mut polling, mut waited_ns) = (PollingClients::new(traffic), 0);
        let unchecked = lease.unchecked();
        for number in 0..holds {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let start = lease.start(random);
            let asked = number < CRASHES && start.work_ns > 0;
            // A crash at a uniform moment of the work.
            let share = if asked { random.unit() } else { 0.0 };
            let crash_ns = if asked { whole(share * float(start.work_ns)) } else { u64::MAX };
            let end = lease.walk(HoldStart { crash_ns, ..start }, &mut NoObserver, random);
            self.lost += u64::from(lease.setting.tracked && end.state.over);
            self.outlived += u64::from(end.overrun_ns > 0);
            let overrun_ns = if lease.setting.tracked { 0 } else { end.overrun_ns };
            self.overlap.add(traffic.takes_over(end.state.lease_end_ns, overrun_ns));
            self.renewals.add(f64::from(end.state.renewals));
            // Its lock is free when its release arrives, which whoever checks it sends after the write, or when its lease ends.
            let write = HoldStart::new(0, lease.conditions.write_ns);
            let written = match lease.setting.tracked && !end.state.over {
                true => unchecked.write(&end, write, &mut NoObserver, random),
                false => end,
            };
            let free_ns = written.done_ns + start.round_trip_ns / 2;
            let free_ns = free_ns.min(written.state.lease_end_ns);
            let kept = float(free_ns);
            self.kept.add(kept);
            self.kept_squares.add(kept * kept);
            self.ticks.add(float(traffic.ticks(free_ns) + 1));
            if asked {
                let trip_ns = lease.conditions.round_trip.draw(random);
                let weight = float(start.work_ns);
                let free_ns = match traffic.if_taken {
                    IfTaken::Wait => {
                        whole(random.unit() * float(traffic.poll_ns)) + end.orphaned_ns
                    }
                    IfTaken::Skip => {
                        // A tick that finds the key of a crashed holder is a missed run.
                        let [crash, free] = [0, end.orphaned_ns]
                            .map(|later_ns| traffic.ticks(end.crashed_ns.saturating_add(later_ns)));
                        self.missed.push((free - crash, weight));
                        let next_ns = (free + 1).saturating_mul(traffic.every_ns);
                        next_ns.saturating_sub(end.crashed_ns)
                    }
                };
                self.takeovers.push((free_ns.saturating_add(trip_ns), weight));
            }
            if number + REMEMBERED >= holds {
                self.waits.push(start.round_trip_ns.saturating_add(waited_ns));
            }
            waited_ns = polling.next(free_ns, random);
            self.waiting.add(float(polling.len() as u64));
        }
        self.holds += holds;
    }

    pub(super) fn merge(&mut self, mut other: Self) {
        self.holds += other.holds;
        self.lost += other.lost;
        self.outlived += other.outlived;
        self.overlap.merge(&other.overlap);
        self.renewals.merge(&other.renewals);
        self.kept.merge(&other.kept);
        self.kept_squares.merge(&other.kept_squares);
        self.ticks.merge(&other.ticks);
        self.takeovers.append(&mut other.takeovers);
        self.missed.append(&mut other.missed);
        self.waits.append(&mut other.waits);
        self.waiting.merge(&other.waiting);
    }

    /// Takeover after a crash; weighted, because a long hold is more likely to crash.
    pub(super) fn takeover(&mut self) -> Option<Quantile> {
        quantile(&mut self.takeovers)
    }

    /// Runs missed by a crash, if clients skip.
    pub(super) fn missed(&mut self) -> Option<Quantile> {
        quantile(&mut self.missed)
    }

    /// The mean and the 99th percentile of the waits.
    pub(super) fn wait(&mut self) -> Option<(u64, u64)> {
        self.waits.sort_unstable();
        let count = u64::try_from(self.waits.len()).ok()?;
        let sum: u128 = self.waits.iter().map(|it| u128::from(*it)).sum();
        let mean = u64::try_from(sum.checked_div(u128::from(count))?).ok()?;
        let place = usize::try_from((count * 99).div_ceil(100)).ok()?.saturating_sub(1);
        Some((mean, *self.waits.get(place)?))
    }
}
