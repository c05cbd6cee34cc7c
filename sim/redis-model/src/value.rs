//! What a key can hold.
//!
//! Invariant: a value always knows its type, and a collection is never empty: Redis deletes the key with
//! its last element. Not modelled: streams. Collections of locks are small, so all except lists use a linear
//! or a binary search.

use std::collections::{BTreeSet, VecDeque};

use resp::{Blob, ErrorReply, decimal};

use super::scored::Scored;

/// Fields in the order of their first writing, which is what a small hash of Redis answers.
pub(crate) type Fields = Vec<(Blob, Blob)>;

/// Elements from left to right.
pub(crate) type Elements = VecDeque<Blob>;

/// Members in the order of their bytes; Redis promises none.
pub(crate) type SetMembers = BTreeSet<Blob>;

/// A value, by type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StoredValue {
    /// A byte string.
    Str(Blob),
    Hash(Fields),
    List(Elements),
    Set(SetMembers),
    /// Members by score.
    Scored(Scored),
}

/// A type of value. Both ways to see a value as one say WRONGTYPE of another.
pub(crate) trait ValueType: Default {
    fn of(value: &StoredValue) -> Result<&Self, ErrorReply>;
    fn of_mut(value: &mut StoredValue) -> Result<&mut Self, ErrorReply>;
    fn stored(self) -> StoredValue;
}

macro_rules! value_types {
    ($($variant:ident: $type:ty),*) => {$(
        impl ValueType for $type {
            fn of(value: &StoredValue) -> Result<&Self, ErrorReply> {
                let StoredValue::$variant(value) = value else { return Err(ErrorReply::WRONG_TYPE) };
                Ok(value)
            }

            fn of_mut(value: &mut StoredValue) -> Result<&mut Self, ErrorReply> {
                let StoredValue::$variant(value) = value else { return Err(ErrorReply::WRONG_TYPE) };
                Ok(value)
            }

            fn stored(self) -> StoredValue {
                StoredValue::$variant(self)
            }
        }
    )*};
}

value_types!(Str: Blob, Hash: Fields, List: Elements, Set: SetMembers, Scored: Scored);

impl StoredValue {
    /// The value as one of this type, or WRONGTYPE.
    pub(crate) fn get<T: ValueType>(&self) -> Result<&T, ErrorReply> {
        T::of(self)
    }

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

    /// Whether nothing of it is left in what the same key holds now. Elements of a list come and go.
    pub(crate) fn is_replaced_by(&self, now: &Self) -> bool {
        let has = |name: &Blob| match now {
            Self::Hash(fields) => fields.iter().any(|(field, _)| field == name),
            Self::Set(members) => members.contains(name),
            Self::Scored(members) => members.rank(name).is_some(),
            Self::Str(_) | Self::List(_) => false,
        };
        match self {
            Self::Str(_) => self != now,
            Self::List(_) => !matches!(now, Self::List(_)),
            Self::Hash(fields) => !fields.iter().any(|(field, _)| has(field)),
            Self::Set(members) => !members.iter().any(has),
            Self::Scored(members) => !members.as_slice().iter().any(|(_, member)| has(member)),
        }
    }

    /// Whether every field of a hash has another value now; none if no field has, or if it is no hash of these fields.
    pub(crate) fn fields_rewritten(&self, now: &Self) -> Option<bool> {
        let (Self::Hash(before), Self::Hash(now)) = (self, now) else { return None };
        let same = before.iter().filter(|it| now.contains(it)).count();
        (same < before.len()).then_some(same == 0)
    }

    /// What a collection is made of: fields, members or elements.
    pub(crate) fn entries(&self) -> Vec<&Blob> {
        match self {
            Self::Str(_) => Vec::new(),
            Self::Hash(fields) => fields.iter().map(|(field, _)| field).collect(),
            Self::List(list) => list.iter().collect(),
            Self::Set(set) => set.iter().collect(),
            Self::Scored(set) => set.as_slice().iter().map(|(_, member)| member).collect(),
        }
    }

    /// The number in a string, which INCR would count on.
    pub(crate) fn count(&self) -> Option<i64> {
        let Self::Str(text) = self else { return None };
        decimal(text)
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
}
