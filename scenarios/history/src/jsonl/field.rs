//! The fields of a line.
//!
//! Invariant: which fields an event has follows from what happened, and from nothing else; a test
//! compares this with what is written.

use crate::event::{Answer, Touch, What};

/// A row is a field and its name, in the order in which an event is written.
macro_rules! fields {
    ($($field:ident $name:literal,)+) => {
        /// A field of an event's line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Field { $($field,)+ }

        impl Field {
            /// Every field.
            pub(super) const ALL: [Self; [$($name),+].len()] = [$(Self::$field),+];

            /// Its name.
            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$field => $name,)+ }
            }

            /// The field of this name. Compared byte by byte, which is faster than text by text.
            #[expect(non_upper_case_globals, reason = "each stands for the name of its field")]
            pub(super) fn from_name(name: &[u8]) -> Option<Self> {
                $(const $field: &[u8] = $name.as_bytes();)+
                match name { $($field => Some(Self::$field),)+ _ => None }
            }

            /// How far a text begins with this field's name as it is written, quotes and colon included; 0
            /// where it does not.
            pub(super) fn begins(self, text: &[u8]) -> usize {
                // Each with a length that is known when this is compiled, which is faster than a table.
                let with = |it: &str| if text.starts_with(it.as_bytes()) { it.len() } else { 0 };
                match self { $(Self::$field => with(concat!("\"", $name, "\":")),)+ }
            }
        }
    };
}

fields! {
    AtNs "at_ns",
    Client "client",
    Acquisition "acquisition",
    Op "op",
    Stage "stage",
    What "what",
    Node "node",
    Command "command",
    Key "key",
    Touch "touch",
    TtlNs "ttl_ns",
    Compares "compares",
    Answer "answer",
    Text "text",
    Value "value",
    Left "left",
    Written "written",
    Token "token",
    UntilNs "until_ns",
    Phase "phase",
    Fault "fault",
    ForNs "for_ns",
    InHold "in_hold",
    Staged "staged",
    Found "found",
}

impl Field {
    /// Those that every event has.
    pub(super) const ALWAYS: [Self; 4] = [Self::AtNs, Self::Client, Self::Stage, Self::What];
}

/// Some fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet(u32);

impl FieldSet {
    const fn of(fields: &[Field]) -> Self {
        let mut bits = 0;
        let mut place = 0;
        while place < fields.len() {
            bits |= 1 << fields[place] as u32;
            place += 1;
        }
        Self(bits)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn add(&mut self, field: Field) {
        self.0 |= 1 << field as u32;
    }

    pub(super) fn has(self, field: Field) -> bool {
        self.0 & 1 << field as u32 != 0
    }

    /// A field of these that is none of the others.
    pub(super) fn beyond(self, others: Self) -> Option<Field> {
        let beyond = Self(self.0 & !others.0);
        if beyond.0 == 0 { None } else { Field::ALL.into_iter().find(|field| beyond.has(*field)) }
    }
}

/// The fields that any event may have. What is 0 or false may be said, though it is not written.
const ANY: FieldSet =
    FieldSet::of(&Field::ALWAYS).and(FieldSet::of(&[Field::Acquisition, Field::Op]));

/// The fields that such an event may have.
pub(super) fn fields(what: What) -> FieldSet {
    use Field::{
        Answer as Answered, Command, Compares, Fault, ForNs, Found, InHold, Key, Left, Node, Phase,
        Staged, Text, Token, Touch as Touched, UntilNs, Value, Written,
    };
    const COMMAND: FieldSet = FieldSet::of(&[Node, Command, Key, Touched, Compares]);
    const ANSWERED: FieldSet = FieldSet::of(&[Touched, Answered, Found]);
    let own = match what {
        What::Acquire | What::Acquired | What::Release | What::Take | What::Update | What::Lost => {
            FieldSet::default()
        }
        What::NotAcquired(_)
        | What::AcquireUnknown(_)
        | What::Released(_)
        | What::ReleaseUnknown(_)
        | What::Refused(_)
        | What::Unanswered(_)
        | What::NotTaken(_)
        | What::NotUpdated(_) => const { FieldSet::of(&[Text]) },
        What::Command { intent, .. } => COMMAND.and(lives(intent.touch)),
        What::Answered { touch, answer, .. } => ANSWERED.and(lives(touch)).and(match answer {
            Answer::Nil | Answer::Ok | Answer::List => FieldSet::default(),
            Answer::Int(_) => const { FieldSet::of(&[Value]) },
            Answer::Text(_) => const { FieldSet::of(&[Text]) },
        }),
        What::Taken { .. } => const { FieldSet::of(&[Value, Left]) },
        What::TakeUnknown { .. } => const { FieldSet::of(&[Value, Text]) },
        What::Updated(_) => const { FieldSet::of(&[Value, Written, Token]) },
        What::UpdateUnknown { .. } => const { FieldSet::of(&[Value, Written, Token, Text]) },
        What::PoolLeft(_) | What::RegisterLeft(_) | What::Probe(_) => {
            const { FieldSet::of(&[Value]) }
        }
        What::ValidUntil(_) => const { FieldSet::of(&[UntilNs]) },
        What::Fence(_) => const { FieldSet::of(&[Token]) },
        What::Phase(_) => const { FieldSet::of(&[Phase]) },
        What::Fault { .. } => const { FieldSet::of(&[Fault, Node, ForNs, InHold, Staged]) },
    };
    ANY.and(own)
}

/// What says how long a key lives.
fn lives(touch: Touch) -> FieldSet {
    match touch {
        Touch::Create(_) | Touch::Overwrite(_) | Touch::Extend(_) => {
            const { FieldSet::of(&[Field::TtlNs]) }
        }
        Touch::None | Touch::Delete | Touch::Unknown => FieldSet::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_place_of_its_own_in_a_set() {
        let mut set = FieldSet::default();
        for (place, field) in Field::ALL.into_iter().enumerate() {
            assert_eq!(field as usize, place);
            assert_eq!(Field::from_name(field.name().as_bytes()), Some(field));
            let written = format!("\"{}\":", field.name());
            assert_eq!(field.begins(format!("{written} 1").as_bytes()), written.len());
            assert_eq!(field.begins(&written.as_bytes()[1..]), 0);
            assert!(!set.has(field), "{field:?}");
            assert_eq!(FieldSet::of(&[field]).beyond(set), Some(field));
            set.add(field);
            assert_eq!(FieldSet::of(&[field]).beyond(set), None);
        }
    }
}
