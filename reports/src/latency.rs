//! How long operations took: a distribution for each kind of operation of a history.
//!
//! Invariant: only what has both a beginning and an end is measured, so an operation of unknown outcome
//! makes no figure look better.

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use history::{AcquireEnd, CommandOp, History, ReleaseEnd, Timeline};
use scenarios::result::LatencyFigures;

/// What is told apart; a longer time counts as this one in the percentiles.
const LONGEST_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// A kind of operation, in the order in which reports list them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// From asking for the lock to having it.
    Acquire,
    /// From asking for the lock to being refused it.
    Refusal,
    /// From having the lock to beginning to release it.
    Hold,
    /// From beginning to release to the answer.
    Release,
    /// From beginning to release to having it, where the next to have it was already waiting.
    Handoff,
    /// From sending a command of this name to its answer.
    Command(String),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire => "acquire",
            Self::Refusal => "wait for refusal",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Handoff => "handoff",
            Self::Command(name) => name,
        })
    }
}

/// How long operations of one kind took.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl LatencyHistogram {
    /// Counts an operation that took so long.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
    }

    /// How many operations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The shortest, exactly; 0 where there is none.
    pub fn min_ns(&self) -> u64 {
        self.min_ns.min(self.max_ns)
    }

    /// The longest, exactly.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The histogram behind it, which rounds to three significant digits.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// A rounded time of the histogram, kept between the exact ends.
    pub(crate) fn clamp_ns(&self, rounded_ns: u64) -> u64 {
        rounded_ns.clamp(self.min_ns(), self.max_ns)
    }

    /// The figures of a result.
    pub fn figures(&self, operation: &Operation) -> LatencyFigures {
        let count = self.count();
        let quantile_ns = |share| self.clamp_ns(self.histogram.value_at_quantile(share));
        let mean_ns = if count == 0 { 0.0 } else { self.sum_ns as f64 / count as f64 };
        LatencyFigures {
            operation: operation.to_string(),
            count,
            min_ns: self.min_ns(),
            p50_ns: quantile_ns(0.50),
            p90_ns: quantile_ns(0.90),
            p99_ns: quantile_ns(0.99),
            max_ns: self.max_ns,
            mean_ns,
        }
    }
}

impl Default for LatencyHistogram {
    /// No operation yet.
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that a histogram takes");
        Self { histogram, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }
}

/// How long every kind of operation of a history took.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    kinds: BTreeMap<Operation, LatencyHistogram>,
}

/// An operation of a client, from its beginning to its end, in nanoseconds of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LatencySpan {
    pub(crate) operation: Operation,
    pub(crate) client: u32,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
}

impl LatencySpan {
    /// How long it took.
    pub(crate) fn took_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }
}

/// Every operation of a client that came to its end.
#[derive(Default)]
struct LatencySpans(Vec<LatencySpan>);

/// Every operation of a history that a client began and that came to its end.
pub(crate) fn spans(history: &History) -> Vec<LatencySpan> {
    LatencySpans::of(history).0
}

impl LatencySpans {
    fn of(history: &History) -> Self {
        let timeline = Timeline::of(history);
        let mut spans = Self::default();
        for it in &timeline.acquisitions {
            match it.end {
                Some((end_ns, AcquireEnd::Ok)) => {
                    spans.add(Operation::Acquire, it.client, it.invoke_ns, end_ns);
                    if let Some(release_ns) = it.release_ns {
                        spans.add(Operation::Hold, it.client, end_ns, release_ns);
                    }
                }
                Some((end_ns, AcquireEnd::Fail(_))) => {
                    spans.add(Operation::Refusal, it.client, it.invoke_ns, end_ns);
                }
                Some((_, AcquireEnd::Info(_))) | None => {}
            }
            if let (Some(begun_ns), Some((end_ns, ReleaseEnd::Ok(_)))) =
                (it.release_ns, it.released)
            {
                spans.add(Operation::Release, it.client, begun_ns, end_ns);
            }
        }
        spans.handoffs(&timeline);
        // The run itself, client 0, only looks after the lock's key.
        let of_clients = |it: &&CommandOp| it.client != 0 && !history.head.is_resource(it.node);
        for it in timeline.commands.iter().filter(of_clients) {
            if let Some((end_ns, ..)) = it.answer {
                let name = history.text(it.name).to_owned();
                spans.add(Operation::Command(name), it.client, it.invoke_ns, end_ns);
            }
        }
        if !history.head.locks {
            // Without a lock these take no time, and would stretch every scale down to a nanosecond.
            let is_of_lock =
                |it: &LatencySpan| matches!(it.operation, Operation::Acquire | Operation::Release);
            spans.0.retain(|it| !is_of_lock(it));
        }
        spans
    }

    /// From each release to whoever had the lock next and was waiting for it then.
    fn handoffs(&mut self, timeline: &Timeline) {
        let mut grants: Vec<(u64, u64, u32)> = (timeline.acquisitions.iter())
            .filter_map(|it| it.acquired_ns().map(|at_ns| (at_ns, it.invoke_ns, it.client)))
            .collect();
        grants.sort_unstable();
        for it in timeline.acquisitions.iter().filter(|it| it.acquired_ns().is_some()) {
            let Some(release_ns) = it.release_ns else { continue };
            let next = grants.partition_point(|(at_ns, ..)| *at_ns <= release_ns);
            if let Some(&(at_ns, invoke_ns, client)) = grants.get(next)
                && invoke_ns <= release_ns
            {
                self.add(Operation::Handoff, client, release_ns, at_ns);
            }
        }
    }

    fn add(&mut self, operation: Operation, client: u32, from_ns: u64, until_ns: u64) {
        self.0.push(LatencySpan { operation, client, from_ns, until_ns });
    }
}

impl Latencies {
    /// Measures a history.
    pub fn of(history: &History) -> Self {
        let mut latencies = Self::default();
        for span in spans(history) {
            let took_ns = span.took_ns();
            latencies.record(span.operation, took_ns);
        }
        latencies
    }

    /// Counts an operation of this kind that took so long.
    pub fn record(&mut self, operation: Operation, ns: u64) {
        self.kinds.entry(operation).or_default().record(ns);
    }

    /// Every kind that occurred, with its distribution.
    pub fn iter(&self) -> impl Iterator<Item = (&Operation, &LatencyHistogram)> {
        self.kinds.iter()
    }

    /// How long operations of this kind took, if there were any.
    pub fn get(&self, operation: &Operation) -> Option<&LatencyHistogram> {
        self.kinds.get(operation)
    }

    /// How often this kind occurred.
    pub fn count(&self, operation: &Operation) -> u64 {
        self.kinds.get(operation).map_or(0, LatencyHistogram::count)
    }

    /// The figures of every kind that occurred, for a result.
    pub fn summaries(&self) -> Vec<LatencyFigures> {
        self.iter().map(|(operation, distribution)| distribution.figures(operation)).collect()
    }
}

#[cfg(test)]
mod tests {
    use history::{Answer, Event, Head, Intent, Touch, What};

    use super::*;
    use crate::support;

    fn names(latencies: &Latencies) -> Vec<String> {
        latencies.iter().map(|(operation, _)| operation.to_string()).collect()
    }

    #[test]
    fn every_kind_that_ended_is_measured() {
        let history = support::bonus_pool();
        let latencies = Latencies::of(&history);
        let kinds = [
            "acquire",
            "wait for refusal",
            "hold",
            "release",
            "handoff",
            "DECR",
            "EVALSHA",
            "GET",
            "SET",
        ];
        assert_eq!(names(&latencies), kinds);
        let timeline = Timeline::of(&history);
        let acquired = timeline.acquisitions.iter().filter(|it| it.acquired_ns().is_some());
        assert_eq!(latencies.count(&Operation::Acquire), acquired.count() as u64);
        assert_eq!(latencies.count(&Operation::Command("DECR".to_owned())), 10);
    }

    #[test]
    fn without_a_lock_nothing_is_acquired_or_released() {
        let mut history = support::bonus_pool();
        history.head.locks = false;
        let latencies = Latencies::of(&history);
        let kinds = names(&latencies);
        assert!(kinds.contains(&"hold".to_owned()), "{kinds:?}");
        assert!(!kinds.iter().any(|it| it == "acquire" || it == "release"), "{kinds:?}");
    }

    #[test]
    fn what_the_run_itself_asks_is_not_measured() {
        let mut history = History::new(Head::default());
        let (name, key) = (history.texts.intern("PTTL"), history.texts.intern("k"));
        let intent = Intent { touch: Touch::None, compares: false };
        for client in [0, 1] {
            let command = What::Command { node: 0, name, key, intent };
            let answered = What::Answered { touch: Touch::None, answer: Answer::Int(1), found: 0 };
            for (at_ns, what) in [(1, command), (5, answered)] {
                let (acquisition, op) = (0, client + 1);
                history.events.push(Event { at_ns, client, acquisition, op, what });
            }
        }
        assert_eq!(Latencies::of(&history).count(&Operation::Command("PTTL".to_owned())), 1);
    }

    /// An acquisition: when it began, when it had the lock, when it began to release.
    fn handed_on(all: &[(u64, u64, Option<u64>)]) -> [u64; 3] {
        let mut history = History::new(Head::default());
        for (number, &(asks_ns, has_ns, lets_go_ns)) in (1..).zip(all) {
            let mut event = |at_ns, what| {
                let (client, acquisition, op) = (number, number, number);
                history.events.push(Event { at_ns, client, acquisition, op, what });
            };
            event(asks_ns, What::Acquire);
            event(has_ns, What::Acquired);
            if let Some(at_ns) = lets_go_ns {
                event(at_ns, What::Release);
            }
        }
        let latencies = Latencies::of(&history);
        let handoffs = latencies.kinds.get(&Operation::Handoff);
        handoffs.map_or([0; 3], |it| [it.count(), it.min_ns(), it.max_ns()])
    }

    #[test]
    fn a_handoff_is_from_the_release_to_the_next_that_was_waiting() {
        let first = (0, 10, Some(50));
        assert_eq!(handed_on(&[first, (20, 57, None)]), [1, 7, 7]);
        assert_eq!(handed_on(&[first, (50, 57, None)]), [1, 7, 7], "just waiting");
        assert_eq!(handed_on(&[first, (51, 57, None)]), [0; 3], "nobody was");
        assert_eq!(handed_on(&[first, (20, 90, None), (20, 57, None)]), [1, 7, 7], "the next");
        assert_eq!(handed_on(&[first, (20, 90, None), (51, 57, None)]), [0; 3], "came between");
        assert_eq!(handed_on(&[first, (20, 57, Some(60)), (20, 90, None)]), [2, 7, 30]);
        assert_eq!(handed_on(&[first, (20, 50, None)]), [0; 3], "it had it already");
        assert_eq!(handed_on(&[(0, 10, None), (20, 57, None)]), [0; 3]);
    }

    #[test]
    fn what_has_no_end_is_not_measured() {
        let mut history = support::bonus_pool();
        history.events.truncate(2);
        assert_eq!(Latencies::of(&history).summaries(), []);
    }

    #[test]
    fn figures_stand_in_order_and_between_the_exact_ends() {
        for samples in [vec![2_000_000], vec![7; 50], (1..=1000).map(|it| it * 999).collect()] {
            let mut distribution = LatencyHistogram::default();
            for &ns in &samples {
                distribution.record(ns);
            }
            let it = distribution.figures(&Operation::Acquire);
            assert_eq!((it.min_ns, it.max_ns), (samples[0], samples[samples.len() - 1]));
            let steps = [it.min_ns, it.p50_ns, it.p90_ns, it.p99_ns, it.max_ns];
            assert!(steps.is_sorted(), "{steps:?}");
        }
    }

    #[test]
    fn times_beyond_an_hour_keep_their_exact_maximum() {
        let mut distribution = LatencyHistogram::default();
        distribution.record(0);
        distribution.record(2 * LONGEST_NS);
        let figures = distribution.figures(&Operation::Hold);
        assert_eq!((figures.count, figures.min_ns, figures.max_ns), (2, 0, 2 * LONGEST_NS));
        assert!(figures.p99_ns >= LONGEST_NS && figures.p99_ns <= figures.max_ns);
    }

    #[test]
    fn nothing_gives_zeros() {
        let figures = LatencyHistogram::default().figures(&Operation::Hold);
        assert_eq!(figures.mean_ns, 0.0);
        assert_eq!((figures.count, figures.min_ns, figures.p99_ns, figures.max_ns), (0, 0, 0, 0));
    }
}
