//! What a key can hold.
//!
//! Invariant: a value always knows its type, and a collection is never empty: Redis deletes the key with
//! its last element. Not modelled: streams. Collections of locks are small, so all but lists are searched
//! from end to end or by halves.

use std::collections::{BTreeSet, VecDeque};

use resp::{Blob, ErrorReply};

use super::scored::Scored;

/// A value, by type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StoredValue {
    /// A byte string.
    Str(Blob),
    /// Fields in the order of their first writing, which is what a small hash of Redis answers.
    Hash(Vec<(Blob, Blob)>),
    /// Elements from left to right.
    List(VecDeque<Blob>),
    /// Members in the order of their bytes; Redis promises none.
    Set(BTreeSet<Blob>),
    /// Members by score.
    Scored(Scored),
}

/// The accessors of one type: shared, and to change in place; both say WRONGTYPE of another type.
macro_rules! accessors {
    ($variant:ident, $type:ty, $shared:ident, $unique:ident) => {
        /// The value of this type, or WRONGTYPE.
        pub(crate) fn $shared(&self) -> Result<&$type, ErrorReply> {
            if let Self::$variant(value) = self { Ok(value) } else { Err(ErrorReply::WRONG_TYPE) }
        }

        /// The value of this type to change in place, or WRONGTYPE.
        pub(crate) fn $unique(&mut self) -> Result<&mut $type, ErrorReply> {
            if let Self::$variant(value) = self { Ok(value) } else { Err(ErrorReply::WRONG_TYPE) }
        }
    };
}

impl StoredValue {
    /// What TYPE answers.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Str(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Scored(_) => "zset",
        }
    }

    /// Whether nothing is left of a collection. A string of no bytes is something.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Str(_) => false,
            Self::Hash(fields) => fields.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Set(set) => set.is_empty(),
            Self::Scored(set) => set.is_empty(),
        }
    }

    accessors!(Str, Blob, as_str, as_str_mut);
    accessors!(Hash, Vec<(Blob, Blob)>, as_hash, as_hash_mut);
    accessors!(List, VecDeque<Blob>, as_list, as_list_mut);
    accessors!(Set, BTreeSet<Blob>, as_set, as_set_mut);
    accessors!(Scored, Scored, as_scored, as_scored_mut);
}
