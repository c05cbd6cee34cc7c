//! Foreign keys: what is under the lock's name and is no lock's stays as it is, and nobody is told that it is one.
//!
//! Invariant: a client is blamed only for a command that was sent after somebody had put something else under the
//! lock's key, and was answered before that went; and for saying *held by another* only where its last request was
//! answered while a list was there, and it was told so before that went. What is unanswered is no reason.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::verdict::{Finding, Level, Witness};
use history::words::HELD;
use history::{CommandOp, Event, Head, Touch, What};

use super::interface::{Checker, EventView, HistoryEnd, verdict};
use super::story;

pub(super) const NAME: &str = "foreign-key";
pub(super) const TOLD: &str = "told-of-foreign-key";

/// Something that is no lock's under the lock's key.
#[derive(Clone, Copy, Debug)]
struct Foreign {
    node: u16,
    from_ns: u64,
    until_ns: u64,
    is_list: bool,
}

/// What was kept under the lock's key, and what became of it.
#[derive(Default)]
struct ForeignKeys {
    all: Vec<Foreign>,
    /// Of acquisitions that want the lock: on which server the list is that their last request found, and until when, if any.
    found_list: BTreeMap<u32, Option<(u16, u64)>>,
    met: bool,
    told: bool,
    harmed: Option<Witness>,
    lied: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let is_foreign = |it: &history::Declared| is_list(it.kind).is_some();
    let is_staged = head.locks && head.staged.iter().any(is_foreign);
    is_staged.then(|| Box::new(ForeignKeys::default()) as Box<dyn Checker>)
}

fn is_list(fault: Fault) -> Option<bool> {
    match fault {
        Fault::ForeignKey => Some(false),
        Fault::ForeignList => Some(true),
        _ => None,
    }
}

impl Checker for ForeignKeys {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        match what {
            What::Fault { fault, node: Some(node), for_ns, .. } => {
                if let Some(is_list) = is_list(fault) {
                    let (from_ns, until_ns) = (at_ns, at_ns.saturating_add(for_ns));
                    self.all.push(Foreign { node, from_ns, until_ns, is_list });
                } else if fault.loses_keys() {
                    self.gone(node, at_ns);
                }
            }
            What::Acquire => _ = self.found_list.insert(acquisition, None),
            What::Answered { touch, .. } => {
                if let Some(command) = seen.command {
                    self.answered(command, touch, at_ns);
                }
            }
            What::NotAcquired(why) => {
                let found = self.found_list.remove(&acquisition).flatten();
                // A lock may look what the key is when it has been refused.
                let found = found.is_some_and(|(_, until_ns)| at_ns < until_ns);
                self.told |= found;
                // Where only a few of several servers have it, the others may say so.
                let is_one = seen.head.nodes.is_none_or(|nodes| nodes == 1);
                if found && is_one && seen.head.honest && seen.texts.get(why).ends_with(HELD) {
                    let summary = format!(
                        "client {client} was told that another holds the lock, and there was a list under its key: \
                         nobody will release that"
                    );
                    story::note(&mut self.lied, summary, &[(acquisition, client)]);
                }
            }
            What::Acquired | What::AcquireUnknown(_) => _ = self.found_list.remove(&acquisition),
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let harmed = verdict(self.harmed.take(), self.met, "nobody came while it was there");
        let lied = verdict(self.lied.take(), self.told, "nobody was refused because of a list");
        let told = Finding::new(TOLD, Level::Belief, lied);
        vec![Finding::new(NAME, Level::Key, harmed), told]
    }
}

impl ForeignKeys {
    /// What a server has kept is there no more.
    fn gone(&mut self, node: u16, at_ns: u64) {
        let there = self.all.iter_mut().filter(|it| it.node == node);
        there.for_each(|it| it.until_ns = it.until_ns.min(at_ns));
        let found = self.found_list.values_mut().flatten().filter(|it| it.0 == node);
        found.for_each(|it| it.1 = it.1.min(at_ns));
    }

    /// A command on the lock's key is answered.
    fn answered(&mut self, command: &CommandOp, touch: Touch, at_ns: u64) {
        let CommandOp { client, acquisition, node, invoke_ns, .. } = *command;
        let there =
            |it: &&Foreign| it.node == node && it.from_ns < invoke_ns && at_ns < it.until_ns;
        let there = self.all.iter().find(there);
        if let Some(found) = self.found_list.get_mut(&acquisition) {
            *found = there.filter(|it| it.is_list).map(|it| (node, it.until_ns));
        }
        if there.is_none() || acquisition == 0 {
            return;
        }
        self.met = true;
        let did = match touch {
            Touch::Create(_) | Touch::Overwrite(_) => "overwrote",
            Touch::Delete => "deleted",
            Touch::Extend(_) => "let expire",
            Touch::None | Touch::Unknown => return,
        };
        let summary = format!(
            "client {client} {did} what somebody else kept under the lock's key: it was no lock's, and did not expire"
        );
        story::note(&mut self.harmed, summary, &[(acquisition, client)]);
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CREATE, DELETE, Tape};
    use history::Declared;
    use history::fault::Whom;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};

    /// From 100 to 500.
    fn kept(fault: Fault) -> Tape {
        let staged = Declared { kind: fault, on: Whom::Primary, in_hold: false, subscribes: false };
        let tape = Tape::new().with(|it| (it.staged, it.honest) = (vec![staged], true));
        tape.server_lost(fault, 0, 100..500)
    }

    fn outcome(tape: &Tape, name: &str) -> Outcome {
        tape.outcome(name)
    }

    #[test]
    fn what_is_no_locks_stays_as_it_is() {
        for fault in [Fault::ForeignKey, Fault::ForeignList] {
            let did = |span, intent| outcome(&kept(fault).did(1, span, intent), NAME);
            assert_eq!((did(101..499, CREATE), did(101..499, DELETE)), (Violated, Violated));
            assert_eq!(did(100..499, CREATE), NotApplicable, "it may have come before");
            assert_eq!(did(101..500, CREATE), NotApplicable, "it may have come later");
            let found = kept(fault).command(1, 101..499, CREATE, Some(Touch::None));
            assert_eq!(outcome(&found, NAME), Held);
            let elsewhere = kept(fault).to(1, "lock").did(1, 101..499, CREATE);
            assert_eq!(outcome(&elsewhere, NAME), NotApplicable, "another server");
        }
    }

    #[test]
    fn what_a_server_has_lost_is_there_no_more() {
        let lost = |node| kept(Fault::ForeignList).server_lost(Fault::Flush, node, 200..200);
        let did = |node, span| outcome(&lost(node).did(1, span, CREATE), NAME);
        assert_eq!(did(0, 101..199), Violated);
        assert_eq!((did(0, 101..200), did(0, 210..220)), (NotApplicable, NotApplicable));
        assert_eq!(did(1, 210..220), Violated, "another server");
        let told = |node| {
            let tape = lost(node).refused(1, 1, 90..300);
            outcome(&tape.command(1, 110..120, CREATE, Some(Touch::None)), TOLD)
        };
        assert_eq!((told(0), told(1)), (NotApplicable, Violated));
    }

    #[test]
    fn nobody_is_told_that_a_list_is_a_lock() {
        let told = |fault, span, end_ns| {
            let tape =
                kept(fault).refused(1, 1, 90..end_ns).command(1, span, CREATE, Some(Touch::None));
            outcome(&tape, TOLD)
        };
        assert_eq!(told(Fault::ForeignList, 101..480, 499), Violated);
        assert_eq!(told(Fault::ForeignList, 101..480, 500), NotApplicable, "it may have gone");
        assert_eq!(told(Fault::ForeignKey, 101..480, 499), NotApplicable, "it may be a lock");
        assert_eq!(told(Fault::ForeignList, 100..480, 499), NotApplicable);
        let later = kept(Fault::ForeignList).refused(1, 1, 90..900).command(
            1,
            101..400,
            CREATE,
            Some(Touch::None),
        );
        assert_eq!(
            outcome(&later.command(1, 510..520, CREATE, Some(Touch::None)), TOLD),
            NotApplicable
        );
        let why = kept(Fault::ForeignList).not_sent(1, 90..499).command(
            1,
            101..480,
            CREATE,
            Some(Touch::None),
        );
        assert_eq!(outcome(&why, TOLD), Held, "it says something else");
    }

    #[test]
    fn it_is_asked_where_it_is_staged() {
        let tape = Tape::new().did(1, 101..499, CREATE);
        assert!(tape.findings().iter().all(|it| it.name != NAME && it.name != TOLD));
    }
}
