//! Effects: faults on the wire of a link, added and removed while it is in use.
//!
//! Invariant: which connections an effect strikes follows from the link's seed, the connection's number and the
//! effect's, and nothing else. No bytes are lost or changed in the middle: TCP never shows that to its ends.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use super::ids::Side;
use super::latency::{Draws, Latency};

/// An effect on one direction of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Everything arrives later by this, on top of the link's own latency and of other effects.
    Latency(Latency),
    /// This many bytes a second get through. Bytes that are sent faster queue, and the sender waits when
    /// the queue is full.
    Bandwidth(NonZeroU64),
    /// Nothing gets through, as with [`Link::cut`](super::Link::cut). When the effect is removed, what was
    /// withheld arrives.
    Cut,
    /// Nothing gets through, and after this time the connection is closed.
    Timeout(Duration),
    /// The end of the connection arrives later by this.
    SlowClose(Duration),
    /// The end of the connection never arrives: the other leg stays open, and nothing comes on it.
    HalfOpen,
    /// After this time the connection is reset.
    ResetAfter(Duration),
    /// The connection is closed after this many bytes.
    Limit(u64),
}

/// The share of connections that an effect or a rule strikes, in parts per thousand million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toxicity(u32);

impl Toxicity {
    /// All connections.
    pub const ALL: Self = Self(Self::WHOLE);
    const WHOLE: u32 = 1_000_000_000;

    /// This share; `None` unless from 0 to 1.
    pub fn of(part: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&part) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1e9")]
        let parts = (part * f64::from(Self::WHOLE)).round() as u32;
        Some(Self(parts))
    }

    /// The part of connections, from 0 to 1.
    pub fn part(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }

    /// Whether it strikes the connection with these numbers.
    pub(super) fn strikes(self, seed: u64, names: [u64; 4]) -> bool {
        // Named apart from the latencies of directions, which are 0 and 1.
        self == Self::ALL || Draws::new(seed ^ APART, names).below(Self::WHOLE) < self.0
    }
}

const APART: u64 = 0x746f_7869_6369_7479;

/// An effect's name in the log, unique in its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

#[derive(Clone, Debug)]
pub(super) struct InstalledEffect {
    pub(super) id: EffectId,
    pub(super) side: Side,
    pub(super) effect: Effect,
    pub(super) toxicity: Toxicity,
}

/// The effects on one direction of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct WireState {
    pub(super) latencies: Vec<Latency>,
    /// Bytes a second: the least of those that are in force.
    pub(super) bandwidth: Option<NonZeroU64>,
    pub(super) cut: bool,
    pub(super) slow_close: Duration,
    pub(super) half_open: bool,
    pub(super) limit: Option<(EffectId, u64)>,
}

impl WireState {
    fn add(&mut self, id: EffectId, effect: &Effect) {
        match effect {
            Effect::Latency(latency) => self.latencies.push(latency.clone()),
            Effect::Bandwidth(rate) => {
                self.bandwidth = Some(self.bandwidth.map_or(*rate, |other| other.min(*rate)));
            }
            Effect::Cut | Effect::Timeout(_) => self.cut = true,
            Effect::SlowClose(delay) => self.slow_close = self.slow_close.saturating_add(*delay),
            Effect::HalfOpen => self.half_open = true,
            Effect::ResetAfter(_) => {}
            Effect::Limit(bytes) => {
                if self.limit.is_none_or(|(_, other)| *bytes < other) {
                    self.limit = Some((id, *bytes));
                }
            }
        }
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    Closed,
    Reset,
}

/// The effects on one connection: which there are, and since when.
#[derive(Debug, Default)]
pub(super) struct ActiveEffects {
    /// For each effect: whether it strikes the connection, and since when it is installed.
    seen: BTreeMap<EffectId, (bool, Instant)>,
    /// When the connection is to be ended, by which effect, and how.
    pub(super) scheduled_end: Option<(Instant, EffectId, ConnectionEnd)>,
}

impl ActiveEffects {
    /// Applies the link's effects; returns the state of requests and of replies, and reports for each new effect
    /// whether it strikes the connection.
    pub(super) fn take_over(
        &mut self,
        installed: &[InstalledEffect],
        now: Instant,
        strikes: impl Fn(&InstalledEffect) -> bool,
        mut report: impl FnMut(&InstalledEffect, bool),
    ) -> [WireState; 2] {
        self.seen.retain(|id, _| installed.iter().any(|it| it.id == *id));
        self.scheduled_end = None;
        let mut wires = [WireState::default(), WireState::default()];
        for it in installed {
            let (is_struck, since) = *self.seen.entry(it.id).or_insert_with(|| {
                let is_struck = strikes(it);
                report(it, is_struck);
                (is_struck, now)
            });
            if !is_struck {
                continue;
            }
            wires[usize::from(it.side == Side::Reply)].add(it.id, &it.effect);
            let (after, how) = match it.effect {
                Effect::Timeout(after) => (after, ConnectionEnd::Closed),
                Effect::ResetAfter(after) => (after, ConnectionEnd::Reset),
                _ => continue,
            };
            // An end too far away for the clock never comes.
            if let Some(at) = since.checked_add(after)
                && self.scheduled_end.is_none_or(|(sooner, ..)| at < sooner)
            {
                self.scheduled_end = Some((at, it.id, how));
            }
        }
        wires
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]
mod tests {
    use super::*;

    #[test]
    fn a_toxicity_is_a_part_of_all_connections() {
        let struck = |part: f64, seed| {
            let toxicity = Toxicity::of(part).unwrap();
            (0..1000).filter(|number| toxicity.strikes(seed, [0, 0, *number, 1])).count()
        };
        assert_eq!((struck(0.0, 1), struck(1.0, 1)), (0, 1000));
        assert!((200..300).contains(&struck(0.25, 1)), "{}", struck(0.25, 1));
        let which = |seed| -> Vec<bool> {
            let half = Toxicity::of(0.5).unwrap();
            (0..64).map(|number| half.strikes(seed, [0, 0, number, 1])).collect()
        };
        assert_eq!(which(1), which(1));
        assert_ne!(which(1), which(2));
        for nonsense in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Toxicity::of(nonsense), None);
        }
        assert_eq!(Toxicity::of(0.3).map(Toxicity::part), Some(0.3));
    }

    fn installed(id: u64, side: Side, effect: Effect) -> InstalledEffect {
        InstalledEffect { id: EffectId(id), side, effect, toxicity: Toxicity::ALL }
    }

    #[test]
    fn effects_add_up_in_their_direction() {
        let ms = Duration::from_millis;
        let rate = |bytes| Effect::Bandwidth(NonZeroU64::new(bytes).unwrap());
        let all = [
            installed(1, Side::Reply, Effect::Latency(Latency::Fixed(ms(5)))),
            installed(2, Side::Reply, Effect::Latency(Latency::Fixed(ms(2)))),
            installed(3, Side::Request, rate(100)),
            installed(4, Side::Request, rate(50)),
            installed(5, Side::Request, Effect::Limit(7)),
            installed(6, Side::Request, Effect::Limit(9)),
            installed(7, Side::Request, Effect::SlowClose(ms(1))),
            installed(8, Side::Reply, Effect::HalfOpen),
        ];
        let mut reported = Vec::new();
        let mut struck = ActiveEffects::default();
        let now = Instant::now();
        let spare = |it: &InstalledEffect| it.id != EffectId(2);
        let report = |it: &InstalledEffect, is_struck| reported.push((it.id.0, is_struck));
        let [requests, replies] = struck.take_over(&all, now, spare, report);
        assert_eq!(replies.latencies, [Latency::Fixed(ms(5))]);
        assert_eq!(
            (requests.bandwidth, requests.limit),
            (NonZeroU64::new(50), Some((EffectId(5), 7)))
        );
        assert_eq!(
            (requests.slow_close, requests.half_open, replies.half_open),
            (ms(1), false, true)
        );
        assert_eq!(reported.len(), 8);
        assert_eq!(reported[1], (2, false));
        // Whatever was decided stays so, and is reported once.
        let [_, replies] = struck.take_over(&all, now, |_| true, |it, _| panic!("{it:?}"));
        assert_eq!(replies.latencies.len(), 1);
    }

    #[test]
    fn the_sooner_end_comes_counted_from_when_the_effect_was_there() {
        let ms = Duration::from_millis;
        let mut all = vec![installed(1, Side::Reply, Effect::Timeout(ms(50)))];
        let mut struck = ActiveEffects::default();
        let start = Instant::now();
        let [requests, replies] = struck.take_over(&all, start, |_| true, |_, _| {});
        assert!(replies.cut && !requests.cut);
        all.push(installed(2, Side::Reply, Effect::ResetAfter(ms(10))));
        struck.take_over(&all, start + ms(30), |_| true, |_, _| {});
        assert_eq!(struck.scheduled_end, Some((start + ms(40), EffectId(2), ConnectionEnd::Reset)));
        all.pop();
        struck.take_over(&all, start + ms(35), |_| true, |_, _| {});
        assert_eq!(
            struck.scheduled_end,
            Some((start + ms(50), EffectId(1), ConnectionEnd::Closed))
        );
        struck.take_over(&[], start + ms(36), |_| true, |_, _| {});
        assert_eq!(struck.scheduled_end, None);
    }
}
