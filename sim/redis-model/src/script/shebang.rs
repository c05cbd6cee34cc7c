//! The first line of a script that says how it may be run: `#!lua flags=no-writes`.
//!
//! Invariant: a script without one runs as before Redis 7. The flags allow-stale, no-cluster and
//! allow-cross-slot-keys are read and mean nothing here: a replica's data are never refused as stale, and a node of a
//! cluster runs every script whose keys are in one slot.

use resp::{ErrorReply, split_args};

/// How a script may be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shebang {
    /// It has such a line at all.
    pub(crate) present: bool,
    /// It promises not to write.
    pub(crate) no_writes: bool,
    /// It may run when memory is short.
    pub(crate) allow_oom: bool,
}

impl Shebang {
    /// The only language.
    pub(crate) const ENGINE: &[u8] = b"lua";

    /// Reads the line, and returns the rest of the script from the line break on, so that the numbers
    /// of lines in errors stay right.
    pub(crate) fn split(body: &[u8]) -> Result<(Self, &[u8]), ErrorReply> {
        if !body.starts_with(b"#!") {
            return Ok((Self::default(), body));
        }
        let (words, rest) =
            first_line(body).ok_or(ErrorReply::new("ERR Invalid script shebang"))?;
        let Some((engine, words)) = words.split_first() else {
            return Err(ErrorReply::new("ERR Invalid engine in script shebang"));
        };
        if engine != b"#!lua" {
            return Err(unexpected("ERR Unexpected engine in script shebang: ", engine));
        }
        let mut shebang = Self { present: true, ..Self::default() };
        for word in words {
            let Some(flags) = word.strip_prefix(b"flags=") else {
                return Err(unexpected("ERR Unknown lua shebang option: ", word));
            };
            // Nothing at all is no flag, but nothing beside a comma is one that there is not.
            for flag in flags.split(|&byte| byte == b',').filter(|_| !flags.is_empty()) {
                match flag {
                    b"no-writes" => shebang.no_writes = true,
                    b"allow-oom" => shebang.allow_oom = true,
                    b"allow-stale" | b"no-cluster" | b"allow-cross-slot-keys" => {}
                    _ => return Err(unexpected("ERR Unexpected flag in script shebang: ", flag)),
                }
            }
        }
        Ok((shebang, rest))
    }
}

/// The words of the first line, and what follows from its end on; nothing where it does not end. There are no words
/// where quotes do not balance.
pub(super) fn first_line(code: &[u8]) -> Option<(Vec<Vec<u8>>, &[u8])> {
    // Redis looks for the end of the line in a C string.
    let end = code.iter().position(|byte| matches!(byte, b'\n' | 0))?;
    let (line, rest) = code.split_at(end);
    rest.starts_with(b"\n").then(|| (split_args(line).unwrap_or_default(), rest))
}

/// An error that ends with a word of the script's.
pub(super) fn unexpected(text: &str, word: &[u8]) -> ErrorReply {
    ErrorReply::of([text.as_bytes(), word].concat())
}
