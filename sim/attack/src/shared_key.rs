//! Keys that several clients share: a number that each increments (INCR), or a collection with an entry of each.
//!
//! Invariant: a client that takes its own part out harms nobody; one that takes another's part out does. A number
//! belongs to the client that raised it from 0. Only the lock itself knows which entry of a collection has the lock. At
//! first the key belongs to the client that created it. Once that client has no entry left, the key belongs to the next
//! client that has an entry and says that it has the lock. If these rules do not decide, that is a doubt, and no harm.
//! A key without parts belongs to the client that wrote it last, whatever its value.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use history::Touch;
use picklock::time::span_ns;
use redis_model::witness::{InsideChange, KeyChange};

use crate::seen::SeenAnswer;
use crate::transcript::{Phases, TracedCommand, acquisition};

/// After this part of its life, others may take an entry for old: some locks write their own time into it, and may have
/// read that time a while before they sent it.
const OLD: f64 = 0.9;

/// The client that changed a key, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    pub(crate) client: u32,
    /// When the server carried it out.
    pub(crate) at: Instant,
    /// When the client began to acquire the lock, as far as that is known.
    pub(crate) since: Instant,
    /// The acquisition got the lock later.
    pub(crate) gets: bool,
    /// And the client changed the key no more before.
    pub(crate) takes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The creation of the key was not seen.
    Unseen,
    Nobody,
    /// The owner has taken its part out, and parts of others remain.
    Gone,
    Client(u32),
}

#[derive(Debug)]
enum Parts {
    /// No parts: the key belongs to one client.
    Whole,
    /// By client: how often it has incremented the number and not decremented it again.
    Count(BTreeMap<u32, i64>),
    Entries(Vec<Entry>),
}

#[derive(Debug)]
struct Entry {
    name: Vec<u8>,
    by: Writer,
}

/// How long a part of a client in the lock's key lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartLife {
    pub(crate) life: Duration,
    /// When the server's clock had jumped ahead, if it has: then all parts from before are old.
    pub(crate) jumped: Option<Instant>,
}

/// The lock's key on one server.
#[derive(Debug)]
pub(crate) struct SharedKey {
    life: PartLife,
    owner: Owner,
    until: Option<Instant>,
    /// Since when nobody owns the key.
    free_since: Option<Instant>,
    parts: Parts,
    /// Whether the number in it is counted down to take the lock.
    downwards: bool,
    doubts: Vec<String>,
    /// The owner whose entry may or may not last longer, since the last change.
    prolonged: Option<u32>,
}

impl SharedKey {
    /// A key that nobody has created yet.
    pub(crate) fn new(life: PartLife) -> Self {
        let (owner, parts, doubts) = (Owner::Unseen, Parts::Whole, Vec::new());
        let (until, free_since, downwards, prolonged) = (None, None, false, None);
        Self { life, owner, until, free_since, parts, downwards, doubts, prolonged }
    }

    /// What a change counts as. `phases` say which client believes that it has the lock, if clients report that.
    pub(crate) fn see(
        &mut self,
        by: Writer,
        change: &KeyChange,
        phases: Option<&[Phases]>,
    ) -> Touch {
        let touch = change.touch;
        match touch {
            Touch::Create(_) => (self.owner, self.parts) = (Owner::Client(by.client), Parts::Whole),
            _ if self.owner == Owner::Unseen => return touch,
            _ => {}
        }
        match touch {
            Touch::Create(ns) | Touch::Overwrite(ns) => self.lives(by.at, ns),
            Touch::Extend(ns) => self.lives(by.at, Some(ns)),
            _ => {}
        }
        let counts_as = match &change.inside {
            InsideChange::None => self.whole(by, touch),
            InsideChange::Rewritten | InsideChange::Fields { all: true } => {
                self.rewritten(by, touch)
            }
            InsideChange::Fields { all: false } if by.takes => self.rewritten(by, touch),
            InsideChange::Fields { all: false } => self.partly_rewritten(by, touch, phases),
            InsideChange::Counted { by: step, now } => {
                if matches!(touch, Touch::Create(_)) {
                    self.downwards = *now < 0 && by.gets;
                }
                let sign = if self.downwards { -1 } else { 1 };
                self.counted(by, touch, sign * step, sign * now)
            }
            InsideChange::Entries { added, removed } => {
                self.entries(by, touch, (added, removed), phases)
            }
        };
        if touch == Touch::Delete {
            (self.owner, self.parts) = (Owner::Nobody, Parts::Whole);
        }
        if self.owner == Owner::Nobody {
            self.free_since.get_or_insert(by.at);
        } else {
            self.free_since = None;
        }
        counts_as
    }

    fn lives(&mut self, at: Instant, ns: Option<u64>) {
        let ns = ns.filter(|ns| *ns != u64::MAX);
        self.until = ns.and_then(|ns| at.checked_add(Duration::from_nanos(ns)));
    }

    /// The key counts as created now.
    fn made(&mut self, by: Writer) -> Touch {
        self.owner = Owner::Client(by.client);
        self.made_at(by.at)
    }

    fn made_at(&self, at: Instant) -> Touch {
        Touch::Create(self.left_ns(at))
    }

    /// How long the key still lives at this time; none if it does not expire.
    fn left_ns(&self, at: Instant) -> Option<u64> {
        self.until.map(|until| span_ns(until.saturating_duration_since(at)))
    }

    fn has_entry(&self, client: u32) -> bool {
        matches!(&self.parts, Parts::Entries(all) if all.iter().any(|it| it.by.client == client))
    }

    /// The whole key was written or deleted, or its TTL was set.
    fn whole(&mut self, by: Writer, touch: Touch) -> Touch {
        match (touch, self.owner) {
            (Touch::Overwrite(_), owner) => {
                self.parts = Parts::Whole;
                let made = self.made(by);
                if owner == Owner::Nobody { made } else { touch }
            }
            (Touch::Delete | Touch::Extend(_), Owner::Nobody) => Touch::None,
            (Touch::Extend(_), Owner::Client(owner)) => self.extended(by, touch, owner),
            _ => touch,
        }
    }

    /// The value that the key held was written again. By its owner that is a renewal, by anybody else an overwrite: the
    /// value does not say whose the key is.
    fn rewritten(&mut self, by: Writer, touch: Touch) -> Touch {
        match self.owner {
            Owner::Client(owner) if owner != by.client => {
                self.whole(by, Touch::Overwrite(self.left_ns(by.at)))
            }
            _ => self.whole(by, touch),
        }
    }

    /// Some of the values that the key held were written. By its owner that is a renewal. Nothing says that it harms anybody.
    fn partly_rewritten(&mut self, by: Writer, touch: Touch, phases: Option<&[Phases]>) -> Touch {
        let is_own = self.owner == Owner::Client(by.client);
        if !is_own && phases.is_none() {
            let client = by.client;
            self.doubts.push(format!(
                "client {client} wrote a part of the lock's key: picklock cannot tell whether it took the lock by that"
            ));
        }
        if is_own || matches!(touch, Touch::Extend(_)) {
            self.whole(by, touch)
        } else {
            Touch::None
        }
    }

    fn extended(&mut self, by: Writer, touch: Touch, owner: u32) -> Touch {
        // If entries have expiry times of their own, the lock lets the key live as long as the last of them.
        if owner == by.client || !self.has_entry(by.client) || !self.has_entry(owner) {
            return touch;
        }
        let client = by.client;
        self.doubts.push(format!(
            "client {client} made the lock's key live longer, in which client {owner} has an entry: picklock cannot \
             tell whether that entry lasts longer, too"
        ));
        self.prolonged = Some(owner);
        Touch::None
    }

    fn counted(&mut self, by: Writer, touch: Touch, step: i64, now: i64) -> Touch {
        let before = now.saturating_sub(step);
        if !matches!(self.parts, Parts::Count(_)) {
            // The number until now belongs to the key's owner.
            let first = match self.owner {
                Owner::Client(owner) if before > 0 => BTreeMap::from([(owner, before)]),
                _ => BTreeMap::new(),
            };
            self.parts = Parts::Count(first);
        }
        let Parts::Count(counts) = &mut self.parts else { return touch };
        let theirs = counts.entry(by.client).or_default();
        let had = std::mem::replace(theirs, theirs.saturating_add(step).max(0));
        let is_own = had > 0 || self.owner == Owner::Client(by.client);
        let has_none = *theirs == 0;
        match (touch, self.owner) {
            (Touch::Create(_), _) => {
                if now <= 0 {
                    self.owner = Owner::Nobody;
                    let client = by.client;
                    self.doubts.push(format!(
                        "client {client} made the lock's key with the number {now} in it: picklock knows whose a \
                         number is that is counted up from 0"
                    ));
                }
                touch
            }
            _ if before <= 0 && now > 0 => self.made(by),
            (_, owner) if step < 0 && now <= 0 => {
                self.owner = Owner::Nobody;
                match owner {
                    Owner::Nobody => Touch::None,
                    Owner::Client(owner) if owner != by.client && is_own => Touch::Unknown,
                    _ => Touch::Delete,
                }
            }
            (_, Owner::Client(owner)) if step < 0 && owner == by.client && has_none => {
                self.owner = Owner::Gone;
                Touch::Unknown
            }
            // This client decrements what another has incremented.
            (_, Owner::Client(_)) if step < 0 && !is_own => {
                self.owner = Owner::Nobody;
                Touch::Delete
            }
            (_, Owner::Nobody) => Touch::None,
            _ => touch,
        }
    }

    fn entries(
        &mut self,
        by: Writer,
        touch: Touch,
        (added, removed): (&[Vec<u8>], &[Vec<u8>]),
        phases: Option<&[Phases]>,
    ) -> Touch {
        if !matches!(self.parts, Parts::Entries(_)) {
            self.parts = Parts::Entries(Vec::new());
        }
        let Parts::Entries(all) = &mut self.parts else { return touch };
        let mut taken = Vec::new();
        for name in removed {
            let own = all.iter().position(|it| it.name == *name && it.by.client == by.client);
            let place = own.or_else(|| all.iter().position(|it| it.name == *name));
            taken.extend(place.map(|place| all.remove(place)));
        }
        all.extend(added.iter().map(|name| Entry { name: name.clone(), by }));
        let is_alone = !added.is_empty() && all.iter().all(|it| it.by.client == by.client);
        if matches!(touch, Touch::Create(_)) {
            return touch;
        }
        let owner = match self.owner {
            Owner::Client(owner) => owner,
            _ if is_alone => return self.made(by),
            _ => return Touch::None,
        };
        match self.has_entry(owner) {
            true if matches!(touch, Touch::Extend(_)) => self.extended(by, touch, owner),
            true => touch,
            false if owner == by.client => {
                self.owner = Owner::Nobody;
                Touch::Delete
            }
            false => {
                let since = taken.iter().filter(|it| it.by.client == owner).map(|it| it.by.since);
                let is_harm = self.is_harm(by, owner, since.max(), phases);
                self.owner = Owner::Nobody;
                if is_harm && matches!(touch, Touch::Overwrite(_)) {
                    self.owner = Owner::Client(by.client);
                    touch
                } else if is_harm {
                    Touch::Delete
                } else if is_alone {
                    self.made(by)
                } else {
                    Touch::Unknown
                }
            }
        }
    }

    /// Whether the owner's last entry, which it had since `since`, was taken out while the owner had the lock.
    fn is_harm(
        &mut self,
        by: Writer,
        owner: u32,
        since: Option<Instant>,
        phases: Option<&[Phases]>,
    ) -> bool {
        let PartLife { life, jumped } = self.life;
        let is_old = since.is_none_or(|it| {
            by.at.saturating_duration_since(it) >= life.mul_f64(OLD) || Some(it) <= jumped
        });
        if is_old {
            return false;
        }
        let Some(phases) = phases else {
            let client = by.client;
            self.doubts.push(format!(
                "client {client} took an entry of client {owner} out of the lock's key: picklock cannot tell whether \
                 client {owner} had the lock"
            ));
            return false;
        };
        let holds = |it: &Phases| {
            it.acquired.is_some_and(|at| at <= by.at) && it.release.is_none_or(|at| at > by.at)
        };
        phases.iter().any(|it| it.client == owner && holds(it))
    }

    /// Compares this client's claim to have the lock with the owner of the key, and updates the owner.
    fn claimed(&mut self, client: u32, at: Instant) -> Claimed {
        if self.until.is_some_and(|until| until < at) {
            self.owner = Owner::Unseen;
        }
        if self.owner == Owner::Client(client) || !self.has_entry(client) {
            return Claimed::AsSeen;
        }
        match self.owner {
            Owner::Client(owner) if self.has_entry(owner) => {
                self.doubts.push(format!(
                    "client {client} said that it has the lock while client {owner} has an entry in its key: picklock \
                     cannot tell whose entry has it"
                ));
                Claimed::Undecided
            }
            Owner::Client(_) | Owner::Unseen => Claimed::AsSeen,
            Owner::Nobody | Owner::Gone => {
                let since = self.free_since.take();
                self.owner = Owner::Client(client);
                Claimed::TakesOver(since)
            }
        }
    }
}

/// How a client's claim to have the lock fits what was seen of the key.
enum Claimed {
    AsSeen,
    /// The client has taken over the key, which nobody has owned since then.
    TakesOver(Option<Instant>),
    Undecided,
}

/// What cannot be decided about the lock's key.
#[derive(Debug, Default)]
pub(crate) struct KeyDoubts {
    pub(crate) reasons: Vec<String>,
    /// Acquisitions of which it is unknown whether they have the lock, or until when.
    pub(crate) undecided: BTreeSet<u32>,
}

/// Replaces each change of the lock's key by what it means to the clients that share the key.
pub(crate) fn apply(
    sent: &mut [TracedCommand],
    key: &[u8],
    life: PartLife,
    phases: Option<&[Phases]>,
) -> KeyDoubts {
    let mut order: Vec<(Instant, usize)> = (0..)
        .zip(sent.iter())
        .filter_map(|(place, it)| Some((it.seen.as_ref()?.at, place)))
        .collect();
    order.sort_by_key(|(at, _)| *at);
    let told = phases.unwrap_or_default();
    let mut claims: Vec<(Instant, Phases)> =
        told.iter().filter_map(|it| Some((it.acquired?, *it))).collect();
    claims.sort_by_key(|(at, _)| *at);
    let mut claims = claims.into_iter().peekable();
    // By server and acquisition that got the lock: its client's last command before that which changed the key.
    let mut lasts: BTreeMap<(u16, u32), usize> = BTreeMap::new();
    for (at, place) in &order {
        let it = &sent[*place];
        let of = acquisition(told, it.client, it.sent);
        let gets = told.iter().any(|it| it.acquisition == of && it.acquired >= Some(*at));
        if gets && it.seen.iter().flat_map(|seen| &seen.changes).any(|it| it.key == key) {
            lasts.insert((it.node, of), *place);
        }
    }
    let mut keys: BTreeMap<u16, SharedKey> = BTreeMap::new();
    let mut doubts = KeyDoubts::default();
    for (done, (at, place)) in order.iter().enumerate() {
        while let Some((_, claim)) = claims.next_if(|(claimed, _)| claimed < at) {
            take_over(sent, &order[..done], (key, &mut keys), claim, &mut doubts);
        }
        let command = &mut sent[*place];
        let of_key = keys.entry(command.node).or_insert_with(|| SharedKey::new(life));
        let of = acquisition(told, command.client, command.sent);
        let of = told.iter().find(|it| it.acquisition == of);
        let since = of.map_or(command.sent, |it| it.begun);
        let gets = of.is_some_and(|it| it.acquired.is_some_and(|acquired| *at <= acquired));
        let takes =
            gets && lasts.get(&(command.node, of.map_or(0, |it| it.acquisition))) == Some(place);
        let by = Writer { client: command.client, at: *at, since, gets, takes };
        let changes = command.seen.iter_mut().flat_map(|it| &mut it.changes);
        for change in changes.filter(|it| it.key == key) {
            change.touch = of_key.see(by, change, phases);
            let prolonged = of_key.prolonged.take();
            doubts.undecided.extend(prolonged.map(|owner| acquisition(told, owner, *at)));
        }
    }
    for (_, claim) in claims {
        take_over(sent, &order, (key, &mut keys), claim, &mut doubts);
    }
    doubts.reasons.extend(keys.into_values().flat_map(|it| it.doubts));
    doubts
}

/// A client says that it has the lock. If nobody owned the key, the client took it over with its last command for it.
fn take_over(
    sent: &mut [TracedCommand],
    done: &[(Instant, usize)],
    (key, keys): (&[u8], &mut BTreeMap<u16, SharedKey>),
    claim: Phases,
    doubts: &mut KeyDoubts,
) {
    for (node, of_key) in keys {
        let Some(claimed) = claim.acquired else { return };
        let since = match of_key.claimed(claim.client, claimed) {
            Claimed::AsSeen => continue,
            Claimed::Undecided => {
                doubts.undecided.insert(claim.acquisition);
                continue;
            }
            Claimed::TakesOver(since) => since,
        };
        let is_last = |(at, place): &&(Instant, usize)| {
            let it = &sent[*place];
            // It is not known when a command that waited was answered.
            let waited = it.seen.as_ref().is_none_or(|seen| {
                matches!(seen.answer, SeenAnswer::Waits | SeenAnswer::Waited(_))
            });
            (it.client, it.node) == (claim.client, *node)
                && it.sent >= claim.begun
                && since.is_none_or(|since| *at >= since)
                && !waited
        };
        let Some((at, place)) = done.iter().rfind(is_last) else {
            let client = claim.client;
            doubts.reasons.push(format!(
                "client {client} has an entry in the lock's key, and picklock cannot tell when it got the lock by it"
            ));
            doubts.undecided.insert(claim.acquisition);
            continue;
        };
        let touch = of_key.made_at(*at);
        let Some(seen) = &mut sent[*place].seen else { continue };
        match seen.changes.iter_mut().find(|it| it.key == key) {
            Some(change) => change.touch = touch,
            None => {
                let (key, inside) = (key.to_vec(), InsideChange::None);
                seen.changes.push(KeyChange { db: 0, key, touch, inside });
            }
        }
    }
}

#[cfg(test)]
#[path = "shared_key_tests.rs"]
mod tests;
