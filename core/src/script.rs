//! Lua scripts, sent by digest and in full only to a server that does not know them yet.
//!
//! Invariant: the fallback to the full text is taken only on `NOSCRIPT`, which says that nothing was run.

use crate::command::Command;
use crate::env::{CallError, Conn};
use crate::reply::Reply;

/// What the answer 1 of a lock script means for its first key. Only observers use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The key was there, was the caller's and is deleted.
    Deletes,
    /// The key was there, was the caller's and expires later now; the last argument is the new TTL
    /// in milliseconds.
    Extends,
    /// The key was not there and is the caller's now; the last argument is its TTL in milliseconds.
    /// The answer is a list, whose first element is the 1. A 2 there means that the key was the caller's
    /// already and lives for the TTL from now.
    Creates,
    /// The key was the caller's or missing, and may have been handed over to another. The answers -1 and 2
    /// mean that the key was not changed; other answers say nothing about it.
    HandsOver,
    /// The script is not a lock's.
    Other,
}

/// A Lua script and its SHA-1.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    sha1: String,
    meaning: Meaning,
}

impl Script {
    /// The script with this text, and the meaning of its answer 1.
    pub fn new(text: &'static str, meaning: Meaning) -> Self {
        Self { text, sha1: sha1_smol::Sha1::from(text).digest().to_string(), meaning }
    }

    /// What the answer 1 means for the first key.
    pub fn meaning(&self) -> Meaning {
        self.meaning
    }

    /// The source.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The SHA-1 of the source in lower-case hexadecimal, by which EVALSHA names it.
    pub fn sha1(&self) -> &str {
        &self.sha1
    }

    /// Runs the script with one key: by EVALSHA, and by EVAL where the server does not have it.
    ///
    /// # Errors
    /// As [`Conn::call`], except `NOSCRIPT`.
    pub async fn run<C: Conn>(
        &self,
        conn: &C,
        key: &[u8],
        args: &[&[u8]],
    ) -> Result<Reply, CallError> {
        self.run_on(conn, &[key], args).await
    }

    /// Runs the script with these keys, which must share a hash slot, in the same way.
    ///
    /// # Errors
    /// As [`Conn::call`], except `NOSCRIPT`.
    pub async fn run_on<C: Conn>(
        &self,
        conn: &C,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Reply, CallError> {
        let by_digest = self.command("EVALSHA", &self.sha1, keys, args);
        match conn.call(by_digest).await {
            Err(error) if error.has_code("NOSCRIPT") => {
                conn.call(self.command("EVAL", self.text, keys, args)).await
            }
            answer => answer,
        }
    }

    fn command(&self, verb: &str, body: &str, keys: &[&[u8]], args: &[&[u8]]) -> Command {
        let head = Command::new(verb).arg(body).int(keys.len() as u64);
        keys.iter().chain(args).fold(head, |command, arg| command.arg(arg))
    }
}
