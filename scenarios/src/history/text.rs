//! Texts by number: an event stays small and is copied without allocation.
//!
//! Invariant: the same text has the same number within a history. Numbers are given in the order of
//! first use, so the same run gives the same numbers.

use rustc_hash::FxHashMap;

/// The number of a text in its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(u32);

/// The texts of a history.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    all: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, Text>,
}

impl Texts {
    /// The number of this text, a new one where it has none yet.
    pub fn intern(&mut self, text: &str) -> Text {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = Text(u32::try_from(self.all.len()).expect("fewer texts than 4 billion"));
        self.all.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// The number of this text, if it has one.
    pub fn find(&self, text: &str) -> Option<Text> {
        self.numbers.get(text).copied()
    }

    /// The text of this number; empty where there is none.
    pub fn get(&self, text: Text) -> &str {
        self.all.get(text.0 as usize).map_or("", |text| text)
    }

    /// Forgets all texts, keeping the memory.
    pub fn clear(&mut self) {
        self.all.clear();
        self.numbers.clear();
    }
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}
