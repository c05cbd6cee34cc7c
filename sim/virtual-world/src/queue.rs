//! The event queue: future events, in order of time.
//!
//! Invariant: events of the same time happen in the order in which they were pushed. Events within the
//! next window of time are sorted into slots. Later ones wait unsorted, because most of them (timeouts of
//! calls) are cancelled before they are near. Deliberately absent: removing an event; the caller skips a
//! cancelled event when it is popped.

/// A future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimEvent {
    /// A timer rings.
    Timer(u32),
    /// A request reaches its server.
    Request(u32),
    /// A reply reaches its client.
    Reply(u32),
    /// A connection attempt is answered.
    ConnectAnswer(u32),
    /// A fault that the nemesis has planned is due.
    Fault(u32),
    /// A part of a feed's stream reaches its replica.
    Stream(u32),
    /// A replica's acknowledgement reaches the primary.
    Acknowledgement(u32),
    /// A server's file is to be synced.
    Sync(u32),
    /// A timeout of a blocking command at this server may be over.
    Unblock(u32),
}

/// The width of a slot in nanoseconds, as a power of two: 33 µs, in which a busy schedule has few events.
const SLOT_BITS: u32 = 15;
/// The slots of a window, as a power of two: 33 ms in all, longer than most messages travel.
const WINDOW_BITS: u32 = 10;
const SLOTS: usize = 1 << WINDOW_BITS;
const WORD_BITS: usize = 64;
/// No entry.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct QueuedEvent {
    at_ns: u64,
    /// How many were pushed up to and including this one.
    number: u32,
    /// The next one in its slot.
    next: u32,
    event: SimEvent,
}

impl QueuedEvent {
    fn rank(&self) -> (u64, u32) {
        (self.at_ns, self.number)
    }
}

/// Events in order of time.
#[derive(Debug)]
pub(super) struct EventQueue {
    /// The first slot of the window, counted from the beginning of time.
    first: u64,
    /// The first entry of each slot.
    slots: Box<[u32]>,
    /// Which slots have entries, and which words of this have bits.
    used: [u64; SLOTS / WORD_BITS],
    used_words: u64,
    entries: Vec<QueuedEvent>,
    vacant: Vec<u32>,
    /// Beyond the window, in no order.
    beyond: Vec<QueuedEvent>,
    pushed: u32,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            first: 0,
            slots: vec![NONE; SLOTS].into(),
            used: [0; SLOTS / WORD_BITS],
            used_words: 0,
            entries: Vec::new(),
            vacant: Vec::new(),
            beyond: Vec::new(),
            pushed: 0,
        }
    }
}

impl EventQueue {
    /// Adds an event, and returns its number, which no other event has.
    pub(super) fn push(&mut self, at_ns: u64, event: SimEvent) -> u32 {
        self.pushed += 1;
        let entry = QueuedEvent { at_ns, number: self.pushed, next: NONE, event };
        match (at_ns >> SLOT_BITS).checked_sub(self.first) {
            Some(slot) if slot < SLOTS as u64 => self.insert(slot, entry),
            Some(_) => self.beyond.push(entry),
            None => {
                // The window lies ahead of the present and begins too late for this event.
                self.empty_into_beyond();
                self.beyond.push(entry);
                self.begin_at(at_ns);
            }
        }
        self.pushed
    }

    /// The next event, its time and its number, unless it is later than `end_ns`. What is beyond the
    /// window and no longer `live` may be left out.
    pub(super) fn pop(
        &mut self,
        end_ns: u64,
        live: impl Fn(u32, SimEvent) -> bool,
    ) -> Option<(u64, u32, SimEvent)> {
        if self.used_words == 0 && !self.move_on(live) {
            return None;
        }
        let word = self.used_words.trailing_zeros() as usize;
        let slot = word * WORD_BITS + self.used[word].trailing_zeros() as usize;
        let mut place = self.slots[slot];
        let (mut best_before, mut best) = (NONE, place);
        while let Some(next) = self.entries.get(self.entries[place as usize].next as usize) {
            if next.rank() < self.entries[best as usize].rank() {
                (best_before, best) = (place, self.entries[place as usize].next);
            }
            place = self.entries[place as usize].next;
        }
        let QueuedEvent { at_ns, number, next, event } = self.entries[best as usize];
        if at_ns > end_ns {
            return None;
        }
        match best_before {
            NONE => self.slots[slot] = next,
            before => self.entries[before as usize].next = next,
        }
        self.vacant.push(best);
        if self.slots[slot] == NONE {
            self.used[word] &= self.used[word] - 1;
            if self.used[word] == 0 {
                self.used_words &= self.used_words - 1;
            }
        }
        Some((at_ns, number, event))
    }

    /// Forgets everything, keeping the memory.
    pub(super) fn clear(&mut self) {
        self.empty_into_beyond();
        self.beyond.clear();
        self.entries.clear();
        self.vacant.clear();
        (self.first, self.pushed) = (0, 0);
    }

    fn insert(&mut self, slot: u64, entry: QueuedEvent) {
        let slot = usize::try_from(slot).expect("a slot of the window");
        let entry = QueuedEvent { next: self.slots[slot], ..entry };
        let place = match self.vacant.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 events")
            }
        };
        self.slots[slot] = place;
        self.used[slot / WORD_BITS] |= 1 << (slot % WORD_BITS);
        self.used_words |= 1 << (slot / WORD_BITS);
    }

    /// Moves the empty window on to the next event; false if there is none.
    fn move_on(&mut self, live: impl Fn(u32, SimEvent) -> bool) -> bool {
        self.beyond.retain(|entry| live(entry.number, entry.event));
        let Some(next_ns) = self.beyond.iter().map(|entry| entry.at_ns).min() else { return false };
        self.begin_at(next_ns);
        true
    }

    /// Begins the window, which is empty, at this time.
    fn begin_at(&mut self, at_ns: u64) {
        self.first = at_ns >> SLOT_BITS;
        let mut place = 0;
        while let Some(entry) = self.beyond.get(place) {
            let slot = (entry.at_ns >> SLOT_BITS) - self.first;
            if slot < SLOTS as u64 {
                let entry = self.beyond.swap_remove(place);
                self.insert(slot, entry);
            } else {
                place += 1;
            }
        }
    }

    /// Makes the window empty.
    fn empty_into_beyond(&mut self) {
        while self.used_words != 0 {
            let word = self.used_words.trailing_zeros() as usize;
            while self.used[word] != 0 {
                let slot = word * WORD_BITS + self.used[word].trailing_zeros() as usize;
                let mut place = std::mem::replace(&mut self.slots[slot], NONE);
                while let Some(entry) = self.entries.get(place as usize) {
                    self.beyond.push(*entry);
                    self.vacant.push(place);
                    place = entry.next;
                }
                self.used[word] &= self.used[word] - 1;
            }
            self.used_words &= self.used_words - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const END_NS: u64 = u64::MAX;

    fn all(_number: u32, _event: SimEvent) -> bool {
        true
    }

    #[test]
    fn events_come_in_order_of_time_and_then_of_pushing() {
        let mut queue = EventQueue::default();
        let late = queue.push(9, SimEvent::Timer(1));
        let first = queue.push(5, SimEvent::Reply(2));
        let second = queue.push(5, SimEvent::Request(3));
        assert_eq!(queue.pop(4, all), None, "later than asked for");
        assert_eq!(queue.pop(5, all), Some((5, first, SimEvent::Reply(2))));
        assert_eq!(queue.pop(END_NS, all), Some((5, second, SimEvent::Request(3))));
        assert_eq!(queue.pop(END_NS, all), Some((9, late, SimEvent::Timer(1))));
        assert_eq!(queue.pop(END_NS, all), None);
    }

    #[test]
    fn cancelled_events_beyond_the_window_are_left_out() {
        let mut queue = EventQueue::default();
        let cancelled = queue.push(1 << 40, SimEvent::Timer(1));
        let on = queue.push(1 << 41, SimEvent::Timer(2));
        let live = |number, _| number != cancelled;
        assert_eq!(queue.pop(END_NS, live), Some((1 << 41, on, SimEvent::Timer(2))));
        queue.push(7, SimEvent::Fault(0));
        queue.clear();
        assert_eq!(queue.pop(END_NS, all), None);
        assert_eq!(queue.push(3, SimEvent::Fault(0)), 1, "as new");
    }

    proptest! {
        /// Events come in the order in which a sorted set has them.
        #[test]
        fn it_agrees_with_a_sorted_set(
            steps in prop::collection::vec((0..3_u8, 0..34_u32, any::<u32>()), 0..300),
        ) {
            let mut queue = EventQueue::default();
            let mut sorted = BTreeSet::new();
            let mut now_ns = 0;
            for (what, bits, part) in steps {
                let ahead_ns = u64::from(part) & ((1 << bits) - 1);
                if what > 0 {
                    let at_ns = now_ns + ahead_ns;
                    let number = queue.push(at_ns, SimEvent::Timer(part));
                    sorted.insert((at_ns, number, part));
                    continue;
                }
                let end_ns = now_ns + ahead_ns;
                let first = sorted.first().copied().filter(|(at_ns, ..)| *at_ns <= end_ns);
                let first = first.inspect(|first| assert!(sorted.remove(first)));
                let expected = first.map(|(at, number, part)| (at, number, SimEvent::Timer(part)));
                prop_assert_eq!(queue.pop(end_ns, all), expected);
                now_ns = first.map_or(now_ns, |(at_ns, ..)| at_ns);
            }
            for (at_ns, number, part) in sorted {
                let expected = Some((at_ns, number, SimEvent::Timer(part)));
                prop_assert_eq!(queue.pop(END_NS, all), expected);
            }
            prop_assert_eq!(queue.pop(END_NS, all), None);
        }
    }
}
