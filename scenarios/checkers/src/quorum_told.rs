//! Quorum told: what a lock on several servers tells its caller is what most of them have answered, and it tells at once.
//!
//! Invariant: a client is blamed only for what is false in every reading. *Already expired*, *taken by another* and
//! *unknown* are false of a release that has deleted the key on a quorum, the last by times that are exact; *released*,
//! where so many servers have answered that they had no key of this client, and nothing that it had sent before had
//! ended it, that the others are no quorum; that the lock was surely not taken, where a quorum had granted the last round of
//! it, unless that came too late; that another had it, where a quorum had; that it was taken, where no quorum can have granted
//! it. A release is told too late that a quorum has carried out before, by times that are exact. Only those keys
//! count of which it is certain which round of the acquisition has made them.

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict, Witness};
use history::words::{DROPPED, HELD, RELEASED};
use history::{CommandOp, Event, Head, Recent, Touch, What};
use picklock::env::Phase;
use smallvec::SmallVec;

use super::honesty::NOT_ITS_OWN;
use super::interface::{Checker, EventView, HistoryEnd, frees, makes, may_take_key, verdict};
use super::story;

pub(super) const TOLD: &str = "quorum-told";
pub(super) const AT_ONCE: &str = "release-told-at-once";

/// The precision of a timer.
const GRAIN_NS: u64 = 1_000_000;

/// The keys of an acquisition on a server.
#[derive(Clone, Copy, Debug, Default)]
struct NodeKeys {
    /// Requests to make one that have no answer, or never had.
    unknown: u32,
    made: u32,
    /// Something else may have given it one: a script that nobody knows, or an extension.
    perhaps: bool,
    /// When the last of these was answered.
    made_ns: u64,
    /// When the last that was made is surely over, if nothing prolongs it.
    over_ns: u64,
    /// Deletions without an answer, and how many keys are surely gone by those that have deleted one: each another, and none that
    /// was over by then.
    deleting: u32,
    deleted: u32,
    /// How many of those that it had made are surely gone: deleted, expired before it made another, or there when one was deleted
    /// that came behind all of them.
    gone: u32,
    /// Since a key was last asked for, a deletion before the release has ended one, or may have.
    given_back: bool,
    /// Whether some of them had none when the release began.
    was_deleting: bool,
    /// How many the rounds before this one had made.
    made_before: u32,
    /// What counts as made before may have been made in this round, and its TTL be over before all were asked.
    lapsed: bool,
    /// Until when what was made in this one lives at least.
    ends_ns: u64,
    /// Its release is to delete one key, and has.
    has_one: bool,
    freed: bool,
    /// Deletions of the release: those that were answered with no, and all others.
    none_found: u32,
    other_tries: u32,
}

/// What an acquisition was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// That it surely has not got the lock.
    NotAcquired,
    /// That its key was no longer its own when it was released.
    NotItsOwn,
}

/// An acquisition, from its begin.
#[derive(Clone, Debug, Default)]
struct QuorumOp {
    client: u32,
    /// By server.
    nodes: SmallVec<[(u16, NodeKeys); 1]>,
    /// A round before this one may have made keys of which nothing is known.
    obscure: bool,
    /// When its last round began, and whether it says so when one begins.
    round_ns: u64,
    has_rounds: bool,
    /// From when on one of its keys may have gone.
    gone_ns: Option<u64>,
    /// When its release began, and when a quorum had carried it out.
    release_ns: Option<u64>,
    freed_ns: Option<u64>,
    stood_still: bool,
    told: Option<Told>,
}

/// What locks on several servers say.
struct QuorumTold {
    quorum: usize,
    nodes: usize,
    /// By acquisition.
    open: Recent<QuorumOp>,
    /// A fault may have taken a key away, or clocks run apart.
    taken: bool,
    judged: bool,
    released: bool,
    lie: Option<Witness>,
    late: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let nodes = head.nodes.filter(|nodes| head.honest && *nodes > 1)?;
    let nodes = usize::from(nodes);
    Some(Box::new(QuorumTold {
        quorum: nodes / 2 + 1,
        nodes,
        open: Recent::default(),
        taken: false,
        judged: false,
        released: false,
        lie: None,
        late: None,
    }))
}

impl Checker for QuorumTold {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        if let Some(command) = seen.command {
            return match what {
                What::Command { .. } => self.sends(command),
                _ => self.ends(command, seen.event, seen.head),
            };
        }
        match what {
            What::Acquire => {
                self.open.insert(acquisition, QuorumOp { client, ..QuorumOp::default() });
            }
            What::Phase(Phase::AcquireBeforeSend) => {
                self.with(acquisition, |it| it.next_round(at_ns));
            }
            What::Acquired => self.acquired(acquisition),
            What::NotAcquired(why) => self.not_acquired(acquisition, seen.texts.get(why)),
            What::AcquireUnknown(_) => _ = self.open.remove(acquisition),
            What::Release => self.with(acquisition, |it| it.begin_release(at_ns)),
            What::Released(told) => self.ended(acquisition, at_ns, seen.texts.get(told), seen.head),
            What::ReleaseUnknown(why) => {
                self.unknown(acquisition, at_ns, seen.texts.get(why), seen.head.exact);
            }
            What::Fault { fault, .. } => {
                self.taken |= may_take_key(fault);
                if matches!(fault, Fault::Pause | Fault::Crash) {
                    let theirs = self.open.iter_mut();
                    let struck = theirs.filter(|(_, it)| client == 0 || it.client == client);
                    struck.for_each(|(_, it)| it.stood_still = true);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        let nothing = "nobody said what had become of the lock";
        let told = verdict(self.lie.take(), self.judged, nothing);
        let late = match end.head.exact {
            true => verdict(self.late.take(), self.released, "no quorum carried a release out"),
            false => Verdict::NotApplicable(
                "in real time a client may be stopped by its machine, and be told late".to_owned(),
            ),
        };
        vec![Finding::new(TOLD, Level::Belief, told), Finding::new(AT_ONCE, Level::Progress, late)]
    }
}

impl QuorumTold {
    fn with(&mut self, acquisition: u32, change: impl FnOnce(&mut QuorumOp)) {
        if let Some(it) = self.open.get_mut(acquisition) {
            change(it);
        }
    }

    fn sends(&mut self, command: &CommandOp) {
        self.with(command.acquisition, |it| {
            let of_release = it.release_ns.is_some() && frees(command.intent.touch);
            if makes(command.intent.touch) {
                it.forget_gone(command.invoke_ns);
            }
            let node = it.node(command.node);
            node.unknown += u32::from(makes(command.intent.touch));
            node.given_back &= !makes(command.intent.touch);
            node.perhaps |= matches!(command.intent.touch, Touch::Extend(_) | Touch::Unknown);
            node.deleting += u32::from(frees(command.intent.touch));
            node.other_tries += u32::from(of_release);
        });
    }

    fn ends(&mut self, command: &CommandOp, event: &Event, head: &Head) {
        let (touch, refused) = match event.what {
            What::Answered { touch, .. } => (touch, false),
            What::Refused(_) => (Touch::None, true),
            // It stays unknown what it has done.
            _ => return,
        };
        let (quorum, taken) = (self.quorum, self.taken);
        let Some(it) = self.open.get_mut(command.acquisition) else { return };
        let (release_ns, round_ns) = (it.release_ns, it.round_ns);
        let node = it.node(command.node);
        // What was sent in the instant of its begin may have been sent just before it.
        let of_release = release_ns.is_some_and(|begun_ns| match node.was_deleting {
            true => begun_ns < command.invoke_ns,
            false => begun_ns <= command.invoke_ns,
        });
        let intent = command.intent;
        if makes(intent.touch) {
            node.unknown -= 1;
            if makes(touch) {
                node.is_alone(command);
                (node.made, node.made_ns) = (node.made + 1, event.at_ns);
                // The late grant of a round before is none of this one's.
                node.made_before += u32::from(command.invoke_ns < round_ns);
            }
        }
        let mut gone_ns = None;
        let lives_ns = match touch {
            Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => Some(ttl_ns.unwrap_or(u64::MAX)),
            Touch::Extend(ttl_ns) => Some(ttl_ns),
            _ => None,
        };
        node.perhaps |= matches!(touch, Touch::Extend(_));
        if let Some(ttl_ns) = lives_ns {
            let lives_ns = ttl_ns.saturating_sub(head.margin_ns);
            node.ends_ns = command.invoke_ns.saturating_add(lives_ns);
            gone_ns = Some(node.ends_ns);
            let lasts_ns = if head.stamped { u64::MAX } else { ttl_ns };
            let over_ns = event.at_ns.saturating_add(lasts_ns).saturating_add(head.margin_ns);
            node.over_ns = node.over_ns.max(over_ns);
        }
        if frees(intent.touch) {
            let deleted = intent.compares && touch == Touch::Delete;
            node.deleting -= 1;
            if deleted {
                let all_over = node.over_ns < command.invoke_ns && !node.perhaps && !taken;
                // One under way may have deleted before what is over by now.
                let is_another = all_over && node.deleting == 0;
                let others = if is_another { node.made } else { 0 };
                node.deleted = node.deleted.max(others) + 1;
                gone_ns = Some(event.at_ns);
                node.gone = node.gone.max(node.deleted);
                node.is_alone(command);
            }
            node.given_back |= frees(touch) && !of_release;
            node.freed |= deleted && of_release && node.has_one;
            if of_release && node.other_tries > 0 && touch == Touch::None && !refused {
                node.other_tries -= 1;
                node.none_found += 1;
            }
        }
        it.gone_ns = it.gone_ns.into_iter().chain(gone_ns).min();
        if it.freed_ns.is_none() && it.freed() >= quorum {
            it.freed_ns = Some(event.at_ns);
            self.released = true;
        }
        let is_lie = match it.told {
            None => false,
            Some(Told::NotAcquired) => it.granted() >= quorum,
            Some(Told::NotItsOwn) => it.freed_ns.is_some(),
        };
        if is_lie {
            self.lied(command.acquisition);
        }
    }

    /// It has the lock, it says.
    fn acquired(&mut self, acquisition: u32) {
        let (nodes, quorum) = (self.nodes, self.quorum);
        let Some(it) = self.open.get(acquisition) else { return };
        let granted = it.nodes.iter().filter(|(_, node)| node.may_have_one()).count();
        if granted >= quorum || it.nodes.is_empty() {
            return;
        }
        let client = it.client;
        let summary = format!(
            "client {client} took the lock, though at most {granted} of {nodes} servers can have granted it"
        );
        story::note(&mut self.lie, summary, &[(acquisition, client)]);
    }

    /// It was told that it surely has not got the lock.
    fn not_acquired(&mut self, acquisition: u32, why: &str) {
        self.judged = true;
        let (nodes, quorum) = (self.nodes, self.quorum);
        let Some(it) = self.open.get_mut(acquisition) else { return };
        if !it.obscure && it.granted_or_lapsed() < quorum {
            it.told = Some(Told::NotAcquired);
            return;
        }
        // What was granted and came too late, it has not got; but no other has it either.
        let (client, granted) = (it.client, it.granted());
        let is_lie = it.has_rounds && !it.obscure && granted >= quorum && why.ends_with(HELD);
        self.open.remove(acquisition);
        if is_lie {
            let summary = format!(
                "client {client} was told that another held the lock, though {granted} of {nodes} servers had granted its \
                 last request"
            );
            story::note(&mut self.lie, summary, &[(acquisition, client)]);
        }
    }

    /// Its release was answered in these words.
    fn ended(&mut self, acquisition: u32, at_ns: u64, told: &str, head: &Head) {
        self.judged = true;
        self.told_late(acquisition, at_ns);
        let (nodes, quorum) = (self.nodes, self.quorum);
        let Some(it) = self.open.get_mut(acquisition) else { return };
        if NOT_ITS_OWN.contains(&told) {
            it.told = Some(Told::NotItsOwn);
            if it.freed_ns.is_some() {
                self.lied(acquisition);
            }
            return;
        }
        let without = it.nodes.iter().filter(|(_, node)| node.has_none()).count();
        let client = it.client;
        self.open.remove(acquisition);
        if told == RELEASED && head.exact && !self.taken && nodes.saturating_sub(without) < quorum {
            let summary = format!(
                "client {client} was told \"{told}\" of its release, though {without} of {nodes} servers had answered that \
                 they had no key of it"
            );
            story::note(&mut self.lie, summary, &[(acquisition, client)]);
        }
    }

    /// It was told that nobody knows what has become of its release.
    fn unknown(&mut self, acquisition: u32, at_ns: u64, why: &str, exact: bool) {
        self.told_late(acquisition, at_ns);
        let Some(it) = self.open.remove(acquisition) else { return };
        // Its caller did not wait for what it would have been told; or, in real time, may have given a call up at the
        // moment at which its answer was written down.
        if it.freed_ns.is_none() || why.starts_with(DROPPED) || !exact {
            return;
        }
        let client = it.client;
        let summary = format!(
            "client {client} was told that nobody knows what has become of its release, though {} of {} servers had \
             answered that they had carried it out",
            it.freed(),
            self.nodes
        );
        story::note(&mut self.lie, summary, &[(acquisition, client)]);
    }

    /// It is told of its release only now.
    fn told_late(&mut self, acquisition: u32, at_ns: u64) {
        let Some(it) = self.open.get(acquisition).filter(|it| !it.stood_still) else { return };
        let Some(freed_ns) = it.freed_ns else { return };
        let late_ns = at_ns.saturating_sub(freed_ns);
        if late_ns <= GRAIN_NS {
            return;
        }
        let client = it.client;
        let summary = format!(
            "client {client} waited for its release {} longer than until a quorum of the servers had carried it out",
            rounded(late_ns)
        );
        story::note(&mut self.late, summary, &[(acquisition, client)]);
    }

    /// What it was told was not true.
    fn lied(&mut self, acquisition: u32) {
        let Some(it) = self.open.remove(acquisition) else { return };
        let (client, nodes) = (it.client, self.nodes);
        let summary = match it.told {
            Some(Told::NotAcquired) => format!(
                "client {client} was told that it surely had not got the lock, though {} of {nodes} servers had granted it: \
                 not all had answered yet",
                it.granted()
            ),
            _ => format!(
                "client {client} was told of its release that its hold had ended before, though {} of {nodes} servers \
                 still had its key then, and have deleted it",
                it.freed()
            ),
        };
        story::note(&mut self.lie, summary, &[(acquisition, client)]);
    }
}

impl QuorumOp {
    /// Its keys on this server.
    fn node(&mut self, node: u16) -> &mut NodeKeys {
        let place = self.nodes.iter().position(|(it, _)| *it == node);
        let place = place.unwrap_or_else(|| {
            self.nodes.push((node, NodeKeys::default()));
            self.nodes.len() - 1
        });
        &mut self.nodes[place].1
    }

    fn next_round(&mut self, at_ns: u64) {
        (self.round_ns, self.has_rounds) = (at_ns, true);
        self.obscure |= self.nodes.iter().any(|(_, it)| it.unknown > 0);
        for (_, it) in &mut self.nodes {
            (it.made_before, it.lapsed) = (it.made, false);
        }
    }

    /// It asks for a key: those that it has given back before, or whose TTL may be over, are of a round before, whether or
    /// not it has said that this one begins.
    fn forget_gone(&mut self, now_ns: u64) {
        if self.gone_ns.is_none_or(|gone_ns| now_ns < gone_ns) {
            return;
        }
        self.gone_ns = None;
        for (_, it) in &mut self.nodes {
            if it.gone >= it.made || it.ends_ns <= now_ns {
                it.lapsed |= it.made > it.made_before.max(it.gone);
                it.made_before = it.made_before.max(it.made).max(it.deleted);
            } else {
                self.gone_ns = self.gone_ns.into_iter().chain([it.ends_ns]).min();
            }
        }
    }

    fn begin_release(&mut self, at_ns: u64) {
        self.release_ns = Some(at_ns);
        for (_, it) in &mut self.nodes {
            it.was_deleting = it.deleting > 0;
            let known = it.unknown == 0 && !it.was_deleting;
            it.has_one = known && it.made > it.made_before && it.made == it.gone + 1;
        }
    }

    /// How many servers have surely granted its last round: they have said so, or have deleted more than all
    /// others had made.
    fn granted(&self) -> usize {
        self.nodes.iter().filter(|(_, it)| it.has_granted()).count()
    }

    /// How many have granted it, be it a grant that had lapsed before the next server was asked: a client that stood still in
    /// the midst of a round.
    fn granted_or_lapsed(&self) -> usize {
        self.nodes.iter().filter(|(_, it)| it.has_granted() || it.lapsed).count()
    }

    /// On how many servers its release has deleted its key.
    fn freed(&self) -> usize {
        self.nodes.iter().filter(|(_, it)| it.freed).count()
    }
}

impl NodeKeys {
    fn has_granted(&self) -> bool {
        self.made.max(self.deleted) > self.made_before
    }

    /// This has made a key or deleted one, and was sent when all that are known to have been made had been: they are gone.
    fn is_alone(&mut self, command: &CommandOp) {
        if self.made_ns <= command.invoke_ns {
            self.gone = self.gone.max(self.made);
        }
    }

    /// Whether it may have a key of the acquisition.
    fn may_have_one(&self) -> bool {
        self.unknown > 0 || self.made > self.gone || self.perhaps
    }

    /// Whether the release has surely found no key of its own here, and nothing that was sent before has ended it.
    fn has_none(&self) -> bool {
        self.none_found > 0 && self.other_tries == 0 && self.deleting == 0 && !self.given_back
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
