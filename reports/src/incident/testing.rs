//! Small hand-written histories, for tests of what is drawn of them. Times are in milliseconds.
//!
//! Invariant: operations are numbered in the order in which they begin, and events stand in order of time.

use history::fault::Fault;
use history::verdict::{Level, Outcome, Witness, WitnessStep};
use history::{Answer, Event, Head, History, Intent, Text, Touch, Update, What};
use scenarios::result::{Invariant, RunResult};

use crate::support;

pub(super) const TTL_MS: u64 = 100;
const MS: u64 = 1_000_000;

/// A history that is being written.
pub(super) struct Script {
    history: History,
    op: u32,
}

impl Script {
    pub(super) fn new() -> Self {
        let head = Head { tracked: false, prizes: None, register: Some(0), ..support::head() };
        Self { history: History::new(head), op: 0 }
    }

    /// The same without a lock.
    pub(super) fn unlocked() -> Self {
        let mut script = Self::new();
        script.history.head.locks = false;
        script
    }

    pub(super) fn head(mut self, change: impl FnOnce(&mut Head)) -> Self {
        change(&mut self.history.head);
        self
    }

    /// A text, for what is noted.
    pub(super) fn word(&mut self, text: &str) -> Text {
        self.text(text)
    }

    fn text(&mut self, text: &str) -> Text {
        self.history.texts.intern(text)
    }

    fn event(&mut self, at_ms: u64, client: u32, op: u32, what: What) {
        let at_ns = at_ms * MS;
        self.history.events.push(Event { at_ns, client, acquisition: client, op, what });
    }

    fn op(&mut self) -> u32 {
        self.op += 1;
        self.op
    }

    /// Something that belongs to the acquisition of this client and is no operation.
    pub(super) fn note(mut self, at_ms: u64, client: u32, what: What) -> Self {
        self.event(at_ms, client, 0, what);
        self
    }

    pub(super) fn fault(self, at_ms: u64, client: u32, fault: Fault, for_ms: u64) -> Self {
        let (node, for_ns) = (None, for_ms * MS);
        self.note(at_ms, client, What::Fault { fault, node, for_ns, in_hold: true, staged: None })
    }

    /// An operation from here to there, or without an end.
    pub(super) fn operation(
        mut self,
        (from_ms, until_ms): (u64, u64),
        client: u32,
        begin: What,
        end: Option<What>,
    ) -> Self {
        let op = self.op();
        self.event(from_ms, client, op, begin);
        if let Some(end) = end {
            self.event(until_ms, client, op, end);
        }
        self
    }

    /// A command on the lock's key at a server; what it did, if that was answered.
    pub(super) fn command_at(
        mut self,
        node: u16,
        times: (u64, u64),
        client: u32,
        (name, intent, did): (&str, Touch, Option<Touch>),
    ) -> Self {
        let (name, key) = (self.text(name), self.text("lock"));
        let intent = Intent { touch: intent, compares: false };
        let answered = |touch| What::Answered { touch, answer: Answer::Ok, found: 0 };
        let begin = What::Command { node, name, key, intent };
        self.operation(times, client, begin, did.map(answered))
    }

    pub(super) fn command(
        self,
        times: (u64, u64),
        client: u32,
        what: (&str, Touch, Option<Touch>),
    ) -> Self {
        self.command_at(0, times, client, what)
    }

    /// A command on the lock's key that the server refuses.
    pub(super) fn refused(
        mut self,
        times: (u64, u64),
        client: u32,
        (name, intent): (&str, Touch),
        why: &str,
    ) -> Self {
        let [name, key, why] = [name, "lock", why].map(|it| self.text(it));
        let intent = Intent { touch: intent, compares: true };
        let begin = What::Command { node: 0, name, key, intent };
        self.operation(times, client, begin, Some(What::Refused(why)))
    }

    /// The client subscribes to releases.
    pub(super) fn listens(mut self, times: (u64, u64), client: u32) -> Self {
        let [name, key] = ["SUBSCRIBE", "released:lock"].map(|it| self.text(it));
        let intent = Intent { touch: Touch::None, compares: false };
        let begin = What::Command { node: 0, name, key, intent };
        let end = What::Answered { touch: Touch::None, answer: Answer::Ok, found: 0 };
        self.operation(times, client, begin, Some(end))
    }

    /// The key is made, and is answered to be.
    pub(super) fn set(self, times: (u64, u64), client: u32) -> Self {
        let create = Touch::Create(Some(TTL_MS * MS));
        self.command(times, client, ("SET", create, Some(create)))
    }

    pub(super) fn del(self, times: (u64, u64), client: u32) -> Self {
        self.command(times, client, ("DEL", Touch::Delete, Some(Touch::Delete)))
    }

    /// The client asks for the lock, and has it from here to there.
    pub(super) fn hold(self, (asks_ms, from_ms, until_ms): (u64, u64, u64), client: u32) -> Self {
        let asked = self.operation((asks_ms, from_ms), client, What::Acquire, Some(What::Acquired));
        asked.operation((until_ms, until_ms), client, What::Release, None)
    }

    /// The client reads the register and writes it, one higher.
    pub(super) fn update(
        mut self,
        (reads_ms, writes_ms): (u64, u64),
        client: u32,
        read: i64,
    ) -> Self {
        let (name, key) = (self.text("GET"), self.text("register"));
        let intent = Intent { touch: Touch::None, compares: false };
        let get = What::Command { node: 1, name, key, intent };
        let answer = What::Answered { touch: Touch::None, answer: Answer::Int(read), found: 0 };
        let update = Update { read, written: read + 1, token: None };
        let done = Some(What::Updated(update));
        let updated = self.operation((reads_ms, writes_ms), client, What::Update, done);
        updated.operation((reads_ms, reads_ms), client, get, Some(answer))
    }

    pub(super) fn finish(mut self) -> History {
        self.history.events.sort_by_key(|it| (it.at_ns, it.op));
        let mut begun: Vec<u32> = Vec::new();
        for event in self.history.events.iter_mut().filter(|it| it.op > 0) {
            let place = begun.iter().position(|it| *it == event.op);
            let place = place.unwrap_or_else(|| {
                begun.push(event.op);
                begun.len() - 1
            });
            event.op = u32::try_from(place).unwrap() + 1;
        }
        self.history
    }
}

/// A violation by these clients, whose acquisitions have the same numbers, told from here to there.
pub(super) fn violated(
    (name, level): (&str, Level),
    summary: &str,
    clients: &[u32],
    (from_ms, until_ms): (u64, u64),
) -> Invariant {
    let step = |at_ms: u64, text: &str| WitnessStep {
        at_ns: at_ms * MS,
        client: clients[0],
        text: text.to_owned(),
    };
    let witness = Witness {
        summary: summary.to_owned(),
        clients: clients.to_vec(),
        acquisitions: clients.to_vec(),
        steps: vec![step(from_ms, "it begins"), step(until_ms, "it ends")],
        occurrences: 1,
        ..Witness::default()
    };
    Invariant { verdict: Outcome::Violated, witness: Some(witness), ..support::held(name, level) }
}

/// Both hold for 30 ms: client 1 stands still until its key has expired, and then deletes that of client 2.
pub(super) fn paused() -> (History, RunResult) {
    let script = Script::new().hold((0, 20, 160), 1).hold((10, 130, 180), 2);
    let script = script.set((5, 15), 1).set((115, 125), 2).del((160, 170), 1);
    let script =
        script.fault(40, 1, Fault::Pause, 110).update((30, 155), 1, 0).update((140, 175), 2, 0);
    let history = script.finish();
    let deletion = history.events.iter().find(|it| match it.what {
        What::Command { intent, .. } => intent.touch == Touch::Delete,
        _ => false,
    });
    let mut owned = violated(("ownership", Level::Key), "client 1 deleted it", &[2, 1], (15, 175));
    owned.witness.as_mut().unwrap().accused = vec![deletion.unwrap().op];
    let both = violated(("mutual-exclusion", Level::Belief), "both had it", &[2, 1], (15, 175));
    let result = support::result(&history, vec![owned, both]);
    (history, result)
}
