//! Histories written by hand, for the tests of checkers.
//!
//! Invariant: events end up in order of time, whatever the order in which they were said.

use std::ops::Range;

use history::fault::Fault;
use history::verdict::{Finding, Outcome, Verdict, Witness};
use history::{Answer, Event, FORMAT, Head, History, Intent, Promise, Touch, Update, What};
use picklock::env::Phase;

use crate::Checkers;
use crate::interface::{Checker, LockCommands};
use crate::story::StoryWriter;

pub(super) const TTL_NS: u64 = 1_000;
pub(super) const LOCK: &str = "lock";
pub(super) const DELETE: Intent = Intent { touch: Touch::Delete, compares: true };
const LOOK: Intent = Intent { touch: Touch::None, compares: false };
pub(super) const CREATE: Intent = Intent { touch: Touch::Create(Some(TTL_NS)), compares: false };

/// A history in the making.
#[derive(Clone)]
pub(super) struct Tape {
    history: History,
    ops: u32,
    /// Where commands are sent to from now on, and on which key.
    to: (u16, &'static str),
}

impl Tape {
    /// Of a recipe without validity; exact clocks; ten clients, ten prizes.
    pub(super) fn new() -> Self {
        let history = History::new(Head {
            format: FORMAT.to_owned(),
            locks: true,
            clients: 10,
            lock_key: LOCK.to_owned(),
            ttl_ns: TTL_NS,
            prizes: Some(10),
            ..Head::default()
        });
        Self { history, ops: 0, to: (0, LOCK) }
    }

    /// With a register instead of a pool.
    pub(super) fn register() -> Self {
        Self::new().with(|it| (it.prizes, it.register) = (None, Some(0)))
    }

    /// With a register that asks for fencing tokens.
    pub(super) fn fenced() -> Self {
        Self::register().with(|it| it.fenced = true)
    }

    /// Of a recipe that keeps a validity.
    pub(super) fn tracked() -> Self {
        Self::new().with(|it| it.tracked = true)
    }

    /// With something else in its head.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Head)) -> Self {
        change(&mut self.history.head);
        self
    }

    pub(super) fn margin(self, margin_ns: u64) -> Self {
        self.with(|it| it.margin_ns = margin_ns)
    }

    /// A scenario that allows stalls of so long.
    pub(super) fn available_within(self, ns: u64) -> Self {
        self.with(|it| it.available_within_ns = Some(ns))
    }

    /// With a resource of its own, that this node leads to.
    pub(super) fn resource(self, node: u16) -> Self {
        self.with(|it| it.resource = Some(node))
    }

    pub(super) fn clients(self, clients: u32) -> Self {
        self.with(|it| it.clients = clients)
    }

    /// Of a recipe whose value says when a hold is over.
    pub(super) fn stamped(self) -> Self {
        self.with(|it| it.stamped = true)
    }

    fn push(&mut self, at_ns: u64, client: u32, acquisition: u32, op: u32, what: What) {
        self.history.events.push(Event { at_ns, client, acquisition, op, what });
    }

    fn op(&mut self, acquisition: u32, client: u32, span: Range<u64>, from: What, to: What) {
        self.ops += 1;
        let op = self.ops;
        self.push(span.start, client, acquisition, op, from);
        self.push(span.end, client, acquisition, op, to);
    }

    /// Acquired at the start of the span, released from its end on.
    pub(super) fn hold(mut self, acquisition: u32, client: u32, span: Range<u64>) -> Self {
        let asked = span.start.saturating_sub(5)..span.start;
        self = self.waited(acquisition, client, asked);
        let (told, done) = (self.history.texts.intern("released"), span.end + 5);
        self.op(acquisition, client, span.end..done, What::Release, What::Released(told));
        self
    }

    pub(super) fn refused(self, acquisition: u32, client: u32, span: Range<u64>) -> Self {
        self.refused_because(acquisition, client, span, "held by another")
    }

    /// An acquisition that is told this.
    pub(super) fn refused_because(
        mut self,
        acquisition: u32,
        client: u32,
        span: Range<u64>,
        why: &'static str,
    ) -> Self {
        let why = self.history.texts.intern(why);
        self.op(acquisition, client, span, What::Acquire, What::NotAcquired(why));
        self
    }

    /// An acquisition that could not ask any more. Client and acquisition are the same.
    pub(super) fn not_sent(self, acquisition: u32, span: Range<u64>) -> Self {
        self.refused_because(acquisition, acquisition, span, "not sent: no connection")
    }

    /// A release that was answered.
    pub(super) fn releases(self, acquisition: u32, span: Range<u64>) -> Self {
        self.releases_told(acquisition, span, "released")
    }

    /// A release that was answered in these words.
    pub(super) fn releases_told(mut self, acquisition: u32, span: Range<u64>, words: &str) -> Self {
        let told = self.history.texts.intern(words);
        self.op(acquisition, acquisition, span, What::Release, What::Released(told));
        self
    }

    /// A release of which its client was told that nobody knows what has become of it, and why.
    pub(super) fn release_unknown(mut self, acquisition: u32, span: Range<u64>, why: &str) -> Self {
        let why = self.history.texts.intern(why);
        self.op(acquisition, acquisition, span, What::Release, What::ReleaseUnknown(why));
        self
    }

    /// A command on the lock's key is sent, and nothing more is heard of it.
    pub(super) fn sends(mut self, acquisition: u32, at_ns: u64, intent: Intent) -> Self {
        let sent = self.named("CMD", intent);
        self.opens(acquisition, at_ns, sent)
    }

    fn named(&mut self, name: &str, intent: Intent) -> What {
        let texts = &mut self.history.texts;
        let (name, key) = (texts.intern(name), texts.intern(self.to.1));
        What::Command { node: self.to.0, name, key, intent }
    }

    pub(super) fn unknown(self, acquisition: u32, client: u32, span: Range<u64>) -> Self {
        self.unknown_because(acquisition, client, span, "reset")
    }

    pub(super) fn unknown_because(
        mut self,
        acquisition: u32,
        client: u32,
        span: Range<u64>,
        why: &'static str,
    ) -> Self {
        let why = self.history.texts.intern(why);
        self.op(acquisition, client, span, What::Acquire, What::AcquireUnknown(why));
        self
    }

    pub(super) fn valid(mut self, acquisition: u32, known_ns: u64, until_ns: u64) -> Self {
        self.push(known_ns, acquisition, acquisition, 0, What::ValidUntil(until_ns));
        self
    }

    /// A fencing token is handed out. Client and acquisition are the same.
    pub(super) fn fence(mut self, acquisition: u32, at_ns: u64, token: u64) -> Self {
        self.push(at_ns, acquisition, acquisition, 0, What::Fence(token));
        self
    }

    pub(super) fn lost(mut self, acquisition: u32, at_ns: u64) -> Self {
        self.push(at_ns, acquisition, acquisition, 0, What::Lost);
        self
    }

    /// Of a recipe that promises a free lock within so long, or not at all.
    pub(super) fn promising(self, within_ns: Option<u64>) -> Self {
        let because = "messages are slow".to_owned();
        self.with(|it| it.promise = Some(Promise { within_ns, because }))
    }

    /// Of a recipe that keeps a validity, and may assume that writes come in time.
    pub(super) fn timely_writes(self) -> Self {
        self.with(|it| (it.tracked, it.timely_writes) = (true, true))
    }

    /// Something that strikes a client, or with client 0 everybody, for so long.
    pub(super) fn struck_for(self, fault: Fault, client: u32, span: Range<u64>) -> Self {
        self.fault(fault, client, None, span)
    }

    fn fault(mut self, fault: Fault, client: u32, node: Option<u16>, span: Range<u64>) -> Self {
        let for_ns = span.end - span.start;
        let what = What::Fault { fault, node, for_ns, in_hold: true, staged: None };
        self.push(span.start, client, 0, 0, what);
        self
    }

    /// Acquired at the end of the span, and held.
    pub(super) fn waited(mut self, acquisition: u32, client: u32, span: Range<u64>) -> Self {
        self.op(acquisition, client, span, What::Acquire, What::Acquired);
        self
    }

    /// An operation begins, and nothing more is heard of it. Client and acquisition are the same.
    pub(super) fn opens(mut self, acquisition: u32, at_ns: u64, what: What) -> Self {
        self.ops += 1;
        self.push(at_ns, acquisition, acquisition, self.ops, what);
        self
    }

    /// A client begins to acquire the lock.
    pub(super) fn acquires(self, acquisition: u32, at_ns: u64) -> Self {
        self.opens(acquisition, at_ns, What::Acquire)
    }

    /// A client begins to take a prize.
    pub(super) fn begins(self, acquisition: u32, at_ns: u64) -> Self {
        self.opens(acquisition, at_ns, What::Take)
    }

    /// A client dies.
    pub(super) fn crash(self, client: u32, at_ns: u64) -> Self {
        self.struck(Fault::Crash, client, at_ns)
    }

    /// A server loses what it has, from the start of the span on, and is there again at its end.
    pub(super) fn server_lost(self, fault: Fault, node: u16, span: Range<u64>) -> Self {
        self.fault(fault, 0, Some(node), span)
    }

    /// Something that strikes a client, or with client 0 a server.
    pub(super) fn struck(self, fault: Fault, client: u32, at_ns: u64) -> Self {
        self.struck_for(fault, client, at_ns..at_ns)
    }

    /// A phase of an acquisition. Client and acquisition are the same.
    pub(super) fn phase(mut self, acquisition: u32, at_ns: u64, phase: Phase) -> Self {
        self.push(at_ns, acquisition, acquisition, 0, What::Phase(phase));
        self
    }

    /// A command on the lock's key that the server refuses.
    pub(super) fn refused_command(
        self,
        acquisition: u32,
        span: Range<u64>,
        intent: Intent,
    ) -> Self {
        self.refused_with(acquisition, span, intent, "OOM")
    }

    /// The same, with this error.
    pub(super) fn refused_with(
        mut self,
        acquisition: u32,
        span: Range<u64>,
        intent: Intent,
        error: &str,
    ) -> Self {
        let (sent, why) = (self.named("CMD", intent), self.history.texts.intern(error));
        self.op(acquisition, acquisition, span, sent, What::Refused(why));
        self
    }

    /// A command of this name that does nothing to the lock's key.
    pub(super) fn calls(mut self, acquisition: u32, span: Range<u64>, name: &str) -> Self {
        let sent = self.named(name, LOOK);
        let end = What::Answered { touch: Touch::None, answer: Answer::Nil, found: 0 };
        self.op(acquisition, acquisition, span, sent, end);
        self
    }

    /// The same, but the server refuses it.
    pub(super) fn refused_call(
        mut self,
        acquisition: u32,
        span: Range<u64>,
        name: &str,
        error: &str,
    ) -> Self {
        let (sent, why) = (self.named(name, LOOK), self.history.texts.intern(error));
        self.op(acquisition, acquisition, span, sent, What::Refused(why));
        self
    }

    pub(super) fn probe(mut self, at_ns: u64, pttl_ms: i64) -> Self {
        self.push(at_ns, 0, 0, 0, What::Probe(pttl_ms));
        self
    }

    /// A client, or with client 0 the run, asks how long a key lives.
    pub(super) fn looks_at_key(mut self, client: u32, span: Range<u64>, pttl_ms: i64) -> Self {
        let sent = self.named("PTTL", LOOK);
        let answer = Answer::Int(pttl_ms);
        self.op(0, client, span, sent, What::Answered { touch: Touch::None, answer, found: 0 });
        self
    }

    pub(super) fn pool_left(mut self, left: i64) -> Self {
        self.push(1_000_000, 0, 0, 0, What::PoolLeft(left));
        self
    }

    /// A prize taken while holding, all within the span. Client and acquisition are the same.
    pub(super) fn take(self, client: u32, span: Range<u64>, prize: i64, left: i64) -> Self {
        self.take_end(client, span, What::Taken { prize, left })
    }

    /// A take of unknown outcome.
    pub(super) fn take_unknown(mut self, client: u32, span: Range<u64>, prize: i64) -> Self {
        let why = self.history.texts.intern("reset");
        self.take_end(client, span, What::TakeUnknown { prize, why })
    }

    /// A take that surely took nothing.
    pub(super) fn take_nothing(mut self, client: u32, span: Range<u64>) -> Self {
        let why = self.history.texts.intern("empty");
        self.take_end(client, span, What::NotTaken(why))
    }

    fn take_end(self, client: u32, span: Range<u64>, end: What) -> Self {
        let (asked_ns, done_ns) = (span.start.saturating_sub(5), span.end);
        let mut tape = self.waited(client, client, asked_ns..span.start);
        tape.op(client, client, span, What::Take, end);
        tape.releases(client, done_ns..done_ns + 5)
    }

    /// The register is read at the start of the span or later, and the next value surely written at
    /// its end or before. Client and acquisition are the same.
    pub(super) fn update(
        self,
        client: u32,
        span: Range<u64>,
        read: i64,
        token: Option<u64>,
    ) -> Self {
        self.wrote(client, span, Update { read, written: read + 1, token })
    }

    /// This was read and written, whatever it was.
    pub(super) fn wrote(mut self, client: u32, span: Range<u64>, update: Update) -> Self {
        self.op(client, client, span, What::Update, What::Updated(update));
        self
    }

    /// The same, without an answer to the write.
    pub(super) fn update_unknown(self, client: u32, span: Range<u64>, read: i64) -> Self {
        self.wrote_unknown(client, span, Update { read, written: read + 1, token: None })
    }

    /// The same of this update.
    pub(super) fn wrote_unknown(mut self, client: u32, span: Range<u64>, update: Update) -> Self {
        let why = self.history.texts.intern("reset");
        self.op(client, client, span, What::Update, What::UpdateUnknown { update, why });
        self
    }

    /// An update that surely wrote nothing.
    pub(super) fn update_nothing(self, client: u32, span: Range<u64>) -> Self {
        self.update_fails(client, span, "stale")
    }

    /// An update that fails for this reason.
    pub(super) fn update_fails(mut self, client: u32, span: Range<u64>, why: &str) -> Self {
        let why = self.history.texts.intern(why);
        self.op(client, client, span, What::Update, What::NotUpdated(why));
        self
    }

    /// An update that the register refused for its token.
    pub(super) fn update_refused(self, client: u32, span: Range<u64>) -> Self {
        self.update_fails(client, span, history::words::STALE)
    }

    pub(super) fn register_left(mut self, left: i64) -> Self {
        self.push(1_000_000, 0, 0, 0, What::RegisterLeft(left));
        self
    }

    /// The commands that follow are sent to this server, on this key.
    pub(super) fn to(mut self, node: u16, key: &'static str) -> Self {
        self.to = (node, key);
        self
    }

    /// A command on the lock's key that was answered as having done this.
    pub(super) fn did(self, acquisition: u32, span: Range<u64>, intent: Intent) -> Self {
        self.command(acquisition, span, intent, Some(intent.touch))
    }

    /// A command on the lock's key that was answered so, or not at all.
    pub(super) fn command(
        mut self,
        acquisition: u32,
        span: Range<u64>,
        intent: Intent,
        answered: Option<Touch>,
    ) -> Self {
        let sent = self.named("CMD", intent);
        let end = match answered {
            Some(touch) => What::Answered { touch, answer: Answer::Ok, found: 0 },
            None => What::Unanswered(self.history.texts.intern("reset")),
        };
        self.op(acquisition, acquisition, span, sent, end);
        self
    }

    /// A command on the lock's key that was answered with this number, and did this.
    pub(super) fn answered(
        mut self,
        acquisition: u32,
        span: Range<u64>,
        intent: Intent,
        touch: Touch,
        number: i64,
    ) -> Self {
        let sent = self.named("CMD", intent);
        let end = What::Answered { touch, answer: Answer::Int(number), found: 0 };
        self.op(acquisition, acquisition, span, sent, end);
        self
    }

    /// The answer to this operation shows what that one had written; 0 where it does not.
    pub(super) fn found(mut self, op: u32, by: u32) -> Self {
        for event in self.history.events.iter_mut().filter(|event| event.op == op) {
            if let What::Answered { found, .. } = &mut event.what {
                *found = by;
            }
        }
        self
    }

    /// The history, in order.
    pub(super) fn history(&self) -> History {
        let mut history = self.history.clone();
        history.events.sort_by_key(|event| event.at_ns);
        history
    }

    /// What the checkers say of it, whether or not anybody contended.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let history = self.history();
        let verdicts = |mut checkers: Checkers<'_>| {
            history.events.iter().for_each(|event| checkers.see(event, &history.texts));
            checkers.verdicts(&history.texts)
        };
        let mut findings = verdicts(Checkers::new(&history.head));
        assert_eq!(verdicts(Checkers::of_whole(&history)), findings, "known to its end");
        let mut stories = StoryWriter::new(&history.head, &findings);
        history.events.iter().for_each(|event| stories.see(event, &history.texts));
        stories.write(&mut findings);
        findings
    }

    /// Shows all of it to one checker.
    pub(super) fn show_to(&self, checker: &mut impl Checker) {
        let history = self.history();
        let mut commands = LockCommands::new(&history.head);
        history.events.iter().for_each(|it| checker.see(&commands.next(it, &history.texts)));
    }

    /// What they say of one invariant.
    pub(super) fn finding(&self, name: &str) -> Verdict {
        let mut findings = self.findings().into_iter();
        findings.find(|it| it.name == name).expect("an invariant of this name").verdict
    }

    /// The same without its grounds.
    pub(super) fn outcome(&self, name: &str) -> Outcome {
        self.finding(name).outcome()
    }

    /// What shows that it was violated.
    pub(super) fn witness(&self, name: &str) -> Witness {
        match self.finding(name) {
            Verdict::Violated(witness) => witness,
            other => panic!("{name}: {other:?}"),
        }
    }
}
