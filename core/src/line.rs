//! The line before a lock: its keys, and what the server says to those who stand in it.
//!
//! Invariant: an answer that is none of the scripts' own says nothing, and counts as none.
//! Deliberately absent: who stands where, which the server alone knows.

use std::time::Duration;

use crate::companion::companion;
use crate::env::CallError;
use crate::options::OptionsError;
use crate::reply::Reply;
use crate::target::unexpected;

/// The keys of a line, beside the lock's own.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    line: Box<[u8]>,
    book: Box<[u8]>,
}

impl Line {
    /// The line before the lock of this key.
    pub(crate) fn before(key: &[u8]) -> Result<Self, OptionsError> {
        Ok(Self { line: companion(key, "line")?, book: companion(key, "book")? })
    }

    /// The keys of the scripts, in their order.
    pub(crate) fn keys<'a>(&'a self, key: &'a [u8]) -> [&'a [u8]; 3] {
        [key, &self.line, &self.book]
    }
}

/// What the server says to who asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is the caller's, with its whole TTL from when this was carried out; `already`, where it had
    /// been handed over before.
    Yours { already: bool },
    /// Wait; at this time of the server, and for so long at most before looking.
    Wait { server_us: u64, sleep: Duration },
    /// The caller neither has it nor stands in line.
    Gone,
}

/// Reads an answer.
pub(crate) fn said(reply: Reply) -> Result<Said, CallError> {
    let Reply::Array(list) = &reply else { return Err(unexpected(&reply)) };
    let (code, rest) = match list.split_first() {
        Some((Reply::Int(code), rest)) => (*code, rest),
        _ => return Err(unexpected(&reply)),
    };
    let number = |place: usize| {
        let number = rest.get(place).and_then(Reply::as_int);
        number.and_then(|number| u64::try_from(number).ok())
    };
    match (code, number(0), number(1)) {
        (1 | 2, _, _) => Ok(Said::Yours { already: code == 2 }),
        (0, Some(server_us), Some(sleep_ms)) => {
            Ok(Said::Wait { server_us, sleep: Duration::from_millis(sleep_ms) })
        }
        (-1, _, _) => Ok(Said::Gone),
        _ => Err(unexpected(&reply)),
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_others_refused() {
        let time = || Reply::bulk(b"1700000000123456");
        let list = |items: Vec<Reply>| said(Reply::Array(items));
        assert_eq!(list(vec![Reply::Int(1), time()]), Ok(Said::Yours { already: false }));
        assert_eq!(list(vec![Reply::Int(2), time()]), Ok(Said::Yours { already: true }));
        assert_eq!(list(vec![Reply::Int(-1), time()]), Ok(Said::Gone));
        let wait = Said::Wait { server_us: 1_700_000_000_123_456, sleep: Duration::from_millis(7) };
        assert_eq!(list(vec![Reply::Int(0), time(), Reply::Int(7)]), Ok(wait));
        for strange in [
            Reply::Ok,
            Reply::Array(vec![]),
            Reply::Array(vec![Reply::Int(0), time()]),
            Reply::Array(vec![Reply::Int(0), time(), Reply::Int(-1)]),
            Reply::Array(vec![Reply::Int(3), time()]),
        ] {
            assert!(said(strange.clone()).unwrap_err().is_indeterminate(), "{strange:?}");
        }
    }
}
