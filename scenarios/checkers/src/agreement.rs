//! Whether a checker and a reference say the same of many histories.
//!
//! Invariant: they are the same histories in every run, and of enough of them both say that something is violated, and of enough
//! that nothing is: histories that never violate anything test nothing.

use std::cell::Cell;
use std::fmt::Debug;

use history::verdict::{Outcome, Verdict};
use history::{Event, History, Intent, Touch, What};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use crate::Checkers;
use crate::random::config;

/// What is said of an invariant, and how often somebody is blamed.
pub(super) type Said = (Outcome, u64);

/// What there is to say where so many are to blame.
pub(super) fn blames(many: usize, tested: bool) -> Said {
    let outcome = match (many, tested) {
        (0, true) => Outcome::Held,
        (0, false) => Outcome::NotApplicable,
        _ => Outcome::Violated,
    };
    (outcome, many as u64)
}

/// What the checkers say of this invariant.
pub(super) fn said(history: &History, name: &str) -> Said {
    let mut checkers = Checkers::of_whole(history);
    history.events.iter().for_each(|it| checkers.see(it, &history.texts));
    let mut findings = checkers.verdicts(&history.texts).into_iter();
    let verdict = findings.find(|it| it.name == name).expect("an invariant of this name").verdict;
    let times = if let Verdict::Violated(witness) = &verdict { witness.occurrences } else { 0 };
    (verdict.outcome(), times)
}

/// Draws histories, and what there is to say of each: the checkers have to say the same of this invariant. One part of so many has
/// to be violated, and as many not.
pub(super) fn agree<D: Debug>(
    name: &str,
    part: u64,
    draws: impl Strategy<Value = D>,
    judged: impl Fn(D) -> (History, Said),
) {
    let (violated, held, other) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let config = ProptestConfig { failure_persistence: None, ..config() };
    let cases = config.cases;
    let result = TestRunner::new(config).run(&draws, |draw| {
        let (history, expected) = judged(draw);
        let said = said(&history, name);
        prop_assert_eq!(said, expected);
        let counted = match said.0 {
            Outcome::Violated => &violated,
            Outcome::Held => &held,
            _ => &other,
        };
        counted.set(counted.get() + 1);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, draw)) => {
            let (history, _) = judged(draw);
            history.events.iter().for_each(|it| println!("{it:?}"));
            panic!("{name}: {why}");
        }
        Err(why) => panic!("{name}: {why}"),
    }
    let [violated, held, other] = [violated, held, other].map(Cell::into_inner);
    println!("{name}: violated {violated}, held {held}, other {other}");
    let least = u64::from(cases) / part;
    assert!(violated >= least && held + other >= least, "{violated}, {held}, {other}");
}

/// A command, and how it has ended, if it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) acquisition: u32,
    pub(super) op: u32,
    pub(super) node: u16,
    pub(super) intent: Intent,
    pub(super) sent_ns: u64,
    pub(super) end: Option<(u64, What)>,
}

impl Command {
    /// When it was answered, and what it had done.
    pub(super) fn did(&self) -> Option<(u64, Touch)> {
        match self.end? {
            (at_ns, What::Answered { touch, .. }) => Some((at_ns, touch)),
            _ => None,
        }
    }
}

/// All commands, in the order of their sending.
pub(super) fn commands(history: &History) -> Vec<Command> {
    let sent = history.events.iter().enumerate().filter_map(|(place, it)| {
        let What::Command { node, intent, .. } = it.what else { return None };
        let &Event { acquisition, op, at_ns: sent_ns, .. } = it;
        let end = history.events[place + 1..].iter().find(|end| end.op == op);
        let end = end.map(|end| (end.at_ns, end.what));
        Some(Command { acquisition, op, node, intent, sent_ns, end })
    });
    sent.collect()
}

/// An acquisition, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claim {
    pub(super) client: u32,
    pub(super) has: bool,
    /// It is lost, or is being released.
    pub(super) over: bool,
    pub(super) until_ns: u64,
}

impl Claim {
    /// Of its own events, the next.
    pub(super) fn see(&mut self, event: &Event) {
        match event.what {
            What::Acquire => *self = Self { client: event.client, ..Self::default() },
            What::Acquired => self.has = true,
            What::ValidUntil(until_ns) if !self.has || event.at_ns < self.until_ns => {
                self.until_ns = self.until_ns.max(until_ns);
            }
            What::Lost | What::Release => self.over = true,
            _ => {}
        }
    }

    /// Whether its client believes at this time that it has the lock.
    pub(super) fn believes(&self, tracked: bool, now_ns: u64) -> bool {
        self.has && !self.over && !(tracked && self.until_ns <= now_ns)
    }

    /// What is known of an acquisition by these events.
    pub(super) fn by<'a>(events: impl Iterator<Item = &'a Event>) -> Self {
        let mut claim = Self::default();
        events.for_each(|it| claim.see(it));
        claim
    }
}
