//! What stdout and stderr can show.
//!
//! Invariant: without a terminal, on one that is dumb, or with NO_COLOR, no escape code is written unless
//! `--color always` asks for it.

use std::io::IsTerminal;

use terminal_size::{Width, terminal_size_of};

use super::args::{Color, OutputOptions, ProgressMode};

/// Tables need at least 40 columns; lines beyond 120 are hard to read.
const WIDTH: std::ops::RangeInclusive<usize> = 40..=120;
const WIDTH_UNKNOWN: usize = 100;

/// What stdout and stderr can show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    pub(super) options: OutputOptions,
    stdout: bool,
    /// Whether stderr is a terminal.
    pub(super) stderr: bool,
    no_color: bool,
    /// `TERM=dumb`: no escape codes, and no line is rewritten.
    is_dumb: bool,
    /// Whether more than ASCII can be shown.
    pub(super) is_utf8: bool,
    columns: Option<usize>,
}

impl Terminal {
    pub(super) fn of_process(options: OutputOptions) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        let is_utf8 = locale.is_none_or(|it| {
            let it = it.to_ascii_lowercase();
            it.contains("utf-8") || it.contains("utf8")
        });
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let columns = columns.filter(|columns| *columns > 0).or_else(columns_of_terminal);
        Self {
            options,
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
            no_color: set("NO_COLOR"),
            is_dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
            is_utf8,
            columns,
        }
    }

    pub(super) fn colour_on_stdout(&self) -> bool {
        self.colour(self.stdout)
    }

    pub(super) fn colour_on_stderr(&self) -> bool {
        self.colour(self.stderr)
    }

    fn colour(&self, is_terminal: bool) -> bool {
        match self.options.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && !self.no_color && !self.is_dumb,
        }
    }

    pub(super) fn width(&self) -> usize {
        self.columns.unwrap_or(WIDTH_UNKNOWN).clamp(*WIDTH.start(), *WIDTH.end())
    }

    /// How to show progress: never `Auto`.
    pub(super) fn progress(&self) -> ProgressMode {
        match self.options.progress {
            _ if self.options.quiet => ProgressMode::Off,
            ProgressMode::Auto if self.stderr && !self.is_dumb => ProgressMode::Bar,
            ProgressMode::Auto => ProgressMode::Lines,
            asked => asked,
        }
    }
}

/// Width of the terminal of stdout, or else of stderr.
fn columns_of_terminal() -> Option<usize> {
    let size = terminal_size_of(std::io::stdout()).or_else(|| terminal_size_of(std::io::stderr()));
    // A terminal without a size reports 0.
    size.map(|(Width(columns), _)| usize::from(columns)).filter(|columns| *columns > 0)
}
