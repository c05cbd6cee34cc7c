//! Progress of a run, on stderr.
//!
//! Invariant: stdout is never touched, and without a terminal no line is rewritten.

#![expect(clippy::disallowed_methods, reason = "progress is shown in the user's time")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use harness::sweep::BatchProgress;
use harness::world::RunRequest;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use super::args::ProgressMode;
use super::failure::Failure;
use super::terminal::Terminal;
use super::{print, signal};

const BAR_EVERY: Duration = Duration::from_millis(50);
const LINE_EVERY: Duration = Duration::from_secs(3);

/// Progress on display, until dropped.
pub(super) struct Progress {
    task: Option<JoinHandle<()>>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Shows how many of `total` are done. Must be called on a tokio runtime.
    pub(super) fn show(
        terminal: &Terminal,
        done: impl Fn() -> u64 + Send + 'static,
        total: u64,
        what: &'static str,
    ) -> Self {
        match terminal.progress() {
            ProgressMode::Off => Self { task: None, bar: None },
            ProgressMode::Bar | ProgressMode::Auto => {
                let bar = bar(terminal, total, what);
                let shown = bar.clone();
                let task = tokio::spawn(async move {
                    loop {
                        shown.set_position(done());
                        tokio::time::sleep(BAR_EVERY).await;
                    }
                });
                Self { task: Some(task), bar: Some(bar) }
            }
            ProgressMode::Lines => {
                let began = Instant::now();
                let task = tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(LINE_EVERY).await;
                        let seconds = began.elapsed().as_secs();
                        let done = done();
                        print::note(&format!("{done} of {total} {what} done after {seconds} s"));
                    }
                });
                Self { task: Some(task), bar: None }
            }
        }
    }

    /// Shows how many clients of a run are done. Belongs to the tokio runtime it is called on.
    pub(super) fn of_run(terminal: &Terminal, request: &RunRequest) -> Self {
        let (done, clients) = (Arc::clone(&request.done), u64::from(request.scenario.clients));
        Self::show(terminal, move || u64::from(done.load(Ordering::Relaxed)), clients, "clients")
    }
}

/// Runs a batch on a thread of its own and shows how much of it is done. The first signal ends it early; whether one
/// came. Must be called on a tokio runtime.
pub(super) async fn run_batch<T: Send + 'static>(
    terminal: &Terminal,
    total: u64,
    what: &'static str,
    work: impl FnOnce(&BatchProgress) -> T + Send + 'static,
) -> Result<(T, bool), Failure> {
    let signals = signal::watch().map_err(Failure::unavailable)?;
    let batch = Arc::new(BatchProgress::default());
    let (shown, theirs) = (Arc::clone(&batch), Arc::clone(&batch));
    let _progress =
        Progress::show(terminal, move || shown.done.load(Ordering::Relaxed), total, what);
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

fn bar(terminal: &Terminal, total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let marks = if terminal.is_utf8 { "█▉▊▋▌▍▎▏ " } else { "=> " };
    let bar_itself = if terminal.colour_on_stderr() { "{bar:30.cyan}" } else { "{bar:30}" };
    match ProgressStyle::with_template(&format!(
        "{bar_itself} {{pos}}/{{len}} {what} done, {{elapsed}}"
    )) {
        Ok(style) => bar.with_style(style.progress_chars(marks)),
        Err(_) => bar,
    }
}
