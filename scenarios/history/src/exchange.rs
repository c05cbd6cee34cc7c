//! Commands as two messages: a request, and a reply. What became of each, and when the server acted.
//!
//! Invariant: when a command was sent and answered stands in the history. When the server carried it out does not: that
//! is estimated between the two, and only pictures and the words of stories may depend on it.

mod long;
mod settle;
mod split;

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::{Answer, Event, Head, Intent, Text, Texts, Touch, What};

pub(crate) use long::{KeyLoss, place_accused, settle_long};
pub(crate) use settle::{release_held_up, settle_deletions, settle_overwrites};
pub(crate) use split::new_primary;
pub use split::{server, server_name, split_primaries};

/// A fault that strikes a message is looked for among so many of its client's last commands.
const LOOKED_BACK: usize = 32;
/// What a message takes if no command was ever answered.
const USUAL_NS: u64 = 200_000;

/// A command: its request and its reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// Its number in the history.
    pub op: u32,
    /// Who sent it.
    pub client: u32,
    /// The acquisition it belongs to, or 0.
    pub acquisition: u32,
    /// To which server.
    pub node: u16,
    /// Its name.
    pub name: Text,
    /// Its first key.
    pub key: Text,
    /// What it would do to that key.
    pub intent: Intent,
    /// When it was sent.
    pub sent_ns: u64,
    /// When and how it ended for its client; none if nothing more was heard.
    pub end: Option<(u64, ExchangeEnd)>,
    /// What became of its request.
    pub request: Delivery,
    /// What became of its reply.
    pub reply: Delivery,
    /// Whether a fault held its request up for a time that nobody wrote down.
    pub is_held_up: bool,
    /// Whether its client was stopped just before it could send it, and so sent it later than the history has it.
    pub is_stopped: bool,
    /// The command that had written what this one found, or 0.
    pub found: u32,
    /// What a message took as a rule in this history.
    pub usual_ns: u64,
    /// When its request left its client: an estimate where that was stopped.
    pub left_ns: u64,
    /// When the server carried it out, or would have: an estimate.
    pub done_ns: u64,
}

/// How a command ended for its client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExchangeEnd {
    /// It was answered, and did this to its key.
    Answered(Touch, Answer),
    /// The server refused it, with this error.
    Refused(Text),
    /// The client stopped waiting.
    Unanswered,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It arrived in the usual time.
    Usual,
    /// A fault held it up.
    Late,
    /// A fault lost it.
    Lost,
    /// Nobody knows.
    Unknown,
}

impl Exchange {
    /// When it ended for its client, or when it was sent if it never did.
    pub fn last_ns(&self) -> u64 {
        self.end.map_or(self.sent_ns, |(at_ns, _)| at_ns)
    }

    /// What it did to its key, or may have done; nothing if its request was lost.
    pub fn touch(&self) -> Touch {
        match self.end {
            Some((_, ExchangeEnd::Answered(touch, _))) => touch,
            Some((_, ExchangeEnd::Refused(_))) => Touch::None,
            _ if self.request == Delivery::Lost => Touch::None,
            _ => self.intent.touch,
        }
    }

    /// Whether the server certainly carried it out.
    pub fn is_certain(&self) -> bool {
        matches!(self.end, Some((_, ExchangeEnd::Answered(..)))) || self.reply == Delivery::Lost
    }

    /// By when it had certainly been carried out, if that is known.
    pub fn answered_ns(&self) -> Option<u64> {
        match self.end {
            Some((at_ns, ExchangeEnd::Answered(..) | ExchangeEnd::Refused(_))) => Some(at_ns),
            _ => None,
        }
    }

    /// The latest moment at which the server can have carried it out.
    pub fn latest_ns(&self) -> u64 {
        self.answered_ns().unwrap_or(u64::MAX)
    }

    /// Whether it is one on the lock's key.
    pub fn is_of_lock(&self, head: &Head, texts: &Texts) -> bool {
        !head.is_resource(self.node) && texts.get(self.key) == head.lock_key
    }

    /// Takes it to have been carried out as late as its answer allows, as one that met what came after its sending.
    pub fn put_off(&mut self) {
        if let Some(at_ns) = self.answered_ns() {
            let usual_ns = self.done_ns - self.sent_ns;
            self.done_ns = self.done_ns.max(at_ns.saturating_sub(usual_ns));
        }
    }

    fn struck(&mut self, fault: Fault, at_ns: u64, for_ns: u64, usual_ns: u64) {
        match fault {
            Fault::LoseRequest => self.request = Delivery::Lost,
            Fault::LoseReply => {
                (self.request, self.reply) = (Delivery::Usual, Delivery::Lost);
                self.done_ns = self.done_ns.min(self.sent_ns.midpoint(at_ns));
            }
            _ => match self.answered_ns() {
                Some(at_ns) => {
                    let middle_ns = self.sent_ns.midpoint(at_ns);
                    self.request = Delivery::Late;
                    self.done_ns = middle_ns.max(at_ns.saturating_sub(usual_ns));
                }
                None => {
                    (self.request, self.is_held_up) = (Delivery::Late, for_ns == 0);
                    self.done_ns = self.sent_ns.saturating_add(for_ns).saturating_add(usual_ns);
                }
            },
        }
    }
}

/// Every command among these events, in the order of their sending.
pub fn exchanges(head: &Head, texts: &Texts, events: &[Event]) -> Vec<Exchange> {
    let mut all: Vec<Exchange> = Vec::new();
    let mut stopped: BTreeMap<u32, u64> = BTreeMap::new();
    for event in events {
        match event.what {
            What::Fault { fault: Fault::Pause, .. } => {
                stopped.insert(event.client, event.at_ns);
            }
            What::Command { .. } => {
                let is_stopped = stopped.remove(&event.client) == Some(event.at_ns);
                all.extend(sent(event).map(|it| Exchange { is_stopped, ..it }));
            }
            What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
                // Numbers of operations rise.
                if let Ok(place) = all.binary_search_by_key(&event.op, |it| it.op) {
                    ended(&mut all[place], event);
                }
            }
            _ => {}
        }
    }
    let usual_ns = usual_ns(head, texts, &all);
    for it in &mut all {
        it.usual_ns = usual_ns;
        let half_ns = it.answered_ns().map_or(usual_ns, |at_ns| (at_ns - it.sent_ns) / 2);
        it.done_ns = it.sent_ns.saturating_add(half_ns.min(usual_ns));
    }
    for event in events {
        let What::Fault { fault, for_ns, .. } = event.what else { continue };
        let is_of_message = matches!(fault, Fault::Delay | Fault::LoseRequest | Fault::LoseReply);
        if matches!(fault, Fault::ServerCrash | Fault::PowerLoss) {
            meet_nobody(&mut all, event);
        }
        if is_of_message
            && event.client > 0
            && let Some(place) = struck(&all, event, fault)
        {
            all[place].struck(fault, event.at_ns, for_ns, usual_ns);
        }
    }
    for it in all.iter_mut().filter(|it| it.is_stopped) {
        it.put_off();
    }
    all
}

/// Settles when requests left whose clients were stopped: as long before they were carried out as a message takes.
pub fn settle_leaving(all: &mut [Exchange]) {
    for it in all.iter_mut().filter(|it| it.is_stopped) {
        it.left_ns = it.done_ns.saturating_sub(it.usual_ns).max(it.sent_ns);
    }
}

fn sent(event: &Event) -> Option<Exchange> {
    let Event { at_ns: sent_ns, client, acquisition, op, what } = *event;
    let What::Command { node, name, key, intent } = what else { return None };
    let (request, reply, end, done_ns) = (Delivery::Unknown, Delivery::Unknown, None, sent_ns);
    Some(Exchange {
        op,
        client,
        acquisition,
        node,
        name,
        key,
        intent,
        sent_ns,
        end,
        request,
        reply,
        is_held_up: false,
        is_stopped: false,
        found: 0,
        usual_ns: 0,
        left_ns: sent_ns,
        done_ns,
    })
}

fn ended(it: &mut Exchange, event: &Event) {
    let end = match event.what {
        What::Answered { touch, answer, found } => {
            it.found = found;
            ExchangeEnd::Answered(touch, answer)
        }
        What::Refused(why) => ExchangeEnd::Refused(why),
        _ => ExchangeEnd::Unanswered,
    };
    it.end = Some((event.at_ns, end));
    if end != ExchangeEnd::Unanswered {
        (it.request, it.reply) = (Delivery::Usual, Delivery::Usual);
    }
}

/// What a message takes as a rule: half the median of all answers of commands on the lock's key.
fn usual_ns(head: &Head, texts: &Texts, all: &[Exchange]) -> u64 {
    let of_lock = all.iter().filter(|it| it.is_of_lock(head, texts));
    let answered = of_lock.filter_map(|it| Some(it.answered_ns()? - it.sent_ns));
    let mut times: Vec<u64> = answered.collect();
    let middle = times.len() / 2;
    if times.is_empty() { USUAL_NS } else { *times.select_nth_unstable(middle).1 / 2 }
}

/// Commands without an answer are lost that would have been carried out while their server was down.
fn meet_nobody(all: &mut [Exchange], event: &Event) {
    let What::Fault { node, for_ns, .. } = event.what else { return };
    let is_down = event.at_ns..event.at_ns.saturating_add(for_ns);
    let theirs = all.iter_mut().filter(|it| node.is_none_or(|node| node == it.node));
    for it in theirs.filter(|it| it.answered_ns().is_none() && is_down.contains(&it.done_ns)) {
        it.request = Delivery::Lost;
    }
}

/// Which command a fault of messages has struck: the last that its client had sent by then; a lost message is one of a
/// command without an answer.
fn struck(all: &[Exchange], event: &Event, fault: Fault) -> Option<usize> {
    let sent = all.partition_point(|it| it.sent_ns <= event.at_ns);
    let theirs = all[..sent].iter().enumerate().rev();
    let mut theirs = theirs.filter(|(_, it)| it.client == event.client).take(LOOKED_BACK);
    let is_struck = |it: &Exchange| {
        let is_open = it.end.is_none_or(|(at_ns, _)| at_ns >= event.at_ns);
        is_open && (fault == Fault::Delay || it.answered_ns().is_none())
    };
    theirs.find(|(_, it)| is_struck(it)).map(|(place, _)| place)
}
