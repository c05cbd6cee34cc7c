//! The fault of a plan in the stories of what it has shown.
//!
//! Invariant: a story in which the struck client, the struck server or picklock itself has a part says when the fault struck, and when it
//! let go of what it had held back.

use std::time::Instant;

use history::verdict::WitnessStep;
use history::{History, What};
use picklock::time::span_ns;

use crate::board::{VICTIM, WAITER};
use crate::plan::{AttackFault, AttackPlan, Target};

/// A fault that has struck, with times since the start of its run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagedFault<'a> {
    plan: &'a AttackPlan,
    struck_ns: u64,
    healed_ns: Option<u64>,
}

impl<'a> StagedFault<'a> {
    /// The fault of this plan, which struck and was over at these times, in a run from `start` on; none if it has not
    /// struck.
    pub(crate) fn new(
        plan: Option<&'a AttackPlan>,
        struck: Option<Instant>,
        healed: Option<Instant>,
        start: Instant,
    ) -> Option<Self> {
        let ns = |at: Instant| span_ns(at.saturating_duration_since(start));
        Some(Self { plan: plan?, struck_ns: ns(struck?), healed_ns: healed.map(ns) })
    }

    /// Adds to a story what it lacks of the fault, and names the command that was struck.
    pub(crate) fn tell(&self, story: &mut Vec<WitnessStep>, history: &History) {
        let client = match self.plan.fault.target() {
            Target::Server => 0,
            Target::Waiter => WAITER,
            _ => VICTIM,
        };
        let last_ns = story.iter().map(|it| it.at_ns).max().unwrap_or(0);
        let has_part = client == 0 || story.iter().any(|it| [0, client].contains(&it.client));
        if has_part && self.struck_ns <= last_ns {
            let step = |at_ns, text| WitnessStep { at_ns, client, text };
            let strike =
                (!self.is_told(story, history)).then(|| step(self.struck_ns, self.strikes()));
            let ends = self.healed_ns.filter(|at_ns| *at_ns <= last_ns).zip(self.lets_go());
            let ends = ends.map(|(at_ns, text)| step(at_ns, text));
            // Of one moment, what the fault does stands before what comes of it.
            story.splice(0..0, strike.into_iter().chain(ends));
            story.sort_by_key(|it| it.at_ns);
        }
        story.iter_mut().for_each(|step| self.name(step));
    }

    /// Whether a step of the story says what the fault does.
    fn is_told(&self, story: &[WitnessStep], history: &History) -> bool {
        // The history has a refusal as the answer to its command.
        if let Some(error) = self.plan.fault.error() {
            let name = error.text().split(' ').next().unwrap_or_default();
            return story.iter().any(|it| it.client == VICTIM && it.text.contains(name));
        }
        let mut faults = history.events.iter().filter_map(|event| match event.what {
            What::Fault { fault, for_ns, .. } => {
                Some((event.client, fault.story(event.client, for_ns)?))
            }
            _ => None,
        });
        faults.any(|(client, text)| {
            story.iter().any(|it| it.client == client && it.text.starts_with(&text))
        })
    }

    /// What the fault does.
    fn strikes(&self) -> String {
        let does = self.plan.fault.does();
        match &self.plan.boundary {
            Some(boundary) => format!("is struck at its {}: {does}", boundary.command),
            None if self.plan.fault.target() == Target::Server => format!("strikes: {does}"),
            None => format!("is struck: {does}"),
        }
    }

    /// What it lets go in the end, if it has held anything back.
    fn lets_go(&self) -> Option<String> {
        let command = self.plan.boundary.as_ref().map(|it| &it.command);
        match self.plan.fault {
            fault if fault.stands_still() => Some(String::from("goes on")),
            AttackFault::LateRequest | AttackFault::LateAgain => {
                Some(format!("its late {} arrives", command?))
            }
            AttackFault::LateReply => Some(format!("is sent the late reply to its {}", command?)),
            _ => None,
        }
    }

    /// Names the command that was struck.
    fn name(&self, step: &mut WitnessStep) {
        let Some(boundary) = &self.plan.boundary else { return };
        let command = &boundary.command;
        let (any, this) = match self.plan.fault {
            AttackFault::LateRequest | AttackFault::LateAgain => {
                ("one of its messages", format!("its {command}"))
            }
            AttackFault::LateReply => {
                ("one of its messages", format!("the reply to its {command}"))
            }
            AttackFault::LoseRequest => {
                ("a request that is lost", format!("{command}, which is lost"))
            }
            AttackFault::LoseReply => {
                ("a reply that is lost", format!("the reply to its {command}, which is lost"))
            }
            _ => return,
        };
        if step.client == VICTIM {
            step.text = step.text.replace(any, &this);
        }
    }
}

#[cfg(test)]
mod tests {
    use history::fault::Fault;
    use history::{Event, Head};

    use super::*;
    use crate::plan::{Boundary, LockStep};

    /// What becomes of a story of these steps (millisecond, client and text), if a fault of client 1's DEL, or of a
    /// server, strikes at 2 ms and is over at 6 ms.
    fn told(fault: AttackFault, steps: &[(u64, u32, &str)]) -> Vec<String> {
        let boundary =
            Boundary { step: LockStep::Release, command: "DEL".into(), nth: 1, draws: false };
        let boundary = Some(boundary).filter(|_| fault.target() != Target::Server);
        let plan = AttackPlan { boundary, fault, servers: 1 };
        let staged = StagedFault { plan: &plan, struck_ns: 2_000_000, healed_ns: Some(6_000_000) };
        let what = What::Fault {
            fault: Fault::Delay,
            node: None,
            for_ns: 0,
            in_hold: false,
            staged: None,
        };
        let event = Event { at_ns: 2_000_000, client: 1, acquisition: 0, op: 0, what };
        let history = History { head: Head::default(), events: vec![event], ..History::default() };
        let step = |(ms, client, text): &(u64, u32, &str)| WitnessStep {
            at_ns: ms * 1_000_000,
            client: *client,
            text: (*text).to_owned(),
        };
        let mut story: Vec<WitnessStep> = steps.iter().map(step).collect();
        staged.tell(&mut story, &history);
        let line = |it: &WitnessStep| format!("{} {} {}", it.at_ns / 1_000_000, it.client, it.text);
        story.iter().map(line).collect()
    }

    #[test]
    fn a_story_without_its_fault_is_given_it() {
        let again = [(5, 1, "has the lock"), (6, 1, "deletes the key of client 1")];
        let expected = [
            "2 1 is struck at its DEL: the request arrives once its own client has the lock again",
            "5 1 has the lock",
            "6 1 its late DEL arrives",
            "6 1 deletes the key of client 1",
        ];
        assert_eq!(told(AttackFault::LateAgain, &again), expected);
        let restart = told(AttackFault::Restart, &[(1, 2, "has the lock"), (5, 2, "harms")]);
        assert_eq!(restart[1], "2 0 strikes: the server dies and comes back with its keys");
    }

    #[test]
    fn a_fault_is_told_once_and_only_where_it_has_a_part() {
        let waits = [(2, 1, "waits: one of its messages is late"), (7, 1, "deletes")];
        let expected = ["2 1 waits: its DEL is late", "6 1 its late DEL arrives", "7 1 deletes"];
        assert_eq!(told(AttackFault::LateRequest, &waits), expected);
        let refused = [(2, 1, "DEL is refused: OOM command not allowed"), (7, 1, "answers ok")];
        assert_eq!(told(AttackFault::Oom, &refused).len(), 2);
        let (of_others, before) = ([(5, 2, "deletes"), (7, 3, "has it")], [(1, 1, "deletes")]);
        assert_eq!(told(AttackFault::LateRequest, &of_others).len(), 2);
        assert_eq!(told(AttackFault::LateRequest, &before).len(), 1);
    }
}
