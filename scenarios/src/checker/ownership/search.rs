//! The search: every reading of a history of the lock's key.
//!
//! Invariant: a reading puts each command that was carried out at one moment between its sending and
//! its answer, carries out any of those without an answer once, at any moment since they were sent, or
//! never, and lets a key go when its TTL may have passed or its server has lost it. Somebody is blamed
//! only where each reading has somebody harmed. Of what was there before the history nothing is known.
//! Where a key has come or gone for no reason that is known, everything is forgotten: it is nobody's.
//!
//! Commands are carried out as late as possible: when one is answered, every way of getting there is
//! tried. Where no two of them overlap there is just one way, and the search is a walk. Deliberately
//! absent: answers that say that nothing was done; they would rule readings out, which are kept.

mod reading;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Harm, Op};
use crate::history::{Loss, Touch};
use reading::{Harmed, Reading, State};

/// More readings at once than this are not followed.
const READINGS_MOST: usize = 2_000;

/// There are more readings than can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany;

/// The first harm that every reading has, if any. The commands stand in the order of their sending.
///
/// # Errors
/// [`TooMany`] readings, and no harm found before.
pub(super) fn search(
    ops: &[Op],
    losses: &[Loss],
    jumps: &[(Option<u16>, u64)],
    (margin_ns, stamped): (u64, bool),
) -> Result<Option<Harm>, TooMany> {
    let mut nodes: Vec<u16> = ops.iter().map(|op| op.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut first: Option<Harm> = None;
    let mut failed = None;
    for node in nodes {
        let ops: Vec<Op> = ops.iter().filter(|op| op.node == node).copied().collect();
        let losses: Vec<Loss> = losses.iter().filter(|loss| loss.node == node).copied().collect();
        let jumps = jumps
            .iter()
            .filter(|(of, _)| of.is_none_or(|of| of == node))
            .map(|(_, at_ns)| *at_ns)
            .collect();
        match Search::new(&ops, &losses, jumps, (margin_ns, stamped)).run() {
            Ok(Some(harm)) => {
                let occurrences = first.map_or(0, |first| first.occurrences) + harm.occurrences;
                let earlier = first.filter(|first| first.culprit.sent_ns <= harm.culprit.sent_ns);
                first = Some(Harm { occurrences, ..earlier.unwrap_or(harm) });
            }
            Ok(None) => {}
            Err(too_many) => failed = Some(too_many),
        }
    }
    match (first, failed) {
        (None, Some(too_many)) => Err(too_many),
        (first, _) => Ok(first),
    }
}

/// What is looked up while readings are followed: the commands of one server.
struct Search<'a> {
    ops: &'a [Op],
    losses: &'a [Loss],
    /// When its clock jumped.
    jumps: Vec<u64>,
    margin_ns: u64,
    /// A new hold lives from the sending of what made it, and not from when that was carried out.
    stamped: bool,
    /// Commands that are under way and will be answered.
    flying: Vec<u32>,
    /// Commands without an answer that have been sent, by acquisition.
    open: FxHashMap<u32, Vec<u32>>,
    /// Those of them that would delete whatever is there.
    deletes: Vec<u32>,
    /// Those that would make the key.
    creates: Vec<u32>,
    /// Those of which nobody knows what they would do.
    strange: Vec<u32>,
    /// Commands without an answer that every reading has carried out already.
    spent: FxHashSet<u32>,
}

impl<'a> Search<'a> {
    fn new(
        ops: &'a [Op],
        losses: &'a [Loss],
        jumps: Vec<u64>,
        (margin_ns, stamped): (u64, bool),
    ) -> Self {
        Self {
            ops,
            losses,
            jumps,
            margin_ns,
            stamped,
            flying: Vec::new(),
            open: FxHashMap::default(),
            deletes: Vec::new(),
            creates: Vec::new(),
            strange: Vec::new(),
            spent: FxHashSet::default(),
        }
    }

    fn op(&self, place: u32) -> &'a Op {
        &self.ops[place as usize]
    }

    fn run(mut self) -> Result<Option<Harm>, TooMany> {
        let count = u32::try_from(self.ops.len()).map_err(|_| TooMany)?;
        let mut answers: Vec<u32> = (0..count).filter(|&it| !self.op(it).is_open()).collect();
        answers.sort_by_key(|&it| (self.op(it).done_ns, it));
        let mut readings = vec![Reading::unknown()];
        let mut found: Option<Harm> = None;
        let mut sent = 0;
        for answered in answers {
            let now_ns = self.op(answered).done_ns;
            while sent < count && self.op(sent).sent_ns <= now_ns {
                self.send(sent);
                sent += 1;
            }
            self.flying.retain(|&it| it != answered);
            readings = self.after(readings, answered, now_ns)?;
            if readings.is_empty() {
                readings.push(Reading::unknown());
            }
            if readings.iter().all(|it| it.harm.is_some()) {
                let harmful = readings.iter().filter_map(|it| it.harm);
                let earliest = harmful.min_by_key(|it| (it.doubtful, self.op(it.culprit).sent_ns));
                if let Some(Harmed { victim, culprit, .. }) = earliest {
                    let occurrences = found.map_or(0, |it| it.occurrences) + 1;
                    let harm = Harm { victim, culprit: *self.op(culprit), occurrences };
                    found = Some(found.map_or(harm, |first| Harm { occurrences, ..first }));
                }
                readings.iter_mut().for_each(|it| it.harm = None);
            }
        }
        Ok(found)
    }

    fn send(&mut self, place: u32) {
        let op = self.op(place);
        if !op.is_open() {
            self.flying.push(place);
            return;
        }
        self.open.entry(op.acquisition).or_default().push(place);
        match op.touch {
            Touch::Delete if !op.compares => self.deletes.push(place),
            Touch::Create(_) | Touch::Overwrite(_) => self.creates.push(place),
            Touch::Unknown => self.strange.push(place),
            _ => {}
        }
    }

    /// The readings in which this command has been carried out by now.
    fn after(
        &mut self,
        readings: Vec<Reading>,
        answered: u32,
        now_ns: u64,
    ) -> Result<Vec<Reading>, TooMany> {
        let mut done = Vec::new();
        let mut on_the_way = readings;
        let mut seen = FxHashSet::default();
        while let Some(mut reading) = on_the_way.pop() {
            if let Some(early) = reading.early.iter().position(|&it| it == answered) {
                reading.early.remove(early);
                done.push(reading);
                continue;
            }
            for &other in &self.flying {
                // Of a key that is nobody's already, a command that makes it so is better kept for later.
                let vain =
                    reading.state == State::Nobodys && self.op(other).touch == Touch::Unknown;
                if vain || reading.early.contains(&other) {
                    continue;
                }
                for mut next in self.carry_out(&reading, other, now_ns) {
                    next.early.push(other);
                    next.early.sort_unstable();
                    if seen.insert(next.clone()) {
                        on_the_way.push(next);
                    }
                }
            }
            done.extend(self.carry_out(&reading, answered, now_ns));
            if on_the_way.len() + done.len() > READINGS_MOST {
                return Err(TooMany);
            }
        }
        Ok(self.best(done))
    }

    /// Without readings that are no better than another one that comes to the same.
    fn best(&mut self, mut readings: Vec<Reading>) -> Vec<Reading> {
        readings.sort_by(Reading::compare);
        let mut kept: Vec<Reading> = Vec::new();
        for reading in readings {
            if !kept.iter().any(|it| it.makes_superfluous(&reading)) {
                kept.push(reading);
            }
        }
        if let [only] = &mut kept[..] {
            self.spent.extend(only.used.drain(..));
        }
        kept
    }

    /// What may come of carrying this command out.
    fn carry_out(&self, reading: &Reading, place: u32, now_ns: u64) -> Vec<Reading> {
        let op = self.op(place);
        let reading = &reading.not_before(op.sent_ns);
        // What is carried out later lives longer: the earliest moment leaves the most to the others.
        let held = |before: &Reading, ttl_ns: Option<u64>| {
            let owner = (op.acquisition, op.client);
            let lives_from_ns = if self.stamped { op.sent_ns } else { before.at_ns };
            let may_end_ns = ttl_ns.map_or(u64::MAX, |ttl_ns| self.lives(lives_from_ns, ttl_ns));
            let from_ns = before.at_ns;
            let since_ns = op.sent_ns;
            before.is(State::of(owner, since_ns, from_ns, may_end_ns))
        };
        match op.touch {
            Touch::None => vec![reading.clone()],
            Touch::Create(ttl_ns) => {
                self.vacated(reading, now_ns).iter().map(|it| held(it, ttl_ns)).collect()
            }
            Touch::Overwrite(ttl_ns) => {
                let before = match reading.state {
                    State::Held { owner, .. } if owner.0 != op.acquisition => {
                        let mut before = self.gone(reading, now_ns);
                        before.push(match before[..] {
                            [] => reading.harmed(owner, place),
                            _ => reading.perhaps_harmed(owner, place),
                        });
                        before
                    }
                    _ => vec![reading.clone()],
                };
                before.iter().map(|it| held(it, ttl_ns)).collect()
            }
            Touch::Delete => self
                .found_key(reading, place, now_ns)
                .into_iter()
                .map(|it| it.is(State::Free))
                .collect(),
            Touch::Extend(ttl_ns) => {
                let extended = |it: Reading| {
                    let end_ns = self.lives(it.at_ns, ttl_ns);
                    it.lives(end_ns)
                };
                self.found_key(reading, place, now_ns).into_iter().map(extended).collect()
            }
            // It may have left the key as it was, or free, or to anybody: where it is nobody's, whatever
            // can follow each of these can follow, and harms nobody.
            Touch::Unknown => vec![reading.is(State::Nobodys)],
        }
    }

    fn lives(&self, from_ns: u64, ttl_ns: u64) -> u64 {
        from_ns.saturating_add(ttl_ns).saturating_sub(self.margin_ns)
    }

    /// The same, the key being gone with nobody harmed: the ways in which that can be. It may have expired,
    /// which takes no command and has its time, or have been ended by one, perhaps earlier.
    fn gone(&self, reading: &Reading, now_ns: u64) -> Vec<Reading> {
        let State::Held { owner, since_ns, from_ns, may_end_ns } = reading.state else {
            return vec![reading.is(State::Free)];
        };
        let jumped = || self.jumps.iter().any(|at_ns| (since_ns..=now_ns).contains(at_ns));
        if self.is_lost(since_ns, now_ns) || jumped() {
            return vec![reading.is(State::Free)];
        }
        let expired = (now_ns >= may_end_ns).then(|| reading.not_before(may_end_ns));
        if expired.as_ref().is_some_and(|it| it.at_ns == reading.at_ns) {
            return vec![reading.is(State::Free)];
        }
        let mut own = self.open_of(owner.0, reading);
        let ends = own.find(|&it| matches!(self.op(it).touch, Touch::Delete | Touch::Unknown));
        // A shorter life, too, ends it.
        let mut own = self.open_of(owner.0, reading);
        let shortens = |&it: &u32| match self.op(it).touch {
            Touch::Extend(ttl_ns) => now_ns >= self.lives(from_ns.max(self.op(it).sent_ns), ttl_ns),
            _ => false,
        };
        let used = ends.or_else(|| own.find(shortens)).or_else(|| self.strange_one(reading));
        let ended = used.map(|used| self.using(reading, used));
        expired.into_iter().chain(ended).map(|it| it.is(State::Free)).collect()
    }

    /// The same, the key being gone, at the cost of its holder if need be.
    fn vacated(&self, reading: &Reading, now_ns: u64) -> Vec<Reading> {
        let mut all = self.gone(reading, now_ns);
        let State::Held { owner, .. } = reading.state else { return all };
        let foreign =
            |it: &&u32| self.op(**it).acquisition != owner.0 && self.is_unused(**it, reading);
        if let Some(&culprit) = self.deletes.iter().rev().find(foreign) {
            all.push(self.using(reading, culprit).harmed(owner, culprit).is(State::Free));
        }
        // Or it was overwritten, and who did that has deleted its own.
        for &culprit in self.creates.iter().filter(foreign) {
            let it = self.op(culprit);
            if !matches!(it.touch, Touch::Overwrite(_)) {
                continue;
            }
            let mut own = self.open_of(it.acquisition, reading);
            if let Some(delete) = own.find(|&it| self.op(it).touch == Touch::Delete) {
                let harmed =
                    self.using(&self.using(reading, culprit), delete).harmed(owner, culprit);
                all.push(harmed.is(State::Free));
                break;
            }
        }
        all
    }

    /// A command has found a key and changed it: the readings before the change.
    fn found_key(&self, reading: &Reading, place: u32, now_ns: u64) -> Vec<Reading> {
        let op = self.op(place);
        let own = |reading: &Reading| {
            let mut own = self.open_of(op.acquisition, reading);
            let creates = own.find(|&it| {
                matches!(self.op(it).touch, Touch::Create(_) | Touch::Overwrite(_) | Touch::Unknown)
            });
            creates.or_else(|| self.strange_one(reading)).map(|used| {
                let owner = (op.acquisition, op.client);
                self.using(reading, used).is(State::of(owner, op.sent_ns, 0, 0))
            })
        };
        match reading.state {
            State::Nobodys => vec![reading.clone()],
            State::Held { owner, .. } if owner.0 == op.acquisition => vec![reading.clone()],
            State::Held { owner, since_ns, .. } => {
                if self.is_lost(since_ns, now_ns) {
                    // What has come back in its place is nobody's rightful hold.
                    return vec![reading.is(State::Nobodys)];
                }
                let gone = self.gone(reading, now_ns);
                if self.stamped && !gone.is_empty() {
                    // A hold that is over by its own word leaves its key behind, which is nobody's.
                    return gone.iter().map(|over| over.is(State::Nobodys)).collect();
                }
                let its_own = gone.iter().filter_map(own);
                its_own.chain([reading.harmed(owner, place)]).collect()
            }
            State::Free => {
                if let Some(own) = own(reading) {
                    return vec![own];
                }
                if self.is_lost(0, now_ns) {
                    return vec![reading.is(State::Nobodys)];
                }
                let creator = self.foreign_creator(op.acquisition, reading);
                let harmed = creator.map(|creator| {
                    let it = self.op(creator);
                    self.using(reading, creator).harmed((it.acquisition, it.client), place)
                });
                harmed.into_iter().collect()
            }
        }
    }

    /// Whether a server has lost what it had at some time since then.
    fn is_lost(&self, since_ns: u64, now_ns: u64) -> bool {
        self.losses.iter().any(|loss| loss.from_ns <= now_ns && loss.until_ns >= since_ns)
    }

    /// The same, a command without an answer having been carried out.
    fn using(&self, reading: &Reading, place: u32) -> Reading {
        reading.uses(place).not_before(self.op(place).sent_ns)
    }

    fn is_unused(&self, place: u32, reading: &Reading) -> bool {
        !self.spent.contains(&place) && !reading.used.contains(&place)
    }

    /// Commands of an acquisition that may yet be carried out, in the order of their sending.
    fn open_of<'b>(
        &'b self,
        acquisition: u32,
        reading: &'b Reading,
    ) -> impl Iterator<Item = u32> + 'b {
        let all = self.open.get(&acquisition).into_iter().flatten().copied();
        all.filter(|&it| self.is_unused(it, reading))
    }

    fn strange_one(&self, reading: &Reading) -> Option<u32> {
        self.strange.iter().copied().find(|&it| self.is_unused(it, reading))
    }

    fn foreign_creator(&self, acquisition: u32, reading: &Reading) -> Option<u32> {
        let mut others = self.creates.iter().copied();
        others.find(|&it| {
            let whose = self.op(it).acquisition;
            ![0, acquisition].contains(&whose) && self.is_unused(it, reading)
        })
    }
}

#[cfg(test)]
mod tests;
