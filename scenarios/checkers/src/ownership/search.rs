//! The search: every reading of a history of the lock's key.
//!
//! Invariant: a reading puts each command that was carried out at one moment between its sending and
//! its answer, carries out any of those without an answer once, at any moment since they were sent, or
//! never, and lets a key go when its TTL may have passed or its server has lost it. Somebody is blamed
//! only where each reading has somebody harmed. Of what was there before the history nothing is known.
//! Where a key has come or gone for no reason that is known, everything is forgotten: it is nobody's.
//!
//! Commands are carried out as late as possible: when one is answered, every way of getting there is
//! tried. Ways are followed together, the shorter ones first, so that those that come to the same meet at
//! every step. Where no two commands overlap there is just one way, and the search is a walk. Deliberately
//! absent: answers that say that nothing was done; they would rule readings out, which are kept. An answer
//! that shows what was there before does rule out: whoever had written that was carried out last.

mod at_once;
mod ends;
mod reading;
mod transitions;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem;

use history::Touch;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::{Blame, Harm, KeyLog, Op};
use crate::interface::makes;
use reading::{Early, Harmed, Reading, ReadingKey, ReadingList, ValueWriter};

/// More readings at once than this are not followed.
const READINGS_MOST: usize = 4_000;

/// Nor is more work than this done where there are several: pairs of readings compared, and for each the commands without
/// an answer that it may carry out.
const WORK_MOST: usize = 1_000_000_000;

/// There are more readings than can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany;

/// The first harm that every reading has, if any, of what was answered up to this time.
///
/// # Errors
/// [`TooMany`] readings, and no harm found before.
pub(super) fn search(known: &KeyLog, until_ns: u64) -> Result<Option<Harm>, TooMany> {
    // Mostly there is a reading in which nobody is harmed, and mostly it is found at once. Those with harm need not be followed
    // to find another.
    if Search::new(known).excuses_at_once(until_ns)
        || Search::new(known).excuses_everybody(until_ns)
    {
        Ok(None)
    } else {
        Search::new(known).run(until_ns)
    }
}

/// Readings that have carried out the same commands early: only these can come to the same.
struct Group {
    early: Early,
    readings: ReadingList,
}

/// What is looked up while readings are followed.
struct Search<'a> {
    known: &'a KeyLog,
    /// No key expires: each has a stamp, and none is given a life.
    stays: bool,
    /// Commands that had written what others found, by number. It matters of no other what it wrote.
    writers: FxHashMap<u32, ValueWriter>,
    /// Acquisitions that make the key more than once.
    again: FxHashSet<u32>,
    /// Readings in which somebody is harmed are not followed.
    harmless_only: bool,
    /// How many commands have been sent.
    sent: u32,
    /// Commands that are under way and will be answered, or are just being answered.
    in_flight: Vec<u32>,
    /// Those of them that the readings at hand have not carried out.
    under_way: Vec<u32>,
    /// Commands without an answer that have been sent and that not every reading has carried out, by acquisition.
    open: FxHashMap<u32, SmallVec<[u32; 2]>>,
    /// Those of them that would delete whatever is there.
    deletes: Vec<u32>,
    /// Those that would make the key, those of them that would do so whatever is there, and those whose value somebody has
    /// found.
    creates: Vec<u32>,
    overwrites: Vec<u32>,
    found_creates: Vec<u32>,
    /// Those that would set the life of whatever is there.
    extends: Vec<u32>,
    /// Those of which nobody knows what they would do.
    unknown: Vec<u32>,
    /// What readings have cost so far, where there were several.
    work: Cell<usize>,
}

impl<'a> Search<'a> {
    fn new(known: &'a KeyLog) -> Self {
        // 0 is none of them.
        let found = known.ops.iter().map(|op| op.found).filter(|found| *found != 0);
        let found: FxHashSet<u32> = found.collect();
        let writes = |op: &Op| matches!(op.touch, Touch::Create(_) | Touch::Overwrite(_));
        let writers = (0..).zip(&known.ops).filter(|(_, op)| found.contains(&op.number));
        let writers = writers.filter(|(_, op)| writes(op));
        let expires = |op: &Op| matches!(op.touch, Touch::Extend(_));
        let mut makers = FxHashSet::default();
        let again = known.ops.iter().filter(|op| makes(op.touch)).map(|op| op.acquisition);
        let again = again.filter(|it| !makers.insert(*it)).collect();
        Self {
            known,
            stays: known.stamped && !known.ops.iter().any(expires),
            writers: writers.map(|(place, op)| (op.number, ValueWriter::Command(place))).collect(),
            again,
            harmless_only: false,
            sent: 0,
            in_flight: Vec::new(),
            under_way: Vec::new(),
            open: FxHashMap::default(),
            deletes: Vec::new(),
            creates: Vec::new(),
            overwrites: Vec::new(),
            found_creates: Vec::new(),
            extends: Vec::new(),
            unknown: Vec::new(),
            work: Cell::default(),
        }
    }

    fn op(&self, place: u32) -> &'a Op {
        #[cfg(test)]
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        &self.known.ops[place as usize]
    }

    /// Whether there is a reading in which nobody is harmed. Where that takes too many, it is not known, and false.
    fn excuses_everybody(mut self, until_ns: u64) -> bool {
        self.harmless_only = true;
        let mut groups = vec![Group::unknown()];
        for answered in self.answers(until_ns) {
            groups = match self.after(groups, answered) {
                Ok(groups) if !groups.is_empty() => groups,
                _ => return false,
            };
        }
        true
    }

    /// The first harm that every reading has, and how often any was done.
    fn run(mut self, until_ns: u64) -> Result<Option<Harm>, TooMany> {
        let mut groups = vec![Group::unknown()];
        let mut found: Option<Harm> = None;
        for answered in self.answers(until_ns) {
            groups = match (self.after(groups, answered), found.is_some()) {
                (Ok(groups), _) => groups,
                (Err(TooMany), true) => break,
                (Err(TooMany), false) => return Err(TooMany),
            };
            if groups.is_empty() {
                groups.push(Group::unknown());
            }
            let mut readings = groups.iter().flat_map(|it| &it.readings);
            if readings.all(Reading::is_harmful) {
                let occurrences = found.as_ref().map_or(0, |it| it.occurrences) + 1;
                let blames = match found {
                    Some(first) => first.blames,
                    None => self.blames(groups.iter().flat_map(|it| &it.readings)),
                };
                found = Some(Harm { blames, occurrences });
                let readings = groups.iter_mut().flat_map(|it| &mut it.readings);
                readings.for_each(|it| it.harm.clear());
            }
        }
        Ok(found)
    }

    /// Whom these readings blame, the likeliest first.
    fn blames<'b>(&self, readings: impl Iterator<Item = &'b Reading>) -> Vec<Blame> {
        let mut all: Vec<Harmed> = readings.flat_map(|it| &it.harm).copied().collect();
        all.sort_unstable();
        let mut seen = FxHashSet::default();
        all.retain(|it| seen.insert((it.victim, it.culprit)));
        let blame = |it: &Harmed| {
            let Harmed { at_ns, victim, culprit, .. } = *it;
            Blame { at_ns, victim, culprit: *self.op(culprit) }
        };
        all.iter().map(blame).collect()
    }

    /// The commands that were answered by then, in the order of their answers.
    fn answers(&self, until_ns: u64) -> Vec<u32> {
        let answered = |it: &u32| !self.op(*it).is_open() && self.op(*it).done_ns <= until_ns;
        let mut answers: Vec<u32> = (0..self.count()).filter(answered).collect();
        answers.sort_by_key(|&it| (self.op(it).done_ns, self.op(it).last_sent, it));
        answers
    }

    fn count(&self) -> u32 {
        u32::try_from(self.known.ops.len()).expect("events are numbered with 32 bits")
    }

    /// What was sent before this command was answered is under way.
    fn send_before(&mut self, answered: u32) {
        let answered = self.op(answered);
        while self.sent < self.count() && self.op(self.sent).is_sent_before(answered) {
            self.send(self.sent);
            self.sent += 1;
        }
    }

    /// What is in flight is under way where it has not been carried out early.
    fn set_under_way(&mut self, early: &Early) {
        self.under_way.clone_from(&self.in_flight);
        self.under_way.retain(|&it| !early.contains(it));
    }

    fn send(&mut self, place: u32) {
        let op = self.op(place);
        if !op.is_open() {
            self.in_flight.push(place);
            return;
        }
        self.open.entry(op.acquisition).or_default().push(place);
        match op.touch {
            // It takes no part in what others may have done, and excuses whatever it may have ended.
            _ if op.is_of_run() => self.unknown.push(place),
            Touch::Delete if !op.compares => self.deletes.push(place),
            Touch::Create(_) | Touch::Overwrite(_) => {
                self.creates.push(place);
                if matches!(op.touch, Touch::Overwrite(_)) {
                    self.overwrites.push(place);
                }
                if self.is_found(place) {
                    self.found_creates.push(place);
                }
            }
            Touch::Extend(_) if !op.compares => self.extends.push(place),
            Touch::Unknown => self.unknown.push(place),
            _ => {}
        }
    }

    /// The readings in which this command has been carried out by now.
    fn after(&mut self, mut groups: Vec<Group>, answered: u32) -> Result<Vec<Group>, TooMany> {
        let now_ns = self.op(answered).done_ns;
        self.send_before(answered);
        let mut tried: usize = groups.iter().map(|it| it.readings.len()).sum();
        match &mut groups[..] {
            [it] if self.in_flight == [answered] && !it.early.contains(answered) => {
                self.under_way.clone_from(&self.in_flight);
                let readings = mem::take(&mut it.readings).into_iter();
                let after = readings.flat_map(|it| self.carry_out(it, answered, now_ns));
                it.readings = after.filter(|it| self.is_followed(it)).collect();
            }
            _ => (tried, groups) = self.in_any_order(groups, answered, now_ns)?,
        }
        self.in_flight.retain(|&it| it != answered);
        groups.retain(|it| !it.readings.is_empty());
        let left = groups.iter().map(|it| it.readings.len()).sum();
        if tried.max(left) > 1 {
            let open = [&self.deletes, &self.creates, &self.extends, &self.unknown];
            self.count_work(tried * open.iter().map(|it| it.len()).sum::<usize>());
            for it in &mut groups {
                it.readings = self.best(mem::take(&mut it.readings));
            }
        }
        self.forget_done(&mut groups);
        if self.work.get() > WORK_MOST { Err(TooMany) } else { Ok(groups) }
    }

    /// The same where several commands are under way: any of them may have been carried out before this one, in any order.
    /// And how many readings were tried.
    fn in_any_order(
        &mut self,
        groups: Vec<Group>,
        answered: u32,
        now_ns: u64,
    ) -> Result<(usize, Vec<Group>), TooMany> {
        let mut at_once: usize = groups.iter().map(|it| it.readings.len()).sum();
        let groups = groups.into_iter().map(|it| (it.early, it.readings));
        let mut unfinished: BTreeMap<Early, ReadingList> = groups.collect();
        let mut done: BTreeMap<Early, ReadingList> = BTreeMap::new();
        let mut tried = 0;
        // Those that have carried out fewer come first, so nothing is added to a group that was looked at.
        while let Some((early, readings)) = unfinished.pop_first() {
            if readings.is_empty() {
                continue;
            }
            at_once -= readings.len();
            let readings = self.best(readings);
            tried += readings.len();
            if early.contains(answered) {
                at_once += readings.len();
                done.entry(early.without(answered)).or_default().extend(readings);
                continue;
            }
            self.set_under_way(&early);
            for &other in self.under_way.iter().filter(|it| **it != answered) {
                // Of a key that is nobody's already, a command that makes it so is better kept for later.
                let forgets = self.op(other).touch == Touch::Unknown;
                let before =
                    readings.iter().filter(|it| !forgets || it.state != ReadingKey::Nobodys);
                let next = before.flat_map(|it| self.carry_out(it.clone(), other, now_ns));
                let known = unfinished.entry(early.with(other)).or_default();
                at_once += next.map(|it| self.add(known, it)).sum::<usize>();
            }
            let last = readings.into_iter().flat_map(|it| self.carry_out(it, answered, now_ns));
            let known = done.entry(early).or_default();
            at_once += last.map(|it| self.add(known, it)).sum::<usize>();
            if at_once > READINGS_MOST {
                return Err(TooMany);
            }
        }
        let done = done.into_iter().map(|(early, readings)| Group { early, readings });
        Ok((tried, done.collect()))
    }

    fn is_followed(&self, reading: &Reading) -> bool {
        !(self.harmless_only && reading.is_harmful())
    }

    fn count_work(&self, steps: usize) {
        self.work.set(self.work.get() + steps);
    }

    /// Adds a reading, if none that is there took the same and comes to the same; how many that makes more.
    fn add(&self, known: &mut ReadingList, reading: Reading) -> usize {
        if !self.is_followed(&reading) {
            return 0;
        }
        self.count_work(known.len());
        let is_same = |it: &&mut Reading| it.used == reading.used && it.comes_to_the_same(&reading);
        if let Some(it) = known.iter_mut().find(is_same) {
            it.may_have(&reading);
            return 0;
        }
        known.push(reading);
        1
    }

    /// Without readings that are no better than another one that comes to the same.
    fn best(&self, mut readings: ReadingList) -> ReadingList {
        if readings.len() <= 1 {
            return readings;
        }
        readings.sort_by(Reading::compare);
        let mut kept = ReadingList::new();
        // Most pairs differ in what they took but for deletions, which a look at two masks tells.
        let mut masks: SmallVec<[u64; 2]> = SmallVec::new();
        for reading in readings {
            let mask = Reading::mask(reading.used.iter().copied());
            self.count_work(kept.len() + reading.used.len());
            let mut looks = 0;
            let mut is_better = |it: &Reading| {
                it.comes_to_the_same(&reading) && {
                    looks += it.used.len() + reading.used.len();
                    self.took_no_more(it, &reading)
                }
            };
            let mut better = kept.iter_mut().zip(&masks).filter(|(_, took)| *took & !mask == 0);
            let better = better.find(|(it, _)| is_better(it));
            self.count_work(looks);
            match better {
                Some((better, _)) => better.may_have(&reading),
                None => {
                    let used = reading.used.iter().copied();
                    masks.push(Reading::mask(used.filter(|&it| !self.is_plain_delete(it))));
                    kept.push(reading);
                }
            }
        }
        kept
    }

    /// Whether whatever the other can still carry out, this one can. Where the other has somebody harmed already, a
    /// deletion of whatever is there is as good as any other, whose ever it is: it explains as much.
    fn took_no_more(&self, it: &Reading, other: &Reading) -> bool {
        let mut more = it.used.iter().filter(|&&place| !other.has_used(place));
        if !other.is_harmful() {
            return more.next().is_none();
        }
        let deletes = |&&place: &&u32| self.is_plain_delete(place);
        let left = || other.used.iter().filter(|&&place| !it.has_used(place)).filter(deletes);
        let count = more.clone().count();
        count == 0 || (more.all(|place| deletes(&place)) && left().count() >= count)
    }

    fn is_plain_delete(&self, place: u32) -> bool {
        self.op(place).touch == Touch::Delete && !self.op(place).compares
    }

    /// What every reading has carried out cannot be any more, so nobody has to keep it in mind.
    fn forget_done(&mut self, groups: &mut [Group]) {
        let mut readings = groups.iter().flat_map(|it| &it.readings);
        let Some(first) = readings.next().filter(|it| !it.used.is_empty()) else { return };
        let mut done: SmallVec<[u32; 4]> = SmallVec::from_slice(&first.used);
        readings.for_each(|it| done.retain(|place| it.used.contains(place)));
        if done.is_empty() {
            return;
        }
        let readings = groups.iter_mut().flat_map(|it| &mut it.readings);
        readings.for_each(|it| it.used.retain(|place| !done.contains(place)));
        self.forget(&done);
    }

    /// These commands cannot be carried out any more.
    fn forget(&mut self, done: &[u32]) {
        for place in done {
            self.open.entry(self.op(*place).acquisition).or_default().retain(|it| it != place);
            for places in [
                &mut self.deletes,
                &mut self.creates,
                &mut self.overwrites,
                &mut self.found_creates,
                &mut self.extends,
                &mut self.unknown,
            ] {
                // They are in the order of sending, and there may be many that are never carried out.
                if let Ok(at) = places.binary_search(place) {
                    #[cfg(test)]
                    tests::LOOKS.set(tests::LOOKS.get() + (places.len() - at) as u64);
                    places.remove(at);
                }
            }
        }
    }
}

impl Group {
    /// Nothing is known of the key.
    fn unknown() -> Self {
        Self { early: Early::default(), readings: smallvec![Reading::unknown()] }
    }
}

#[cfg(test)]
mod tests;
