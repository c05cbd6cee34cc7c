//! How far a run has come, on stderr.
//!
//! Invariant: stdout is never touched, and without a terminal no line is rewritten.

#![expect(clippy::disallowed_methods, reason = "progress is shown in the user's time")]

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use super::terminal::Terminal;
use super::{args, print};
use crate::live::run::Gauge;

/// How often a bar is drawn again.
const BAR_EVERY: Duration = Duration::from_millis(50);
/// How often a line is written.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// Progress being shown. Dropped, it is shown no more.
pub(super) struct Progress {
    task: Option<JoinHandle<()>>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Shows how many of `clients` have done. Belongs to the tokio runtime it is called on.
    pub(super) fn show(terminal: &Terminal, gauge: &Gauge, clients: u32) -> Self {
        let gauge = gauge.clone();
        match terminal.progress() {
            args::Progress::Off => Self { task: None, bar: None },
            args::Progress::Bar | args::Progress::Auto => {
                let bar = bar(terminal, clients);
                let shown = bar.clone();
                let task = tokio::spawn(async move {
                    loop {
                        shown.set_position(u64::from(gauge.done()));
                        tokio::time::sleep(BAR_EVERY).await;
                    }
                });
                Self { task: Some(task), bar: Some(bar) }
            }
            args::Progress::Lines => {
                let began = Instant::now();
                let task = tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(LINE_EVERY).await;
                        let seconds = began.elapsed().as_secs();
                        let done = gauge.done();
                        print::note(&format!("{done} of {clients} clients done after {seconds} s"));
                    }
                });
                Self { task: Some(task), bar: None }
            }
        }
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

fn bar(terminal: &Terminal, clients: u32) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(u64::from(clients)), ProgressDrawTarget::stderr());
    let marks = if terminal.is_utf8() { "█▉▊▋▌▍▎▏ " } else { "=> " };
    let template = if terminal.colour_on_stderr() {
        "{bar:30.cyan} {pos}/{len} clients done, {elapsed}"
    } else {
        "{bar:30} {pos}/{len} clients done, {elapsed}"
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars(marks)),
        Err(_) => bar,
    }
}
