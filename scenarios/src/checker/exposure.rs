//! Exposure: that a server's fault has cost a hold its key is seen only where somebody else asks before the
//! hold is over.
//!
//! Invariant: a server's fault that is staged in a hold counts as put to the test only if it met one that
//! lasted when the fault was written down, and another acquisition's command on the lock's key was surely
//! carried out between that and the hold's end: it was sent after the fault and answered within the hold,
//! or its answer within the hold says that it made the key. Where two had the lock at once, nobody has to ask
//! any more. Deliberately absent: faults of clients, which a scenario has last until another client has come.

use std::collections::BTreeMap;

use super::vacuity::Met;
use crate::fault::Fault;
use crate::history::{Event, Head, Texts, Touch, What};

/// A fault that met holds, some of which last.
struct Struck {
    staged: usize,
    from_ns: u64,
    /// The acquisitions that had the lock then, and still have it.
    holders: Vec<u32>,
}

/// Who has the lock, which holds have been struck, and what is under way.
#[derive(Default)]
pub(super) struct Exposure {
    /// Acquisitions that have the lock, and their clients.
    holders: Vec<(u32, u32)>,
    struck: Vec<Struck>,
    /// Commands on the lock's key: whose they are, and when they were sent.
    sent: BTreeMap<u32, (u32, u64)>,
    /// What each staged fault of a server has met.
    met: Vec<Met>,
}

impl Exposure {
    /// None where the scenario stages nothing that it could be asked of.
    pub(super) fn new(head: &Head) -> Option<Self> {
        head.staged.iter().any(|it| it.in_hold && it.on.is_server()).then(Self::default)
    }

    pub(super) fn see(&mut self, event: &Event, head: &Head, texts: &Texts) {
        let Event { at_ns, client, acquisition, op, .. } = *event;
        match event.what {
            What::Acquired => self.holders.push((acquisition, client)),
            What::Release | What::Lost => self.ends(|it| it.0 == acquisition),
            What::Fault { fault: Fault::Crash, .. } => self.ends(|it| it.1 == client),
            What::Fault { in_hold, staged: Some(staged), .. } if client == 0 => {
                self.strikes(usize::from(staged), in_hold, at_ns);
            }
            What::Command { node, key, .. } if acquisition != 0 => {
                if !head.is_resource(node) && texts.get(key) == head.lock_key {
                    self.sent.insert(op, (acquisition, at_ns));
                }
            }
            What::Answered { touch, .. } => {
                if let Some((whose, sent_ns)) = self.sent.remove(&op) {
                    let makes = matches!(touch, Touch::Create(_) | Touch::Overwrite(_));
                    self.answered(whose, |struck_ns| makes || sent_ns >= struck_ns);
                }
            }
            What::Refused(_) | What::Unanswered(_) => drop(self.sent.remove(&op)),
            _ => {}
        }
    }

    fn ends(&mut self, whose: impl Fn(&(u32, u32)) -> bool) {
        let over: Vec<u32> = self.holders.extract_if(.., |it| whose(it)).map(|it| it.0).collect();
        for it in &mut self.struck {
            it.holders.retain(|holder| !over.contains(holder));
        }
        self.struck.retain(|it| !it.holders.is_empty());
    }

    fn strikes(&mut self, staged: usize, in_hold: bool, from_ns: u64) {
        let holders: Vec<u32> = self.holders.iter().map(|(acquisition, _)| *acquisition).collect();
        if in_hold && !holders.is_empty() {
            self.meets(staged, if holders.len() > 1 { Met::Hold } else { Met::Somebody });
            self.struck.push(Struck { staged, from_ns, holders });
        }
    }

    /// A command was answered that was carried out after whatever struck at a time like this.
    fn answered(&mut self, whose: u32, after: impl Fn(u64) -> bool) {
        let asked = |it: &Struck| !it.holders.contains(&whose) && after(it.from_ns);
        let tested: Vec<usize> =
            self.struck.iter().filter(|it| asked(it)).map(|it| it.staged).collect();
        tested.into_iter().for_each(|staged| self.meets(staged, Met::Hold));
    }

    fn meets(&mut self, staged: usize, met: Met) {
        if self.met.len() <= staged {
            self.met.resize(staged + 1, Met::Nothing);
        }
        self.met[staged] = self.met[staged].max(met);
    }

    /// What a staged fault of a server has met: no hold that lasted, one that nobody asked for, or one
    /// that somebody did.
    pub(super) fn met(&self, staged: usize) -> Met {
        self.met.get(staged).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
