//! Measures how long commands take on a server, and how long this machine pauses.
//!
//! A thread sleeps for a millisecond at a time and notes how much later it wakes, as jHiccup does: whatever stops that
//! thread would have stopped a client. Pauses of a single process, such as its garbage collector's, have to be measured
//! in that process.
//!
//! Invariant: round trips are measured on a connection that nothing else uses, with a pause after each.

#![expect(clippy::disallowed_methods, reason = "what is measured here is real time")]

use std::time::{Duration, Instant};

use picklock::command::Command;
use picklock::env::CallError;
use scenarios::distribution::{Bucket, Distribution, Histogram, Measured};
use scenarios::span::Span;

use crate::endpoint::Endpoint;
use ttl_model::law::float;

/// How long the thread sleeps.
const NAP: Duration = Duration::from_millis(1);
/// A shorter delay is the timer's resolution, and no pause.
const PAUSE_NS: u64 = 1_000_000;
/// The tags in the log.
const PAUSES: &str = "pause";
const ROUND_TRIPS: &str = "round-trip";

/// What was measured.
#[derive(Debug)]
pub struct MachineMeasurements {
    /// Round trips.
    pub round_trip: Distribution,
    /// Pauses of a millisecond or longer; if there was none, the longest delay.
    pub pause: Distribution,
    /// How many of them there were in a nanosecond.
    pub pauses_per_ns: f64,
    /// How many round trips, and how many pauses.
    pub counts: (u64, u64),
    /// All round trips and all delays of the thread in nanoseconds, each with its tag in a log.
    pub samples_ns: [(&'static str, Vec<u64>); 2],
}

/// Measures for `length`.
///
/// # Errors
/// [`CallError`] where the server does not answer.
pub async fn measure(
    endpoint: &Endpoint,
    length: Duration,
) -> Result<MachineMeasurements, CallError> {
    let napping = tokio::task::spawn_blocking(move || nap(length));
    let end = Instant::now() + length;
    let mut trips = Vec::new();
    loop {
        let sent = Instant::now();
        endpoint.command(&Command::new("PING")).await?;
        trips.push(ns(sent.elapsed()));
        if Instant::now() >= end {
            break;
        }
        tokio::time::sleep(NAP).await;
    }
    let late = napping.await.map_err(|error| CallError::Indeterminate(error.to_string().into()))?;
    Ok(found(trips, late, length))
}

/// By how much later than it wanted a thread woke, each time.
fn nap(length: Duration) -> Vec<u64> {
    let begin = Instant::now();
    let mut late = Vec::new();
    let mut before = begin;
    while before.duration_since(begin) < length {
        std::thread::sleep(NAP);
        let now = Instant::now();
        late.push(ns(now.duration_since(before).saturating_sub(NAP)));
        before = now;
    }
    late
}

fn found(trips: Vec<u64>, late: Vec<u64>, length: Duration) -> MachineMeasurements {
    let mut pauses: Vec<u64> = late.iter().copied().filter(|it| *it >= PAUSE_NS).collect();
    if pauses.is_empty() {
        // The longest delay bounds how rare pauses are.
        pauses.extend(late.iter().max());
    }
    let count = pauses.len() as u64;
    MachineMeasurements {
        round_trip: named(&trips, ROUND_TRIPS),
        pause: named(&pauses, PAUSES),
        pauses_per_ns: float(count) / float(ns(length).max(1)),
        counts: (trips.len() as u64, count),
        samples_ns: [(ROUND_TRIPS, trips), (PAUSES, late)],
    }
}

fn named(values: &[u64], tag: &str) -> Distribution {
    let named =
        Measured { file: "measured.hlog".to_owned(), tag: Some(tag.to_owned()), unit: None };
    match distribution(values) {
        Distribution::Histogram(histogram) => Distribution::Histogram(histogram.found_in(named)),
        other => other,
    }
}

/// The distribution of these values, in nanoseconds; always 0 if there are none.
pub(super) fn distribution(values: &[u64]) -> Distribution {
    let bucket = |ns: &u64| Bucket { value: Span(Duration::from_nanos(*ns)), count: 1 };
    let histogram = Histogram::new(values.iter().map(bucket));
    histogram.map_or(Distribution::Constant(Span(Duration::ZERO)), Distribution::Histogram)
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasts_is_a_pause_and_none_is_no_nothing() {
        let second = Duration::from_secs(1);
        let with =
            found(vec![100_000, 200_000], vec![999_999, 1_000_000, 30_000_000, 50_000], second);
        assert_eq!(with.counts, (2, 2));
        assert!((with.pauses_per_ns * 1e9 - 2.0).abs() < 1e-9);
        assert_eq!(with.pause.tail().at_least(30_000_000), 0.5);
        assert_eq!(
            with.samples_ns.map(|(tag, it)| (tag, it.len())),
            [(ROUND_TRIPS, 2), (PAUSES, 4)]
        );
        let without = found(vec![100_000], vec![50_000, 70_000], second);
        assert_eq!((without.counts.1, without.pause.sampler().at(0)), (1, 70_000));
    }

    #[test]
    fn a_nap_is_noted_each_time() {
        assert!(!nap(Duration::from_millis(3)).is_empty());
    }
}
