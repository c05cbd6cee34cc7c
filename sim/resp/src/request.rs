//! One request as a client sends it: a RESP array of bulks, or an inline command.
//!
//! Invariant: whatever the bytes are, the answer is "more", "ignored", a request or a protocol error in
//! redis-server's words; nothing panics, and no length a client merely *claims* is allocated.

use crate::number::decimal;
use crate::reply::ErrorReply;
use crate::strtod::is_space;

/// A line (a length, or a whole inline command) may be this long.
const INLINE_MAX_BYTES: usize = 64 * 1024;
/// `proto-max-bulk-len`: the longest argument.
const BULK_MAX_BYTES: usize = 512 * 1024 * 1024;
/// The most arguments redis-server 7.0 takes in one request.
const ARGS_MAX: i64 = i32::MAX as i64;
/// What a client may send before it has authenticated.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_MAX_BYTES: i64 = 16 * 1024;

/// Why a stream is not RESP. Redis answers with this text and closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// An inline command over 64 KB.
    #[error("Protocol error: too big inline request")]
    InlineTooBig,
    /// An inline command whose quotes do not close.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// No end of line after `*` within 64 KB.
    #[error("Protocol error: too big mbulk count string")]
    CountTooLong,
    /// The number after `*` is none, or too large.
    #[error("Protocol error: invalid multibulk length")]
    InvalidCount,
    /// More than ten arguments before AUTH.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedCount,
    /// No end of line after `$` within 64 KB.
    #[error("Protocol error: too big bulk count string")]
    LengthTooLong,
    /// An argument that does not begin with `$`.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    ExpectedBulk(u8),
    /// The number after `$` is none, negative, or over 512 MB.
    #[error("Protocol error: invalid bulk length")]
    InvalidLength,
    /// An argument over 16 KB before AUTH.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedLength,
}

impl From<ProtocolError> for ErrorReply {
    fn from(error: ProtocolError) -> Self {
        let mut text = format!("ERR {error}").into_bytes();
        if let ProtocolError::ExpectedBulk(byte @ 0x80..) = error {
            // A byte that is no text is shown as it is.
            text.truncate(text.len() - 3);
            text.extend([byte, b'\'']);
        }
        Self::of(text)
    }
}

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// An empty line or an empty array of this many bytes: Redis answers nothing.
    Nothing {
        /// Bytes to drop from the front of the buffer.
        used: usize,
    },
    /// A request of this many bytes; see [`RequestParser::args`].
    Request {
        /// Bytes to drop from the front of the buffer, after the arguments have been used.
        used: usize,
    },
}

/// Parses one request after another. Between two calls the buffer may grow at its end; its front is
/// dropped only when a call has said how much of it was used.
#[derive(Debug, Default)]
pub struct RequestParser {
    /// Arguments still to come; `None` before the count has been read.
    missing: Option<usize>,
    /// Where reading goes on in the buffer.
    position: usize,
    /// Where the arguments are in the buffer.
    spans: Vec<(usize, usize)>,
    /// The arguments of an inline command, unquoted.
    words: Vec<Vec<u8>>,
    finished: bool,
}

impl RequestParser {
    /// A parser at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on in `buffer`, which begins where the last request ended.
    ///
    /// # Errors
    /// See [`ProtocolError`]; the stream cannot be read any further.
    pub fn parse(&mut self, buffer: &[u8], authenticated: bool) -> Result<Parsed, ProtocolError> {
        if self.finished {
            self.start_over();
        }
        match (self.missing, buffer.first()) {
            (None, None) => return Ok(Parsed::Incomplete),
            (None, Some(b'*')) => {
                let Some(used) = self.read_count(buffer, authenticated)? else {
                    return Ok(Parsed::Incomplete);
                };
                if self.missing.is_none() {
                    return Ok(Parsed::Nothing { used });
                }
            }
            (None, Some(_)) => return self.read_inline(buffer),
            (Some(_), _) => {}
        }
        while self.missing != Some(0) {
            if !self.read_bulk(buffer, authenticated)? {
                return Ok(Parsed::Incomplete);
            }
        }
        self.finished = true;
        Ok(Parsed::Request { used: self.position })
    }

    /// The arguments of the request just parsed from `buffer`, the name first, into `into`.
    pub fn args<'a>(&'a self, buffer: &'a [u8], into: &mut Vec<&'a [u8]>) {
        into.clear();
        into.extend(self.words.iter().map(Vec::as_slice));
        into.extend(self.spans.iter().map(|&(start, end)| &buffer[start..end]));
    }

    fn start_over(&mut self) {
        self.missing = None;
        self.position = 0;
        self.spans.clear();
        self.words.clear();
        self.finished = false;
    }

    fn read_count(
        &mut self,
        buffer: &[u8],
        authenticated: bool,
    ) -> Result<Option<usize>, ProtocolError> {
        let line = line(buffer, 0, ProtocolError::CountTooLong)?;
        let Some((line, next)) = line else { return Ok(None) };
        let count = decimal(&line[1..])
            .filter(|&count| count <= ARGS_MAX)
            .ok_or(ProtocolError::InvalidCount)?;
        if !authenticated && count > UNAUTHENTICATED_ARGS_MAX {
            return Err(ProtocolError::UnauthenticatedCount);
        }
        if let Ok(count @ 1..) = usize::try_from(count) {
            self.missing = Some(count);
            self.position = next;
        }
        Ok(Some(next))
    }

    /// Reads one argument; false where more bytes are needed.
    fn read_bulk(&mut self, buffer: &[u8], authenticated: bool) -> Result<bool, ProtocolError> {
        let line = line(buffer, self.position, ProtocolError::LengthTooLong)?;
        let Some((line, start)) = line else { return Ok(false) };
        match line.first() {
            Some(b'$') => {}
            // Redis looks at the byte where `$` should be, which is then the end of the line.
            other => return Err(ProtocolError::ExpectedBulk(other.copied().unwrap_or(b'\r'))),
        }
        let length = decimal(&line[1..]).ok_or(ProtocolError::InvalidLength)?;
        let bytes = usize::try_from(length).map_err(|_| ProtocolError::InvalidLength)?;
        if bytes > BULK_MAX_BYTES {
            return Err(ProtocolError::InvalidLength);
        }
        if !authenticated && length > UNAUTHENTICATED_BULK_MAX_BYTES {
            return Err(ProtocolError::UnauthenticatedLength);
        }
        // As Redis does, the two bytes after an argument are skipped unseen.
        if buffer.len() < start + bytes + 2 {
            return Ok(false);
        }
        self.spans.push((start, start + bytes));
        self.position = start + bytes + 2;
        self.missing = self.missing.map(|missing| missing - 1);
        Ok(true)
    }

    fn read_inline(&mut self, buffer: &[u8]) -> Result<Parsed, ProtocolError> {
        // Redis looks for the end of the line in a C string: behind a NUL it sees nothing.
        let end = buffer.iter().position(|byte| matches!(byte, b'\n' | 0));
        let Some(end) = end.filter(|&end| buffer[end] == b'\n') else {
            return match buffer.len() > INLINE_MAX_BYTES {
                true => Err(ProtocolError::InlineTooBig),
                false => Ok(Parsed::Incomplete),
            };
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        self.words = split_args(line).ok_or(ProtocolError::UnbalancedQuotes)?;
        let used = end + 1;
        if self.words.is_empty() {
            return Ok(Parsed::Nothing { used });
        }
        self.finished = true;
        Ok(Parsed::Request { used })
    }
}

/// Whether a request is a line of HTTP, which a browser may have been made to send: Redis closes the
/// connection without a word, before whatever follows is taken for a command.
pub fn is_http(args: &[&[u8]]) -> bool {
    args.first().is_some_and(|name| {
        name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
    })
}

/// The line at `from` without its end, and where the next one begins; nothing while it is incomplete.
fn line(
    buffer: &[u8],
    from: usize,
    too_long: ProtocolError,
) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let rest = buffer.get(from..).unwrap_or_default();
    // As in an inline command, nothing is seen behind a NUL.
    let end = rest.iter().position(|byte| matches!(byte, b'\r' | 0));
    let Some(end) = end.filter(|&end| rest[end] == b'\r') else {
        return if rest.len() > INLINE_MAX_BYTES { Err(too_long) } else { Ok(None) };
    };
    // The byte after `\r` is skipped unseen, but it must have come.
    if rest.len() < end + 2 {
        return Ok(None);
    }
    Ok(Some((&rest[..end], from + end + 2)))
}

/// The words of a line by Redis's quoting rules, or nothing where quotes do not balance.
pub fn split_args(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|&byte| !is_space(byte)).unwrap_or(rest.len());
        rest = &rest[start..];
        if rest.is_empty() {
            return Some(words);
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] => return Some((word, &[])),
            // Of all that is a blank before a word only these end one.
            [b' ' | b'\n' | b'\r' | b'\t', after @ ..] => return Some((word, after)),
            [b'"', after @ ..] => return quoted(word, after, true),
            [b'\'', after @ ..] => return quoted(word, after, false),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// The rest of a word after its opening quote. The closing quote must end the word.
fn quoted(mut word: Vec<u8>, mut rest: &[u8], double: bool) -> Option<(Vec<u8>, &[u8])> {
    let quote = if double { b'"' } else { b'\'' };
    loop {
        rest = match rest {
            [] => return None,
            [b'\\', b'x', high, low, after @ ..]
                if double && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] if double => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [b'\\', b'\'', after @ ..] if !double => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] if *byte == quote => {
                let ends = after.first().is_none_or(|&byte| is_space(byte));
                return ends.then_some((word, after));
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        };
    }
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()).unwrap_or(0)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
