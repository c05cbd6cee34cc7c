//! Errors as the user sees them: what happened, where, and what to do next.
//!
//! Invariant: one failure, one message, one exit code.

use std::error::Error;
use std::fmt;
use std::path::Path;

use harness::world::RunError;
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, SourceCode,
};
use nix::errno::Errno;
use reports::plain_lines;
use scenarios::format::in_words;

use super::exit::Exit;
use super::terminal::Terminal;

#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    diagnostic: Box<dyn Diagnostic + Send + Sync>,
}

impl Failure {
    /// The command line or a file is wrong.
    pub(super) fn usage(diagnostic: impl Diagnostic + Send + Sync + 'static) -> Self {
        Self { exit: Exit::Usage, diagnostic: Box::new(diagnostic) }
    }

    /// The same, as a message and a help text.
    pub(super) fn usage_text(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::usage(MietteDiagnostic::new(message.into()).with_help(help.into()))
    }

    /// The same, from an error that says what to do.
    pub(super) fn usage_error(error: impl Error) -> Self {
        Self { exit: Exit::Usage, diagnostic: whole(&error) }
    }

    /// A server, a file or the machine is not as it must be. The error says what to do.
    pub(super) fn unavailable(error: impl Error) -> Self {
        Self { exit: Exit::Unavailable, diagnostic: whole(&error) }
    }

    /// The same, as a message and a help text.
    pub(super) fn unavailable_text(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { exit: Exit::Unavailable, ..Self::usage_text(message, help) }
    }

    /// A place that was named cannot be written; `option` names another.
    pub(super) fn unwritable(place: &Path, error: &dyn Error, option: &str) -> Self {
        let help = format!("choose another directory with {option}");
        Self::usage_text(unwritten(place, error), help)
    }

    /// The same of a place that could be written when the command began. A disk that is full may be right tomorrow.
    pub(super) fn full(place: &Path, error: &dyn Error, option: &str) -> Self {
        let help = format!("make room there, or choose another directory with {option}");
        Self::unavailable_text(unwritten(place, error), help)
    }

    /// A signal interrupted the command.
    pub(super) fn interrupted(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { exit: Exit::Interrupted, ..Self::usage_text(message, help) }
    }

    pub(super) fn internal(message: impl ToString) -> Self {
        let help = "this is a bug in picklock: please report it, with the command line";
        Self { exit: Exit::Internal, ..Self::usage_text(message.to_string(), help) }
    }

    /// The first line, for tables.
    pub(super) fn first_line(&self) -> String {
        self.diagnostic.to_string().lines().next().unwrap_or_default().to_owned()
    }

    pub(super) fn render(&self, terminal: &Terminal) -> String {
        let theme = match (terminal.colour_on_stderr(), terminal.is_utf8) {
            (true, true) => GraphicalTheme::unicode(),
            (false, true) => GraphicalTheme::unicode_nocolor(),
            (_, false) => GraphicalTheme::none(),
        };
        let mut text = String::new();
        // Programs and logs get unwrapped lines.
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(terminal.width())
            .with_wrap_lines(terminal.stderr);
        let shown = PrintedDiagnostic(&*self.diagnostic);
        match handler.render_report(&mut text, &shown) {
            Ok(()) => format!("picklock: {}", text.trim_start()),
            Err(_) => format!("picklock: {shown}\n"),
        }
    }
}

/// A diagnostic as it is printed: in words for people who do not write Rust, and with everything escaped that would
/// control a terminal. Sources are left as they are: a diagnostic gets no part of a file that cannot be shown.
#[derive(Debug)]
struct PrintedDiagnostic<'a>(&'a (dyn Diagnostic + Send + Sync));

impl fmt::Display for PrintedDiagnostic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain_lines(&in_words(&self.0.to_string())))
    }
}

impl Error for PrintedDiagnostic<'_> {}

impl Diagnostic for PrintedDiagnostic<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help().map(|help| Box::new(plain_lines(&help.to_string())) as _)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.0.labels()
    }
}

fn unwritten(place: &Path, error: &dyn Error) -> String {
    // The cause has the reason without the path.
    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    format!("cannot write {}: {why}", place.display())
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Build(_) => {
                let help = "change the TTL with --ttl, or the recipe with --lock";
                Self::usage_text(error.to_string(), help)
            }
            RunError::Impossible { why, help } => Self::usage_text(why, help),
            RunError::Bug(why) => Self::internal(why),
            RunError::Unavailable(error) => Self::unavailable(&*error),
            RunError::Interrupted => Self::unavailable(error),
        }
    }
}

/// What to do about an unknown name: take the nearest one, or else this.
pub(super) fn did_you_mean(nearest: Option<&str>, instead: &str) -> String {
    nearest.map_or_else(|| instead.to_owned(), |name| format!("did you mean `{name}`?"))
}

/// An error and its causes, without repetition.
fn whole(error: &dyn Error) -> Box<dyn Diagnostic + Send + Sync> {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !message.contains(&said) {
            message = format!("{message}: {said}");
        }
        source = cause.source();
    }
    // The system has no advice.
    let no_files = std::io::Error::from(Errno::EMFILE).to_string();
    let help = message.ends_with(&no_files).then_some("raise the limit: `ulimit -n 1024`");
    let diagnostic = MietteDiagnostic::new(message);
    Box::new(match help {
        Some(help) => diagnostic.with_help(help),
        None => diagnostic,
    })
}
