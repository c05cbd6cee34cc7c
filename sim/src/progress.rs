//! Progress of a run, on stderr.
//!
//! Invariant: stdout is never touched, and without a terminal no line is rewritten.

#![expect(clippy::disallowed_methods, reason = "progress is shown in the user's time")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use harness::world::RunRequest;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use super::args::ProgressMode;
use super::print;
use super::terminal::Terminal;

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
}

impl Progress {
    /// Shows how many clients of a run are done. Belongs to the tokio runtime it is called on.
    pub(super) fn of_run(terminal: &Terminal, request: &RunRequest) -> Self {
        let (done, clients) = (Arc::clone(&request.done), u64::from(request.scenario.clients));
        Self::show(terminal, move || u64::from(done.load(Ordering::Relaxed)), clients, "clients")
    }
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
    let marks = if terminal.is_utf8() { "█▉▊▋▌▍▎▏ " } else { "=> " };
    let bar_itself = if terminal.colour_on_stderr() { "{bar:30.cyan}" } else { "{bar:30}" };
    match ProgressStyle::with_template(&format!(
        "{bar_itself} {{pos}}/{{len}} {what} done, {{elapsed}}"
    )) {
        Ok(style) => bar.with_style(style.progress_chars(marks)),
        Err(_) => bar,
    }
}
