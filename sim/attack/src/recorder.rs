//! Records what picklock itself sees of a plan: its orders, the answers, and the work under the lock.
//!
//! Invariant: every doubt favours the lock. A hold begins when its *ok* has been read, and ends before *release* is
//! written; a loss counts from when it was read. The commands that servers saw are added later ([`super::transcript`]).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use history::fault::Fault;
use history::{Text, Texts, What};

use crate::protocol::cut;

use crate::clock::now;

/// Events of one plan, in no particular order.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    inner: Mutex<PlanRecord>,
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanRecord {
    pub(crate) texts: Texts,
    pub(crate) events: Vec<RecordedEvent>,
    pub(crate) claims: Vec<Claim>,
    /// Which client was asked whether it still has the lock, when, and when it had answered.
    pub(crate) looks: Vec<(u32, Instant, Instant)>,
    /// How long a thread of a worker has waited for a processor while it had the lock, by acquisition.
    pub(crate) delays: Vec<(u32, Duration)>,
    /// Until when locks may be relied on.
    pub(crate) validities: Vec<ValidityClaim>,
    acquisitions: u32,
    ops: u32,
}

/// An event before it has its place in a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedEvent {
    pub(crate) at: Instant,
    pub(crate) client: u32,
    pub(crate) acquisition: u32,
    pub(crate) op: u32,
    pub(crate) what: What,
}

/// When a worker said it, its client, its acquisition, and until when the lock may be relied on.
pub(crate) type ValidityClaim = (Instant, u32, u32, Instant);

/// A worker's claim, which must be true at some moment between `asked` and `answered`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) client: u32,
    pub(crate) acquisition: u32,
    pub(crate) of: ClaimOf,
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

/// What a worker claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimOf {
    /// That it has acquired the lock.
    Acquired,
    /// That it still has it.
    Held,
    /// That it has extended it.
    Extended,
    /// That it has released it.
    Released,
    /// That there was nothing to release.
    NotReleased,
    /// That it did not get it, or that it does not know, for this reason.
    NotAcquired(Option<Text>),
}

/// An acquisition of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    recorder: &'a Recorder,
    pub(crate) client: u32,
    pub(crate) acquisition: u32,
}

impl Recorder {
    /// A new acquisition of this client.
    pub(crate) fn attempt(&self, client: u32) -> Attempt<'_> {
        let mut inner = self.lock();
        inner.acquisitions += 1;
        Attempt { recorder: self, client, acquisition: inner.acquisitions }
    }

    /// Records that a fault strikes this client or, if `client` is 0, this server.
    pub(crate) fn fault(&self, client: u32, node: Option<u16>, fault: Fault, in_hold: bool) {
        let what = What::Fault { fault, node, for_ns: 0, in_hold, staged: None };
        let event = RecordedEvent { at: now(), client, acquisition: 0, op: 0, what };
        self.lock().events.push(event);
    }

    /// Records that a client's process has ended, by a fault or by itself. A process that is about to be killed may get
    /// the lock before: then it has not ended when that fault struck.
    pub(crate) fn ended(&self, client: u32, at: Instant) {
        let inner = self.lock();
        let mut theirs = inner.events.iter().filter(|it| it.client == client);
        let acquired = theirs.clone().filter(|it| it.what == What::Acquired).map(|it| it.at).max();
        let is_its_end = |it: &RecordedEvent| {
            matches!(it.what, What::Fault { fault: Fault::Crash, .. }) && Some(it.at) >= acquired
        };
        if theirs.any(is_its_end) {
            return;
        }
        drop(inner);
        let what =
            What::Fault { fault: Fault::Crash, node: None, for_ns: 0, in_hold: true, staged: None };
        self.lock().events.push(RecordedEvent { at, client, acquisition: 0, op: 0, what });
    }

    /// Records something that the run itself has seen.
    pub(crate) fn note(&self, what: What) {
        let event = RecordedEvent { at: now(), client: 0, acquisition: 0, op: 0, what };
        self.lock().events.push(event);
    }

    /// Whether an acquire or release of this client was ever ambiguous.
    pub(crate) fn has_unknown(&self, client: u32) -> bool {
        self.lock().events.iter().any(|it| {
            it.client == client
                && matches!(it.what, What::AcquireUnknown(_) | What::ReleaseUnknown(_))
        })
    }

    /// What has been recorded so far.
    pub(crate) fn so_far(&self) -> PlanRecord {
        self.lock().clone()
    }

    /// All of it; the recorder is empty afterwards.
    pub(crate) fn take(&self) -> PlanRecord {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, PlanRecord> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlanRecord {
    /// What a client that never got the lock has answered at last; none if it got it.
    pub(crate) fn refusal(&self, client: u32) -> Option<String> {
        let theirs = self.events.iter().filter(|it| it.client == client);
        let mut last = None;
        for event in theirs {
            match event.what {
                What::Acquired => return None,
                What::NotAcquired(_) => last = Some(String::from("no")),
                What::AcquireUnknown(why) => {
                    last = Some(format!("unknown {}", cut(self.texts.get(why))));
                }
                _ => {}
            }
        }
        last
    }
}

impl Attempt<'_> {
    /// Begins an operation now.
    pub(crate) fn invoke(&self, what: What) -> u32 {
        let mut inner = self.recorder.lock();
        inner.ops += 1;
        let op = inner.ops;
        let Self { client, acquisition, .. } = *self;
        inner.events.push(RecordedEvent { at: now(), client, acquisition, op, what });
        op
    }

    /// Ends operation `op` at this time; with `op` 0, records a note.
    pub(crate) fn write(&self, at: Instant, op: u32, what: impl FnOnce(&mut Texts) -> What) {
        let mut inner = self.recorder.lock();
        let Self { client, acquisition, .. } = *self;
        let what = what(&mut inner.texts);
        inner.events.push(RecordedEvent { at, client, acquisition, op, what });
    }

    /// A text for [`write`](Self::write).
    pub(crate) fn intern(&self, text: &str) -> Text {
        self.recorder.lock().texts.intern(text)
    }

    /// The lock may be relied on until then.
    pub(crate) fn note_validity(&self, at: Instant, until: Instant) {
        let Self { client, acquisition, .. } = *self;
        self.recorder.lock().validities.push((at, client, acquisition, until));
    }

    /// While the worker had the lock, one of its threads has waited for a processor for so long.
    pub(crate) fn delayed(&self, by: Duration) {
        self.recorder.lock().delays.push((self.acquisition, by));
    }

    /// The worker was asked whether it still has the lock.
    pub(crate) fn looked(&self, asked: Instant, answered: Instant) {
        self.recorder.lock().looks.push((self.client, asked, answered));
    }

    /// The worker has made a claim.
    pub(crate) fn claim(&self, of: ClaimOf, asked: Instant, answered: Instant) {
        let Self { client, acquisition, .. } = *self;
        self.recorder.lock().claims.push(Claim { client, acquisition, of, asked, answered });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_gets_the_lock_before_it_is_killed_ends_later() {
        let recorder = Recorder::default();
        let ends = || {
            let is_end = |it: &RecordedEvent| matches!(it.what, What::Fault { .. });
            recorder.so_far().events.into_iter().filter(is_end).map(|it| it.at).collect::<Vec<_>>()
        };
        recorder.fault(1, None, Fault::Crash, false);
        recorder.ended(1, now());
        assert_eq!(ends().len(), 1, "its end is known");
        let attempt = recorder.attempt(1);
        attempt.write(now(), 1, |_| What::Acquired);
        let at = now();
        recorder.ended(1, at);
        recorder.ended(1, now());
        assert_eq!(ends()[1..], [at]);
    }
}
