//! Ownership: nobody ends, extends or overwrites another's hold of the key.
//!
//! Invariant: the owner is the acquisition whose command created this incarnation of the key, never the
//! value. The checker looks for harm that was surely done within a hold that was certain ([`certain`]), and
//! every reading of what is unknown is tried up to then ([`search`]): only if each of them has somebody
//! harmed is anybody blamed. The harm that can have been first is told.

mod certain;
mod orphan;
mod search;

use std::collections::BTreeMap;

use history::fault::Fault;
use history::verdict::{Finding, Level, Vacuous, Verdict, Witness};
use history::{CommandOp, Head, Text, Texts, Touch, What};

use super::interface::{Checker, EventView, HistoryEnd};
use super::{availability, deadlock_freedom, story, wake_up};

/// So many whom it may have been are named.
const NAMED_MOST: usize = 2;

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
    /// The last command that had been sent by then. One that was sent in the same nanosecond on a later line comes behind.
    last_sent: u32,
    /// What it did, or would do.
    touch: Touch,
    /// It would do so only to a key that holds the caller's own value.
    compares: bool,
    /// Which command had written the value that it found, where its answer says so; otherwise 0.
    found: u32,
}

/// A server has lost its memory, and perhaps what it had granted. While two servers stand for one, nothing that either
/// grants is certain.
#[derive(Clone, Copy, Debug)]
struct Loss {
    node: u16,
    from_ns: u64,
    /// Until it, or the one that took its place, could be used again and is the only one.
    until_ns: u64,
}

/// What is known of the key on one server.
#[derive(Clone, Debug, Default)]
struct KeyLog {
    /// In the order of their sending.
    ops: Vec<Op>,
    losses: Vec<Loss>,
    /// When the server's clock jumped, by which the key may have expired early.
    jumps: Vec<u64>,
    margin_ns: u64,
    /// Holds are over when their clients said that they would be, whatever the server's clock shows.
    stamped: bool,
}

/// Who harmed whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blame {
    /// The earliest moment at which it can have been.
    at_ns: u64,
    /// The acquisition that held the key, and its client.
    victim: (u32, u32),
    /// What harmed it.
    culprit: Op,
}

/// The first harm that was surely done, and how often any was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Harm {
    /// Who did it: the only one, or where no answer says which, each who may have.
    blames: Vec<Blame>,
    occurrences: u64,
}

impl Op {
    /// Nobody knows whether it was carried out, or when it will be.
    fn is_open(&self) -> bool {
        self.done_ns == u64::MAX
    }

    /// This one was sent before that was answered.
    fn is_sent_before(&self, answered: &Op) -> bool {
        let Op { done_ns, last_sent, .. } = *answered;
        self.sent_ns < done_ns || (self.sent_ns == done_ns && self.number <= last_sent)
    }

    /// The run sent it, to set up or to clear away: that may end a hold and is nobody's harm.
    fn is_of_run(&self) -> bool {
        self.client == 0 && self.acquisition == 0
    }
}

impl Harm {
    /// The earliest moment at which it can have been.
    fn at_ns(&self) -> u64 {
        self.blames.first().map_or(u64::MAX, |blame| blame.at_ns)
    }

    fn may_be_by(&self, op: &Op) -> bool {
        self.blames.iter().any(|blame| blame.culprit.number == op.number)
    }
}

/// What is known of the lock's key.
#[derive(Default)]
struct Ownership {
    margin_ns: u64,
    stamped: bool,
    exact: bool,
    ops: Vec<Op>,
    losses: Vec<Loss>,
    /// When servers' clocks jumped: which one's, or perhaps any's, and when.
    jumps: Vec<(Option<u16>, u64)>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    Some(Box::new(Ownership::new(head)))
}

impl Checker for Ownership {
    fn see(&mut self, seen: &EventView<'_>) {
        let at_ns = seen.event.at_ns;
        match (seen.event.what, seen.command) {
            (What::Answered { touch, answer, found }, Some(command)) => {
                let answer = Some((at_ns, touch, answer));
                let command = CommandOp { answer, ..*command };
                self.ended(seen.event.op, &command, found, seen.last_sent);
            }
            (What::Unanswered(_), Some(command)) => self.ended(seen.event.op, command, 0, 0),
            (What::Fault { fault, node, for_ns, .. }, _) => {
                if let Some(node) = node.filter(|_| fault.loses_keys()) {
                    let until_ns = match fault {
                        // In real time nobody can say at which moment the old primary stepped down.
                        Fault::SplitBrain if !self.exact => u64::MAX,
                        _ => at_ns.saturating_add(for_ns),
                    };
                    self.losses.push(Loss { node, from_ns: at_ns, until_ns });
                }
                // The jump of a client's clock moves no expiry of a key.
                let by_server = fault == Fault::ClockStep && seen.event.client == 0;
                if by_server && !self.stamped {
                    self.jumps.push((node, at_ns));
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        for (op, command) in &end.unended {
            self.ended(*op, command, 0, 0);
        }
        vec![Finding::new("ownership", Level::Key, self.verdict(end))]
    }

    fn explain(&self, findings: &mut [Finding]) {
        for finding in findings {
            match finding.name {
                deadlock_freedom::NAME => _ = self.explain_orphan(&mut finding.verdict),
                availability::NAME if self.explain_orphan(&mut finding.verdict) => {}
                availability::NAME | wake_up::NAME => self.explain_release(&mut finding.verdict),
                _ => {}
            }
        }
    }
}

impl Ownership {
    fn new(head: &Head) -> Self {
        let Head { margin_ns, stamped, exact, .. } = *head;
        Self { margin_ns, stamped, exact, ..Self::default() }
    }

    /// A command on the lock's key has ended, or never will. `found` is the command that had written what
    /// this one found, or 0; `last_sent` the last that had been sent when it was answered.
    fn ended(&mut self, number: u32, command: &CommandOp, found: u32, last_sent: u32) {
        let (done_ns, touch) = command.done().unwrap_or((u64::MAX, command.intent.touch));
        if touch == Touch::None {
            return;
        }
        let CommandOp { client, acquisition, node, name, intent, invoke_ns: sent_ns, .. } =
            *command;
        let compares = intent.compares;
        self.ops.push(Op {
            number,
            acquisition,
            client,
            node,
            name,
            sent_ns,
            done_ns,
            last_sent,
            touch,
            compares,
            found,
        });
    }

    fn verdict(&self, end: &HistoryEnd<'_>) -> Verdict {
        if !end.head.locks {
            return Verdict::NotApplicable("this recipe keeps no key".to_owned());
        }
        if !end.touched {
            return Verdict::Vacuous(Vacuous::KeyUntouched);
        }
        let (mut first, mut occurrences, mut failed) = (None::<Harm>, 0, false);
        for known in self.by_server() {
            match judged(&known) {
                Ok(None) => {}
                Ok(Some(harm)) => {
                    occurrences += harm.occurrences;
                    if first.as_ref().is_none_or(|first| harm.at_ns() < first.at_ns()) {
                        first = Some(harm);
                    }
                }
                Err(search::TooMany) => failed = true,
            }
        }
        match first {
            Some(harm) => Verdict::Violated(witness(end.texts, &Harm { occurrences, ..harm })),
            None if failed => Verdict::Inconclusive(
                "too many commands on the lock's key were under way at once: more readings of what \
                 happened than can be tried"
                    .to_owned(),
            ),
            None => Verdict::Held,
        }
    }

    /// What is known of the key on each server by itself: none has a part in another's.
    fn by_server(&self) -> Vec<KeyLog> {
        let mut servers: BTreeMap<u16, KeyLog> = BTreeMap::new();
        for op in &self.ops {
            servers.entry(op.node).or_default().ops.push(*op);
        }
        for (node, known) in &mut servers {
            known.ops.sort_unstable_by_key(|op| (op.sent_ns, op.number));
            known.losses = self.losses.iter().filter(|loss| loss.node == *node).copied().collect();
            let theirs = self.jumps.iter().filter(|(of, _)| of.is_none_or(|of| of == *node));
            known.jumps = theirs.map(|(_, at_ns)| *at_ns).collect();
            (known.margin_ns, known.stamped) = (self.margin_ns, self.stamped);
        }
        servers.into_values().collect()
    }
}

/// The first harm that was surely done on a server. Within certain holds it is known who did it; the search also
/// finds what was done between commands that overlap, and is asked whether any of that was earlier.
fn judged(known: &KeyLog) -> Result<Option<Harm>, search::TooMany> {
    let Some(found) = certain::harm(known) else { return search::search(known, u64::MAX) };
    let Some(culprit) = found.blames.first().map(|blame| blame.culprit) else { return Ok(None) };
    // Where there are more readings than can be tried, what was found in certain holds stands.
    let earlier = search::search(known, culprit.done_ns).ok().flatten();
    let earlier = earlier.filter(|it| it.at_ns() < found.at_ns() && !it.may_be_by(&culprit));
    Ok(Some(match earlier {
        Some(earlier) => Harm { occurrences: found.occurrences + 1, ..earlier },
        None => found,
    }))
}

fn witness(texts: &Texts, harm: &Harm) -> Witness {
    let told = |blame: &Blame| {
        let Blame { victim, culprit, .. } = blame;
        let did = match culprit.touch {
            Touch::Delete => "deleted",
            Touch::Extend(_) => "extended",
            _ => "overwrote",
        };
        let held = match victim.1 {
            client if client == culprit.client => "another hold of its own had it".to_owned(),
            client => format!("client {client} held it"),
        };
        let (client, name) = (culprit.client, texts.get(culprit.name));
        format!("client {client} {did} the lock's key with {name} while {held}")
    };
    let named: Vec<String> = harm.blames.iter().take(NAMED_MOST).map(told).collect();
    let mut summary = named.join(", or ");
    match harm.blames.len() {
        0..=1 => {}
        NAMED_MOST => summary += ": no answer says which",
        many if many == NAMED_MOST + 1 => summary += ", or a third did: no answer says which",
        many => {
            summary +=
                &format!(", or it was one of {} others: no answer says which", many - NAMED_MOST)
        }
    }
    let named = harm.blames.iter().take(NAMED_MOST);
    let of: Vec<(u32, u32)> =
        named.flat_map(|it| [it.victim, (it.culprit.acquisition, it.culprit.client)]).collect();
    let mut accused: Vec<u32> = harm.blames.iter().map(|it| it.culprit.number).collect();
    accused.truncate(NAMED_MOST);
    Witness { accused, occurrences: harm.occurrences, ..story::witness(summary, &of) }
}

#[cfg(test)]
mod tests;
