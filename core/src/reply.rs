//! What a server answered.
//!
//! Invariant: an error that the server answers is no reply but a
//! [`CallError::Refused`](crate::env::CallError), so no caller can overlook it.

use smallvec::SmallVec;

/// A reply, the same whether it came by RESP2 or RESP3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Nil,
    /// `+OK`.
    Ok,
    /// Any other simple string, such as `PONG` or `QUEUED`.
    Status(Box<str>),
    /// An integer.
    Int(i64),
    /// A byte string; owner tokens fit without allocation.
    Bulk(SmallVec<[u8; 40]>),
    /// A list. Maps are flattened to key, value, key, value, as RESP2 has them.
    Array(Vec<Reply>),
}

impl Reply {
    /// A byte string.
    pub fn bulk(bytes: &[u8]) -> Self {
        Self::Bulk(SmallVec::from_slice(bytes))
    }

    /// The bytes of a byte string or simple string.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            Self::Status(text) => Some(text.as_bytes()),
            Self::Ok => Some(b"OK"),
            Self::Nil | Self::Int(_) | Self::Array(_) => None,
        }
    }

    /// The integer, also when it came as decimal text, as GET answers a counter.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bulk(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            _ => None,
        }
    }
}

/// An error that the server answered: the command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {message}")]
pub struct ServerError {
    /// The first word, such as `NOSCRIPT`, `READONLY`, `OOM` or `ERR`.
    pub code: Box<str>,
    /// The rest.
    pub message: Box<str>,
}

impl ServerError {
    /// From the line as Redis sends it, without the leading `-`.
    pub fn from_line(line: &str) -> Self {
        let (code, message) = line.split_once(' ').unwrap_or((line, ""));
        Self { code: code.into(), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_reads_as_an_integer_however_it_came() {
        assert_eq!(Reply::bulk(b"10").as_int(), Some(10));
        assert_eq!(Reply::Int(-1).as_int(), Some(-1));
        assert_eq!(Reply::bulk(b"ten").as_int(), None);
        assert_eq!(Reply::Nil.as_int(), None);
    }

    #[test]
    fn an_error_line_splits_into_code_and_message() {
        let error = ServerError::from_line("NOSCRIPT No matching script.");
        assert_eq!((&*error.code, &*error.message), ("NOSCRIPT", "No matching script."));
        assert_eq!(error.to_string(), "NOSCRIPT No matching script.");
        assert_eq!(&*ServerError::from_line("LOADING").message, "");
    }
}
