//! The first line of a script that says how it may be run: `#!lua flags=no-writes`.
//!
//! Invariant: a script without one runs as before Redis 7. The flags allow-stale, no-cluster and
//! allow-cross-slot-keys are read and mean nothing here: a replica's data are never refused as stale, and a node of a
//! cluster runs every script whose keys are in one slot.

use resp::ErrorReply;

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
    pub(crate) const ENGINE: &str = "lua";

    /// Reads the line, and returns the rest of the script from the line break on, so that the numbers
    /// of lines in errors stay right.
    pub(crate) fn split(body: &[u8]) -> Result<(Self, &[u8]), ErrorReply> {
        if !body.starts_with(b"#!") {
            return Ok((Self::default(), body));
        }
        let end = body.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or(ErrorReply::new("ERR Invalid script shebang"))?;
        let line = String::from_utf8_lossy(&body[..end]).into_owned();
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(ErrorReply::of(format!(
                "ERR Unexpected engine in script shebang: {engine}"
            )));
        }
        let mut shebang = Self { present: true, ..Self::default() };
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(ErrorReply::of(format!("ERR Unknown lua shebang option: {word}")));
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => shebang.no_writes = true,
                    "allow-oom" => shebang.allow_oom = true,
                    "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    _ => {
                        let text = format!("ERR Unexpected flag in script shebang: {flag}");
                        return Err(ErrorReply::of(text));
                    }
                }
            }
        }
        Ok((shebang, &body[end..]))
    }
}
