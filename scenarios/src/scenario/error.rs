//! What is wrong with a scenario, shown in its file where it stands there.
//!
//! Invariant: every error says what to do about it, in its message or its help.

use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, NamedSource, SourceSpan};

/// A key of the file, and what is wrong with its value.
pub(super) type KeyError = (String, ScenarioError);

/// A longer line, in bytes, is no line that somebody has written.
const LINE_SHOWN_MOST: usize = 500;

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct ScenarioError {
    message: String,
    #[help]
    help: Option<String>,
    #[source_code]
    file: Option<Arc<NamedSource<String>>>,
    #[label("here")]
    span: Option<SourceSpan>,
}

/// What is wrong with the value of this key, and what to do about it.
pub(super) fn wrong<T>(
    key: impl Into<String>,
    why: impl Into<String>,
    help: &str,
) -> Result<T, KeyError> {
    Err((key.into(), ScenarioError::new(why).help(Some(help.to_owned()))))
}

impl ScenarioError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, help: None, file: None, span: None }
    }

    #[must_use]
    pub(super) fn help(self, help: Option<String>) -> Self {
        Self { help, ..self }
    }

    /// Names the file, where no place in it is known.
    #[must_use]
    pub(super) fn of_file(self, file: &str) -> Self {
        Self { message: format!("{file}: {}", self.message), ..self }
    }

    /// Shows the place in the file; only names it, where the line is too long to be shown, or what stands around it would act
    /// on a terminal.
    #[must_use]
    pub(super) fn at(self, file: &str, text: &str, span: Option<Range<usize>>) -> Self {
        let Some(start) = span.as_ref().map(|span| span.start.min(text.len())) else {
            return self;
        };
        let line_start = text[..start].rfind('\n').map_or(0, |end| end + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |end| start + end);
        let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        if line_end - line_start > LINE_SHOWN_MOST || file.contains(acts) || text.contains(acts) {
            let line = text[..start].matches('\n').count() + 1;
            let column = start - line_start + 1;
            return Self { message: format!("{file}:{line}:{column}: {}", self.message), ..self };
        }
        let file = Some(Arc::new(NamedSource::new(file, text.to_owned())));
        Self { file, span: span.map(SourceSpan::from), ..self }
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Where in the file, in bytes.
    pub fn offset(&self) -> Option<usize> {
        self.span.map(|span| span.offset())
    }
}
