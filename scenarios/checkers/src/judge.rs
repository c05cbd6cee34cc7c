//! Judging a history: every checker is shown every event of the kinds it looks at.
//!
//! Invariant: the findings are the same whether a history is read from a file, recorded, or seen event by event.

use history::verdict::{Finding, Level, Verdict};
use history::{Event, Head, History, Texts};
use picklock::env::Phase::{
    AcquireBeforeSend, AcquireBetween, Hold, HoldBeforeWrite, RenewBeforeSend, Wait,
};

use super::contention::Contention;
use super::interface::{
    CONDITIONS, Checker, IF_ERROR_LASTS, IF_ERROR_PASSES, IF_FENCED, IF_WORK_TOLD, KEY_ENDED,
    KEY_SENT, KINDS, Kinds, LOCK_COMMANDS, LockCommands, OTHERS, OTHERS_ENDED, OTHERS_SENT, PHASES,
    at, conditions, may_speak,
};
use super::story::StoryWriter;
use super::vacuity::Vacuity;
use super::{
    attempts, availability, deadline, deadlock_freedom, deletion_tries, efficiency, fail_fast,
    fairness, fence_gate, fencing, foreign_key, given_back, honesty, lease_validity,
    mutual_exclusion, one_slot, overstay, ownership, perseverance, pool, quorum_told, register,
    renewal, wake_up, work_told,
};

/// Makes a checker of a history that begins with this head; none where the head asks for none.
type MakeChecker = fn(&Head) -> Option<Box<dyn Checker>>;

/// Every kind of event.
const ANY: Kinds = LOCK_COMMANDS | OTHERS_SENT | OTHERS_ENDED | PHASES | OTHERS;

/// Invariants that blame what is missing at the end: where the run was cut short, it might have come later.
const MAY_COME_YET: [&str; 4] =
    [deadlock_freedom::NAME, pool::ALL_WON, deletion_tries::NAME, efficiency::NAME];

/// Every checker, in the order in which findings are listed, and the kinds of events it looks at. Most events
/// are commands and phases: not to show these to everybody is what makes many checkers cheap. A checker with a condition is
/// shown nothing of a whole history that does not meet it.
static ALL: &[(MakeChecker, Kinds)] = &[
    (ownership::checker, KEY_ENDED | OTHERS),
    (mutual_exclusion::checker, OTHERS),
    (lease_validity::checker, ANY & !PHASES | at(HoldBeforeWrite) | at(RenewBeforeSend)),
    (honesty::checker, LOCK_COMMANDS | OTHERS_SENT | at(Wait) | OTHERS),
    (work_told::checker, IF_WORK_TOLD | OTHERS),
    (quorum_told::checker, LOCK_COMMANDS | at(AcquireBeforeSend) | OTHERS),
    (pool::checker, LOCK_COMMANDS | OTHERS_SENT | at(HoldBeforeWrite) | OTHERS),
    (register::checker, at(HoldBeforeWrite) | OTHERS),
    (fence_gate::checker, OTHERS),
    (fencing::checker, IF_FENCED | LOCK_COMMANDS | OTHERS),
    (foreign_key::checker, LOCK_COMMANDS | OTHERS),
    (deadlock_freedom::checker, KEY_ENDED | OTHERS_SENT | OTHERS_ENDED | OTHERS),
    (given_back::checker, KEY_SENT | KEY_ENDED | OTHERS),
    (deletion_tries::checker, IF_ERROR_PASSES | LOCK_COMMANDS | at(AcquireBeforeSend) | OTHERS),
    (availability::checker, OTHERS),
    (deadline::checker, ANY),
    (wake_up::checker, ANY),
    (fairness::checker, ANY),
    (perseverance::checker, ANY & !PHASES | at(AcquireBeforeSend) | at(AcquireBetween)),
    (fail_fast::checker, IF_ERROR_LASTS | LOCK_COMMANDS | OTHERS_SENT | OTHERS_ENDED | OTHERS),
    (attempts::checker, at(AcquireBeforeSend) | OTHERS),
    (one_slot::checker, LOCK_COMMANDS | OTHERS_ENDED),
    (renewal::checker, LOCK_COMMANDS | at(AcquireBeforeSend) | at(RenewBeforeSend) | OTHERS),
    (overstay::checker, OTHERS_ENDED | at(Hold) | OTHERS),
    (efficiency::checker, KEY_SENT | OTHERS_SENT | OTHERS),
];

// `Checkers::lookers` has a bit for each.
const _: () = assert!(ALL.len() <= u32::BITS as usize, "more checkers than bits: widen `lookers`");

/// The checkers of one history, which is shown to them event by event.
pub struct Checkers<'a> {
    head: &'a Head,
    commands: LockCommands<'a>,
    checkers: Vec<Box<dyn Checker>>,
    /// For each kind of event, a bit for each checker that looks at it.
    lookers: [u32; KINDS],
    contention: Contention,
    vacuity: Vacuity,
}

impl<'a> Checkers<'a> {
    /// The checkers of a history that begins with this head.
    pub fn new(head: &'a Head) -> Self {
        Self::under(head, CONDITIONS)
    }

    /// Those of a whole history. A checker whose condition it does not meet is shown nothing of it.
    pub(super) fn of_whole(history: &'a History) -> Self {
        Self::under(&history.head, conditions(history))
    }

    fn under(head: &'a Head, met: Kinds) -> Self {
        let (mut checkers, mut lookers) = (Vec::with_capacity(ALL.len()), [0; KINDS]);
        for &(make, kinds) in ALL {
            let Some(checker) = make(head) else { continue };
            let kinds = if may_speak(kinds, met) { kinds } else { 0 };
            let looking = lookers.iter_mut().enumerate().filter(|(kind, _)| kinds >> kind & 1 == 1);
            looking.for_each(|(_, lookers)| *lookers |= 1 << checkers.len());
            checkers.push(checker);
        }
        Self {
            head,
            commands: LockCommands::new(head),
            checkers,
            lookers,
            contention: Contention::default(),
            vacuity: Vacuity::new(head),
        }
    }

    /// Shows them the next event.
    pub fn see(&mut self, event: &Event, texts: &Texts) {
        let seen = self.commands.next(event, texts);
        let kind = seen.kind();
        if kind == OTHERS {
            self.contention.see(event);
            self.vacuity.see(event);
        }
        self.vacuity.expose(event, self.head, texts);
        let mut looking = self.lookers[kind.trailing_zeros() as usize];
        while looking != 0 {
            self.checkers[looking.trailing_zeros() as usize].see(&seen);
            looking &= looking - 1;
        }
    }

    /// What they have found, the steps of witnesses left to a [`StoryWriter`]. Where the run was cut short
    /// (`complete` is false), nothing counts as held, and nothing that has not happened yet is missed.
    pub fn finish(self, texts: &Texts, complete: bool) -> Vec<Finding> {
        let doubt = if complete {
            let missing = self.contention.missing().or_else(|| self.vacuity.missing(self.head));
            missing.map(Verdict::Vacuous)
        } else {
            Some(Verdict::Inconclusive("the run did not come to its end".to_owned()))
        };
        let unharmed = self.vacuity.unharmed(self.head).filter(|_| complete);
        let mut findings = self.verdicts(texts);
        if let Some(unharmed) = unharmed {
            for it in findings.iter_mut().filter(|it| it.level == Level::Effect) {
                if it.verdict == Verdict::Held {
                    it.verdict = Verdict::Vacuous(unharmed);
                }
            }
        }
        if let Some(doubt) = doubt {
            for finding in &mut findings {
                let is_missed = !complete
                    && MAY_COME_YET.contains(&finding.name)
                    && matches!(finding.verdict, Verdict::Violated(_));
                if finding.verdict == Verdict::Held || is_missed {
                    finding.verdict = doubt.clone();
                }
            }
        }
        findings
    }

    /// What each of them has found by itself.
    pub(super) fn verdicts(mut self, texts: &Texts) -> Vec<Finding> {
        let end = self.commands.end(texts);
        let mut findings: Vec<Finding> =
            self.checkers.iter_mut().flat_map(|checker| checker.finish(&end)).collect();
        self.checkers.iter().for_each(|checker| checker.explain(&mut findings));
        findings
    }
}

/// Judges a history, without the steps of witnesses.
pub fn judge(history: &History, complete: bool) -> Vec<Finding> {
    let mut checkers = Checkers::of_whole(history);
    for event in &history.events {
        checkers.see(event, &history.texts);
    }
    checkers.finish(&history.texts, complete)
}

/// Judges a history, and tells the story of every violation.
pub fn check(history: &History, complete: bool) -> Vec<Finding> {
    let mut findings = judge(history, complete);
    let mut stories = StoryWriter::new(&history.head, &findings);
    if !stories.is_idle() {
        history.events.iter().for_each(|event| stories.see(event, &history.texts));
        stories.write(&mut findings);
    }
    findings
}

#[cfg(test)]
mod tests;
