//! A history, whole and in memory.

use super::{Event, Head, Stage, Text, Texts};

/// A history: what kind of run it was, and its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// What kind of run it was.
    pub head: Head,
    /// The texts that events name.
    pub texts: Texts,
    /// What happened.
    pub events: Vec<Event>,
}

impl History {
    /// An empty history.
    pub fn new(head: Head) -> Self {
        Self { head, texts: Texts::default(), events: Vec::new() }
    }

    /// The text of this name.
    pub fn text(&self, text: Text) -> &str {
        self.texts.get(text)
    }

    /// How many operations were begun.
    pub fn operations(&self) -> u64 {
        self.events.iter().filter(|event| event.what.stage() == Stage::Invoke).count() as u64
    }

    /// From the first event to the last, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        match (self.events.first(), self.events.last()) {
            (Some(first), Some(last)) => last.at_ns.saturating_sub(first.at_ns),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::What;

    #[test]
    fn a_history_counts_what_was_begun_and_how_long_it_took() {
        let mut history = History::new(Head::default());
        assert_eq!((history.operations(), history.duration_ns()), (0, 0));
        let why = history.texts.intern("because");
        assert_eq!(history.text(why), "because");
        for (at_ns, what) in [
            (7, What::Acquire),
            (9, What::Acquired),
            (15, What::Lost),
            (20, What::Release),
            (30, What::Lost),
        ] {
            history.events.push(Event { at_ns, client: 1, acquisition: 1, op: 1, what });
        }
        assert_eq!((history.operations(), history.duration_ns()), (2, 23));
    }
}
