//! Every setting of a grid: counted, asked, and what a formula says beside it.
//!
//! Invariant: what is found follows from the seed, not from how many threads look. Deliberately absent:
//! which setting is best.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use picklock::OptionsError;
use picklock::time::span_ns;
use scenarios::span::Span;
use scenarios::tuning::{Delay, How, Keeping, Point, Share};

use super::closed;
use super::counted::Counted;
use super::law::{Dice, float, whole};
use super::lease::{Conditions, Lease, Setting};
use super::rare::Rare;
use super::stat::{Interval, wilson};
use super::traffic::Traffic;

/// Holds of a part, which is what a thread takes at a time.
const PART: u64 = 20_000;
/// Holds that are counted at each point however long each takes.
const FEWEST: u64 = 2_000;
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
    pub keepings: Vec<Keeping>,
    /// How many holds are counted at each point; fewer where each takes long.
    pub holds: u64,
    /// What every drawn number follows from.
    pub seed: u64,
    /// On how many threads.
    pub threads: usize,
}

/// How far a study has come, and how to end it early.
#[derive(Debug, Default)]
pub struct Watched {
    /// Parts that are done.
    pub done: AtomicU64,
    /// Holds that were simulated.
    pub holds: AtomicU64,
    /// Once true, no further part is begun.
    pub stop: AtomicBool,
}

impl Watched {
    /// One more part is done, of so many holds.
    fn add(&self, holds: u64) {
        self.holds.fetch_add(holds, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Study {
    /// How many parts there are.
    pub fn parts(&self) -> u64 {
        // Each setting is counted, asked, and set beside its formula.
        (self.counting().len() + self.asking().len() + self.settings().len()) as u64
    }

    /// The parts in which holds are counted: the place of their setting, their number there, how many holds.
    fn counting(&self) -> Vec<(usize, u64, u64)> {
        self.jobs(PART, |holds| holds)
    }

    /// The parts in which holds are asked.
    fn asking(&self) -> Vec<(usize, u64, u64)> {
        self.jobs(PART / ASKED, |holds| holds.div_ceil(ASKED).min(MOST_ASKED))
    }

    fn jobs(&self, part: u64, holds: impl Fn(u64) -> u64) -> Vec<(usize, u64, u64)> {
        let mut jobs = Vec::new();
        for (place, setting) in self.settings().iter().enumerate() {
            let holds = holds(self.holds_of(setting));
            let parts = holds.div_ceil(part);
            jobs.extend((0..parts).map(|it| (place, it, part.min(holds - it * part))));
        }
        jobs
    }

    /// How many holds are counted at this setting: where each takes many steps, fewer.
    fn holds_of(&self, setting: &Setting) -> u64 {
        let conditions = &self.conditions;
        let work_ns = conditions.hold.mean_ns();
        let renewals = setting.renew.map_or(0.0, |every| work_ns / float(span_ns(every)));
        let pauses = conditions.pause.as_ref().map_or(0.0, |(per_ns, _)| work_ns * per_ns);
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
    pub fn run(&self, watched: &Watched) -> Result<Vec<Point>, OptionsError> {
        let settings = self.settings();
        let leases: Result<Vec<Lease<'_>>, OptionsError> =
            settings.iter().map(|it| Lease::new(&self.conditions, *it)).collect();
        let leases = leases?;
        let counting = self.counting();
        let mut counted = vec![Counted::default(); leases.len()];
        let found = self.each(&counting, watched, |&(place, part, holds)| {
            let mut dice = Dice::new(self.seed, (place as u64) << 32 | part);
            let mut counted = Counted::default();
            counted.add(&leases[place], &self.traffic, holds, &mut dice);
            watched.add(counted.holds);
            counted
        });
        for (&(place, ..), part) in counting.iter().zip(found) {
            if let Some(part) = part {
                counted[place].merge(part);
            }
        }
        let traffics: Vec<Traffic> = counted.iter().map(|it| self.crowd(it)).collect();
        let asking = self.asking();
        let mut rare = vec![Rare::default(); leases.len()];
        let found = self.each(&asking, watched, |&(place, part, holds)| {
            let mut dice = Dice::new(self.seed ^ 0xa5a5, (place as u64) << 32 | part);
            let mut rare = Rare::default();
            rare.add(&leases[place], &traffics[place], holds, &mut dice);
            watched.add(rare.wrong.count);
            rare
        });
        for (&(place, ..), part) in asking.iter().zip(found) {
            if let Some(part) = part {
                rare[place].merge(&part);
            }
        }
        let formulas = self.each(&leases, watched, |lease| {
            let formula = self.formula(lease);
            watched.add(0);
            formula
        });
        let mut points = Vec::new();
        for keeping in &self.keepings {
            for (place, lease) in leases.iter().enumerate() {
                if lease.setting.tracked == keeping.is_tracked() {
                    let formula = formulas[place].flatten();
                    let (counted, rare) = (&mut counted[place], &rare[place]);
                    points.push(self.point(*keeping, lease, counted, rare, formula));
                }
            }
        }
        Ok(points)
    }

    /// Does each job on some thread; what comes of them stands in their order.
    fn each<J: Sync, D: Send>(
        &self,
        jobs: &[J],
        watched: &Watched,
        work: impl Fn(&J) -> D + Sync,
    ) -> Vec<Option<D>> {
        let next = AtomicU64::new(0);
        let done: Mutex<Vec<Option<D>>> = Mutex::new(jobs.iter().map(|_| None).collect());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while !watched.stop.load(Ordering::Relaxed) {
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

    /// The traffic, with how many wait for a lock that is kept so long (Pollaczek and Khinchine).
    fn crowd(&self, counted: &Counted) -> Traffic {
        let per_ns = self.traffic.others_per_ns();
        // Whoever waits finds the lock half a poll after it is free.
        let gap_ns = float(self.traffic.poll_ns) / 4.0;
        let (mean, squares) = (counted.kept.middle(), counted.kept_squares.middle());
        let busy = (per_ns * (mean + gap_ns)).min(0.99);
        let waiting = per_ns * per_ns * (squares + gap_ns * gap_ns + 2.0 * gap_ns * mean)
            / (2.0 * (1.0 - busy));
        Traffic { waiting, ..self.traffic }
    }

    fn point(
        &self,
        keeping: Keeping,
        lease: &Lease<'_>,
        counted: &mut Counted,
        rare: &Rare,
        closed_form: Option<f64>,
    ) -> Point {
        let setting = lease.setting;
        let hits = if setting.tracked { counted.lost } else { counted.outlived };
        let wrong = match hits {
            MANY_HITS.. => {
                self.share(wilson(hits, counted.holds), How::Counted { hits, of: counted.holds })
            }
            _ => self.asked(
                lease,
                rare.wrong.interval(),
                rare.wrong_most.interval(),
                rare.wrong.count,
            ),
        };
        let never = self.share(Interval::default(), How::Construction);
        let overlap = || {
            if self.traffic.others_per_ns() == 0.0 {
                return never;
            }
            self.asked(
                lease,
                rare.overlap.interval(),
                rare.overlap_most.interval(),
                rare.overlap.count,
            )
        };
        let (belief, effect) = match keeping {
            Keeping::None => (overlap(), overlap()),
            Keeping::Tracked => (never, overlap()),
            Keeping::Fenced => (never, never),
        };
        let renewals = counted.renewals.middle();
        let delay = |it: Option<(u64, u64)>| {
            it.map_or(Delay::default(), |(mean, p99)| Delay { mean: span(mean), p99: span(p99) })
        };
        Point {
            ttl: Span(setting.ttl),
            renew: setting.renew.map(Span),
            keeping,
            wrong,
            belief,
            effect,
            closed_form,
            takeover: delay(counted.takeover()),
            wait: delay(counted.wait()),
            renewals_per_second: renewals * self.traffic.holds_per_ns() * 1e9,
            misses: Vec::new(),
        }
    }

    /// How likely it is by a formula that a hold goes wrong, where there is one.
    fn formula(&self, lease: &Lease<'_>) -> Option<f64> {
        let (ttl_ns, validity_ns) =
            (span_ns(lease.options.ttl()), span_ns(lease.options.validity()));
        match lease.setting.renew {
            None => closed::unrenewed(&self.conditions, ttl_ns, validity_ns, lease.setting.tracked),
            Some(_) => None,
        }
    }

    /// What was asked; where nothing could go wrong in any hold, what a formula says it is at most.
    fn asked(&self, lease: &Lease<'_>, found: Interval, most: Interval, holds: u64) -> Share {
        let interval = Interval { high: found.high.max(most.high).min(1.0), ..found };
        if interval.high > 0.0 {
            return self.share(interval, How::Asked { holds });
        }
        match self.bound(lease) {
            Some(high) => self.share(Interval { high, ..Interval::default() }, How::Bound),
            None => self.share(wilson(0, holds), How::Counted { hits: 0, of: holds }),
        }
    }

    /// How likely it is at most that a hold goes wrong where everything has a longest: it takes so many pauses
    /// in one hold, each the longest there is.
    fn bound(&self, lease: &Lease<'_>) -> Option<f64> {
        let conditions = &self.conditions;
        let trip_ns = conditions.round_trip.tail.longest_ns()?;
        let validity_ns = span_ns(lease.options.validity());
        let needed_ns = match lease.setting.renew {
            // One pause from just before a renewal until the validity ends: then no number of them helps.
            Some(every) => validity_ns.saturating_sub(span_ns(every) + 2 * trip_ns),
            None => validity_ns.saturating_sub(trip_ns + conditions.hold.tail.longest_ns()?),
        };
        let Some((per_ns, pauses)) = &conditions.pause else {
            return (needed_ns > 0).then_some(0.0);
        };
        let longest_ns = pauses.tail.longest_ns()?;
        if lease.setting.renew.is_some() {
            return (longest_ns < needed_ns).then_some(0.0);
        }
        let work_ns = conditions.hold.tail.longest_ns()?;
        let pauses = needed_ns.div_ceil(longest_ns.max(1));
        (pauses > 0).then(|| closed::poisson_at_least(pauses, per_ns * float(work_ns)))
    }

    fn share(&self, interval: Interval, how: How) -> Share {
        let in_a_day = self.traffic.holds_per_ns() * DAY_NS;
        let Interval { middle, low, high } = interval;
        Share {
            per_hold: middle,
            low,
            high,
            per_day: middle * in_a_day,
            per_day_high: high * in_a_day,
            how,
        }
    }
}

fn span(ns: u64) -> Span {
    Span(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests;
