//! What is known of a release, and of which commands are surely its own.

/// The commands of a release.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReleaseTries {
    /// When it began, and when the first was sent.
    pub(super) begun_ns: Option<u64>,
    pub(super) first_ns: Option<u64>,
    /// Those that were not refused.
    pub(super) sent: u32,
    pub(super) answered: u32,
    /// The servers that answered one.
    pub(super) nodes: NodeSet,
    /// One that is no script: it may not tell another's key from none.
    pub(super) by_command: bool,
    /// Something was given back before, and may be anew: who sends what cannot be told.
    pub(super) mixed: bool,
    /// Those commands that were sent before to give something back and have not been carried out: they may be sent anew.
    pub(super) earlier: u32,
}

/// Servers, as bits: of the first 64, which is more than any recipe asks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeSet(u64);

impl NodeSet {
    pub(super) fn insert(&mut self, node: u16) {
        self.0 |= 1 << (node % 64);
    }

    pub(super) fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

impl ReleaseTries {
    /// Whether what was sent then is surely one of them: what was sent in the instant of its begin may have been sent just
    /// before it.
    pub(super) fn surely_sent(self, at_ns: u64) -> bool {
        self.begun_ns.is_some_and(|begun_ns| begun_ns < at_ns || !self.mixed && begun_ns == at_ns)
    }

    /// Whether it was surely sent, and every command of it answered.
    pub(super) fn all_answered(self) -> bool {
        !self.mixed && self.sent > 0 && self.sent == self.answered
    }
}
