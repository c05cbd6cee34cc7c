//! Errors as the user sees them: what happened, where, and what to do next.
//!
//! Invariant: one failure, one message, one exit code.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, MietteDiagnostic};

use super::exit::Exit;
use super::terminal::Terminal;

/// Why a command failed.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
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
    pub(super) fn usage_error(error: &dyn std::error::Error) -> Self {
        Self { exit: Exit::Usage, diagnostic: whole(error) }
    }

    /// A server, a file or the machine is not as it must be. The error says what to do.
    pub(super) fn unavailable(error: &dyn std::error::Error) -> Self {
        Self { exit: Exit::Unavailable, diagnostic: whole(error) }
    }

    /// The same, as a message and a help text.
    pub(super) fn unavailable_text(message: impl Into<String>, help: impl Into<String>) -> Self {
        let diagnostic = Box::new(MietteDiagnostic::new(message.into()).with_help(help.into()));
        Self { exit: Exit::Unavailable, diagnostic }
    }

    /// A signal interrupted the command.
    pub(super) fn interrupted(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { exit: Exit::Interrupted, ..Self::unavailable_text(message, help) }
    }

    /// A bug in picklock.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        let help = "this is a bug in picklock: please report it, with the command line";
        let diagnostic = Box::new(MietteDiagnostic::new(message.into()).with_help(help));
        Self { exit: Exit::Internal, diagnostic }
    }

    /// The exit.
    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    /// The first line, for tables.
    pub(super) fn first_line(&self) -> String {
        self.diagnostic.to_string().lines().next().unwrap_or_default().to_owned()
    }

    /// The message for stderr.
    pub(super) fn render(&self, terminal: &Terminal) -> String {
        let theme = match (terminal.colour_on_stderr(), terminal.is_utf8()) {
            (true, true) => GraphicalTheme::unicode(),
            (false, true) => GraphicalTheme::unicode_nocolor(),
            (_, false) => GraphicalTheme::none(),
        };
        let mut text = String::new();
        // Programs and logs get unwrapped lines.
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(terminal.width())
            .with_wrap_lines(terminal.is_stderr());
        match handler.render_report(&mut text, &*self.diagnostic) {
            Ok(()) => format!("picklock: {}", text.trim_start()),
            Err(_) => format!("picklock: {}\n", self.diagnostic),
        }
    }
}

/// An error and its causes, without repetition.
fn whole(error: &dyn std::error::Error) -> Box<dyn Diagnostic + Send + Sync> {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !message.contains(&said) {
            message = format!("{message}: {said}");
        }
        source = cause.source();
    }
    Box::new(MietteDiagnostic::new(message))
}
