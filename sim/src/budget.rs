//! Work that ends when its time is up.
//!
//! Invariant: what was done until then, or until a signal, is not lost.

#![expect(clippy::disallowed_methods, reason = "a budget is the user's time")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use harness::sweep::BatchProgress;
use scenarios::format::count;

use super::failure::Failure;
use super::progress::{Progress, span};
use super::signal;
use super::terminal::Terminal;
use super::world::runtime;

/// Stops the work after this time, or at a signal; returns its result, and whether a signal came. Meanwhile it shows
/// how many schedules were run, and how much of the time is left.
pub(super) fn within<T: Send + 'static>(
    budget: Duration,
    terminal: &Terminal,
    work: impl FnOnce(&BatchProgress) -> T + Send + 'static,
) -> Result<(T, bool), Failure> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let signals = signal::watch().map_err(Failure::unavailable)?;
        let batch = Arc::new(BatchProgress::default());
        let (theirs, timed, shown) = (Arc::clone(&batch), Arc::clone(&batch), Arc::clone(&batch));
        let began = Instant::now();
        let _progress = Progress::say(terminal, budget.as_secs(), move || {
            let spent = began.elapsed();
            (spent.as_secs(), line(shown.done.load(Ordering::Relaxed), spent, budget))
        });
        let work = tokio::task::spawn_blocking(move || work(&theirs));
        let timer = tokio::spawn(async move {
            tokio::time::sleep(budget).await;
            timed.stop.store(true, Ordering::Relaxed);
        });
        let ended = signal::finish(work, signals, &batch.stop).await;
        timer.abort();
        ended
    });
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}

/// How many schedules were run in which time, and what is left of the budget.
fn line(schedules: u64, spent: Duration, budget: Duration) -> String {
    let [spent_s, left_s] = [spent, budget.saturating_sub(spent)].map(|it| it.as_secs());
    let (spent, left) = (span(spent_s), span(left_s));
    match (schedules, spent_s) {
        (0, _) | (_, 0) => format!("{spent} spent, {left} left at most"),
        _ => format!(
            "{} schedules in {spent}, {} a second, {left} left at most",
            count(schedules),
            count(schedules / spent_s)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_with_the_pace_where_there_is_one() {
        let of = |schedules, millis| {
            line(schedules, Duration::from_millis(millis), Duration::from_secs(90))
        };
        assert_eq!(of(0, 3_000), "3 s spent, 1 min 27 s left at most");
        assert_eq!(of(900, 500), "0 s spent, 1 min 29 s left at most");
        assert_eq!(
            of(9_000, 3_000),
            "9,000 schedules in 3 s, 3,000 a second, 1 min 27 s left at most"
        );
        assert_eq!(
            of(9_000, 91_000),
            "9,000 schedules in 1 min 31 s, 98 a second, 0 s left at most"
        );
    }
}
