//! The journal of a run: many clients write one history.
//!
//! Invariant: an event's time is read while nobody else writes, so times never fall along the history.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use super::History;
use super::event::{Event, What};
use super::head::Head;
use super::text::{Text, Texts};
use super::values::{Content, KeyDigest, Values};

/// A handle to the history being written. Cloning gives another handle.
#[derive(Clone, Debug)]
pub struct Journal {
    place: JournalPlace,
}

/// Where a history is written.
#[derive(Clone, Debug)]
enum JournalPlace {
    /// Where every thread can write.
    Shared(Arc<Mutex<JournalState>>),
    /// In the thread that uses the handle.
    Thread,
}

thread_local! {
    /// The history that this thread writes alone.
    static THREAD: RefCell<JournalState> = RefCell::default();
}

#[derive(Debug, Default)]
struct JournalState {
    history: History,
    acquisitions: u32,
    ops: u32,
    values: Values,
}

impl Journal {
    /// An empty history of such a run.
    pub fn new(head: Head) -> Self {
        let history = History::new(head);
        let state = JournalState { history, ..JournalState::default() };
        Self { place: JournalPlace::Shared(Arc::new(Mutex::new(state))) }
    }

    /// The same, of this thread alone, in the place and the memory of the one that it wrote before. What a handle writes
    /// on another thread is another history.
    pub fn of_thread(head: Head) -> Self {
        let journal = Self { place: JournalPlace::Thread };
        journal.reset(&head, head.seed);
        journal
    }

    /// The number of a new acquisition.
    pub fn next_acquisition(&self) -> u32 {
        self.with(|state| {
            state.acquisitions += 1;
            state.acquisitions
        })
    }

    /// Begins an operation: writes its invocation and returns its number.
    pub fn invoke(
        &self,
        clock: impl FnOnce() -> u64,
        client: u32,
        acquisition: u32,
        what: impl FnOnce(&mut Texts) -> What,
    ) -> u32 {
        self.with(|state| {
            state.ops += 1;
            let op = state.ops;
            state.write(clock, client, acquisition, op, what);
            op
        })
    }

    /// Writes the end of an operation, or with `op` 0 a note.
    pub fn write(
        &self,
        clock: impl FnOnce() -> u64,
        client: u32,
        acquisition: u32,
        op: u32,
        what: impl FnOnce(&mut Texts) -> What,
    ) {
        self.with(|state| state.write(clock, client, acquisition, op, what));
    }

    /// An operation that has begun may write this.
    pub fn writes(&self, op: u32, content: Content) {
        self.with(|state| state.values.writes(op, content));
    }

    /// It surely has not, and will not.
    pub fn wrote_nothing(&self, op: u32, content: Content) {
        self.with(|state| state.values.wrote_nothing(op, content));
    }

    /// An operation may write there what nobody knows.
    pub fn writes_unknown(&self, place: KeyDigest) {
        self.with(|state| state.values.writes_unknown(place));
    }

    /// Which operation had written what this one has found there, where only one can have.
    pub fn writer(&self, by: u32, place: KeyDigest, content: Content) -> Option<u32> {
        self.with(|state| state.values.writer(by, place, content))
    }

    /// The number of this text.
    pub fn text(&self, text: &str) -> Text {
        self.with(|state| state.history.texts.intern(text))
    }

    /// Begins anew with this head, but another seed, keeping the memory.
    pub fn reset(&self, head: &Head, seed: u64) {
        self.with(|state| {
            state.history.head.seed = head.seed;
            if state.history.head != *head {
                state.history.head = head.clone();
            }
            state.history.head.seed = seed;
            state.history.texts.clear();
            state.history.events.clear();
            state.values.clear();
            (state.acquisitions, state.ops) = (0, 0);
        });
    }

    /// Looks at the history so far.
    pub fn look<R>(&self, look: impl FnOnce(&History) -> R) -> R {
        self.with(|state| look(&state.history))
    }

    /// Takes the history so far out; one with the same head begins.
    pub fn take(&self) -> History {
        self.with(|state| {
            let next = History::new(state.history.head.clone());
            std::mem::replace(&mut state.history, next)
        })
    }

    /// Takes the memory of a history that was taken out. The head stays as it is.
    pub fn give_back(&self, mut history: History) {
        self.with(|state| {
            std::mem::swap(&mut history.head, &mut state.history.head);
            state.history = history;
        });
    }

    /// The history so far.
    pub fn history(&self) -> History {
        self.with(|state| state.history.clone())
    }

    #[inline]
    fn with<R>(&self, act: impl FnOnce(&mut JournalState) -> R) -> R {
        match &self.place {
            JournalPlace::Thread => THREAD.with_borrow_mut(act),
            JournalPlace::Shared(state) => {
                act(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

impl JournalState {
    fn write(
        &mut self,
        clock: impl FnOnce() -> u64,
        client: u32,
        acquisition: u32,
        op: u32,
        what: impl FnOnce(&mut Texts) -> What,
    ) {
        let what = what(&mut self.history.texts);
        self.history.events.push(Event { at_ns: clock(), client, acquisition, op, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_numbered_and_timed_in_its_order() {
        let journal = Journal::new(Head { seed: 5, ..Head::default() });
        assert_eq!([journal.next_acquisition(), journal.next_acquisition()], [1, 2]);
        let first = journal.invoke(|| 10, 3, 1, |_| What::Acquire);
        let second = journal.invoke(|| 20, 4, 2, |_| What::Acquire);
        assert_eq!([first, second], [1, 2]);
        journal.write(|| 30, 3, 1, first, |texts| What::NotAcquired(texts.intern("because")));
        let history = journal.history();
        let why = journal.text("because");
        assert_eq!(history.text(why), "because");
        let event =
            |at_ns, client, acquisition, op, what| Event { at_ns, client, acquisition, op, what };
        let expected = [
            event(10, 3, 1, 1, What::Acquire),
            event(20, 4, 2, 2, What::Acquire),
            event(30, 3, 1, 1, What::NotAcquired(why)),
        ];
        assert_eq!(history.events, expected);
        assert_eq!((journal.look(|it| it.events.len()), history.head.seed), (3, 5));
        let other = journal.text("another");
        assert_ne!(other, why);
        assert_eq!(journal.history().text(other), "another");
    }

    #[test]
    fn a_journal_begun_anew_is_as_good_as_a_new_one() {
        let write = |journal: &Journal| {
            let acquisition = journal.next_acquisition();
            journal.invoke(|| 10, 1, acquisition, |texts| What::Refused(texts.intern("because")));
        };
        let head = Head { scenario: "the second".into(), ..Head::default() };
        let new = Journal::new(Head { seed: 9, ..head.clone() });
        write(&new);
        for journal in [Journal::new(Head::default()), Journal::of_thread(Head::default())] {
            write(&journal);
            journal.text("of the first run only");
            journal.reset(&head, 9);
            write(&journal);
            assert_eq!(journal.history(), new.history());
        }
    }
}
