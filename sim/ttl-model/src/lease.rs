//! The lease model: one hold of a lock, from the send of its acquisition to the end of its work.
//!
//! The client sends, works, pauses now and then, and renews as the library's watchdog does; the server counts the TTL
//! from the arrival of a command. A message takes half a round trip.
//!
//! Invariant: the arithmetic is the lock's own ([`Options`]): validity from the send, drift allowance, renewal
//! interval, retries after a failure. `validate` compares it with the shipped lock. Not modelled: servers that fail
//! or forget, lost messages, several locks.

mod batch;
mod conditions;
mod hold;
mod stretch;

pub use conditions::{Conditions, Setting};
use hold::PendingRenewal;
pub(crate) use hold::{HoldEnd, HoldObserver, HoldStart, NoObserver, SimulatedHold};

use std::time::Duration;

use picklock::time::{Instant, span_ns};
use picklock::{Options, OptionsError, Renewal};

use self::batch::FastRoundTrips;
use self::stretch::ShortPauses;
use super::law::{Random, float, whole};

/// The model of one setting under these conditions.
#[derive(Clone, Debug)]
pub(super) struct LeaseModel<'a> {
    pub(super) conditions: &'a Conditions,
    pub(super) options: Options,
    pub(super) setting: Setting,
    ttl_ns: u64,
    validity_ns: u64,
    renewal: Option<Renewal>,
    timeout_ns: u64,
    /// The share of acquisitions that are answered in time.
    pub(super) granted: f64,
    fast: Option<FastRoundTrips>,
    short: Option<ShortPauses>,
}

impl<'a> LeaseModel<'a> {
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
        let granted = 1.0 - conditions.round_trip.tail.at_least(timeout_ns.min(validity_ns));
        let fast = FastRoundTrips::of(&conditions.round_trip, (validity_ns, every_ns, timeout_ns));
        Ok(Self {
            conditions,
            ttl_ns: span_ns(options.ttl()),
            validity_ns,
            renewal,
            timeout_ns,
            granted,
            short: ShortPauses::of(conditions.pause.as_ref(), fast.as_ref()),
            fast,
            options,
            setting,
        })
    }

    /// Whether an acquisition with this round trip succeeds.
    pub(super) fn is_granted(&self, round_trip_ns: u64) -> bool {
        round_trip_ns < self.timeout_ns.min(self.validity_ns)
    }

    #[inline]
    pub(super) fn start(&self, random: &mut Random) -> HoldStart {
        let conditions = self.conditions;
        let mut round_trip_ns = conditions.round_trip.draw(random);
        // A reply that comes too late is no hold; the client retries.
        for _ in 0..100 {
            if self.is_granted(round_trip_ns) {
                break;
            }
            round_trip_ns = conditions.round_trip.draw(random);
        }
        HoldStart::new(round_trip_ns, conditions.hold.draw(random))
    }

    /// The ratio of the server's clock to the client's, drawn within the drift.
    #[inline]
    fn lean(&self, random: &mut Random) -> f64 {
        match self.conditions.drift_ppm {
            0 => 1.0,
            ppm => 1.0 + (random.unit() * 2.0 - 1.0) * f64::from(ppm) / 1e6,
        }
    }

    /// Validity and renewal by the client's clock.
    #[inline]
    fn spans(&self, random: &mut Random) -> (u64, Option<Renewal>) {
        let lean = self.lean(random);
        let by_clock = |span_ns: u64| whole(float(span_ns) * lean);
        let renewal = self.renewal.map(|it| {
            let every = Duration::from_nanos(by_clock(span_ns(it.every)).max(1));
            Renewal { every, ..it }
        });
        (by_clock(self.validity_ns), renewal)
    }

    #[inline]
    pub(super) fn walk<W: HoldObserver>(
        &self,
        start: HoldStart,
        watch: &mut W,
        random: &mut Random,
    ) -> HoldEnd {
        let (validity_ns, renewal) = self.spans(random);
        let first_ns = renewal.map_or(u64::MAX, |it| span_ns(it.first(random.bits())));
        let mut it = SimulatedHold {
            lease_end_ns: start.round_trip_ns / 2 + self.ttl_ns,
            valid_end_ns: if self.setting.tracked { validity_ns } else { u64::MAX },
            due_ns: first_ns,
            place_ns: first_ns,
            ..SimulatedHold::default()
        };
        let spans = (validity_ns, renewal);
        let at = match self.walk_in_stretches(&mut it, start, spans, watch, random) {
            Some(done_ns) => (done_ns, 0),
            None => (start.round_trip_ns, start.work_ns),
        };
        self.work(it, at, start, spans, watch, random)
    }

    /// The same lease where nobody checks it: whoever has checked it writes, whatever happens until then.
    pub(super) fn unchecked(&self) -> Self {
        Self { setting: Setting { tracked: false, ..self.setting }, ..self.clone() }
    }

    /// What follows the last check, until the write is sent; of an [unchecked](Self::unchecked) lease.
    #[inline]
    pub(super) fn write<W: HoldObserver>(
        &self,
        checked: &HoldEnd,
        start: HoldStart,
        watch: &mut W,
        random: &mut Random,
    ) -> HoldEnd {
        let it = SimulatedHold { valid_end_ns: u64::MAX, ..checked.state };
        let spans = self.spans(random);
        self.work(it, (checked.done_ns, start.work_ns), start, spans, watch, random)
    }

    /// The client works from `now_ns` on, for `left_ns` of running time.
    #[inline]
    fn work<W: HoldObserver>(
        &self,
        mut it: SimulatedHold,
        (mut now_ns, mut left_ns): (u64, u64),
        start: HoldStart,
        spans: (u64, Option<Renewal>),
        watch: &mut W,
        random: &mut Random,
    ) -> HoldEnd {
        let conditions = self.conditions;
        let (per_ns, lengths) = match &conditions.pause {
            Some((per_ns, lengths)) if start.pauses => (*per_ns, Some(lengths)),
            _ => (0.0, None),
        };
        let mut first_ns = start.first_pause_ns;
        let (mut crashed_ns, mut orphaned_ns) = (0, 0);
        let mut crash_left_ns = start.crash_ns;
        loop {
            let gap_ns = first_ns.take().unwrap_or_else(|| random.gap(per_ns));
            let (stop_ns, end_ns) = (now_ns + left_ns.min(gap_ns), now_ns + left_ns);
            let crash_at_ns = now_ns.saturating_add(crash_left_ns);
            let mark_ns = crash_at_ns.min(stop_ns);
            self.run(&mut it, (now_ns, mark_ns, end_ns), spans, watch, random);
            if crash_at_ns == mark_ns && crash_left_ns != u64::MAX {
                crashed_ns = crash_at_ns;
                orphaned_ns = it.lease_end_ns.saturating_sub(crash_at_ns);
                crash_left_ns = u64::MAX;
            }
            self.run(&mut it, (mark_ns, stop_ns, end_ns), spans, watch, random);
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
            let until_ns = self.pause(&it, 1.0, (now_ns, left_ns), watch, random);
            now_ns = now_ns.saturating_add(lengths.draw(random));
            it.over |= now_ns >= until_ns;
            if W::STOPS && it.over {
                break;
            }
        }
        let trip_ns = conditions.round_trip.draw(random);
        let overrun_ns = (now_ns + trip_ns / 2 + 1).saturating_sub(it.lease_end_ns);
        HoldEnd { state: it, done_ns: now_ns, overrun_ns, crashed_ns, orphaned_ns }
    }

    /// Reports pauses at `now_ns`, with `left_ns` of the work left, to the observer; returns until when one may last.
    fn pause<W: HoldObserver>(
        &self,
        it: &SimulatedHold,
        stands_for: f64,
        (now_ns, left_ns): (u64, u64),
        watch: &mut W,
        random: &mut Random,
    ) -> u64 {
        let until_ns = self.relied_until(it, left_ns);
        let Some((per_ns, lengths)) = &self.conditions.pause else { return until_ns };
        // A client that renews continues with all that is left; one that does not may be beyond its lease already.
        // Then come the pauses of the remaining work, and the way of the last command.
        let paused_ns = float(left_ns) * per_ns * lengths.mean_ns();
        let later_ns = whole(paused_ns + self.conditions.round_trip.mean_ns() / 2.0);
        let beyond_ns = (now_ns + left_ns).saturating_sub(it.lease_end_ns);
        let then_ns = later_ns + if it.renews() { left_ns } else { beyond_ns };
        watch.pause(it, stands_for, until_ns.saturating_sub(now_ns), then_ns, random);
        until_ns
    }

    /// When a paused client must have resumed, or the hold goes wrong. A client that renews does so at once; one
    /// that does not must also have finished its work by then.
    fn relied_until(&self, it: &SimulatedHold, left_ns: u64) -> u64 {
        let end_ns = if self.setting.tracked { it.valid_end_ns } else { it.lease_end_ns };
        end_ns.saturating_sub(if it.renews() { 0 } else { left_ns })
    }

    /// The client runs from `from_ns` to `to_ns`; without a pause its work would end at `end_ns`.
    #[inline]
    fn run<W: HoldObserver>(
        &self,
        it: &mut SimulatedHold,
        (from_ns, to_ns, end_ns): (u64, u64, u64),
        (validity_ns, renewal): (u64, Option<Renewal>),
        watch: &mut W,
        random: &mut Random,
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
                // A lost hold is not renewed.
                (it.over, it.due_ns, it.open) = (true, u64::MAX, None);
                return;
            }
            match it.open.take() {
                Some(open) if open.answered_ns > now_ns => {
                    it.failures += 1;
                    let end_ns = it.valid_end_ns.min(it.lease_end_ns);
                    let left = Duration::from_nanos(end_ns.saturating_sub(now_ns));
                    let (failures, bits) = (it.failures, random.bits());
                    let pause =
                        renewal.and_then(|renewal| renewal.retry_pause(failures, left, bits));
                    it.due_ns =
                        pause.map_or(u64::MAX, |pause| now_ns.saturating_add(span_ns(pause)));
                }
                Some(PendingRenewal { granted: false, .. }) => {
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
                        self.renew_in_batch(it, (now_ns, to_ns, end_ns), spans, watch, random);
                    }
                }
                None => self.renew(it, now_ns, end_ns, watch, random),
            }
        }
    }

    #[inline]
    fn renew<W: HoldObserver>(
        &self,
        it: &mut SimulatedHold,
        at_ns: u64,
        end_ns: u64,
        watch: &mut W,
        random: &mut Random,
    ) {
        let trip_ns = match &self.fast {
            Some(fast) if std::mem::take(&mut it.slow) => {
                self.conditions.round_trip.tail.with_share(fast.slower * random.unit())
            }
            _ => self.conditions.round_trip.draw(random),
        };
        let fatal_ns = self.ask(it, 1, (at_ns, end_ns), watch);
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
        it.open = Some(PendingRenewal {
            sent_ns: at_ns,
            answered_ns: it.answered_ns,
            given_up_ns,
            granted,
        });
    }

    /// Reports a renewal sent at `at_ns` to the observer; returns the round trip that is too long. If the work ends
    /// before the lease, a late renewal does no harm.
    #[inline]
    fn ask<W: HoldObserver>(
        &self,
        it: &SimulatedHold,
        stands_for: u64,
        (at_ns, end_ns): (u64, u64),
        watch: &mut W,
    ) -> u64 {
        let fatal_ns = match self.setting.tracked {
            true if end_ns >= it.valid_end_ns => it.valid_end_ns - at_ns,
            false if end_ns >= it.lease_end_ns => 2 * it.lease_end_ns.saturating_sub(at_ns),
            _ => return u64::MAX,
        };
        let overrun_ns = end_ns.saturating_sub(it.lease_end_ns);
        watch.message(it, stands_for, fatal_ns, overrun_ns);
        fatal_ns
    }
}
