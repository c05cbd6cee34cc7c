//! Texts by number: an event stays small and is copied without allocation.
//!
//! Invariant: the same text has the same number within a history. Numbers are given in the order of
//! first use, so the same run gives the same numbers.

use rustc_hash::FxHashMap;

/// The number of a text in its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(u32);

/// How many texts are remembered by their looks.
const RECENT: usize = 16;

/// The texts of a history.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    all: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, Text>,
    /// Texts seen lately, by their looks: most commands say what others have just said.
    recent: [Text; RECENT],
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

    /// The number of this text; what is no UTF-8 is replaced.
    pub fn intern_bytes(&mut self, text: &[u8]) -> Text {
        let place = looks(text);
        let recent = self.recent[place];
        if self.all.get(recent.0 as usize).is_some_and(|known| known.as_bytes() == text) {
            return recent;
        }
        let number = self.intern(&String::from_utf8_lossy(text));
        self.recent[place] = number;
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

/// Where a text is remembered.
fn looks(text: &[u8]) -> usize {
    let ends = text.first().zip(text.last()).map_or(0, |(first, last)| first ^ last.rotate_left(2));
    (text.len() ^ usize::from(ends)) % RECENT
}

impl PartialEq for Texts {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_however_it_comes() {
        let mut texts = Texts::default();
        for round in 0..2 {
            for text in ["GET", "SET", "", "k", "GET", "a longer one"] {
                let number = texts.intern_bytes(text.as_bytes());
                assert_eq!(texts.intern(text), number, "{text} in round {round}");
                assert_eq!(texts.get(number), text);
            }
            assert_eq!(texts.all.len(), 5);
        }
        assert_eq!(texts.intern_bytes(b"\xff"), texts.intern("\u{fffd}"));
        texts.clear();
        assert_eq!(texts.intern_bytes(b"SET"), Text(0), "nothing of it is left");
        assert_eq!(texts.get(Text(0)), "SET");
    }

    #[test]
    fn only_texts_that_are_there_are_found() {
        let mut texts = Texts::default();
        let [one, other] = ["one", "other"].map(|text| texts.intern(text));
        assert_eq!([texts.find("one"), texts.find("other")], [Some(one), Some(other)]);
        assert_eq!(texts.find("none"), None);
    }

    #[test]
    fn texts_are_alike_if_they_are_the_same_in_the_same_order() {
        let of = |all: &[&str]| {
            let mut texts = Texts::default();
            for text in all {
                texts.intern_bytes(text.as_bytes());
            }
            texts
        };
        assert_eq!(of(&["a", "b"]), of(&["a", "b", "a"]));
        assert_ne!(of(&["a", "b"]), of(&["b", "a"]));
    }
}
