//! Every setting of a grid: Monte Carlo and importance sampling.
//!
//! Invariant: results follow from the seed, not from the number of threads or from interruptions: a setting is either
//! simulated to the end or reported as unfinished.

mod dominance;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::tuning::{Delay, EstimateMethod, IfTaken, Point, Protection, Share, Skips};
use harness::threads::{ThreadsError, map_on_threads};
use picklock::OptionsError;
use picklock::time::span_ns;
use scenarios::span::Span;

use self::dominance::UpperBounds;
use super::bound::{Deadline, at_most};
use super::importance_sampling::ImportanceSampling;
use super::law::{Random, float, whole};
use super::lease::{Conditions, LeaseModel, Setting};
use super::monte_carlo::MonteCarlo;
use super::stat::{Interval, Mean, Quantile, wilson};
use super::traffic::Traffic;

/// Holds of a part, the unit of work of a thread.
const PART: u64 = 20_000;
/// The least holds per setting, of plain simulation and of importance sampling.
const FEWEST: u64 = 2_000;
/// Cost of a pause in steps, at most: renewals between two pauses are batched.
const STEPS_OF_A_PAUSE: f64 = 4.0;
/// For so many plain holds, one is simulated by importance sampling.
const PLAIN_PER_WEIGHTED: u64 = 4;
/// The most holds by importance sampling: more precision is of no use.
const MOST_WEIGHTED: u64 = 500_000;
/// With fewer hits importance sampling is more precise than counting.
const MANY_HITS: u64 = 400;
const DAY_NS: f64 = 86_400.0 * 1e9;

/// A simulation of a grid of settings.
#[derive(Clone, Debug)]
pub struct Study {
    /// How the lock is used.
    pub conditions: Conditions,
    /// Who else wants the lock.
    pub traffic: Traffic,
    /// TTL and renewal interval of each setting.
    pub grid: Vec<(Duration, Option<Duration>)>,
    /// The kinds of lock.
    pub keepings: Vec<Protection>,
    /// Holds per setting; fewer if each takes many steps.
    pub holds: u64,
    /// The seed of the simulation.
    pub seed: u64,
    /// Number of threads.
    pub threads: usize,
}

/// Progress of a study, and how to stop it.
#[derive(Debug, Default)]
pub struct StudyProgress {
    /// Finished parts.
    pub done: AtomicU64,
    /// Simulated holds.
    pub holds: AtomicU64,
    /// Once true, no further part starts.
    pub stop: AtomicBool,
}

impl StudyProgress {
    fn add(&self, holds: u64) {
        self.holds.fetch_add(holds, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Why a study was not run.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The lock refuses a setting.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There cannot be so many threads.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
}

/// A part of a study: its number, and its holds.
type WorkPart = (u64, u64);

impl Study {
    /// How many parts there are.
    pub fn parts(&self) -> u64 {
        let parts = |setting| {
            let (plain, weighted) = self.parts_of(setting);
            (plain.len() + weighted.len()) as u64
        };
        self.settings().iter().map(parts).sum()
    }

    /// The parts of a setting: plain, and by importance sampling.
    fn parts_of(&self, setting: &Setting) -> (Vec<WorkPart>, Vec<WorkPart>) {
        let holds = self.holds_of(setting);
        let weighted = holds.div_ceil(PLAIN_PER_WEIGHTED).clamp(FEWEST.min(holds), MOST_WEIGHTED);
        let parts = |holds: u64, part: u64| {
            (0..holds.div_ceil(part)).map(|it| (it, part.min(holds - it * part))).collect()
        };
        (parts(holds, PART), parts(weighted, PART / PLAIN_PER_WEIGHTED))
    }

    /// Holds of this setting: fewer if each takes many steps.
    fn holds_of(&self, setting: &Setting) -> u64 {
        let conditions = &self.conditions;
        let work_ns = conditions.hold.mean_ns();
        let renewals = setting.renew.map_or(0.0, |every| work_ns / float(span_ns(every)));
        let pauses = work_ns * conditions.pauses_per_ns();
        let renewals = renewals.min(STEPS_OF_A_PAUSE * (1.0 + pauses));
        let steps = 1.0 + (renewals + pauses) / 4.0;
        whole(float(self.holds) / steps).max(self.holds.min(FEWEST))
    }

    fn settings(&self) -> Vec<Setting> {
        let mut kinds: Vec<bool> = self.keepings.iter().map(|it| it.is_tracked()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let of =
            |tracked| self.grid.iter().map(move |&(ttl, renew)| Setting { ttl, renew, tracked });
        kinds.into_iter().flat_map(of).collect()
    }

    /// Simulates every setting.
    ///
    /// # Errors
    /// [`StudyError`] if the lock refuses a setting, or there cannot be so many threads.
    pub fn run(&self, progress: &StudyProgress) -> Result<Vec<Point>, StudyError> {
        let settings = self.settings();
        let leases = settings
            .into_iter()
            .map(|it| LeaseModel::new(&self.conditions, it))
            .collect::<Result<Vec<LeaseModel<'_>>, OptionsError>>()?;
        let mut found = vec![None; leases.len()];
        // A few settings at a time, each for all locks, so that an early stop leaves finished ones.
        let mut order: Vec<usize> = (0..leases.len()).collect();
        order.sort_by_key(|place| place % self.grid.len().max(1));
        for some in order.chunks(self.threads.max(1)) {
            for (place, estimates) in some.iter().zip(self.estimate(some, &leases, progress)?) {
                found[*place] = estimates;
            }
        }
        let mut most: Vec<Option<UpperBounds>> = leases
            .iter()
            .zip(&found)
            .map(|(lease, found)| found.as_ref().map(|it| self.upper_bounds(lease, it)))
            .collect();
        dominance::carry(&leases, &mut most);
        let mut points = Vec::new();
        for keeping in &self.keepings {
            for (place, lease) in leases.iter().enumerate() {
                if lease.setting.tracked == keeping.is_tracked() {
                    points.push(match (&mut found[place], most[place]) {
                        (Some(found), Some(most)) => self.point(*keeping, lease, found, most),
                        _ => {
                            let Setting { ttl, renew, .. } = lease.setting;
                            let unknown = Point::unknown(Span(ttl), renew.map(Span), *keeping);
                            Point { unfinished: true, ..unknown }
                        }
                    });
                }
            }
        }
        Ok(points)
    }

    /// Simulates the settings at these indexes; `None` for an unfinished one.
    fn estimate(
        &self,
        places: &[usize],
        leases: &[LeaseModel<'_>],
        progress: &StudyProgress,
    ) -> Result<Vec<Option<SettingEstimates>>, ThreadsError> {
        let (mut plain, mut weighted) = (Vec::new(), Vec::new());
        for (nth, place) in places.iter().enumerate() {
            let parts = self.parts_of(&leases[*place].setting);
            plain.extend(parts.0.into_iter().map(|part| (nth, part)));
            weighted.extend(parts.1.into_iter().map(|part| (nth, part)));
        }
        let mut found = vec![Some(SettingEstimates::default()); places.len()];
        let count = |nth: usize, &(part, holds): &WorkPart| {
            let mut random = Random::new(self.seed, (places[nth] as u64) << 32 | part);
            let mut counted = MonteCarlo::default();
            let lease = &leases[places[nth]];
            counted.add(lease, &self.traffic, holds, &mut random, &progress.stop);
            progress.add(counted.holds);
            counted
        };
        self.each(&plain, &mut found, progress, count, |it, part| it.monte_carlo.merge(part))?;
        let crowd = |it: &SettingEstimates| self.crowd(&it.monte_carlo);
        let traffics: Vec<Option<Traffic>> =
            found.iter().map(|it| it.as_ref().map(crowd)).collect();
        let weigh = |nth: usize, &(part, holds): &WorkPart| {
            let mut random = Random::new(self.seed ^ 0xa5a5, (places[nth] as u64) << 32 | part);
            let mut rare = ImportanceSampling::default();
            // Without its traffic the setting is unfinished already, whatever is added.
            if let Some(traffic) = &traffics[nth] {
                rare.add(&leases[places[nth]], traffic, holds, &mut random, &progress.stop);
            }
            progress.add(rare.wrong.count);
            rare
        };
        self.each(&weighted, &mut found, progress, weigh, |it, part| it.importance.merge(part))?;
        Ok(found)
    }

    /// Runs each job on some thread and adds the results to the settings that the jobs name, in order of the jobs. A
    /// setting whose job was not run is unfinished.
    fn each<J: Sync, D: Send>(
        &self,
        jobs: &[(usize, J)],
        found: &mut [Option<SettingEstimates>],
        progress: &StudyProgress,
        work: impl Fn(usize, &J) -> D + Sync,
        add: impl Fn(&mut SettingEstimates, D),
    ) -> Result<(), ThreadsError> {
        let is_stopped = || progress.stop.load(Ordering::Relaxed);
        let done = map_on_threads(self.threads, jobs, || {
            |_, (nth, job): &(usize, J)| {
                let part = (!is_stopped()).then(|| work(*nth, job));
                // It may have been left half done.
                part.filter(|_| !is_stopped())
            }
        })?;
        for ((nth, _), part) in jobs.iter().zip(done) {
            match (part, &mut found[*nth]) {
                (Some(part), Some(found)) => add(found, part),
                (_, found) => *found = None,
            }
        }
        Ok(())
    }

    /// The traffic with its mean queue length. Few holds do not fill the queue of a lock that is nearly always taken, so it
    /// counts with what Pollaczek-Khinchine's formula gives if that is more: the queue of clients that need not poll.
    fn crowd(&self, counted: &MonteCarlo) -> Traffic {
        if self.traffic.if_taken == IfTaken::Skip {
            return self.traffic;
        }
        let per_ns = self.traffic.others_per_ns();
        let busy = (per_ns * counted.kept.middle()).min(0.99);
        let formula = per_ns * per_ns * counted.kept_squares.middle() / (2.0 * (1.0 - busy));
        Traffic { waiting: formula.max(counted.waiting.middle()), ..self.traffic }
    }

    /// The upper bounds of a setting by itself.
    fn upper_bounds(
        &self,
        lease: &LeaseModel<'_>,
        SettingEstimates { monte_carlo: counted, importance: rare }: &SettingEstimates,
    ) -> UpperBounds {
        let most = |until: Deadline, found: &[Interval]| {
            let seen = found.iter().fold(0.0, |most, it| it.high.max(most));
            let bound = at_most(lease, until);
            // If nothing could go wrong in any simulated hold, only the bound and the sample size say anything.
            if seen > 0.0 { bound.min(seen) } else { bound.min(wilson(0, rare.plain).high) }
        };
        let wrong = match self.hits(lease, counted) {
            MANY_HITS.. => {
                let seen = wilson(self.hits(lease, counted), counted.holds).high;
                (seen + rare.unmeasured()).min(1.0)
            }
            _ => most(Deadline::Done, &[rare.wrong.interval(), rare.wrong_most.interval()]),
        };
        let late = match lease.setting.tracked {
            true => most(Deadline::Written, &[rare.late_most.interval()]),
            false => wrong,
        };
        UpperBounds { wrong, late }
    }

    fn hits(&self, lease: &LeaseModel<'_>, counted: &MonteCarlo) -> u64 {
        if lease.setting.tracked { counted.lost } else { counted.outlived }
    }

    fn point(
        &self,
        keeping: Protection,
        lease: &LeaseModel<'_>,
        SettingEstimates { monte_carlo: counted, importance: rare }: &mut SettingEstimates,
        most: UpperBounds,
    ) -> Point {
        let setting = lease.setting;
        let (ticks, kept_ns) = (counted.ticks.middle(), counted.kept.middle());
        let rates = self.traffic.runs_per_ns(ticks, kept_ns);
        let hits = self.hits(lease, counted);
        let wrong = match hits {
            MANY_HITS.. => {
                let how = EstimateMethod::Counted { hits, of: counted.holds };
                let seen = wilson(hits, counted.holds).below(most.wrong);
                share(
                    rates,
                    Interval { high: most.wrong.min(seen.high + rare.unmeasured()), ..seen },
                    how,
                )
            }
            _ => weighted(rates, rare.wrong, rare.wrong_most, most.wrong),
        };
        let never = share(rates, Interval::default(), EstimateMethod::Construction);
        let overlap = || {
            if self.traffic.others_per_ns() == 0.0 {
                return never;
            }
            weighted(rates, rare.overlap, rare.overlap_most, most.late)
        };
        let (belief, effect) = match keeping {
            Protection::None => (overlap(), overlap()),
            Protection::Tracked => (never, overlap()),
            Protection::Fenced => (never, never),
        };
        // With few renewals, plain sampling misses the long holds that renew: use importance sampling.
        let seen = counted.renewals.middle() * float(counted.holds);
        let renewals = if seen >= float(MANY_HITS) { counted.renewals } else { rare.renewals };
        let renewals = renewals.interval();
        let longest = span(self.longest_takeover_ns(lease));
        // Without any work in a simulated hold, no crash was simulated.
        let unknown = Delay { mean: longest, p99: longest, p99_high: longest };
        let takeover = counted.takeover().map_or(unknown, |it| Delay {
            mean: span(whole(it.mean)),
            p99: span(it.p99),
            p99_high: it.p99_most.map_or(longest, span),
        });
        let wait = counted.wait().map_or(Delay::default(), |(mean, p99)| Delay {
            mean: span(mean),
            p99: span(p99),
            p99_high: span(p99),
        });
        Point {
            wrong,
            belief,
            effect,
            takeover,
            wait,
            skips: counted.missed().map(|missed: Quantile| Skips {
                share: 1.0 - rates.0 / self.traffic.asks_per_ns(),
                missed: missed.mean,
                missed_p99: missed.p99_most.unwrap_or(missed.p99),
            }),
            renewals_per_second: renewals.middle * rates.0 * 1e9,
            renewals_per_second_high: renewals.high * rates.1 * 1e9,
            ..Point::unknown(Span(setting.ttl), setting.renew.map(Span), keeping)
        }
    }

    /// The longest takeover after a crash, but for one round trip in a hundred.
    fn longest_takeover_ns(&self, lease: &LeaseModel<'_>) -> u64 {
        let trips_ns = 2 * self.conditions.round_trip.tail.with_share(0.005);
        let free_ns = span_ns(lease.options.ttl()) + trips_ns;
        match self.traffic.if_taken {
            IfTaken::Wait => free_ns + self.traffic.poll_ns,
            IfTaken::Skip => (self.traffic.ticks(free_ns) + 1) * self.traffic.every_ns + trips_ns,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct SettingEstimates {
    monte_carlo: MonteCarlo,
    importance: ImportanceSampling,
}

/// A share by importance sampling, capped by `high`; only the bound if nothing could go wrong in any hold.
fn weighted(rates: (f64, f64), found: Mean, most: Mean, high: f64) -> Share {
    let holds = found.count;
    let (found, most) = (found.interval(), most.interval());
    let seen = found.high.max(most.high);
    let how = match found.high > 0.0 || most.high > 0.0 {
        true => EstimateMethod::Estimated { holds },
        false => EstimateMethod::Bound,
    };
    let high = if seen > 0.0 { seen.min(high) } else { high };
    share(rates, Interval { high, ..found }.below(high), how)
}

/// A share, with the rate of holds per nanosecond and its upper bound.
fn share((per_ns, most_per_ns): (f64, f64), interval: Interval, how: EstimateMethod) -> Share {
    let Interval { middle, low, high } = interval;
    Share {
        per_hold: middle,
        low,
        high,
        per_day: middle * per_ns * DAY_NS,
        per_day_high: high * most_per_ns * DAY_NS,
        how,
    }
}

fn span(ns: u64) -> Span {
    Span(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;
