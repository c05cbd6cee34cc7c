//! Every setting of a grid: Monte Carlo, importance sampling, and the closed form beside them.
//!
//! Invariant: results follow from the seed, not from the number of threads or from interruptions: a setting is either
//! simulated to the end or reported as unfinished.

mod dominance;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::tuning::{Delay, How, IfTaken, Point, Protection, Share, Skips};
use picklock::OptionsError;
use picklock::time::span_ns;
use scenarios::span::Span;

use self::dominance::UpperBounds;
use super::bound::{Deadline, at_most};
use super::closed_form;
use super::importance_sampling::ImportanceSampling;
use super::law::{Random, float, whole};
use super::lease::{Conditions, LeaseModel, Setting};
use super::monte_carlo::MonteCarlo;
use super::stat::{Interval, Mean, Quantile, wilson};
use super::traffic::Traffic;

/// Holds of a part, which is what a thread takes at a time.
const PART: u64 = 20_000;
/// Holds that are counted at each point however long each takes, and those that are asked.
const FEWEST: u64 = 2_000;
const FEWEST_ASKED: u64 = 500;
/// So many steps a pause takes at most: what comes between two pauses is walked in one.
const STEPS_OF_A_PAUSE: f64 = 4.0;
/// One hold in so many is asked how likely it was to go wrong.
const ASKED: u64 = 4;
/// And no more than these: a hundred times as many would say it no better than anybody needs.
const MOST_ASKED: u64 = 500_000;
/// Fewer hits than this say less than asking does.
const MANY_HITS: u64 = 400;
const DAY_NS: f64 = 86_400.0 * 1e9;

/// What to look at, and how hard.
#[derive(Clone, Debug)]
pub struct Study {
    /// How the lock is used.
    pub conditions: Conditions,
    /// Who else wants it.
    pub traffic: Traffic,
    /// TTL and renewal.
    pub grid: Vec<(Duration, Option<Duration>)>,
    /// Which locks.
    pub keepings: Vec<Protection>,
    /// How many holds are counted at each point; fewer where each takes long.
    pub holds: u64,
    /// What every drawn number follows from.
    pub seed: u64,
    /// On how many threads.
    pub threads: usize,
}

/// How far a study has come, and how to end it early.
#[derive(Debug, Default)]
pub struct StudyProgress {
    /// Parts that are done.
    pub done: AtomicU64,
    /// Holds that were simulated.
    pub holds: AtomicU64,
    /// Once true, no further part is begun.
    pub stop: AtomicBool,
}

impl StudyProgress {
    /// One more part is done, of so many holds.
    fn add(&self, holds: u64) {
        self.holds.fetch_add(holds, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// A part of a study: its number, and how many holds.
type WorkPart = (u64, u64);

impl Study {
    /// How many parts there are.
    pub fn parts(&self) -> u64 {
        let parts = |setting| {
            let (counting, asking) = self.parts_of(setting);
            // And it is set beside its formula.
            (counting.len() + asking.len() + 1) as u64
        };
        self.settings().iter().map(parts).sum()
    }

    /// The parts in which holds are counted at this setting, and those in which they are asked.
    fn parts_of(&self, setting: &Setting) -> (Vec<WorkPart>, Vec<WorkPart>) {
        let holds = self.holds_of(setting);
        let asked = holds.div_ceil(ASKED).clamp(FEWEST_ASKED.min(holds), MOST_ASKED);
        let parts = |holds: u64, part: u64| {
            (0..holds.div_ceil(part)).map(|it| (it, part.min(holds - it * part))).collect()
        };
        (parts(holds, PART), parts(asked, PART / ASKED))
    }

    /// How many holds are counted at this setting: where each takes many steps, fewer.
    fn holds_of(&self, setting: &Setting) -> u64 {
        let conditions = &self.conditions;
        let work_ns = conditions.hold.mean_ns();
        let renewals = setting.renew.map_or(0.0, |every| work_ns / float(span_ns(every)));
        let pauses = conditions.pause.as_ref().map_or(0.0, |(per_ns, _)| work_ns * per_ns);
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

    /// Looks at every point.
    ///
    /// # Errors
    /// [`OptionsError`] where the lock refuses a setting.
    pub fn run(&self, progress: &StudyProgress) -> Result<Vec<Point>, OptionsError> {
        let settings = self.settings();
        let leases: Result<Vec<LeaseModel<'_>>, OptionsError> =
            settings.iter().map(|it| LeaseModel::new(&self.conditions, *it)).collect();
        let leases = leases?;
        let mut found: Vec<Option<SettingEstimates>> = leases.iter().map(|_| None).collect();
        // A few settings at a time, each for all locks, so that whoever ends it early has what was looked at before.
        let mut order: Vec<usize> = (0..leases.len()).collect();
        order.sort_by_key(|place| place % self.grid.len().max(1));
        for some in order.chunks(self.threads.max(1)) {
            for (place, looked) in some.iter().zip(self.look(some, &leases, progress)) {
                found[*place] = looked;
            }
        }
        let mut most: Vec<Option<UpperBounds>> = leases
            .iter()
            .zip(&found)
            .map(|(lease, found)| found.as_ref().map(|it| self.most(lease, it)))
            .collect();
        dominance::carry(&leases, &mut most);
        let mut points = Vec::new();
        for keeping in &self.keepings {
            for (place, lease) in leases.iter().enumerate() {
                if lease.setting.tracked == keeping.is_tracked() {
                    points.push(match (&mut found[place], most[place]) {
                        (Some(found), Some(most)) => self.point(*keeping, lease, found, most),
                        _ => unfinished(*keeping, lease),
                    });
                }
            }
        }
        Ok(points)
    }

    /// Looks at the settings that stand at these places; none of one that was not looked at to the end.
    fn look(
        &self,
        places: &[usize],
        leases: &[LeaseModel<'_>],
        progress: &StudyProgress,
    ) -> Vec<Option<SettingEstimates>> {
        let (mut counting, mut asking) = (Vec::new(), Vec::new());
        for place in places {
            let (counted, asked) = self.parts_of(&leases[*place].setting);
            counting.extend(counted.into_iter().map(|part| (*place, part)));
            asking.extend(asked.into_iter().map(|part| (*place, part)));
        }
        let mut found: Vec<Option<SettingEstimates>> =
            places.iter().map(|_| Some(SettingEstimates::default())).collect();
        let at = |place: usize| places.iter().position(|it| *it == place).unwrap_or_default();
        let parts = self.each(&counting, progress, |&(place, (part, holds))| {
            let mut random = Random::new(self.seed, (place as u64) << 32 | part);
            let mut counted = MonteCarlo::default();
            counted.add(&leases[place], &self.traffic, holds, &mut random);
            progress.add(counted.holds);
            counted
        });
        for (&(place, _), part) in counting.iter().zip(parts) {
            let found = &mut found[at(place)];
            match (part, found.as_mut()) {
                (Some(part), Some(found)) => found.monte_carlo.merge(part),
                _ => *found = None,
            }
        }
        let traffic =
            |it: &Option<SettingEstimates>| it.as_ref().map(|it| self.crowd(&it.monte_carlo));
        let traffics: Vec<Option<Traffic>> = found.iter().map(traffic).collect();
        let parts = self.each(&asking, progress, |&(place, (part, holds))| {
            let mut random = Random::new(self.seed ^ 0xa5a5, (place as u64) << 32 | part);
            let mut rare = ImportanceSampling::default();
            let traffic = traffics[at(place)].as_ref()?;
            rare.add(&leases[place], traffic, holds, &mut random);
            progress.add(rare.wrong.count);
            Some(rare)
        });
        for (&(place, _), part) in asking.iter().zip(parts) {
            let found = &mut found[at(place)];
            match (part.flatten(), found.as_mut()) {
                (Some(part), Some(found)) => found.importance.merge(&part),
                _ => *found = None,
            }
        }
        let formulas = self.each(places, progress, |place| {
            let formula = self.formula(&leases[*place]);
            progress.add(0);
            formula
        });
        for (found, formula) in found.iter_mut().zip(formulas) {
            match (formula, found.as_mut()) {
                (Some(formula), Some(found)) => found.closed_form = formula,
                _ => *found = None,
            }
        }
        found
    }

    /// Does each job on some thread; what comes of them stands in their order.
    fn each<J: Sync, D: Send>(
        &self,
        jobs: &[J],
        progress: &StudyProgress,
        work: impl Fn(&J) -> D + Sync,
    ) -> Vec<Option<D>> {
        let next = AtomicU64::new(0);
        let done: Mutex<Vec<Option<D>>> = Mutex::new(jobs.iter().map(|_| None).collect());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while !progress.stop.load(Ordering::Relaxed) {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let place = usize::try_from(place).unwrap_or(usize::MAX);
                        let Some(job) = jobs.get(place) else { break };
                        let part = work(job);
                        done.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(part);
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The traffic, with how many wait for a lock that is kept so long (Pollaczek and Khinchine); who skips does not.
    fn crowd(&self, counted: &MonteCarlo) -> Traffic {
        if self.traffic.if_taken == IfTaken::Skip {
            return self.traffic;
        }
        let per_ns = self.traffic.others_per_ns();
        // Whoever waits finds the lock half a poll after it is free.
        let gap_ns = float(self.traffic.poll_ns) / 4.0;
        let (mean, squares) = (counted.kept.middle(), counted.kept_squares.middle());
        let busy = (per_ns * (mean + gap_ns)).min(0.99);
        let waiting = per_ns * per_ns * (squares + gap_ns * gap_ns + 2.0 * gap_ns * mean)
            / (2.0 * (1.0 - busy));
        Traffic { waiting, ..self.traffic }
    }

    /// What is certain of a setting by itself.
    fn most(
        &self,
        lease: &LeaseModel<'_>,
        SettingEstimates { monte_carlo: counted, importance: rare, .. }: &SettingEstimates,
    ) -> UpperBounds {
        let most = |until: Deadline, found: &[Interval]| {
            let seen = found.iter().fold(0.0, |most, it| it.high.max(most));
            let bound = at_most(lease, until);
            // Where nothing could go wrong in any hold, all that is certain is certain without looking.
            if seen > 0.0 { bound.min(seen) } else { bound.min(wilson(0, rare.wrong.count).high) }
        };
        let wrong = match self.hits(lease, counted) {
            MANY_HITS.. => wilson(self.hits(lease, counted), counted.holds).high,
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
        SettingEstimates { monte_carlo: counted, importance: rare, closed_form: formula }: &mut SettingEstimates,
        most: UpperBounds,
    ) -> Point {
        let setting = lease.setting;
        let (ticks, kept_ns) = (counted.ticks.middle(), counted.kept.middle());
        let rates = self.traffic.runs_per_ns(ticks, kept_ns);
        let hits = self.hits(lease, counted);
        let wrong = match hits {
            MANY_HITS.. => {
                let how = How::Counted { hits, of: counted.holds };
                share(rates, wilson(hits, counted.holds).below(most.wrong), how)
            }
            _ => asked(rates, rare.wrong, rare.wrong_most, most.wrong),
        };
        let never = share(rates, Interval::default(), How::Construction);
        let overlap = || {
            if self.traffic.others_per_ns() == 0.0 {
                return never;
            }
            asked(rates, rare.overlap, rare.overlap_most, most.late)
        };
        let (belief, effect) = match keeping {
            Protection::None => (overlap(), overlap()),
            Protection::Tracked => (never, overlap()),
            Protection::Fenced => (never, never),
        };
        // As many renewals as hits say as much; where there are fewer, long holds have to be made on purpose.
        let seen = counted.renewals.middle() * float(counted.holds);
        let renewals = if seen >= float(MANY_HITS) { counted.renewals } else { rare.renewals };
        let renewals = renewals.interval();
        let takeover = counted.takeover().map_or(Delay::default(), |it| Delay {
            mean: span(whole(it.mean)),
            p99: span(it.p99),
            p99_high: span(it.p99_most.unwrap_or_else(|| self.longest_takeover_ns(lease))),
        });
        let wait = counted.wait().map_or(Delay::default(), |(mean, p99)| Delay {
            mean: span(mean),
            p99: span(p99),
            p99_high: span(p99),
        });
        Point {
            ttl: Span(setting.ttl),
            renew: setting.renew.map(Span),
            keeping,
            wrong,
            belief,
            effect,
            closed_form: *formula,
            takeover,
            wait,
            skips: counted.missed().map(|missed: Quantile| Skips {
                share: 1.0 - rates.0 / self.traffic.asks_per_ns(),
                missed: missed.mean,
                missed_p99: missed.p99_most.unwrap_or(missed.p99),
            }),
            renewals_per_second: renewals.middle * rates.0 * 1e9,
            renewals_per_second_high: renewals.high * rates.1 * 1e9,
            unfinished: false,
            misses: Vec::new(),
        }
    }

    /// So long it takes from a crash until another has the lock, but for a round trip in a hundred.
    fn longest_takeover_ns(&self, lease: &LeaseModel<'_>) -> u64 {
        let trips_ns = 2 * self.conditions.round_trip.tail.with_share(0.005);
        let free_ns = span_ns(lease.options.ttl()) + trips_ns;
        match self.traffic.if_taken {
            IfTaken::Wait => free_ns + self.traffic.poll_ns,
            IfTaken::Skip => (self.traffic.ticks(free_ns) + 1) * self.traffic.every_ns + trips_ns,
        }
    }

    /// How likely it is by a formula that a hold goes wrong, where there is one.
    fn formula(&self, lease: &LeaseModel<'_>) -> Option<f64> {
        let (ttl_ns, validity_ns) =
            (span_ns(lease.options.ttl()), span_ns(lease.options.validity()));
        match lease.setting.renew {
            None => {
                closed_form::unrenewed(&self.conditions, ttl_ns, validity_ns, lease.setting.tracked)
            }
            Some(_) => None,
        }
    }
}

/// What was found of a setting.
#[derive(Clone, Debug, Default)]
struct SettingEstimates {
    monte_carlo: MonteCarlo,
    importance: ImportanceSampling,
    closed_form: Option<f64>,
}

/// A setting that was not looked at to the end.
fn unfinished(keeping: Protection, lease: &LeaseModel<'_>) -> Point {
    let unknown = share((0.0, f64::INFINITY), wilson(0, 0), How::Counted { hits: 0, of: 0 });
    let unknown = Share { per_day_high: f64::MAX, ..unknown };
    Point {
        ttl: Span(lease.setting.ttl),
        renew: lease.setting.renew.map(Span),
        keeping,
        wrong: unknown,
        belief: unknown,
        effect: unknown,
        closed_form: None,
        takeover: Delay::default(),
        wait: Delay::default(),
        skips: None,
        renewals_per_second: 0.0,
        renewals_per_second_high: 0.0,
        unfinished: true,
        misses: Vec::new(),
    }
}

/// What was asked, and what it is at most; that alone where nothing could go wrong in any hold.
fn asked(rates: (f64, f64), found: Mean, most: Mean, high: f64) -> Share {
    let holds = found.count;
    let (found, most) = (found.interval(), most.interval());
    let seen = found.high.max(most.high);
    let how = match found.high > 0.0 || most.high > 0.0 {
        true => How::Estimated { holds },
        false => How::Bound,
    };
    let high = if seen > 0.0 { seen.min(high) } else { high };
    share(rates, Interval { high, ..found }.below(high), how)
}

/// A share of holds of which there are so many in a nanosecond, and so many at most.
fn share((per_ns, most_per_ns): (f64, f64), interval: Interval, how: How) -> Share {
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
