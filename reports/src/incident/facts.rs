//! What a history says of an incident, sorted out: whose it is, which time it takes, and what happened to the key.
//!
//! Invariant: whose incident it is, and which time it takes, is what the witnesses say.

use std::collections::BTreeSet;

use history::fault::Fault;
use history::{Event, History, Touch, What};

use super::group::FindingGroup;
use super::layout::{BarKind, IncidentLane};
use crate::format::{counted, plain};
use history::exchange::{Exchange, exchanges, settle_leaving, split_primaries};
use history::tenure::{self, Accused, KeyTenure, tenures};

/// In live worlds an answer is stamped so much before what its client makes of it, at most as a rule.
const STAMPS_NS: u64 = 2_000_000;
/// So many clients are drawn of a stall, if there are so many.
const STALLED_MOST: usize = 3;

/// What a history says of an incident, sorted out.
pub(super) struct IncidentFacts<'a> {
    pub(super) history: &'a History,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) tenures: Vec<KeyTenure>,
    /// The acquisitions that witnesses name.
    pub(super) acquisitions: BTreeSet<u32>,
    /// The clients that have lanes.
    pub(super) clients: Vec<u32>,
    /// The commands that did the harm.
    pub(super) accused: BTreeSet<u32>,
    /// The same, with whom they harmed.
    blamed: Accused,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
}

impl<'a> IncidentFacts<'a> {
    pub(super) fn of(history: &'a History, group: &FindingGroup<'_>) -> Option<Self> {
        let (from_ns, until_ns) = group.span_ns()?;
        let witnesses = || group.findings.iter().map(|(_, witness)| *witness);
        let mut clients: Vec<u32> = Vec::new();
        for &client in witnesses().flat_map(|it| &it.clients) {
            if client > 0 && !clients.contains(&client) {
                clients.push(client);
            }
        }
        let History { head, texts, events } = history;
        let mut exchanges = exchanges(head, texts, events);
        split_primaries(&mut exchanges, head, texts, events);
        let accused: BTreeSet<u32> = witnesses().flat_map(|it| &it.accused).copied().collect();
        // What met another's key came late where its client stood still behind the sending.
        for it in exchanges.iter_mut().filter(|it| accused.contains(&it.op)) {
            if matches!(it.intent.touch, Touch::Delete | Touch::Overwrite(_)) {
                it.put_off();
            }
        }
        let blamed =
            tenure::accused(group.findings.iter().map(|(it, witness)| (it.level, *witness)));
        let mut tenures = tenures(head, texts, events, &mut exchanges, &blamed);
        settle_leaving(&mut exchanges);
        // What comes behind the story is drawn only where the last of its commands are answered late.
        let last_ns = until_ns.saturating_add(head.ttl_ns);
        exchanges.retain(|it| it.sent_ns <= last_ns);
        tenures.retain(|it| it.from_ns <= last_ns);
        let acquisitions = witnesses().flat_map(|it| &it.acquisitions).copied().collect();
        let mut facts = Self {
            history,
            exchanges,
            tenures,
            acquisitions,
            clients,
            accused,
            blamed,
            from_ns,
            until_ns,
        };
        facts.widen();
        Some(facts)
    }

    /// Whether this command is one on the lock's key.
    pub(super) fn is_of_lock(&self, it: &Exchange) -> bool {
        it.is_of_lock(&self.history.head, &self.history.texts)
    }

    /// Makes room for the commands that the story begins and ends with.
    fn widen(&mut self) {
        let (from_ns, until_ns) = (self.from_ns, self.until_ns);
        let concern = self.exchanges.iter().filter(|it| {
            let concerns =
                self.acquisitions.contains(&it.acquisition) || self.accused.contains(&it.op);
            concerns && self.is_of_lock(it) && it.touch() != Touch::None
        });
        let (mut first_ns, mut last_ns) = (from_ns, until_ns);
        for it in concern {
            if it.sent_ns < from_ns && it.last_ns().saturating_add(STAMPS_NS) >= from_ns {
                first_ns = first_ns.min(it.sent_ns);
            }
            if it.sent_ns <= until_ns && it.last_ns() > until_ns && it.is_certain() {
                last_ns = last_ns.max(it.last_ns());
            }
        }
        (self.from_ns, self.until_ns) = (first_ns, last_ns);
    }

    /// Adds clients that want the lock while nobody gets on: a stall is about them, too.
    pub(super) fn add_waiting(&mut self) {
        let events = &self.history.events;
        let shown = &events[..events.partition_point(|it| it.at_ns <= self.until_ns)];
        let ended: BTreeSet<u32> = shown
            .iter()
            .filter(|it| it.at_ns < self.from_ns)
            .filter(|it| {
                matches!(it.what, What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_))
            })
            .map(|it| it.acquisition)
            .collect();
        for event in shown.iter().filter(|it| it.what == What::Acquire) {
            let is_new = !self.clients.contains(&event.client);
            if self.clients.len() < STALLED_MOST && is_new && !ended.contains(&event.acquisition) {
                self.clients.push(event.client);
            }
        }
    }

    /// From when on nobody would give back the key that an accused command made: its client has given up, is dead, or has
    /// released in vain.
    pub(super) fn left_ns(&self, tenure: &KeyTenure) -> Option<u64> {
        let is_over = |it: &&Event| match it.what {
            What::NotAcquired(_)
            | What::AcquireUnknown(_)
            | What::Released(_)
            | What::ReleaseUnknown(_) => it.acquisition == tenure.acquisition,
            What::Fault { fault: Fault::Crash, .. } => {
                it.client == tenure.client && it.at_ns >= tenure.from_ns
            }
            _ => false,
        };
        let over =
            self.accused.contains(&tenure.op).then(|| self.history.events.iter().find(is_over))?;
        let from_ns = over?.at_ns.max(tenure.from_ns);
        (from_ns < tenure.until_ns).then_some(from_ns)
    }

    /// Whether this command certainly put its value in the place of another's.
    pub(super) fn has_overwritten(&self, it: &Exchange) -> bool {
        let ended = self.tenures.iter().find(|tenure| tenure.end.op() == Some(it.op));
        ended.is_some_and(|tenure| self.knows_end(tenure))
    }

    /// Whether answers say in which order the commands were carried out that made this key and that ended it.
    pub(super) fn knows_end(&self, tenure: &KeyTenure) -> bool {
        tenure.knows_end(&self.exchanges, &self.blamed)
    }

    /// Whether it is certain that the key was there at that time, and not before or behind another.
    pub(super) fn is_in_order(&self, tenure: &KeyTenure) -> bool {
        let mut before = self.tenures.iter().filter(|it| it.end.op() == Some(tenure.op));
        self.knows_end(tenure) && before.all(|it| self.knows_end(it))
    }

    /// When this client first had the lock or its key in this picture.
    pub(super) fn first_ns(&self, client: u32, lane: &IncidentLane) -> u64 {
        let held = lane.bars.iter().filter(|it| it.kind == BarKind::Holds).map(|it| it.from_ns);
        let owned =
            self.tenures.iter().filter(|it| it.client == client && it.until_ns > self.from_ns);
        held.chain(owned.map(|it| it.from_ns)).min().unwrap_or(u64::MAX)
    }

    /// Leaves out the clients for which there are no lanes.
    pub(super) fn keep_clients(&mut self, most: usize, notes: &mut Vec<String>) {
        let left_out = self.clients.len().saturating_sub(most);
        if left_out > 0 {
            self.clients.truncate(most);
            let left_out = counted(left_out as u64, "client");
            notes.push(format!("{left_out} of the story left out."));
        }
    }

    /// This stretch of time within the window, and whether it goes on at either end.
    pub(super) fn within(&self, from_ns: u64, until_ns: u64) -> Option<(u64, u64, [bool; 2])> {
        let (begins_ns, ends_ns) = (from_ns.max(self.from_ns), until_ns.min(self.until_ns));
        let open = [from_ns < self.from_ns, until_ns > self.until_ns];
        (begins_ns <= ends_ns && from_ns <= self.until_ns && until_ns >= self.from_ns)
            .then_some((begins_ns, ends_ns, open))
    }

    /// Whether this moment is drawn.
    pub(super) fn shows(&self, at_ns: u64) -> bool {
        (self.from_ns..=self.until_ns).contains(&at_ns)
    }

    /// The next moment after this one at which a client did something.
    pub(super) fn next_of_ns(&self, client: u32, at_ns: u64) -> Option<u64> {
        let events = &self.history.events;
        let behind = &events[events.partition_point(|it| it.at_ns <= at_ns)..];
        let is_its =
            |it: &&history::Event| it.client == client && !matches!(it.what, What::Fault { .. });
        behind.iter().find(is_its).map(|it| it.at_ns)
    }
}

/// A text of the run as it may stand in a picture.
pub(super) fn text(text: &str) -> String {
    plain(text).into_owned()
}
