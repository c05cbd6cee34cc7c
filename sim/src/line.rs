//! Replay lines.
//!
//! Invariant: the line can be pasted into a shell, and never contains a password.

use super::args::ServerArgs;

/// A command line, word by word.
pub(super) struct Line(String);

impl Line {
    /// `picklock` alone.
    pub(super) fn new() -> Self {
        // Under cargo, picklock is usually not on PATH.
        let program = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(_) => "cargo run -p sim --",
            None => "picklock",
        };
        Self(program.to_owned())
    }

    /// The same wherever picklock is, as for what is kept.
    pub(super) fn plain() -> Self {
        Self("picklock".to_owned())
    }

    /// A word that needs no quotes, such as a subcommand or a switch.
    pub(super) fn word(mut self, word: &str) -> Self {
        self.0 += &format!(" {word}");
        self
    }

    pub(super) fn option(self, option: &str, value: &str) -> Self {
        self.word(option).word(&quoted(value))
    }

    /// The server; a user's own is given by a variable, because its URL may contain a password.
    pub(super) fn server(mut self, server: &ServerArgs, is_private: bool) -> Self {
        if !is_private {
            self = self.word("--redis \"$PICKLOCK_REDIS\"");
        }
        for path in &server.server_bin {
            self = self.option("--server-bin", &path.to_string_lossy());
        }
        if let Some(path) = &server.tls.tls_ca {
            self = self.option("--tls-ca", &path.to_string_lossy());
        }
        if server.tls.tls_insecure { self.word("--tls-insecure") } else { self }
    }

    pub(super) fn text(self) -> String {
        self.0
    }
}

/// A word, quoted for a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    match word {
        // A variable, which the shell expands.
        "$PICKLOCK_REDIS" => format!("\"{word}\""),
        _ if !word.is_empty() && word.chars().all(plain) => word.to_owned(),
        _ => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("bonus-pool"), "bonus-pool");
        assert_eq!(quoted("1m 30s"), "'1m 30s'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_server_is_named_without_its_password() {
        let redis = Some("redis://:secret@h".to_owned());
        let mut server = ServerArgs { redis, ..ServerArgs::default() };
        server.tls.tls_insecure = true;
        let line = Line::new().option("--set", "a b").server(&server, false).text();
        assert!(
            line.ends_with(" --set 'a b' --redis \"$PICKLOCK_REDIS\" --tls-insecure"),
            "{line}"
        );
    }
}
