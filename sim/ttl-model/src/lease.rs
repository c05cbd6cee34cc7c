//! One hold of a lock, from the send of its acquisition to the end of its work: the lease model.
//!
//! The client sends, works, stands still now and then, and renews as the library's watchdog does; the
//! server counts the TTL from when a command reaches it. Half of a round trip is the way there.
//!
//! Invariant: the arithmetic is the lock's own ([`Options`]): validity from the send, the drift
//! allowance, the watchdog's interval and what it does after a failure; what the virtual world shows of the
//! shipped lock is compared with it. Deliberately absent: servers that fail or forget, messages that are
//! lost, and more than one lock.

mod calm;

use std::time::Duration;

use picklock::time::{Instant, span_ns};
use picklock::{Options, OptionsError, Renewal};

use self::calm::Quick;
use super::law::{Dice, Law, float, whole};

/// How a lock is used, and on what machines.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// How long the work under the lock takes while its process runs.
    pub hold: Law,
    /// How long a command takes, there and back.
    pub round_trip: Law,
    /// How often a process stands still, by the nanosecond that it runs, and for how long.
    pub pause: Option<(f64, Law)>,
    /// How far a client's clock and the server's run apart at most, in parts per million.
    pub drift_ppm: u32,
    /// The time from the last look at the lock until the write that follows it has left.
    pub write_ns: u64,
}

impl Conditions {
    /// The same for work and pauses that take so many times as long, and come so much more seldom. Round trips
    /// stay as they are.
    pub fn stretched(&self, by: f64) -> Self {
        Self {
            hold: self.hold.stretched(by),
            pause: self.pause.as_ref().map(|(per_ns, it)| (per_ns / by, it.stretched(by))),
            ..self.clone()
        }
    }

    /// How long a hold lasts on the average, with its pauses.
    pub fn mean_hold_ns(&self) -> f64 {
        let paused = self.pause.as_ref().map_or(0.0, |(per_ns, it)| per_ns * it.mean_ns());
        self.hold.mean_ns() * (1.0 + paused) + self.round_trip.mean_ns()
    }
}

/// What the lock is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The TTL.
    pub ttl: Duration,
    /// From one renewal to the next; `None`: never.
    pub renew: Option<Duration>,
    /// Whether its holder stops when its validity has ended.
    pub tracked: bool,
}

/// Somebody who watches a hold go by.
pub(super) trait Watch {
    /// Whether a hold that has gone wrong is of no further interest.
    const STOPS: bool;

    /// A pause begins at `at`; the hold goes wrong where it lasts for `fatal_ns` or longer, and then its work
    /// goes on for `then_ns` beyond that.
    fn pause(&mut self, hold: &State, fatal_ns: u64, then_ns: u64, dice: &mut Dice);

    /// As many commands as this one stands for are sent; the hold goes wrong where the round trip of one takes
    /// `fatal_ns` or longer, and its work then outlasts the lease by so much.
    fn message(
        &mut self,
        hold: &State,
        stands_for: u64,
        fatal_ns: u64,
        overrun_ns: u64,
        dice: &mut Dice,
    );
}

/// Nobody does.
pub(super) struct Nobody;

impl Watch for Nobody {
    const STOPS: bool = false;
    #[inline]
    fn pause(&mut self, _: &State, _: u64, _: u64, _: &mut Dice) {}
    #[inline]
    fn message(&mut self, _: &State, _: u64, _: u64, _: u64, _: &mut Dice) {}
}

/// Where a hold stands. All times are of the server's clock, from when the acquisition was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// When the key goes, as things stand.
    pub(super) lease_end_ns: u64,
    /// Until when the client relies on it; for ever where it keeps no validity.
    valid_end_ns: u64,
    /// When the next renewal is due; never where none is.
    due_ns: u64,
    /// When the last was due that is not a second try, and how often in a row it has failed.
    place_ns: u64,
    failures: u32,
    /// A renewal that is under way: when it was sent, when it is answered, and when its client gives up.
    open: Option<Renewing>,
    /// When the last renewal arrived, and when it was answered.
    arrived_ns: u64,
    answered_ns: u64,
    /// Renewals sent.
    pub(super) renewals: u32,
    /// Whether the round trip of the next one is a slow one.
    slow: bool,
    /// It has gone wrong: its lease has ended, or where validity is kept its validity.
    pub(super) over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Renewing {
    sent_ns: u64,
    answered_ns: u64,
    given_up_ns: u64,
    granted: bool,
}

/// How a hold begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) round_trip_ns: u64,
    pub(super) work_ns: u64,
    /// The first pause, in work done; drawn where it is `None`.
    pub(super) first_pause_ns: Option<u64>,
    /// Whether there are pauses at all.
    pub(super) pauses: bool,
    /// After how much work its lease is looked at, as if the client died there.
    pub(super) crash_ns: u64,
}

/// How a hold has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) state: State,
    /// When the work was done.
    pub(super) done_ns: u64,
    /// By how much the last command came after the end of the lease; 0 where it did not.
    pub(super) overrun_ns: u64,
    /// When the crash was, where it was asked for.
    pub(super) crashed_ns: u64,
    /// From the crash until the key is gone.
    pub(super) orphaned_ns: u64,
}

impl End {
    /// Whether the last command came after the lease had ended.
    pub(super) fn outlived(&self) -> bool {
        self.overrun_ns > 0
    }
}

/// The model of one setting under these conditions.
#[derive(Clone, Debug)]
pub(super) struct Lease<'a> {
    pub(super) conditions: &'a Conditions,
    pub(super) options: Options,
    pub(super) setting: Setting,
    ttl_ns: u64,
    validity_ns: u64,
    renewal: Option<Renewal>,
    timeout_ns: u64,
    quick: Option<Quick>,
}

impl<'a> Lease<'a> {
    /// # Errors
    /// [`OptionsError`] where the lock refuses such a setting.
    pub(super) fn new(conditions: &'a Conditions, setting: Setting) -> Result<Self, OptionsError> {
        let mut builder = Options::builder(setting.ttl);
        if let Some(every) = setting.renew {
            builder = builder.renewal(Renewal { every, max_hold: None });
        }
        let options = builder.build()?;
        let (validity_ns, timeout_ns) =
            (span_ns(options.validity()), span_ns(options.call_timeout()));
        let renewal = options.renewal();
        let every_ns = renewal.map_or(u64::MAX, |it| span_ns(it.every));
        Ok(Self {
            conditions,
            ttl_ns: span_ns(options.ttl()),
            validity_ns,
            renewal,
            timeout_ns,
            quick: Quick::of(&conditions.round_trip, (validity_ns, every_ns, timeout_ns)),
            options,
            setting,
        })
    }

    /// Whether an acquisition with this round trip gives a hold at all.
    pub(super) fn is_granted(&self, round_trip_ns: u64) -> bool {
        round_trip_ns < self.timeout_ns.min(self.validity_ns)
    }

    /// How a hold begins that is drawn plainly.
    #[inline]
    pub(super) fn start(&self, dice: &mut Dice) -> Start {
        let conditions = self.conditions;
        let mut round_trip_ns = conditions.round_trip.draw(dice);
        // What comes too late is no hold; it is tried again.
        for _ in 0..100 {
            if self.is_granted(round_trip_ns) {
                break;
            }
            round_trip_ns = conditions.round_trip.draw(dice);
        }
        let work_ns = conditions.hold.draw(dice);
        let crash_ns = u64::MAX;
        Start { round_trip_ns, work_ns, first_pause_ns: None, pauses: true, crash_ns }
    }

    /// How much longer a span of the client's clock lasts by the server's: one that is drawn within the drift.
    #[inline]
    fn lean(&self, dice: &mut Dice) -> f64 {
        match self.conditions.drift_ppm {
            0 => 1.0,
            ppm => 1.0 + (dice.unit() * 2.0 - 1.0) * f64::from(ppm) / 1e6,
        }
    }

    /// Lets a hold go by.
    #[inline]
    pub(super) fn walk<W: Watch>(&self, start: Start, watch: &mut W, dice: &mut Dice) -> End {
        let lean = self.lean(dice);
        let by_clock = |span_ns: u64| whole(float(span_ns) * lean);
        let validity_ns = by_clock(self.validity_ns);
        let renewal = self.renewal.map(|it| {
            let every = Duration::from_nanos(by_clock(span_ns(it.every)).max(1));
            Renewal { every, ..it }
        });
        let first_ns = renewal.map_or(u64::MAX, |it| span_ns(it.first(dice.bits())));
        let mut it = State {
            lease_end_ns: start.round_trip_ns / 2 + self.ttl_ns,
            valid_end_ns: if self.setting.tracked { validity_ns } else { u64::MAX },
            due_ns: first_ns,
            place_ns: first_ns,
            ..State::default()
        };
        let conditions = self.conditions;
        let (per_ns, lengths) = match &conditions.pause {
            Some((per_ns, lengths)) if start.pauses => (*per_ns, Some(lengths)),
            _ => (0.0, None),
        };
        let (mut now_ns, mut left_ns) = (start.round_trip_ns, start.work_ns);
        let mut first_ns = start.first_pause_ns;
        let (mut crashed_ns, mut orphaned_ns) = (0, 0);
        let mut crash_left_ns = start.crash_ns;
        loop {
            let gap_ns = first_ns.take().unwrap_or_else(|| dice.gap(per_ns));
            let (stop_ns, end_ns) = (now_ns + left_ns.min(gap_ns), now_ns + left_ns);
            let crash_at_ns = now_ns.saturating_add(crash_left_ns);
            let mark_ns = crash_at_ns.min(stop_ns);
            let spans = (validity_ns, renewal);
            self.run(&mut it, (now_ns, mark_ns, end_ns), spans, watch, dice);
            if crash_at_ns == mark_ns && crash_left_ns != u64::MAX {
                crashed_ns = crash_at_ns;
                orphaned_ns = it.lease_end_ns.saturating_sub(crash_at_ns);
                crash_left_ns = u64::MAX;
            }
            self.run(&mut it, (mark_ns, stop_ns, end_ns), spans, watch, dice);
            now_ns = stop_ns;
            it.over |= now_ns >= it.valid_end_ns;
            if gap_ns >= left_ns || (W::STOPS && it.over) {
                break;
            }
            left_ns -= gap_ns;
            if crash_left_ns != u64::MAX {
                crash_left_ns = crash_left_ns.saturating_sub(gap_ns);
            }
            let Some(lengths) = lengths else { break };
            let until_ns = self.relied_until(&it, left_ns);
            // One that renews works on for all that is left; one that does not may be beyond its lease already.
            // What is left takes longer by the pauses that are still to come.
            let later_ns = left_ns + whole(float(left_ns) * per_ns * lengths.mean_ns());
            let beyond_ns = (now_ns + later_ns).saturating_sub(it.lease_end_ns);
            let then_ns = if it.renews() { later_ns } else { beyond_ns };
            watch.pause(&it, until_ns.saturating_sub(now_ns), then_ns, dice);
            now_ns = now_ns.saturating_add(lengths.draw(dice));
            it.over |= now_ns >= until_ns;
            if W::STOPS && it.over {
                break;
            }
        }
        let trip_ns = conditions.round_trip.draw(dice);
        let overrun_ns = (now_ns + trip_ns / 2 + 1).saturating_sub(it.lease_end_ns);
        End { state: it, done_ns: now_ns, overrun_ns, crashed_ns, orphaned_ns }
    }

    /// Until when a client that stands still must go on, or else the hold goes wrong. One that renews then
    /// renews at once; of one that does not, the rest of the work must be done by then.
    fn relied_until(&self, it: &State, left_ns: u64) -> u64 {
        let end_ns = if self.setting.tracked { it.valid_end_ns } else { it.lease_end_ns };
        end_ns.saturating_sub(if it.renews() { 0 } else { left_ns })
    }

    /// The client runs, from `from_ns` until `to_ns`; without a pause its work would end at `end_ns`.
    #[inline]
    fn run<W: Watch>(
        &self,
        it: &mut State,
        (from_ns, to_ns, end_ns): (u64, u64, u64),
        (validity_ns, renewal): (u64, Option<Renewal>),
        watch: &mut W,
        dice: &mut Dice,
    ) {
        let mut now_ns = from_ns;
        loop {
            let next_ns = match it.open {
                Some(open) => open.answered_ns.min(open.given_up_ns),
                None => it.due_ns,
            };
            now_ns = next_ns.max(now_ns);
            if now_ns >= to_ns || (W::STOPS && it.over) {
                return;
            }
            if now_ns >= it.valid_end_ns {
                // A hold that is lost is renewed no more.
                (it.over, it.due_ns, it.open) = (true, u64::MAX, None);
                return;
            }
            match it.open.take() {
                Some(open) if open.answered_ns > now_ns => {
                    it.failures += 1;
                    let end_ns = it.valid_end_ns.min(it.lease_end_ns);
                    let left = Duration::from_nanos(end_ns.saturating_sub(now_ns));
                    let (failures, bits) = (it.failures, dice.bits());
                    let pause = renewal.and_then(|renewal| renewal.again(failures, left, bits));
                    it.due_ns =
                        pause.map_or(u64::MAX, |pause| now_ns.saturating_add(span_ns(pause)));
                }
                Some(Renewing { granted: false, .. }) => {
                    (it.over, it.due_ns) = (true, u64::MAX);
                    return;
                }
                Some(open) => {
                    if self.setting.tracked {
                        it.valid_end_ns = it.valid_end_ns.max(open.sent_ns + validity_ns);
                    }
                    if let Some(renewal) = renewal {
                        let at = Instant::from_ns;
                        it.place_ns = renewal.next(at(it.place_ns), at(open.sent_ns)).as_ns();
                        (it.due_ns, it.failures) = (it.place_ns, 0);
                        let spans = (validity_ns, span_ns(renewal.every));
                        self.run_calmly(it, (now_ns, to_ns, end_ns), spans, watch, dice);
                    }
                }
                None => self.renew(it, now_ns, end_ns, watch, dice),
            }
        }
    }

    #[inline]
    fn renew<W: Watch>(
        &self,
        it: &mut State,
        at_ns: u64,
        end_ns: u64,
        watch: &mut W,
        dice: &mut Dice,
    ) {
        let trip_ns = match &self.quick {
            Some(quick) if std::mem::take(&mut it.slow) => {
                self.conditions.round_trip.tail.with_share(quick.slower * dice.unit())
            }
            _ => self.conditions.round_trip.draw(dice),
        };
        let fatal_ns = self.ask(it, 1, (at_ns, end_ns), watch, dice);
        it.renewals += 1;
        it.over |= trip_ns >= fatal_ns;
        // A connection is a queue: nothing overtakes what was sent before.
        it.arrived_ns = it.arrived_ns.max(at_ns + trip_ns / 2);
        it.answered_ns = it.answered_ns.max(at_ns + trip_ns);
        let granted = it.arrived_ns < it.lease_end_ns;
        if granted {
            it.lease_end_ns = it.arrived_ns + self.ttl_ns;
        }
        let given_up_ns = at_ns + self.timeout_ns;
        it.open =
            Some(Renewing { sent_ns: at_ns, answered_ns: it.answered_ns, given_up_ns, granted });
    }
}

impl Lease<'_> {
    /// Has it asked how likely a renewal that is sent at `at_ns` is to be too late; gives what is too late. Where
    /// the work ends before the lease does, a renewal that is late does no harm.
    #[inline]
    fn ask<W: Watch>(
        &self,
        it: &State,
        stands_for: u64,
        (at_ns, end_ns): (u64, u64),
        watch: &mut W,
        dice: &mut Dice,
    ) -> u64 {
        let fatal_ns = match self.setting.tracked {
            true if end_ns >= it.valid_end_ns => it.valid_end_ns - at_ns,
            false if end_ns >= it.lease_end_ns => 2 * it.lease_end_ns.saturating_sub(at_ns),
            _ => return u64::MAX,
        };
        let overrun_ns = end_ns.saturating_sub(it.lease_end_ns);
        watch.message(it, stands_for, fatal_ns, overrun_ns, dice);
        fatal_ns
    }
}

impl State {
    #[inline]
    fn renews(&self) -> bool {
        self.due_ns != u64::MAX || self.open.is_some()
    }
}
