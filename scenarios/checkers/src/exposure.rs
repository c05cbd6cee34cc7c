//! Exposure: that a server's fault has cost a hold its key is seen only where somebody else comes before the
//! hold is over.
//!
//! Invariant: a server's fault that is staged in a hold counts as put to the test only if it met one
//! that lasted when the fault was written down, and before that hold was over another acquisition had
//! its answer: it got the lock; or it had made the key and failed; or nobody made the key, and a command
//! that was surely carried out after the fault had no effect on it. Whether work was harmed is seen only
//! where the other also looked at the resource before the first wrote. Where two had the lock at once
//! already, nobody has to come any more.

use std::collections::BTreeMap;

use picklock::env::Phase;

use history::fault::Fault;
use history::{Event, Head, Texts, Touch, What};

/// What became of a staged fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Met {
    #[default]
    Nothing,
    /// It struck.
    Somebody,
    /// It struck in a hold.
    Hold,
}

/// A fault that met holds.
#[derive(Default)]
struct Struck {
    staged: usize,
    from_ns: u64,
    /// The acquisitions that had the lock then, and still have it; and those that have not written yet.
    holders: Vec<u32>,
    before_write: Vec<u32>,
    /// Others that made the key before the holds were over, and have not ended.
    takers: Vec<u32>,
    /// Somebody made the key; somebody found it there; somebody who made it failed.
    taken: bool,
    refused: bool,
    failed: bool,
    /// Somebody else got the lock; and looked at the resource before the first wrote.
    granted: bool,
    looked: bool,
}

impl Struck {
    fn is_over(&self) -> bool {
        self.holders.is_empty()
    }

    fn met(&self) -> Met {
        match self.granted || self.failed || (self.refused && !self.taken) {
            true => Met::Hold,
            false => Met::Somebody,
        }
    }
}

/// Who has the lock, which holds have been struck, and what is under way.
#[derive(Default)]
pub(super) struct Exposure {
    /// Acquisitions that have the lock, and their clients.
    holders: Vec<(u32, u32)>,
    /// Those that have begun to work under it.
    working: Vec<u32>,
    struck: Vec<Struck>,
    /// Commands: whose they are, when they were sent, and what they would do to the lock's key, if they are
    /// on it.
    sent: BTreeMap<u32, (u32, u64, Option<Touch>)>,
}

impl Exposure {
    /// None where the scenario stages nothing that it could be asked of.
    pub(super) fn new(head: &Head) -> Option<Self> {
        head.staged.iter().any(|it| it.in_hold && it.on.is_server()).then(Self::default)
    }

    pub(super) fn see(&mut self, event: &Event, head: &Head, texts: &Texts) {
        let Event { at_ns, client, acquisition, op, .. } = *event;
        match event.what {
            What::Acquired => {
                self.others(acquisition, |it| it.granted = true);
                self.holders.push((acquisition, client));
            }
            What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.others(acquisition, |it| it.failed |= it.takers.contains(&acquisition));
            }
            What::Take | What::Update => self.working.push(acquisition),
            What::Phase(Phase::HoldBeforeWrite) => {
                self.struck
                    .iter_mut()
                    .for_each(|it| it.before_write.retain(|it| *it != acquisition));
            }
            What::Release | What::Lost => self.ends(|it| it.0 == acquisition),
            What::Fault { fault: Fault::Crash, .. } => self.ends(|it| it.1 == client),
            What::Fault { in_hold, staged: Some(staged), .. } if client == 0 => {
                self.strikes(usize::from(staged), in_hold, at_ns);
            }
            What::Command { node, key, intent, .. } if acquisition != 0 => {
                let of_lock = !head.is_resource(node) && texts.get(key) == head.lock_key;
                self.sent.insert(op, (acquisition, at_ns, of_lock.then_some(intent.touch)));
            }
            What::Answered { touch, .. } => match self.sent.remove(&op) {
                Some((whose, sent_ns, Some(meant))) => {
                    self.answered(whose, sent_ns, meant, touch);
                }
                Some((whose, _, None)) => self.looked(whose),
                None => {}
            },
            What::Refused(_) | What::Unanswered(_) => drop(self.sent.remove(&op)),
            _ => {}
        }
    }

    /// Something of an acquisition that has not the lock, for each hold that was struck and lasts.
    fn others(&mut self, acquisition: u32, act: impl Fn(&mut Struck)) {
        let lasts = |it: &&mut Struck| !it.is_over() && !it.holders.contains(&acquisition);
        self.struck.iter_mut().filter(lasts).for_each(act);
    }

    fn ends(&mut self, whose: impl Fn(&(u32, u32)) -> bool) {
        let over: Vec<u32> = self.holders.extract_if(.., |it| whose(it)).map(|it| it.0).collect();
        self.working.retain(|it| !over.contains(it));
        for it in &mut self.struck {
            it.holders.retain(|holder| !over.contains(holder));
            it.before_write.retain(|holder| !over.contains(holder));
        }
    }

    fn strikes(&mut self, staged: usize, in_hold: bool, from_ns: u64) {
        let holders: Vec<u32> = self.holders.iter().map(|(acquisition, _)| *acquisition).collect();
        if in_hold && !holders.is_empty() {
            let already = holders.len() > 1;
            let before_write = holders.clone();
            let (granted, looked) = (already, already);
            let struck = Struck {
                staged,
                from_ns,
                holders,
                before_write,
                granted,
                looked,
                ..Struck::default()
            };
            self.struck.push(struck);
        }
    }

    /// A command on the lock's key was answered that was meant to do this, and did that. What is meant to
    /// delete or extend it asks for nothing: it belongs to an attempt before this one.
    fn answered(&mut self, whose: u32, sent_ns: u64, meant: Touch, touch: Touch) {
        let asks = matches!(meant, Touch::Create(_) | Touch::Overwrite(_) | Touch::None);
        let makes = matches!(touch, Touch::Create(_) | Touch::Overwrite(_));
        self.others(whose, |it| match makes {
            true => {
                it.taken = true;
                it.takers.push(whose);
            }
            false => it.refused |= asks && sent_ns >= it.from_ns,
        });
    }

    /// A command of somebody's work was answered.
    fn looked(&mut self, whose: u32) {
        if self.working.contains(&whose) {
            let first =
                |it: &&mut Struck| !it.before_write.is_empty() && !it.before_write.contains(&whose);
            self.struck.iter_mut().filter(first).for_each(|it| it.looked = true);
        }
    }

    fn of(&self, staged: usize) -> impl Iterator<Item = &Struck> {
        self.struck.iter().filter(move |it| it.staged == staged)
    }

    /// What a staged fault of a server has met: no hold that lasted, one that was not put to the test, or one
    /// that was.
    pub(super) fn met(&self, staged: usize) -> Met {
        self.of(staged).map(Struck::met).max().unwrap_or_default()
    }

    /// Whether somebody else got the lock by it, but only looked at the resource when the first had written.
    pub(super) fn is_late(&self, staged: usize) -> bool {
        self.of(staged).any(|it| it.granted) && !self.of(staged).any(|it| it.looked)
    }
}

#[cfg(test)]
mod tests;
