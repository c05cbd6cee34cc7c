//! Progress of a run, on stderr.
//!
//! Invariant: stdout is never touched, and without a terminal no line is rewritten.

#![expect(clippy::cast_precision_loss, reason = "a pace needs no more digits")]
#![expect(clippy::disallowed_methods, reason = "progress is shown in the user's time")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use harness::sweep::BatchProgress;
use harness::world::RunRequest;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use scenarios::format::long_duration;
use tokio::task::JoinHandle;

use super::args::ProgressMode;
use super::failure::Failure;
use super::terminal::Terminal;
use super::{print, signal};

const BAR_EVERY: Duration = Duration::from_millis(50);
/// After how long the first line comes; each later one comes after twice as long as the one before.
const LINE_FIRST: Duration = Duration::from_secs(3);
/// The longest time between two lines.
const LINE_LAST: Duration = Duration::from_secs(60);

/// Progress on display, until dropped.
pub(super) struct Progress {
    task: Option<JoinHandle<()>>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Shows how many of `total` are done, `at_once` at a time, how fast, and how long the rest will take. Must be
    /// called on a tokio runtime.
    pub(super) fn show(
        terminal: &Terminal,
        done: impl Fn() -> u64 + Send + 'static,
        (total, at_once): (u64, u64),
        what: &'static str,
    ) -> Self {
        let began = Instant::now();
        Self::say(terminal, total, move || {
            let done = done();
            (done, line((0, done, total), at_once, what, began.elapsed()))
        })
    }

    /// Shows how much of `total` is done, with a text. Must be called on a tokio runtime.
    pub(super) fn say(
        terminal: &Terminal,
        total: u64,
        mut look: impl FnMut() -> (u64, String) + Send + 'static,
    ) -> Self {
        match terminal.progress() {
            ProgressMode::Off => Self { task: None, bar: None },
            ProgressMode::Bar | ProgressMode::Auto => {
                let bar = bar(terminal, total);
                let shown = bar.clone();
                let task = tokio::spawn(async move {
                    loop {
                        let (done, said) = look();
                        shown.set_position(done);
                        shown.set_message(said);
                        tokio::time::sleep(BAR_EVERY).await;
                    }
                });
                Self { task: Some(task), bar: Some(bar) }
            }
            ProgressMode::Lines => {
                let task = tokio::spawn(async move {
                    let mut wait = LINE_FIRST;
                    loop {
                        tokio::time::sleep(wait).await;
                        print::note(&look().1);
                        wait = (wait * 2).min(LINE_LAST);
                    }
                });
                Self { task: Some(task), bar: None }
            }
        }
    }

    /// Shows how many clients of a run are done. Belongs to the tokio runtime it is called on.
    pub(super) fn of_run(terminal: &Terminal, request: &RunRequest) -> Self {
        let (done, clients) = (Arc::clone(&request.done), u64::from(request.scenario.clients));
        Self::show(
            terminal,
            move || u64::from(done.load(Ordering::Relaxed)),
            (clients, 1),
            "clients",
        )
    }
}

/// Runs a batch on a thread of its own and shows how much of it is done. The first signal ends it early; also returns
/// whether one came. Must be called on a tokio runtime.
pub(super) async fn run_batch<T: Send + 'static>(
    terminal: &Terminal,
    total: u64,
    what: &'static str,
    work: impl FnOnce(&BatchProgress) -> T + Send + 'static,
) -> Result<(T, bool), Failure> {
    let signals = signal::watch().map_err(Failure::unavailable)?;
    let batch = Arc::new(BatchProgress::default());
    let (shown, theirs) = (Arc::clone(&batch), Arc::clone(&batch));
    let began = Instant::now();
    let look = move || {
        let [before, here] = [&shown.before, &shown.done].map(|it| it.load(Ordering::Relaxed));
        let done = before + here;
        (done, line((before, done, total), 1, what, began.elapsed()))
    };
    let _progress = Progress::say(terminal, total, look);
    let work = tokio::task::spawn_blocking(move || work(&theirs));
    signal::finish(work, signals, &batch.stop).await
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line of progress: how many are done of how many, the pace since this process began, and the time left. Those under way are half
/// done on average: without them, many that run at once seem to take much longer at first than they do.
fn line(
    (before, done, total): (u64, u64, u64),
    at_once: u64,
    what: &str,
    elapsed: Duration,
) -> String {
    let seconds = elapsed.as_secs();
    let mut text = format!("{done} of {total} {what} done after {}", span(seconds));
    let here = done.saturating_sub(before);
    if here > 0 && seconds > 0 {
        let (per_second, rest) = (here as f64 / elapsed.as_secs_f64(), total.saturating_sub(done));
        text += &match per_second {
            it if it >= 10.0 => format!(", {it:.0} a second"),
            it if it >= 1.0 => format!(", {it:.1} a second"),
            it => format!(", {:.1} a minute", it * 60.0),
        };
        let half_done = at_once.saturating_sub(1) as f64 / 2.0;
        let with_them = (here as f64 + half_done) / elapsed.as_secs_f64();
        let left = Duration::from_secs_f64(rest as f64 / with_them).as_secs();
        // Of the last one nobody knows how long it takes.
        if left > 0 {
            text += &format!(", {} left", span(left));
        }
    }
    text
}

/// Whole seconds, as people say them.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => long_duration(seconds.saturating_mul(1_000_000_000)),
    }
}

fn bar(terminal: &Terminal, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let marks = if terminal.is_utf8 { "█▉▊▋▌▍▎▏ " } else { "=> " };
    let bar_itself = if terminal.colour_on_stderr() { "{bar:20.cyan}" } else { "{bar:20}" };
    match ProgressStyle::with_template(&format!("{bar_itself} {{msg}}")) {
        Ok(style) => bar.with_style(style.progress_chars(marks)),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_and_the_time_left_are_said_once_they_are_known() {
        for (counts, millis, says) in [
            ((0, 0, 100), 3_000, "0 of 100 pairs done after 3 s"),
            ((0, 5, 100), 400, "5 of 100 pairs done after 0 s"),
            ((0, 99, 100), 9_000, "99 of 100 pairs done after 9 s, 11 a second"),
            ((0, 50, 100), 10_000, "50 of 100 pairs done after 10 s, 5.0 a second, 10 s left"),
            ((0, 400, 10_000), 2_000, "400 of 10000 pairs done after 2 s, 200 a second, 48 s left"),
            ((0, 2, 12), 60_000, "2 of 12 pairs done after 1 min, 2.0 a minute, 5 min left"),
            // Of an earlier sitting, 900 had been done.
            (
                (900, 910, 1_000),
                10_000,
                "910 of 1000 pairs done after 10 s, 1.0 a second, 1 min 30 s left",
            ),
            ((0, 100, 100), 10_000, "100 of 100 pairs done after 10 s, 10 a second"),
        ] {
            assert_eq!(line(counts, 1, "pairs", Duration::from_millis(millis)), says);
        }
    }

    #[test]
    fn what_is_under_way_counts_for_the_time_left() {
        let says = |done, at_once| line((0, done, 36), at_once, "plans", Duration::from_secs(3));
        assert!(says(4, 1).ends_with("1.3 a second, 24 s left"));
        assert!(says(4, 5).ends_with("1.3 a second, 16 s left"));
        assert!(says(1, 9).ends_with("20.0 a minute, 21 s left"));
    }
}
