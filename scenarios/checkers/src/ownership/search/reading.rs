//! A reading of a history: how the key stands in it, and what it took to get there.
//!
//! Invariant: a reading is a value; following one changes no other.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// Which command wrote the value that a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueWriter {
    /// This one, whose value another has found.
    Command(u32),
    /// One whose value nobody has found.
    Another,
    /// Nobody knows which.
    Unknown,
}

/// How long a key lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HoldLife {
    /// The earliest moment at which it was set last.
    pub(super) from_ns: u64,
    /// From when on it may be over.
    pub(super) may_end_ns: u64,
    /// Until when it may last, if nothing sets it anew.
    pub(super) must_end_ns: u64,
}

/// How the key stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadingKey {
    /// There is none.
    #[default]
    Free,
    /// An acquisition holds it.
    Held {
        /// The acquisition, and its client.
        owner: (u32, u32),
        /// Who wrote its value.
        by: ValueWriter,
        /// When what made it was sent.
        since_ns: u64,
        life: HoldLife,
    },
    /// Nobody holds it rightfully, if it is there: it was there before, or came back with a server.
    Nobodys,
}

impl ReadingKey {
    /// Held by this acquisition; what belongs to none is nobody's.
    pub(super) fn of(owner: (u32, u32), by: ValueWriter, since_ns: u64, life: HoldLife) -> Self {
        if owner.0 == 0 {
            return Self::Nobodys;
        }
        Self::Held { owner, by, since_ns, life }
    }

    /// Whether whatever can follow the other can follow this one, once it may last as long.
    fn leaves_more_than(self, other: Self) -> bool {
        match (self, other) {
            (
                Self::Held { owner, by, since_ns, life },
                Self::Held {
                    owner: their_owner,
                    by: theirs,
                    since_ns: their_since_ns,
                    life: their_life,
                },
            ) => {
                owner == their_owner
                    && (by == theirs || by == ValueWriter::Unknown)
                    && since_ns <= their_since_ns
                    && life.from_ns <= their_life.from_ns
                    && life.may_end_ns <= their_life.may_end_ns
            }
            _ => self == other,
        }
    }
}

/// Commands that have been carried out before they were answered. Fewer come first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Early {
    count: usize,
    /// In order.
    places: SmallVec<[u32; 4]>,
}

impl Early {
    pub(super) fn contains(&self, place: u32) -> bool {
        self.places.contains(&place)
    }

    pub(super) fn with(&self, place: u32) -> Self {
        let mut places = SmallVec::from_slice(&self.places);
        insert(&mut places, place);
        Self { count: places.len(), places }
    }

    pub(super) fn without(mut self, place: u32) -> Self {
        self.places.retain(|it| *it != place);
        Self { count: self.places.len(), ..self }
    }
}

/// A reading.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) state: ReadingKey,
    /// The earliest moment it can be.
    pub(super) at_ns: u64,
    /// Commands without an answer that have been carried out, in order.
    pub(super) used: SmallVec<[u32; 4]>,
    /// Who was harmed first, if anybody was: each of those it may have been.
    pub(super) harm: SmallVec<[Harmed; 1]>,
}

impl Clone for Reading {
    // A `SmallVec` clones its elements one by one, unless it is told that they are but bytes.
    fn clone(&self) -> Self {
        Self {
            state: self.state,
            at_ns: self.at_ns,
            used: SmallVec::from_slice(&self.used),
            harm: SmallVec::from_slice(&self.harm),
        }
    }
}

/// Mostly there is just one, and following it allocates nothing.
pub(super) type ReadingList = SmallVec<[Reading; 2]>;

/// So many who may have been harmed first are told apart.
pub(super) const HARMS_MOST: usize = 8;

/// Somebody who was harmed. In the order of how certain it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Harmed {
    /// Whether the hold may have been over by then.
    pub(super) doubtful: bool,
    /// The earliest moment at which it can have been.
    pub(super) at_ns: u64,
    /// Whose hold.
    pub(super) victim: (u32, u32),
    /// By which command.
    pub(super) culprit: u32,
}

impl Reading {
    /// Nothing is known of the key: if it is there, it is nobody's.
    pub(super) fn unknown() -> Self {
        Self { state: ReadingKey::Nobodys, ..Self::default() }
    }

    /// The same, at this moment or later.
    pub(super) fn not_before(mut self, at_ns: u64) -> Self {
        self.at_ns = self.at_ns.max(at_ns);
        self
    }

    /// The same, the key standing so.
    pub(super) fn is(mut self, state: ReadingKey) -> Self {
        self.state = state;
        self
    }

    /// The same, a command without an answer having been carried out.
    pub(super) fn uses(mut self, place: u32) -> Self {
        insert(&mut self.used, place);
        self
    }

    /// Whether this command without an answer has been carried out.
    pub(super) fn has_used(&self, place: u32) -> bool {
        self.used.binary_search(&place).is_ok()
    }

    /// Whether anybody was harmed.
    pub(super) fn is_harmful(&self) -> bool {
        !self.harm.is_empty()
    }

    /// Whether somebody was harmed whose hold was not over by then.
    pub(super) fn is_surely_harmful(&self) -> bool {
        self.harm.iter().any(|it| !it.doubtful)
    }

    /// The same, with this harm done. The first counts that is no doubtful one.
    pub(super) fn harmed(mut self, harm: Harmed) -> Self {
        if !self.is_harmful() || !(harm.doubtful || self.is_surely_harmful()) {
            self.harm = SmallVec::from_buf([harm]);
        }
        self
    }

    /// The same, with this harm done to a hold that may have been over by then.
    pub(super) fn perhaps_harmed(self, harm: Harmed) -> Self {
        self.harmed(Harmed { doubtful: true, ..harm })
    }

    /// The first harm may have been this one as well.
    pub(super) fn may_be(&mut self, harm: Harmed) {
        if self.harm.len() < HARMS_MOST && !self.harm.contains(&harm) {
            self.harm.push(harm);
        }
    }

    /// Where the first harm was done, it may have been the other's as well, which comes to the same; and the
    /// key may last as long.
    pub(super) fn may_have(&mut self, other: &Self) {
        if let (ReadingKey::Held { life, .. }, ReadingKey::Held { life: theirs, .. }) =
            (&mut self.state, other.state)
        {
            life.must_end_ns = life.must_end_ns.max(theirs.must_end_ns);
        }
        if self.is_harmful() {
            other.harm.iter().for_each(|harm| self.may_be(*harm));
        }
    }

    /// The same with this life of the key, whichever acquisition holds it.
    pub(super) fn lives(mut self, anew: HoldLife) -> Self {
        if let ReadingKey::Held { life, .. } = &mut self.state {
            *life = anew;
        }
        self
    }

    /// The better, the lower: harmless ones before harmful ones, certain harm before harm that is none if
    /// the hold was over, what took less before what took more.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let doubtful = |it: &Self| it.harm.iter().map(|harm| harm.doubtful).min();
        let rank = |it: &Self| (doubtful(it), it.used.len());
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.used.cmp(&other.used))
            .then_with(|| self.at_ns.cmp(&other.at_ns))
            .then_with(|| self.state.cmp(&other.state))
    }

    /// These commands, each as one bit of 64, which several can share.
    pub(super) fn mask(places: impl IntoIterator<Item = u32>) -> u64 {
        places.into_iter().fold(0, |mask, place| mask | 1 << (place % u64::BITS))
    }

    /// Whether the other comes to the same, whatever they took.
    pub(super) fn comes_to_the_same(&self, other: &Self) -> bool {
        self.state.leaves_more_than(other.state)
            && self.at_ns <= other.at_ns
            && (!self.is_harmful() || other.is_harmful())
    }
}

/// Puts it where it belongs.
fn insert(places: &mut SmallVec<[u32; 4]>, place: u32) {
    let at = places.partition_point(|&it| it < place);
    places.insert(at, place);
}

#[cfg(test)]
mod tests;
