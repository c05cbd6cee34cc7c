//! The few words of a complete frame that a proxy decides by, read in place.
//!
//! Invariant: nothing here allocates, and a malformed frame reads as absent words, never a panic.

use std::fmt;

/// A command name in upper case, cut to what fits without allocation (no Redis command is longer).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandName {
    bytes: [u8; Self::LEN],
    len: u8,
}

impl CommandName {
    const LEN: usize = 31;

    /// The name written like this, in any case.
    pub fn new(name: &[u8]) -> Self {
        let cut = &name[..name.len().min(Self::LEN)];
        let mut bytes = [0; Self::LEN];
        bytes[..cut.len()].copy_from_slice(cut);
        bytes.make_ascii_uppercase();
        Self { bytes, len: u8::try_from(cut.len()).unwrap_or(0) }
    }

    /// The bytes, in upper case.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A complete request frame, as found by a [`Scanner`](super::Scanner).
#[derive(Clone, Copy, Debug)]
pub struct RequestFrame<'a> {
    bytes: &'a [u8],
}

impl<'a> RequestFrame<'a> {
    /// A view of this frame. An inline command's arguments are parted at white space; quotes in it
    /// are not undone.
    pub fn new(frame: &'a [u8]) -> Self {
        Self { bytes: frame }
    }

    /// The arguments, the command's name first.
    pub fn args(self) -> RequestArgs<'a> {
        let inline = self.bytes.first() != Some(&b'*');
        let rest = if inline { self.bytes } else { after_line(self.bytes).unwrap_or_default() };
        RequestArgs { rest, inline }
    }

    /// The argument at this place, the name being at 0.
    pub fn arg(self, place: usize) -> Option<&'a [u8]> {
        self.args().nth(place)
    }

    /// The command's name.
    pub fn name(self) -> CommandName {
        CommandName::new(self.arg(0).unwrap_or_default())
    }
}

/// The arguments of a request, in order.
#[derive(Clone, Debug)]
pub struct RequestArgs<'a> {
    rest: &'a [u8],
    inline: bool,
}

impl<'a> Iterator for RequestArgs<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.inline {
            let start = self.rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
            let rest = &self.rest[start..];
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            self.rest = &rest[end..];
            return Some(&rest[..end]);
        }
        let (text, rest) = bulk(self.rest)?;
        self.rest = rest;
        Some(text)
    }
}

/// The first word of an array or push frame and the integer at its third place, as far as they are
/// there: what tells `subscribe`, `message` and the like apart, and the subscriptions left.
pub fn head(frame: &[u8]) -> Option<(&[u8], Option<i64>)> {
    if !matches!(frame.first(), Some(b'*' | b'>')) {
        return None;
    }
    let (word, rest) = bulk(after_line(frame)?)?;
    let count = match rest.first() {
        Some(b'_') => after_line(rest),
        Some(b'$') if rest.starts_with(b"$-1\r\n") => after_line(rest),
        _ => bulk(rest).map(|(_, rest)| rest),
    };
    let number = count
        .and_then(|rest| rest.strip_prefix(b":"))
        .and_then(|rest| std::str::from_utf8(&rest[..rest.iter().position(|b| *b == b'\r')?]).ok())
        .and_then(|digits| digits.parse().ok());
    Some((word, number))
}

fn after_line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some(&bytes[end + 1..])
}

/// The bulk string at the front, and what follows it.
fn bulk(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let digits = bytes.strip_prefix(b"$")?;
    let end = digits.iter().position(|byte| *byte == b'\r')?;
    let len = usize::try_from(super::length(&digits[..end]).ok()??).ok()?;
    let rest = digits.get(end + 2..)?;
    Some((rest.get(..len)?, rest.get(len.checked_add(2)?..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_request;

    #[test]
    fn names_and_arguments_are_read_in_place() {
        let mut bytes = Vec::new();
        encode_request(&[b"set", b"k", b"", b"NX"], &mut bytes);
        let request = RequestFrame::new(&bytes);
        assert_eq!(request.name(), CommandName::new(b"SET"));
        assert_eq!(request.name().to_string(), "SET");
        assert_eq!(request.arg(2), Some(&b""[..]));
        assert_eq!(request.arg(3), Some(&b"NX"[..]));
        assert_eq!(request.arg(4), None);
        let inline = RequestFrame::new(b"  get  k\r\n");
        assert_eq!((inline.name(), inline.arg(1)), (CommandName::new(b"GET"), Some(&b"k"[..])));
        assert_eq!(inline.arg(2), None);
    }

    #[test]
    fn a_long_name_is_cut_and_still_equal_to_itself() {
        let long = [b'x'; 100];
        assert_eq!(CommandName::new(&long), CommandName::new(&long[..50]));
        assert_eq!(CommandName::new(&long).as_bytes().len(), CommandName::LEN);
    }

    #[test]
    fn pubsub_frames_are_known_by_their_head() {
        let message = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
        assert_eq!(head(message), Some((&b"message"[..], None)));
        let confirmed = b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:2\r\n";
        assert_eq!(head(confirmed), Some((&b"subscribe"[..], Some(2))));
        let nothing_left = b"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n";
        assert_eq!(head(nothing_left), Some((&b"unsubscribe"[..], Some(0))));
        assert_eq!(head(b"+OK\r\n"), None);
        assert_eq!(head(b"*1\r\n:1\r\n"), None);
    }
}
