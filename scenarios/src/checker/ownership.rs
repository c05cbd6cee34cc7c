//! Ownership: nobody ends, extends or overwrites another's hold of the key.
//!
//! Invariant: the owner is the acquisition whose command created this incarnation of the key, never
//! the value. First a sweep looks for harm that was surely done within a hold that was certain
//! ([`sweep`]). Where it finds none, every reading of what is unknown is tried ([`search`]): only if
//! each of them has somebody harmed is anybody blamed. Deliberately absent: commands on other keys.

mod search;
mod sweep;

use super::story;
use crate::history::{CommandOp, Head, Loss, Text, Texts, Touch};
use crate::verdict::{Vacuous, Verdict, Witness};

/// A command that did something to the lock's key, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Op {
    /// Its number in the history.
    number: u32,
    acquisition: u32,
    client: u32,
    node: u16,
    name: Text,
    sent_ns: u64,
    /// By when it had surely been carried out; never, where nobody knows whether it was.
    done_ns: u64,
    /// What it did, or would do.
    touch: Touch,
    /// It would do so only to a key that holds the caller's own value.
    compares: bool,
}

/// Who harmed whom, first, and how often anybody did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Harm {
    /// The acquisition that held the key, and its client.
    victim: (u32, u32),
    /// What harmed it.
    culprit: Op,
    occurrences: u64,
}

impl Op {
    /// Nobody knows whether it was carried out, or when it will be.
    fn is_open(&self) -> bool {
        self.done_ns == u64::MAX
    }
}

/// What is known of the lock's key.
pub(super) struct Ownership {
    key: Option<Text>,
    margin_ns: u64,
    /// Holds are over when their clients said that they would be, whatever the server's clock shows.
    stamped: bool,
    ops: Vec<Op>,
    losses: Vec<Loss>,
    /// When servers' clocks jumped, by which keys may have expired early: which one's, or perhaps
    /// any's, and when.
    jumps: Vec<(Option<u16>, u64)>,
}

impl Ownership {
    pub(super) fn new(head: &Head) -> Self {
        let Head { margin_ns, stamped, .. } = *head;
        let (ops, losses, jumps) = (Vec::new(), Vec::new(), Vec::new());
        Self { key: None, margin_ns, stamped, ops, losses, jumps }
    }

    /// Whether this is the key the lock is kept under.
    pub(super) fn is_lock_key(&mut self, head: &Head, key: Text, texts: &Texts) -> bool {
        match self.key {
            Some(lock) => lock == key,
            None if texts.get(key) == head.lock_key => {
                self.key = Some(key);
                true
            }
            None => false,
        }
    }

    /// A command on the lock's key has ended, or never will.
    pub(super) fn ended(&mut self, number: u32, command: &CommandOp) {
        let (done_ns, touch) = command.done().unwrap_or((u64::MAX, command.intent.touch));
        if touch == Touch::None {
            return;
        }
        let CommandOp { client, acquisition, node, name, intent, invoke_ns: sent_ns, .. } =
            *command;
        let compares = intent.compares;
        let op = Op { number, acquisition, client, node, name, sent_ns, done_ns, touch, compares };
        self.ops.push(op);
    }

    /// A server has lost its memory.
    pub(super) fn lost(&mut self, node: u16, at_ns: u64, for_ns: u64) {
        let until_ns = at_ns.saturating_add(for_ns);
        self.losses.push(Loss { node, from_ns: at_ns, until_ns });
    }

    /// A server's wall clock has jumped.
    pub(super) fn jumped(&mut self, node: Option<u16>, at_ns: u64) {
        if !self.stamped {
            self.jumps.push((node, at_ns));
        }
    }

    pub(super) fn finish(mut self, head: &Head, texts: &Texts) -> Verdict {
        if !head.locks {
            return Verdict::NotApplicable("this recipe keeps no key".to_owned());
        }
        if self.key.is_none() {
            return Verdict::Vacuous(Vacuous::KeyUntouched);
        }
        self.ops.sort_unstable_by_key(|op| (op.sent_ns, op.number));
        let Self { ops, losses, jumps, margin_ns, stamped, .. } = &self;
        let found = match sweep::sweep(ops, losses, jumps, *margin_ns) {
            Some(harm) => Ok(Some(harm)),
            None => search::search(ops, losses, jumps, (*margin_ns, *stamped)),
        };
        match found {
            Ok(None) => Verdict::Held,
            Ok(Some(harm)) => Verdict::Violated(witness(texts, &harm)),
            Err(search::TooMany) => Verdict::Inconclusive(
                "too many commands on the lock's key were under way at once: more readings of what \
                 happened than can be tried"
                    .to_owned(),
            ),
        }
    }
}

fn witness(texts: &Texts, harm: &Harm) -> Witness {
    let Harm { victim, culprit, occurrences } = harm;
    let did = match culprit.touch {
        Touch::Delete => "deleted",
        Touch::Extend(_) => "extended",
        _ => "overwrote",
    };
    let summary = format!(
        "client {} {did} the lock's key with {} while client {} held it",
        culprit.client,
        texts.get(culprit.name),
        victim.1
    );
    let of = [*victim, (culprit.acquisition, culprit.client)];
    Witness { occurrences: *occurrences, ..story::witness(summary, &of) }
}

#[cfg(test)]
mod tests;
