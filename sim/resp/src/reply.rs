//! What the model answers, before it is written in either protocol.
//!
//! Invariant: a reply says what redis-server means, not how RESP2 or RESP3 spells it; a map is a map here
//! and becomes a flat array only when it is written.

use std::borrow::Cow;

use crate::text::{Blob, blob};

/// One reply, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// No value (`$-1` in RESP2).
    Nil,
    /// No array (`*-1` in RESP2): an EXEC that was not carried out.
    NilArray,
    /// `+OK`.
    Ok,
    /// Any other simple string.
    Status(Blob),
    /// An error.
    Error(ErrorReply),
    /// An integer.
    Int(i64),
    /// A byte string.
    Bulk(Blob),
    /// A list.
    Array(Vec<Reply>),
    /// Key, value, key, value…
    Map(Vec<Reply>),
    /// A set, in the order given.
    Set(Vec<Reply>),
    /// A floating-point number.
    Double(f64),
    /// A boolean (`:1`, `:0` in RESP2).
    Bool(bool),
    /// An integer of any size, as its digits.
    BigNumber(Blob),
    /// Text meant for people (`txt`), as INFO answers.
    Verbatim(Blob),
    /// A message the client did not ask for.
    Push(Vec<Reply>),
    /// Several messages one after the other, as SUBSCRIBE to several channels is answered.
    Burst(Vec<Reply>),
}

impl Reply {
    /// No reply at all.
    pub const NOTHING: Self = Self::Burst(Vec::new());

    /// A byte string.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(blob(bytes.as_ref()))
    }

    /// A simple string.
    pub fn status(bytes: impl AsRef<[u8]>) -> Self {
        Self::Status(blob(bytes.as_ref()))
    }

    /// A byte string, or no value.
    pub fn bulk_or_nil(bytes: Option<impl AsRef<[u8]>>) -> Self {
        bytes.map_or(Self::Nil, Self::bulk)
    }

    /// How many there are of something.
    pub fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// A map with texts for keys.
    pub fn map(pairs: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        Self::Map(pairs.into_iter().flat_map(|(key, value)| [Self::bulk(key), value]).collect())
    }

    /// True for an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// The text of an error: its code, a space, and the rest, without the leading `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply(Cow<'static, [u8]>);

impl ErrorReply {
    /// `ERR syntax error`.
    pub const SYNTAX: Self = Self::new("ERR syntax error");
    /// A value that should have been an integer.
    pub const NOT_AN_INTEGER: Self = Self::new("ERR value is not an integer or out of range");
    /// A key of another type.
    pub const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");

    /// An error of this text.
    pub const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// An error whose text may hold bytes of the client's. Line breaks at its end are taken for that of the line.
    pub fn of(bytes: impl Into<Vec<u8>>) -> Self {
        let mut text = bytes.into();
        let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
        text.truncate(end.map_or(0, |end| end + 1));
        Self(Cow::Owned(text))
    }

    /// `ERR wrong number of arguments for '…' command`.
    pub fn arity(command: &str) -> Self {
        Self::of(format!("ERR wrong number of arguments for '{command}' command"))
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// The first word.
    pub fn code(&self) -> &[u8] {
        self.0.split(|&byte| byte == b' ').next().unwrap_or_default()
    }
}

impl From<Result<Self, ErrorReply>> for Reply {
    fn from(answer: Result<Self, ErrorReply>) -> Self {
        answer.unwrap_or_else(Self::Error)
    }
}

/// Replies that virtual clients read are levelled to what `picklock` knows; the copy of a short bulk
/// is a move.
impl From<Reply> for Result<picklock::reply::Reply, picklock::reply::ServerError> {
    fn from(reply: Reply) -> Self {
        use picklock::reply::{Reply as Seen, ServerError};
        fn text(bytes: &[u8]) -> Box<str> {
            String::from_utf8_lossy(bytes).into()
        }
        let seen_all = |parts: Vec<Reply>| -> Vec<Seen> {
            // An error inside an array (of EXEC, of a script) has no place in `Seen`: it is shown as
            // the status line that a reader would print.
            let one =
                |part| Self::from(part).unwrap_or_else(|e| Seen::Status(e.to_string().into()));
            parts.into_iter().map(one).collect()
        };
        Ok(match reply {
            Reply::Nil | Reply::NilArray => Seen::Nil,
            Reply::Ok => Seen::Ok,
            Reply::Status(status) => Seen::Status(text(&status)),
            Reply::Error(fail) => return Err(ServerError::from_line(&text(fail.text()))),
            Reply::Int(value) => Seen::Int(value),
            Reply::Bool(value) => Seen::Int(i64::from(value)),
            Reply::Bulk(bytes) | Reply::BigNumber(bytes) | Reply::Verbatim(bytes) => {
                Seen::Bulk(bytes)
            }
            Reply::Double(value) => Seen::bulk(crate::number::double(value).as_bytes()),
            Reply::Array(parts)
            | Reply::Map(parts)
            | Reply::Set(parts)
            | Reply::Push(parts)
            | Reply::Burst(parts) => Seen::Array(seen_all(parts)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_server_errors_and_nil_stays_nil() {
        type Seen = Result<picklock::reply::Reply, picklock::reply::ServerError>;
        let error = Seen::from(Reply::Error(ErrorReply::new("NOSCRIPT No matching script.")));
        assert_eq!(&*error.unwrap_err().code, "NOSCRIPT");
        assert_eq!(Seen::from(Reply::NilArray), Ok(picklock::reply::Reply::Nil));
        let nested = Seen::from(Reply::Array(vec![Reply::bulk("a"), Reply::Bool(true)])).unwrap();
        let expected = vec![picklock::reply::Reply::bulk(b"a"), picklock::reply::Reply::Int(1)];
        assert_eq!(nested, picklock::reply::Reply::Array(expected));
    }

    #[test]
    fn the_code_of_an_error_is_its_first_word() {
        assert_eq!(ErrorReply::WRONG_TYPE.code(), b"WRONGTYPE");
        assert_eq!(ErrorReply::new("LOADING").code(), b"LOADING");
    }
}
