//! Numbers and ranges in the arguments of commands.

use std::ops::Range;

use resp::{ErrorReply, decimal, is_word};

use crate::server::Request;

/// A number of things, which may be 0.
pub(super) fn positive(text: &[u8]) -> Result<usize, ErrorReply> {
    let count = decimal(text).and_then(|count| usize::try_from(count).ok());
    count.ok_or(ErrorReply::new("ERR value is out of range, must be positive"))
}

/// The count that may follow a key, the only argument that may.
pub(super) fn optional_count(request: &Request<'_>) -> Result<Option<usize>, ErrorReply> {
    match request.args {
        [_, _] => Ok(None),
        [_, _, count] => positive(count).map(Some),
        _ => Err(ErrorReply::SYNTAX),
    }
}

/// Whether these words say how to flush, or nothing of it.
pub(super) fn are_flush_mode(words: &[&[u8]]) -> bool {
    match words {
        [] => true,
        [mode] => is_word(mode, "SYNC") || is_word(mode, "ASYNC"),
        _ => false,
    }
}

/// An integer.
pub(super) fn number(text: &[u8]) -> Result<i64, ErrorReply> {
    decimal(text).ok_or(ErrorReply::NOT_AN_INTEGER)
}

/// A range with both ends included, as places.
pub(super) fn range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let signed = i64::try_from(len).unwrap_or(i64::MAX);
    let from_left = |index: i64| if index < 0 { index.saturating_add(signed) } else { index };
    let start = from_left(start).max(0);
    let stop = from_left(stop).min(signed - 1);
    if start > stop {
        return 0..0;
    }
    let place = |index: i64| usize::try_from(index).unwrap_or(len);
    place(start)..place(stop) + 1
}
