//! What a check says: where, what is wrong, and what to do.

use std::fmt;

/// One thing to put right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, from the root of the workspace.
    pub path: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Diagnostic {
    /// A finding at a line of a file.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_an_editor_expects() {
        assert_eq!(
            Diagnostic::new("a/b.rs", 7, "wrong; mend it").to_string(),
            "a/b.rs:7: wrong; mend it"
        );
    }
}
