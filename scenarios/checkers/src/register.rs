//! The register: no update is lost, and none is written with a token grown old.
//!
//! Invariant: an update reads a value and writes the next one, so two that surely wrote after they had
//! read the same have lost one, and a value read after a greater one was surely written shows that one
//! was lost. An update of unknown outcome may have been written or not, also much later.

use std::collections::BTreeMap;

use history::verdict::{Finding, Level, Verdict, Witness};
use history::{Event, Head, Update, What};

use super::interface::{Checker, EventView, HistoryEnd};
use super::late_write;
use super::story;

/// An update that surely was written.
#[derive(Clone, Copy, Debug)]
struct RegisterWrite {
    acquisition: u32,
    client: u32,
    token: Option<u64>,
    written: i64,
    /// Another surely wrote after it had read the same.
    again: bool,
}

impl RegisterWrite {
    fn who(&self) -> (u32, u32) {
        (self.acquisition, self.client)
    }
}

/// What had surely been written when an update began.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// The greatest value, and by whom.
    value: Option<(i64, RegisterWrite)>,
    /// The greatest token, and whose.
    token: Option<(u64, RegisterWrite)>,
}

/// What becomes of the register.
#[derive(Clone, Default)]
struct RegisterChecker {
    initial: i64,
    /// The surely written, by the value they read.
    writes: BTreeMap<i64, RegisterWrite>,
    done: i64,
    /// Updates under way.
    begun: BTreeMap<u32, Before>,
    greatest: Before,
    /// Updates that ended without an answer, and what they read.
    unknown: Vec<(i64, RegisterWrite)>,
    left: Option<(u64, i64)>,
    /// An update was still under way when it was read in the end, and has ended since.
    went_on: bool,
    lost: Option<Witness>,
    /// Writes accepted though they began after one with a greater token had been.
    stale: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let initial = head.register?;
    Some(late_write::excusing(head, RegisterChecker { initial, ..RegisterChecker::default() }))
}

impl Checker for RegisterChecker {
    fn see(&mut self, seen: &EventView<'_>) {
        let event = seen.event;
        let writes = matches!(event.what, What::Updated(_) | What::UpdateUnknown { .. });
        self.went_on |= self.left.is_some() && writes;
        match event.what {
            What::Update => {
                self.begun.insert(event.op, self.greatest);
            }
            What::NotUpdated(_) => {
                self.begun.remove(&event.op);
            }
            What::Updated(update) => self.updated(event, update, true),
            What::UpdateUnknown { update, .. } => self.updated(event, update, false),
            What::RegisterLeft(left) => self.left = Some((event.at_ns, left)),
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        let effect = |name, verdict| Finding::new(name, Level::Effect, verdict);
        let accounted_for = self.accounted_for();
        let lost = self.lost.take().map_or(Verdict::Held, Verdict::Violated);
        let mut findings =
            vec![effect("no-lost-update", lost), effect("updates-accounted-for", accounted_for)];
        if end.head.fenced {
            let any = self.writes.values().any(|it| it.token.is_some());
            let stale = match self.stale_write() {
                Some(witness) => Verdict::Violated(witness),
                None if any => Verdict::Held,
                None => Verdict::NotApplicable("no client presented a fencing token".to_owned()),
            };
            findings.push(effect("no-stale-write", stale));
        }
        findings
    }
}

impl RegisterChecker {
    fn updated(&mut self, event: &Event, update: Update, surely: bool) {
        let Update { read, written, token } = update;
        let Event { acquisition, client, .. } = *event;
        let write = RegisterWrite { acquisition, client, token, written, again: false };
        let before = self.begun.remove(&event.op).unwrap_or_default();
        if let Some((greatest, other)) = before.value
            && read < greatest
        {
            let summary = format!(
                "client {} read {read} from the register after client {} had written {greatest}: an \
                 update was lost",
                write.client, other.client
            );
            story::note(&mut self.lost, summary, &[other.who(), write.who()]);
        }
        if !surely {
            self.unknown.push((read, write));
            return;
        }
        self.done += 1;
        if let Some((token, greatest)) = token.zip(before.token)
            && token < greatest.0
        {
            note_stale(&mut self.stale, greatest, token, &write);
        }
        match self.writes.get_mut(&read) {
            Some(other) => {
                other.again = true;
                let summary = format!(
                    "client {} and client {} both read {read} from the register and wrote {written}: one \
                     update was lost",
                    other.client, write.client
                );
                story::note(&mut self.lost, summary, &[other.who(), write.who()]);
            }
            None => {
                self.writes.insert(read, write);
            }
        }
        let Before { value, token: shown } = &mut self.greatest;
        if value.is_none_or(|(greatest, _)| greatest < written) {
            *value = Some((written, write));
        }
        if let Some(token) = token.filter(|it| shown.is_none_or(|(greatest, _)| greatest < *it)) {
            *shown = Some((token, write));
        }
    }

    /// The writes that were accepted behind one with a greater token: those that began when it had been answered, and
    /// where there are none, those of which values say so, up to the least that the register may have gone back to.
    fn stale_write(&mut self) -> Option<Witness> {
        if self.stale.is_some() {
            return self.stale.take();
        }
        let (mut writes, mut back_to) = (self.writes.clone(), self.may_go_back_to());
        for (read, write) in self.surely_written() {
            writes.entry(read).and_modify(|it| it.again = true).or_insert(write);
        }
        let mut stale = None;
        let mut greatest: Option<(u64, RegisterWrite)> = None;
        for write in writes.into_values() {
            if write.again {
                back_to = back_to.min(write.written);
            }
            let Some(token) = write.token.filter(|_| !write.again) else { continue };
            match greatest {
                Some(before) if before.0 > token => note_stale(&mut stale, before, token, &write),
                _ if write.written < back_to => greatest = Some((token, write)),
                _ => {}
            }
        }
        stale
    }

    /// The least value that an update without an answer may write after all others.
    fn may_go_back_to(&self) -> i64 {
        let surely: Vec<i64> = self.surely_written().iter().map(|(_, it)| it.written).collect();
        let unknown = self.unknown.iter().map(|(_, it)| it.written);
        let unknown = unknown.filter(|written| !surely.contains(written));
        // One without an end has read what was there when it began, or more.
        let read = |before: &Before| before.value.map_or(self.initial, |it| it.0);
        let unended = self.begun.values().map(|before| read(before).saturating_add(1));
        unknown.chain(unended).min().unwrap_or(i64::MAX)
    }

    /// Of the updates without an answer, those that were written all the same: somebody has read what only they can
    /// have written.
    fn surely_written(&self) -> Vec<(i64, RegisterWrite)> {
        let lost = self.writes.values().any(|it| it.again);
        // What an update without an end has written, nobody knows.
        if self.unknown.is_empty() || lost || !self.begun.is_empty() {
            return Vec::new();
        }
        let written = self.writes.values().chain(self.unknown.iter().map(|(_, it)| it));
        let mut writers: BTreeMap<i64, u32> = BTreeMap::new();
        written.for_each(|it| *writers.entry(it.written).or_default() += 1);
        let is_read = |value| {
            self.writes.contains_key(&value) || self.unknown.iter().any(|(read, _)| *read == value)
        };
        let surely = |(_, it): &&(i64, RegisterWrite)| {
            it.written != self.initial && writers[&it.written] == 1 && is_read(it.written)
        };
        self.unknown.iter().filter(surely).copied().collect()
    }

    /// What the register holds in the end is what was written, one step an update.
    fn accounted_for(&self) -> Verdict {
        let Some((at_ns, left)) = self.left else {
            return Verdict::Inconclusive("the register was not read in the end".to_owned());
        };
        if self.went_on {
            let early = "the register was read in the end, and clients went on to write it";
            return Verdict::Inconclusive(early.to_owned());
        }
        let steps = left.saturating_sub(self.initial);
        // One whose end is not known, because its client died, may have been written, too.
        let unended = i64::try_from(self.begun.len()).unwrap_or(i64::MAX);
        let unknown = i64::try_from(self.unknown.len()).unwrap_or(i64::MAX).saturating_add(unended);
        let written =
            self.done + i64::try_from(self.surely_written().len()).unwrap_or(i64::MAX - self.done);
        let summary = if steps < written {
            format!("{written} updates were written, and the register went up by {steps}")
        } else if steps > self.done.saturating_add(unknown) {
            format!(
                "the register went up by {steps}, though {} updates were written and {unknown} more may \
                 have been",
                self.done
            )
        } else {
            return Verdict::Held;
        };
        let text = "reads the register, after the last client";
        story::seen_by_run(at_ns, summary, text.to_owned())
    }
}

fn note_stale(
    stale: &mut Option<Witness>,
    (greater, before): (u64, RegisterWrite),
    token: u64,
    write: &RegisterWrite,
) {
    let summary = format!(
        "the register accepted client {}'s write with token {token} after client {}'s with token {greater}",
        write.client, before.client
    );
    story::note(stale, summary, &[before.who(), write.who()]);
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
