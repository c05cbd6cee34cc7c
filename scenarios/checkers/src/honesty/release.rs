//! What an acquisition has sent to end its hold, and which of it is surely of its release.

use history::{Answer, CommandOp, Touch};

use super::super::interface::{frees, makes};

/// The commands that may end its hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReleaseTries {
    /// When its release began, and when the first command of it was sent.
    pub(super) begun_ns: Option<u64>,
    pub(super) first_ns: Option<u64>,
    /// The commands of the release that were not refused, and those that were answered.
    sent: u32,
    answered: u32,
    /// The servers that answered one.
    pub(super) nodes: NodeSet,
    /// One of them is no script: it may not tell another's key from none.
    pub(super) by_command: bool,
    /// Something was given back before, and may be again: which command belongs to what cannot be told.
    pub(super) mixed: bool,
    /// Those commands that were sent before to give something back and have not been carried out: they may be sent anew.
    earlier: u32,
    /// The release has deleted a key that held the acquisition's own value.
    deleted: bool,
    /// Of all commands: those without an answer, and whether one surely or perhaps has ended the hold.
    unanswered: u32,
    freed: bool,
    /// Since the key was last asked for, one was sent before it had surely gone.
    sent_in_time: bool,
    /// One that ended the hold has found the key there.
    found: bool,
}

/// What a command has done that may end a hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freed {
    /// It has deleted a key that held the acquisition's own value.
    pub(super) deleted: bool,
    /// It has handed the lock, or a place in line, on.
    pub(super) handed_on: bool,
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
    /// A command is sent; `gone` where the key has surely gone by now.
    pub(super) fn sends(
        &mut self,
        command: &CommandOp,
        gone: bool,
        is_script: impl FnOnce() -> bool,
    ) {
        let touch = command.intent.touch;
        if makes(touch) {
            (self.sent_in_time, self.found) = (false, false);
        }
        if !frees(touch) {
            return;
        }
        self.unanswered += 1;
        self.sent_in_time |= !gone;
        if self.begun_ns.is_some() {
            self.first_ns.get_or_insert(command.invoke_ns);
            self.sent += 1;
            self.by_command |= !is_script();
        } else {
            self.mixed = true;
            self.earlier += 1;
        }
    }

    /// A command has ended, and has done this; it has no answer where it was refused.
    pub(super) fn ends(
        &mut self,
        command: &CommandOp,
        touch: Touch,
        answer: Option<Answer>,
    ) -> Freed {
        let intent = command.intent;
        if !frees(intent.touch) {
            return Freed::default();
        }
        let deleted = intent.compares && touch == Touch::Delete;
        let of_release = self.first_ns.is_some_and(|first_ns| first_ns <= command.invoke_ns);
        match answer {
            Some(_) if of_release => {
                self.deleted |= deleted && self.surely_sent(command.invoke_ns);
                self.answered += 1;
                self.nodes.insert(command.node);
            }
            // What was refused did nothing: it is as good as not sent.
            None if of_release => self.sent = self.sent.saturating_sub(1),
            Some(_) => self.earlier -= 1,
            None => {}
        }
        // Who hands on says 1 where it had the lock, 2 or 3 where it had a place in line, and otherwise has nothing to give.
        let hands_on = intent.compares && intent.touch == Touch::Unknown;
        let handed_on = hands_on && matches!(answer, Some(Answer::Int(1..)));
        let had_nothing = hands_on && matches!(answer, Some(Answer::Int(..=0)));
        self.unanswered -= 1;
        self.freed |= frees(touch) && !had_nothing;
        self.found |= handed_on || intent.compares && frees(touch) && touch != Touch::Unknown;
        Freed { deleted, handed_on }
    }

    /// Whether surely none of its commands has ended the hold.
    pub(super) fn freed_nothing(&self) -> bool {
        self.unanswered == 0 && !self.freed
    }

    /// Whether it has surely sent nothing to delete the key before that had gone, nor found it there.
    pub(super) fn came_too_late(&self) -> bool {
        !self.sent_in_time && !self.found
    }

    /// Whether the release has surely deleted a key with the acquisition's own value, which no command before it can have.
    pub(super) fn surely_deleted(&self) -> bool {
        self.deleted && self.earlier == 0
    }

    /// Whether it was surely sent, and every command of it answered.
    pub(super) fn all_answered(&self) -> bool {
        !self.mixed && self.sent > 0 && self.sent == self.answered
    }

    /// Whether what was sent then is surely one of its commands: what was sent in the instant of its begin may have been
    /// sent just before it.
    fn surely_sent(&self, at_ns: u64) -> bool {
        self.begun_ns.is_some_and(|begun_ns| begun_ns < at_ns || !self.mixed && begun_ns == at_ns)
    }
}
