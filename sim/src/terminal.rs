//! What stdout and stderr can show.
//!
//! Invariant: without a terminal, on one that is dumb, or with NO_COLOR, no escape code is written unless it
//! was asked for in so many words.

use std::io::IsTerminal;

use terminal_size::{Width, terminal_size_of};

use super::args::{Color, Progress, Talk};

/// Narrower than this nothing can be laid out, wider nobody reads.
const WIDTH: std::ops::RangeInclusive<usize> = 40..=120;
const WIDTH_UNKNOWN: usize = 100;

/// What stdout and stderr can show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    talk: Talk,
    stdout: bool,
    stderr: bool,
    no_color: bool,
    /// It knows no escape codes, and no line is rewritten on it.
    is_dumb: bool,
    utf8: bool,
    columns: Option<usize>,
}

impl Terminal {
    /// Looks at this process's own.
    pub(super) fn of_process(talk: Talk) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        let utf8 = locale.is_none_or(|it| {
            let it = it.to_ascii_lowercase();
            it.contains("utf-8") || it.contains("utf8")
        });
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let columns = columns.filter(|columns| *columns > 0).or_else(columns_of_terminal);
        Self {
            talk,
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
            no_color: set("NO_COLOR"),
            is_dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
            utf8,
            columns,
        }
    }

    /// Whether somebody reads stderr on a terminal.
    pub(super) fn is_stderr(&self) -> bool {
        self.stderr
    }

    /// Whether to use colours on stdout.
    pub(super) fn colour_on_stdout(&self) -> bool {
        self.colour(self.stdout)
    }

    /// Whether to use colours on stderr.
    pub(super) fn colour_on_stderr(&self) -> bool {
        self.colour(self.stderr)
    }

    fn colour(&self, is_terminal: bool) -> bool {
        match self.talk.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && !self.no_color && !self.is_dumb,
        }
    }

    /// Whether more than ASCII can be shown.
    pub(super) fn is_utf8(&self) -> bool {
        self.utf8
    }

    /// Columns to lay out for.
    pub(super) fn width(&self) -> usize {
        self.columns.unwrap_or(WIDTH_UNKNOWN).clamp(*WIDTH.start(), *WIDTH.end())
    }

    /// How progress is shown: never `Auto`.
    pub(super) fn progress(&self) -> Progress {
        match self.talk.progress {
            _ if self.talk.quiet => Progress::Off,
            Progress::Auto if self.stderr && !self.is_dumb => Progress::Bar,
            Progress::Auto => Progress::Lines,
            asked => asked,
        }
    }

    /// Whether to say less.
    pub(super) fn is_quiet(&self) -> bool {
        self.talk.quiet
    }

    /// Whether to say more.
    pub(super) fn is_verbose(&self) -> bool {
        self.talk.verbose
    }
}

/// How wide the terminal is that stdout leads to, or else stderr.
fn columns_of_terminal() -> Option<usize> {
    let size = terminal_size_of(std::io::stdout()).or_else(|| terminal_size_of(std::io::stderr()));
    // One that was never told its size says 0.
    size.map(|(Width(columns), _)| usize::from(columns)).filter(|columns| *columns > 0)
}
