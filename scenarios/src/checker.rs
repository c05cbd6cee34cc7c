//! Checkers: what a history says of each invariant.
//!
//! Invariant: a checker calls a history *violated* only where no reading of what is unknown in it
//! (an operation without an answer, the moment at which a command was carried out) would excuse it.
//! A run in which nobody ever contended shows nothing, and is called inconclusive. Events are seen
//! once, in order, and what is kept of them is what is still open. A file an invariant or family of
//! them; `docs/verdicts.md` says what each of them means. Deliberately absent: any knowledge of recipes
//! and worlds.

mod availability;
mod contention;
mod deadlock_freedom;
pub(crate) mod efficiency;
mod exposure;
mod fairness;
mod fencing;
mod late_write;
mod lease_validity;
mod mutual_exclusion;
mod open;
mod ownership;
mod pool;
mod refusal;
mod register;
pub mod story;
mod vacuity;
mod wake_up;

use crate::fault::Fault;
use crate::history::{CommandOp, Event, Head, History, Intent, Texts, Touch, What};
use crate::verdict::{Finding, Level, Verdict};

use availability::Availability;
use contention::Contention;
use deadlock_freedom::DeadlockFreedom;
use efficiency::Efficiency;
use fairness::Fairness;
use fencing::Fencing;
use late_write::{LateWrites, Resource};
use lease_validity::LeaseValidity;
use mutual_exclusion::MutualExclusion;
use open::OpenCommands;
use ownership::Ownership;
use story::Teller;
use vacuity::Vacuity;
use wake_up::WakeUp;

/// The checkers of one history, which is shown to them event by event.
pub struct Checkers<'a> {
    head: &'a Head,
    open: OpenCommands,
    ownership: Ownership,
    exclusion: MutualExclusion,
    resource: Resource,
    /// None where nothing is assumed of writes.
    late_writes: Option<LateWrites>,
    fencing: Fencing,
    deadlock_freedom: DeadlockFreedom,
    availability: Option<Availability>,
    wake_up: Option<WakeUp>,
    fairness: Option<Fairness>,
    /// With how many thousandths of a command an acquisition may cost.
    efficiency: Option<(Efficiency, u64)>,
    /// None where nothing is kept, or nothing could be said of it.
    lease_validity: Option<LeaseValidity>,
    contention: Contention,
    vacuity: Vacuity,
}

impl<'a> Checkers<'a> {
    /// The checkers of a history that begins with this head.
    pub fn new(head: &'a Head) -> Self {
        Self {
            head,
            open: OpenCommands::default(),
            ownership: Ownership::new(head),
            exclusion: MutualExclusion::new(head),
            resource: Resource::new(head),
            late_writes: head.timely_writes.then(LateWrites::default),
            fencing: Fencing::default(),
            deadlock_freedom: DeadlockFreedom::default(),
            availability: head.available_within_ns.map(|ns| Availability::new(head, ns)),
            wake_up: head.woken_within_ns.map(WakeUp::new),
            fairness: head.fair_within.map(Fairness::new),
            efficiency: head.commands_within_milli.map(|it| (Efficiency::default(), it)),
            lease_validity: (head.tracked && head.exact).then(LeaseValidity::default),
            contention: Contention::default(),
            vacuity: Vacuity::new(head),
        }
    }

    /// Shows them the next event.
    pub fn see(&mut self, event: &Event, texts: &Texts) {
        self.vacuity.see(event, self.head, texts);
        if let Some(wake_up) = &mut self.wake_up {
            wake_up.see(event, self.head, texts);
        }
        if let Some(fairness) = &mut self.fairness {
            fairness.see(event, self.head);
        }
        if let Some((efficiency, _)) = &mut self.efficiency {
            efficiency.see(event, self.head, texts);
        }
        if let Some(late_writes) = &mut self.late_writes {
            late_writes.see(event, &self.resource);
        }
        self.resource.see(event, self.head, texts);
        match event.what {
            What::Command { node, name, key, intent } => {
                let touches = intent.touch != Touch::None;
                if touches && self.ownership.is_lock_key(self.head, key, texts) {
                    if makes(intent) {
                        self.fencing.sent(event.op);
                    }
                    let (client, acquisition) = (event.client, event.acquisition);
                    let (invoke_ns, answer) = (event.at_ns, None);
                    self.open.insert(
                        event.op,
                        CommandOp {
                            client,
                            acquisition,
                            node,
                            name,
                            key,
                            intent,
                            invoke_ns,
                            answer,
                            refused: false,
                        },
                    );
                }
            }
            What::Answered { touch, answer, found } => {
                if let Some(command) = self.open.remove(event.op) {
                    self.made(event.op, &command, touch != Touch::None);
                    let answer = Some((event.at_ns, touch, answer));
                    self.ownership.ended(event.op, &CommandOp { answer, ..command }, found);
                }
            }
            What::Refused(_) => {
                if let Some(command) = self.open.remove(event.op) {
                    self.made(event.op, &command, false);
                }
            }
            What::Unanswered(_) => {
                if let Some(command) = self.open.remove(event.op) {
                    self.made(event.op, &command, true);
                    self.ownership.ended(event.op, &command, 0);
                }
            }
            What::Fault { fault, node, for_ns, .. } => {
                if let Some(node) = node.filter(|_| fault.loses_keys()) {
                    self.ownership.lost(node, event.at_ns, for_ns);
                    self.fencing.lost(node, event.at_ns);
                }
                if fault == Fault::ClockStep && event.client == 0 {
                    self.ownership.jumped(node, event.at_ns);
                }
                if fault == Fault::Crash {
                    self.exclusion.died(event.client, event.at_ns);
                    if let Some(availability) = &mut self.availability {
                        availability.died(event.client, event.at_ns);
                    }
                }
            }
            What::Probe(pttl_ms) => self.deadlock_freedom.probed(event.at_ns, pttl_ms),
            What::Phase(_) => {
                if let Some(lease_validity) = &mut self.lease_validity {
                    lease_validity.see(event);
                }
            }
            _ => {
                if let Some(availability) = &mut self.availability {
                    availability.see(event);
                }
                if let Some(lease_validity) = &mut self.lease_validity {
                    lease_validity.see(event);
                }
                self.exclusion.see(event);
                self.fencing.see(event);
                self.contention.see(event);
            }
        }
    }

    /// A command has ended that may have made the lock's key, or surely has not.
    fn made(&mut self, op: u32, command: &CommandOp, may_have: bool) {
        if makes(command.intent) {
            self.fencing.ended(op, command.acquisition, may_have);
        }
    }

    /// What they have found, the steps of witnesses left to a [`Teller`]. Where the run was cut short
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
            let of_work =
                |it: &&mut Finding| it.level == Level::Effect && it.verdict == Verdict::Held;
            let mut of_work: Vec<_> = findings.iter_mut().filter(of_work).collect();
            of_work.iter_mut().for_each(|it| it.verdict = Verdict::Vacuous(unharmed));
        }
        if let Some(doubt) = doubt {
            for finding in &mut findings {
                let is_missed = !complete
                    && finding.level == Level::Progress
                    && matches!(finding.verdict, Verdict::Violated(_));
                if finding.verdict == Verdict::Held || is_missed {
                    finding.verdict = doubt.clone();
                }
            }
        }
        findings
    }

    /// What each of them has found by itself.
    fn verdicts(self, texts: &Texts) -> Vec<Finding> {
        let Self { head, open, mut ownership, exclusion, resource, .. } = self;
        for (op, command) in open.into_rest() {
            ownership.ended(op, &command, 0);
        }
        let found = |name, level, verdict| Finding { name, level, verdict };
        let mut deadlock_freedom = self.deadlock_freedom.finish(head);
        let mut availability = self.availability.map(|it| it.finish(head));
        let mut wake_up = self.wake_up.map(|it| it.finish(head));
        ownership.tell_left(&mut deadlock_freedom);
        availability.iter_mut().for_each(|it| ownership.tell_left(it));
        wake_up.iter_mut().for_each(|it| ownership.tell_freed(it));
        let mut findings = vec![
            found("ownership", Level::Key, ownership.finish(head, texts)),
            found("mutual-exclusion", Level::Belief, exclusion.finish(head)),
            found(
                "lease-validity",
                Level::Belief,
                self.lease_validity.unwrap_or_default().finish(head),
            ),
        ];
        findings.extend(self.late_writes.unwrap_or_default().judge(resource, head));
        findings.push(found("rising-tokens", Level::Effect, self.fencing.finish()));
        findings.push(found("deadlock-freedom", Level::Progress, deadlock_freedom));
        let availability = availability.map(|it| found("availability", Level::Progress, it));
        findings.extend(availability);
        findings.extend(wake_up.map(|it| found("wake-up", Level::Progress, it)));
        if let Some(fairness) = self.fairness {
            findings.push(found("fairness", Level::Progress, fairness.finish()));
        }
        if let Some((efficiency, within)) = self.efficiency {
            findings.push(found("efficiency", Level::Progress, efficiency.finish(within)));
        }
        findings
    }
}

/// Whether a command would make the key, where it is not there.
fn makes(intent: Intent) -> bool {
    matches!(intent.touch, Touch::Create(_))
}

/// Judges a history, without the steps of witnesses.
pub fn judge(history: &History, complete: bool) -> Vec<Finding> {
    let mut checkers = Checkers::new(&history.head);
    for event in &history.events {
        checkers.see(event, &history.texts);
    }
    checkers.finish(&history.texts, complete)
}

/// Judges a history, and tells the story of every violation.
pub fn check(history: &History, complete: bool) -> Vec<Finding> {
    let mut findings = judge(history, complete);
    let mut teller = Teller::new(&history.head, &findings);
    if !teller.is_idle() {
        history.events.iter().for_each(|event| teller.see(event, &history.texts));
        teller.tell(&mut findings);
    }
    findings
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
