//! What is wrong with a scenario, shown in its file where it stands there.
//!
//! Invariant: every error says what to do about it, in its message or its help.

use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, NamedSource, SourceSpan};

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

impl ScenarioError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, help: None, file: None, span: None }
    }

    #[must_use]
    pub(super) fn help(self, help: Option<String>) -> Self {
        Self { help, ..self }
    }

    /// Shows the place in the file.
    #[must_use]
    pub(super) fn at(self, file: &str, text: &str, span: Option<Range<usize>>) -> Self {
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
