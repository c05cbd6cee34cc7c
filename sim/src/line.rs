//! Replay lines.
//!
//! Invariant: the line can be pasted into a shell, and never contains a password.

use std::fmt::Display;

use super::args::ServerArgs;

/// A command line, word by word.
pub(super) struct Line {
    program: &'static str,
    words: Vec<String>,
}

impl Line {
    /// `picklock` alone.
    pub(super) fn new() -> Self {
        // Under cargo, picklock is usually not on PATH.
        let program = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(_) => "cargo run -p sim --",
            None => "picklock",
        };
        Self { program, words: Vec::new() }
    }

    /// `picklock`, wherever it is: for lines that are kept in files.
    pub(super) fn plain() -> Self {
        Self { program: "picklock", words: Vec::new() }
    }

    /// A subcommand or a switch, or several words with spaces between.
    pub(super) fn word(mut self, words: &str) -> Self {
        self.words.extend(words.split_whitespace().map(str::to_owned));
        self
    }

    pub(super) fn option(self, option: &str, value: impl Display) -> Self {
        self.argument(option).argument(&value.to_string())
    }

    /// The option once for each value: none leaves it out.
    pub(super) fn options(
        self,
        option: &str,
        values: impl IntoIterator<Item = impl Display>,
    ) -> Self {
        values.into_iter().fold(self, |line, value| line.option(option, value))
    }

    pub(super) fn switch(self, switch: &str, is_on: bool) -> Self {
        if is_on { self.argument(switch) } else { self }
    }

    /// One word, whatever is in it.
    pub(super) fn argument(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }

    /// The server; a user's own is given by a variable, because its URL may contain a password.
    pub(super) fn server(mut self, server: &ServerArgs, is_private: bool) -> Self {
        if !is_private {
            self = self.user_server();
        }
        self.options("--server-bin", server.server_bin.iter().map(|it| it.display()))
            .options("--tls-ca", server.tls.tls_ca.iter().map(|it| it.display()))
            .switch("--tls-insecure", server.tls.tls_insecure)
    }

    /// The user's own server, without its URL.
    pub(super) fn user_server(self) -> Self {
        self.option("--redis", VARIABLE)
    }

    /// The words after the program, as it would receive them.
    pub(super) fn words(self) -> Vec<String> {
        self.words
    }

    /// As it can be pasted into a shell.
    pub(super) fn text(self) -> String {
        let words = self.words.iter().map(|word| quoted(word));
        [self.program.to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// The user's own server, which the shell puts in.
const VARIABLE: &str = "$PICKLOCK_REDIS";

/// A word, quoted for a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    match word {
        VARIABLE => format!("\"{word}\""),
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
