//! What a key can hold.
//!
//! Invariant: a value always knows its type, and a collection is never empty: Redis deletes the key
//! with its last element. Deliberately absent so far: lists, sets, sorted sets, streams.

use super::reply::Fail;
use super::text::Blob;

/// A value, by type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A byte string.
    Str(Blob),
    /// Fields in the order of their first writing, which is what a small hash of Redis answers.
    Hash(Vec<(Blob, Blob)>),
}

impl Value {
    /// What TYPE answers.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Str(_) => "string",
            Self::Hash(_) => "hash",
        }
    }

    /// The byte string, or WRONGTYPE.
    pub(crate) fn as_str(&self) -> Result<&Blob, Fail> {
        match self {
            Self::Str(bytes) => Ok(bytes),
            Self::Hash(_) => Err(Fail::WRONG_TYPE),
        }
    }

    /// The byte string to change in place, or WRONGTYPE.
    pub(crate) fn as_str_mut(&mut self) -> Result<&mut Blob, Fail> {
        match self {
            Self::Str(bytes) => Ok(bytes),
            Self::Hash(_) => Err(Fail::WRONG_TYPE),
        }
    }

    /// The fields of a hash, or WRONGTYPE.
    pub(crate) fn as_hash(&self) -> Result<&Vec<(Blob, Blob)>, Fail> {
        match self {
            Self::Hash(fields) => Ok(fields),
            Self::Str(_) => Err(Fail::WRONG_TYPE),
        }
    }

    /// The fields of a hash to change in place, or WRONGTYPE.
    pub(crate) fn as_hash_mut(&mut self) -> Result<&mut Vec<(Blob, Blob)>, Fail> {
        match self {
            Self::Hash(fields) => Ok(fields),
            Self::Str(_) => Err(Fail::WRONG_TYPE),
        }
    }
}
