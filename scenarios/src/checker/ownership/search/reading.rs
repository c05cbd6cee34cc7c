//! A reading of a history: how the key stands in it, and what it took to get there.
//!
//! Invariant: a reading is a value; following one changes no other. Deliberately absent: the commands,
//! which are named by their places.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// How the key stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum State {
    /// There is none.
    #[default]
    Free,
    /// An acquisition holds it.
    Held {
        /// The acquisition, and its client.
        owner: (u32, u32),
        /// When what made it was sent.
        since_ns: u64,
        /// The earliest moment at which its life was set last.
        from_ns: u64,
        /// From when on it may have expired.
        may_end_ns: u64,
    },
    /// Nobody holds it rightfully, if it is there: it was there before, or came back with a server.
    Nobodys,
}

impl State {
    /// Held by this acquisition; what belongs to none is nobody's.
    pub(super) fn of(owner: (u32, u32), since_ns: u64, from_ns: u64, may_end_ns: u64) -> Self {
        if owner.0 == 0 {
            return Self::Nobodys;
        }
        Self::Held { owner, since_ns, from_ns, may_end_ns }
    }

    fn times(self) -> (Option<(u32, u32)>, [u64; 3]) {
        match self {
            Self::Held { owner, since_ns, from_ns, may_end_ns } => {
                (Some(owner), [since_ns, from_ns, may_end_ns])
            }
            Self::Free | Self::Nobodys => (None, [0; 3]),
        }
    }

    /// Whether whatever can follow the other can follow this one.
    fn leaves_more_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Held { .. }, Self::Held { .. }) => {
                let (mine, theirs) = (self.times(), other.times());
                mine.0 == theirs.0
                    && mine.1.iter().zip(theirs.1).all(|(mine, theirs)| *mine <= theirs)
            }
            _ => self == other,
        }
    }
}

/// A reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    pub(super) state: State,
    /// The earliest moment it can be.
    pub(super) at_ns: u64,
    /// Commands that have been carried out before they were answered, in order.
    pub(super) early: SmallVec<[u32; 4]>,
    /// Commands without an answer that have been carried out.
    pub(super) used: SmallVec<[u32; 4]>,
    /// Who was harmed first, if anybody was.
    pub(super) harm: Option<Harmed>,
}

/// Somebody who was harmed. In the order of how certain it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Harmed {
    /// Whether the hold may have been over by then.
    pub(super) doubtful: bool,
    /// Whose hold.
    pub(super) victim: (u32, u32),
    /// By which command.
    pub(super) culprit: u32,
}

impl Reading {
    /// Nothing is known of the key: if it is there, it is nobody's.
    pub(super) fn unknown() -> Self {
        Self { state: State::Nobodys, ..Self::default() }
    }

    /// The same, at this moment or later.
    pub(super) fn not_before(&self, at_ns: u64) -> Self {
        Self { at_ns: self.at_ns.max(at_ns), ..self.clone() }
    }

    /// The same, the key standing so.
    pub(super) fn is(&self, state: State) -> Self {
        Self { state, ..self.clone() }
    }

    /// The same, a command without an answer having been carried out.
    pub(super) fn uses(&self, place: u32) -> Self {
        let mut used = self.used.clone();
        used.push(place);
        Self { used, ..self.clone() }
    }

    /// The same, with this harm done. The first counts.
    pub(super) fn harmed(&self, victim: (u32, u32), culprit: u32) -> Self {
        let harm = Harmed { doubtful: false, victim, culprit };
        Self { harm: self.harm.or(Some(harm)), ..self.clone() }
    }

    /// The same, with this harm done to a hold that may have been over by then.
    pub(super) fn perhaps_harmed(&self, victim: (u32, u32), culprit: u32) -> Self {
        let harm = Harmed { doubtful: true, victim, culprit };
        Self { harm: self.harm.or(Some(harm)), ..self.clone() }
    }

    /// The same, the key living on until then, whoever holds it.
    pub(super) fn lives(self, end_ns: u64) -> Self {
        match self.state {
            State::Held { owner, since_ns, .. } => {
                let from_ns = self.at_ns;
                self.is(State::Held { owner, since_ns, from_ns, may_end_ns: end_ns })
            }
            State::Free | State::Nobodys => self,
        }
    }

    /// The better, the lower: harmless ones before harmful ones, certain harm before harm that is none if
    /// the hold was over, what took less before what took more.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let doubtful = |it: &Self| it.harm.map(|harm| harm.doubtful);
        let rank = |it: &Self| (doubtful(it), it.used.len());
        rank(self)
            .cmp(&rank(other))
            .then_with(|| self.used.cmp(&other.used))
            .then_with(|| self.at_ns.cmp(&other.at_ns))
            .then_with(|| self.state.cmp(&other.state))
            .then_with(|| self.early.cmp(&other.early))
    }

    /// Whether the other comes to the same, having taken no less.
    pub(super) fn makes_superfluous(&self, other: &Self) -> bool {
        self.state.leaves_more_than(other.state)
            && self.at_ns <= other.at_ns
            && self.early == other.early
            && (self.harm.is_none() || other.harm.is_some())
            && self.used.iter().all(|it| other.used.contains(it))
    }
}

#[cfg(test)]
mod tests;
