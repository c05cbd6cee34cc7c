//! Wake-ups: nobody sleeps on while the lock is surely free.
//!
//! Invariant: a client sleeps if it has said that it waits and has no command pending. The lock is free from the
//! answer to its deletion, or from when its TTL is certainly over, until the next command is sent that might create it.
//! Ambiguity never counts as sleeping, nor as free: a client that stands still is not asleep until it has moved again,
//! one that another fault has struck may not have been told, and after an unanswered request to create the key the lock is
//! never certainly free again. A SUBSCRIBE that is late costs nobody a message for good: until it is answered, a client does not
//! listen and knows it. A key that a server has found before anybody is known to have created one is there until it
//! is deleted or given a TTL, or another is created.

use std::collections::BTreeMap;

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict, Witness, WitnessStep};
use history::{Event, Head, Intent, Touch, What};
use picklock::env::Phase;
use smallvec::{SmallVec, smallvec};

use super::interface::{Checker, EventView, HistoryEnd};
use super::story;

pub(super) const NAME: &str = "wake-up";

/// An acquisition under way.
#[derive(Clone, Copy, Debug)]
struct Sleeper {
    client: u32,
    /// When it was last seen to do anything.
    moved_ns: u64,
    /// Its commands under way.
    open: u32,
    /// It has said that it waits, and has not tried since.
    waits: bool,
    /// It stands still, and has not moved since.
    stopped: bool,
    /// Until then a fault may cost it its wake-up.
    excused_ns: u64,
    /// It has been counted since it moved.
    counted: bool,
}

/// A command under way.
#[derive(Clone, Copy, Debug)]
struct OpenCommand {
    acquisition: u32,
    /// Which server's key of the lock it touches, if any's.
    node: Option<u16>,
    invoke_ns: u64,
    /// It might make the lock's key, or have it live longer.
    makes: bool,
    /// It makes the key if there is none.
    creates: bool,
}

/// The lock's key on one server.
#[derive(Clone, Debug, Default)]
struct KeyState {
    /// Of each command that may have been the last to make it, or to have it live longer: when it was answered, and when the key
    /// is surely gone by it; never, where that is not known.
    ends: SmallVec<[(u64, u64); 1]>,
    /// When the last command was answered that made it, or had it live longer.
    made_ns: u64,
    /// When a key is surely gone that was deleted.
    deleted_ns: u64,
}

impl KeyState {
    /// When it is surely gone.
    fn gone_ns(&self) -> u64 {
        let ends = self.ends.iter().map(|(_, until_ns)| *until_ns);
        ends.fold(self.deleted_ns, u64::max)
    }
}

/// A time for which a client slept beside a free lock.
#[derive(Clone, Copy, Debug, Default)]
struct MissedWakeUp {
    from_ns: u64,
    until_ns: u64,
    client: u32,
    acquisition: u32,
}

impl MissedWakeUp {
    fn span_ns(self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }
}

/// Who sleeps, and since when the lock is free.
#[derive(Default)]
pub(super) struct WakeUp {
    within_ns: u64,
    /// By acquisition.
    waiters: BTreeMap<u32, Sleeper>,
    /// By operation.
    sent: BTreeMap<u32, OpenCommand>,
    keys: BTreeMap<u16, KeyState>,
    /// Commands under way that might make the key, and when there was last one.
    making: u32,
    made_ns: u64,
    /// Something may have made the key of which nothing will ever be known.
    unsure: bool,
    /// Clients that a fault has struck, and until when it may cost them a wake-up.
    struck: BTreeMap<u32, u64>,
    /// Until when whoever comes has been struck by what strikes nobody in particular.
    until_ns: Option<u64>,
    longest: MissedWakeUp,
    /// How many slept for longer than allowed.
    sleeps: u64,
    now_ns: u64,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let within_ns = head.woken_within_ns?;
    Some(Box::new(WakeUp { within_ns, ..WakeUp::default() }))
}

impl Checker for WakeUp {
    fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, texts, .. } = *seen;
        let Event { at_ns, client, acquisition, op, .. } = *event;
        self.now_ns = at_ns;
        if let What::Fault { fault, for_ns, staged, .. } = event.what {
            let declared = staged.and_then(|place| head.staged.get(usize::from(place)));
            let subscribes = declared.is_some_and(|it| it.subscribes);
            self.strikes(event, fault, for_ns, subscribes);
            return;
        }
        self.moves(acquisition);
        match event.what {
            What::Acquire => self.began(acquisition, client),
            What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.waiters.remove(&acquisition);
            }
            What::Phase(phase) => {
                if let Some(it) = self.waiters.get_mut(&acquisition) {
                    it.waits = phase == Phase::Wait;
                }
            }
            What::Command { node, key, intent, .. } => {
                let of_lock = !head.is_resource(node) && texts.get(key) == head.lock_key;
                let makes = of_lock && may_make(intent);
                if makes {
                    self.look_at_all();
                    self.making += 1;
                }
                if let Some(it) = self.waiters.get_mut(&acquisition) {
                    it.open += 1;
                }
                let node = of_lock.then_some(node);
                let creates = matches!(intent.touch, Touch::Create(_));
                let sent = OpenCommand { acquisition, node, invoke_ns: at_ns, makes, creates };
                self.sent.insert(op, sent);
            }
            What::Answered { touch, .. } => {
                if let Some(sent) = self.ended(op) {
                    self.did(sent, touch, head);
                }
            }
            What::Refused(_) => _ = self.ended(op),
            What::Unanswered(_) => {
                self.unsure |= self.ended(op).is_some_and(|sent| sent.makes);
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = if end.touched {
            self.verdict(end.head)
        } else {
            Verdict::NotApplicable("no command touched the lock's key".to_owned())
        };
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl WakeUp {
    /// For how long somebody slept beside the free lock at most, at the end.
    pub(super) fn longest_ns(&mut self) -> u64 {
        self.look_at_all();
        self.longest.span_ns()
    }

    fn began(&mut self, acquisition: u32, client: u32) {
        let during = self.until_ns.is_some_and(|until_ns| self.now_ns <= until_ns);
        let struck_ns = self.struck.get(&client).copied().unwrap_or(0);
        let excused_ns = if during { u64::MAX } else { struck_ns };
        let (moved_ns, open, waits, stopped, counted) = (self.now_ns, 0, false, false, false);
        let it = Sleeper { client, moved_ns, open, waits, stopped, excused_ns, counted };
        self.waiters.insert(acquisition, it);
    }

    /// An acquisition is seen to do something: it is awake.
    fn moves(&mut self, acquisition: u32) {
        self.look(acquisition);
        if let Some(it) = self.waiters.get_mut(&acquisition) {
            (it.moved_ns, it.stopped, it.counted) = (self.now_ns, false, false);
        }
    }

    fn ended(&mut self, op: u32) -> Option<OpenCommand> {
        let sent = self.sent.remove(&op)?;
        if let Some(it) = self.waiters.get_mut(&sent.acquisition) {
            it.open = it.open.saturating_sub(1);
        }
        if sent.makes {
            self.making -= 1;
            self.made_ns = self.now_ns;
        }
        Some(sent)
    }

    /// A command was answered, and has done this.
    fn did(&mut self, sent: OpenCommand, touch: Touch, head: &Head) {
        let Some(node) = sent.node else { return };
        if touch == Touch::None {
            if sent.creates {
                // It found a key from before: nobody knows for how long.
                let ends = smallvec![(0, u64::MAX)];
                self.keys.entry(node).or_insert(KeyState { ends, made_ns: 0, deleted_ns: 0 });
            }
            return;
        }
        let key = self.keys.entry(node).or_default();
        let mut over_ns = if key.made_ns <= sent.invoke_ns { self.now_ns } else { 0 };
        key.ends.retain(|(answered_ns, until_ns)| {
            // What was done meanwhile may have been done behind it.
            let stays = *answered_ns > sent.invoke_ns;
            over_ns = if stays { over_ns } else { over_ns.max(*until_ns) };
            stays
        });
        if touch == Touch::Delete {
            key.deleted_ns = key.deleted_ns.max(over_ns.min(self.now_ns));
            return;
        }
        let lives_ns = match touch {
            Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => ttl_ns,
            Touch::Extend(ttl_ns) => Some(ttl_ns),
            Touch::Unknown | Touch::Delete | Touch::None => None,
        };
        let until_ns = lives_ns.filter(|_| !head.stamped).map_or(u64::MAX, |lives_ns| {
            self.now_ns.saturating_add(lives_ns).saturating_add(head.margin_ns)
        });
        key.ends.push((self.now_ns, until_ns));
        key.made_ns = self.now_ns;
    }

    /// Since when the lock has surely been free, where it is.
    fn free_ns(&self) -> Option<u64> {
        if self.making > 0 || self.unsure {
            return None;
        }
        let gone_ns = self.keys.values().map(KeyState::gone_ns).max().unwrap_or(0);
        Some(gone_ns.max(self.made_ns)).filter(|free_ns| *free_ns <= self.now_ns)
    }

    fn look_at_all(&mut self) {
        let Some(free_ns) = self.free_ns() else { return };
        // Nobody has slept beside it for longer than it has been free.
        if self.now_ns - free_ns > self.within_ns.min(self.longest.span_ns()) {
            let all: Vec<u32> = self.waiters.keys().copied().collect();
            all.into_iter().for_each(|acquisition| self.look(acquisition));
        }
    }

    /// Whether it has slept beside a free lock up to now.
    fn look(&mut self, acquisition: u32) {
        let Some(free_ns) = self.free_ns() else { return };
        let Some(it) = self.waiters.get_mut(&acquisition) else { return };
        if !it.waits || it.open > 0 || it.stopped {
            return;
        }
        let from_ns = it.moved_ns.max(free_ns).max(it.excused_ns);
        let sleep = MissedWakeUp { from_ns, until_ns: self.now_ns, client: it.client, acquisition };
        if sleep.span_ns() > self.within_ns && !std::mem::replace(&mut it.counted, true) {
            self.sleeps += 1;
        }
        if sleep.span_ns() > self.longest.span_ns() {
            self.longest = sleep;
        }
    }

    fn strikes(&mut self, event: &Event, fault: Fault, for_ns: u64, subscribes: bool) {
        let client = event.client;
        self.look_at_all();
        let all = client == 0;
        let excused_ns = match fault {
            // Messages behind a late answer are as late. It may be late both ways.
            Fault::Delay if subscribes && !all && for_ns > 0 => {
                event.at_ns.saturating_add(for_ns).saturating_add(for_ns)
            }
            _ => u64::MAX,
        };
        for it in self.waiters.values_mut().filter(|it| all || it.client == client) {
            if fault == Fault::Pause {
                it.stopped = true;
            } else {
                it.excused_ns = it.excused_ns.max(excused_ns);
            }
        }
        if all {
            self.unsure |= fault.loses_keys() || fault == Fault::ClockStep;
            // Clocks that drift go on drifting.
            let for_ns = if fault == Fault::Drift { u64::MAX } else { for_ns };
            self.until_ns = self.until_ns.max(Some(event.at_ns.saturating_add(for_ns)));
        } else if fault != Fault::Pause {
            let struck_ns = self.struck.entry(client).or_default();
            *struck_ns = excused_ns.max(*struck_ns);
        }
    }

    fn verdict(&mut self, head: &Head) -> Verdict {
        if !head.locks {
            return Verdict::NotApplicable("this recipe keeps no key".to_owned());
        }
        let span_ns = self.longest_ns();
        let MissedWakeUp { from_ns, until_ns, client, acquisition } = self.longest;
        if span_ns == 0 {
            let nobody = "nobody was seen to sleep while the lock was surely free";
            return Verdict::NotApplicable(nobody.to_owned());
        }
        if span_ns <= self.within_ns {
            return Verdict::Held;
        }
        let summary = format!(
            "client {client} waited, and slept for {} while the lock was free: {} is what the scenario \
             allows",
            rounded(span_ns),
            rounded(self.within_ns)
        );
        if let Some(promise) = head.promise.as_ref().filter(|it| !it.is_broken_by(span_ns)) {
            return Verdict::NotApplicable(format!("{summary}, but {}", promise.because));
        }
        if let Some(excuse) = head.excuse(self.within_ns, span_ns) {
            return Verdict::Inconclusive(format!("{summary}, but {excuse}"));
        }
        let step = |at_ns, text: &str| WitnessStep { at_ns, client, text: text.to_owned() };
        let steps = vec![
            step(from_ns, "sleeps, and the lock is free from now on"),
            step(until_ns, "wakes up, or somebody else asks for the lock"),
        ];
        let occurrences = self.sleeps;
        let of = story::witness(summary, &[(acquisition, client)]);
        Verdict::Violated(Witness { steps, occurrences, ..of })
    }
}

/// Whether a command might make the key, or have it live longer.
fn may_make(intent: Intent) -> bool {
    !matches!(intent.touch, Touch::None | Touch::Delete)
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
