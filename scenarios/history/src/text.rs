//! Texts by number: an event stays small and is copied without allocation.
//!
//! Invariant: the same text has the same number within a history. Numbers are given in the order of
//! first use, so the same run gives the same numbers. Only where the room for texts is bounded, as in
//! a reader of files of any length, what comes after it is full passes: such a text has another number
//! each time and is soon forgotten. One text never passes, and is compared by its number for ever.

use rustc_hash::FxHashMap;

/// The number of a text in its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(u32);

impl Text {
    /// Set in the number of a text that passes.
    const PASSING: u32 = 1 << 31;
}

/// How many texts are remembered by their looks.
const RECENT: usize = 16;
/// How many texts that pass are known at a time: many more than an event has.
const PASSING: usize = 64;
/// What a text takes besides its letters, in bytes, about.
const OVERHEAD: usize = 64;
/// How much memory is kept of one that has passed, in bytes.
const KEPT: usize = 256;

/// The texts of a history.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    all: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, Text>,
    /// Texts seen lately, by their looks: most commands say what others have just said.
    recent: [Text; RECENT],
    /// Where room is bounded.
    bound: Option<TextBound>,
}

/// What to do when there are too many texts.
#[derive(Clone, Debug)]
struct TextBound {
    /// Room for texts that stay, in bytes.
    left: usize,
    /// The text that stays although there is no room left.
    always: Box<str>,
    /// How many have passed.
    passed: u32,
    /// The last of them, each at its number's place.
    passing: Vec<(Text, String)>,
}

impl Texts {
    /// Texts that take about so many bytes and no more, with the one that stays whatever else comes.
    pub fn bounded(bytes: usize, always: &str) -> Self {
        let passing = vec![(Text::default(), String::new()); PASSING];
        let bound = TextBound { left: bytes, always: always.into(), passed: 0, passing };
        Self { bound: Some(bound), ..Self::default() }
    }

    /// The number of this text, a new one where it has none yet.
    pub fn intern(&mut self, text: &str) -> Text {
        let place = looks(text.as_bytes());
        let recent = self.recent[place];
        if self.all.get(recent.0 as usize).is_some_and(|known| **known == *text) {
            return recent;
        }
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => match self.bound.as_mut().and_then(|bound| bound.pass(text)) {
                Some(passing) => return passing,
                None => self.keep(text),
            },
        };
        self.recent[place] = number;
        number
    }

    fn keep(&mut self, text: &str) -> Text {
        let number = u32::try_from(self.all.len()).ok().filter(|it| it & Text::PASSING == 0);
        let number = Text(number.expect("fewer texts than 2 billion"));
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
        self.intern(&String::from_utf8_lossy(text))
    }

    /// The number of this text, if it has one.
    pub fn find(&self, text: &str) -> Option<Text> {
        self.numbers.get(text).copied()
    }

    /// The text of this number; empty where there is none, or where it has passed.
    pub fn get(&self, text: Text) -> &str {
        match self.all.get(text.0 as usize) {
            Some(text) => text,
            None => self.bound.as_ref().map_or("", |bound| bound.get(text)),
        }
    }

    /// Forgets all texts, keeping the memory.
    pub fn clear(&mut self) {
        self.all.clear();
        self.numbers.clear();
    }
}

impl TextBound {
    /// The number of a text for which there is no room; none where there is.
    fn pass(&mut self, text: &str) -> Option<Text> {
        // A text is kept twice: by its number, and to be found.
        let takes = 2 * text.len() + OVERHEAD;
        if takes <= self.left || *self.always == *text {
            self.left = self.left.saturating_sub(takes);
            return None;
        }
        let place = self.passed as usize % PASSING;
        let number = Text(Text::PASSING + self.passed);
        self.passed = (self.passed + 1) % Text::PASSING;
        let (at, known) = &mut self.passing[place];
        *at = number;
        known.clear();
        known.push_str(text);
        // A single text as long as a line may be does not stay for ever after.
        known.shrink_to(KEPT);
        Some(number)
    }

    fn get(&self, text: Text) -> &str {
        let found = self.passing.iter().find(|(number, _)| *number == text);
        // Before any has passed, nothing stands in its place.
        found.map_or("", |(_, known)| known)
    }
}

/// The numbers that texts of one history have in another.
#[derive(Debug, Default)]
pub(super) struct Renumbering(Vec<Option<Text>>);

impl Renumbering {
    /// The number in `into` of a text of `from`; a new one where it has none yet.
    pub(super) fn of(&mut self, text: Text, from: &Texts, into: &mut Texts) -> Text {
        let place = text.0 as usize;
        if let Some(Some(known)) = self.0.get(place) {
            return *known;
        }
        let number = into.intern(from.get(text));
        if number.0 & Text::PASSING == 0 {
            self.0.resize(self.0.len().max(place + 1), None);
            self.0[place] = Some(number);
        }
        number
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
    fn where_room_is_bounded_what_comes_late_passes() {
        let mut texts = Texts::bounded(2 * OVERHEAD + 8, "the lock");
        let (get, set) = (texts.intern("GET"), texts.intern("S"));
        assert_eq!(texts.all.len(), 2, "there was room for these");
        let late: Vec<Text> = (0..PASSING + 1).map(|it| texts.intern(&it.to_string())).collect();
        assert_eq!(texts.get(late[0]), "", "forgotten");
        for (place, text) in late.iter().enumerate().skip(1) {
            assert_eq!(texts.get(*text), place.to_string());
        }
        assert_ne!(texts.intern("64"), late[64], "what passes has another number each time");
        let lock = texts.intern("the lock");
        assert_eq!((texts.intern("GET"), texts.intern("S")), (get, set));
        assert_eq!(texts.intern_bytes(b"the lock"), lock, "and is never forgotten");
        assert_eq!(texts.all.len(), 3);
    }

    #[test]
    fn a_text_takes_its_letters_twice() {
        let mut texts = Texts::bounded(OVERHEAD + 20, "");
        texts.intern("eleven text");
        assert_eq!(texts.all.len(), 0, "it takes 22");
        texts.intern("a text, ten");
        assert_eq!(texts.all.len(), 0);
        texts.intern("ten digits");
        assert_eq!(texts.all.len(), 1, "20 are left");
    }

    #[test]
    fn a_long_text_that_passes_leaves_no_room_taken() {
        let mut texts = Texts::bounded(0, "");
        let long = texts.intern(&"x".repeat(1 << 20));
        assert_eq!(texts.get(long).len(), 1 << 20);
        for _ in 0..PASSING {
            texts.intern("short");
        }
        let bound = texts.bound.unwrap();
        assert!(bound.passing.iter().all(|(_, text)| text.capacity() <= KEPT));
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
