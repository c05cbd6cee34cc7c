//! The environment of a client under observation: what it does is written into the history.
//!
//! Invariant: a command belongs to the acquisition for which it is sent, which is the one that its task works
//! for, never to the one whose value it carries; so a lock that confuses owners is seen doing so. A command
//! whose future is dropped ends as *info*.

mod acquisition;
mod command_semantics;
mod conn;
mod queued;

use std::future::Future;
use std::time::Duration;

use history::{Content, Intent, Journal, KeyDigest, Texts, Touch, What};
use picklock::command::Command;
use picklock::env::{CallError, Env, Mark, Node};
use picklock::reply::Reply;
use picklock::script::Script;
use picklock::time::{Instant, WallTime};

use crate::recipe::{About, KeyValue};

use acquisition::{InAcquisition, current};
use command_semantics::{CommandSemantics, Writes};
use conn::PendingCommand;
pub use conn::RecordedConn;

/// An environment of a run. Beside its own clocks it knows the clock of the run, which stamps all events.
pub trait Observed: Env {
    /// Nanoseconds since the run began.
    fn run_ns(&self) -> u64;

    /// The time of the run at which this node's clock shows `at`, in nanoseconds.
    fn run_ns_at(&self, at: Instant) -> u64;

    /// Returns when this client may send the command, which is then recorded and sent. A world that cannot stop its clients
    /// anywhere stops them here.
    fn before_send(&self, node: Node, command: &Command) -> impl Future<Output = ()> + Send {
        let _ = (node, command);
        std::future::ready(())
    }

    /// Returns when this client may go on with an answer, which is already recorded.
    fn after_answer(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Ends the client's process and starts another in its place: background tasks are dropped, and connections closed. Only
    /// the task that calls this goes on.
    fn end_process(&self);

    /// Whether the client's process has crashed. What is dropped then is not recorded.
    fn is_gone(&self) -> bool;
}

/// The most scripts that a recipe may have.
pub const SCRIPTS: usize = 5;

/// What is needed to understand the commands of a recipe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dialect {
    /// The scripts whose answers picklock can read.
    pub scripts: [Option<&'static Script>; SCRIPTS],
    /// What the value of the lock's key says.
    pub value: KeyValue,
}

impl Dialect {
    /// The dialect of this recipe.
    pub fn of(about: &About) -> Self {
        Self::new((about.scripts)(), about.value)
    }

    /// The dialect of a recipe with these scripts and such values of its key.
    ///
    /// # Panics
    /// Where there are more than [`SCRIPTS`].
    pub fn new(scripts: impl IntoIterator<Item = &'static Script>, value: KeyValue) -> Self {
        let mut known = [None; SCRIPTS];
        for (place, script) in scripts.into_iter().enumerate() {
            assert!(place < SCRIPTS, "a recipe with more scripts than {SCRIPTS}: raise SCRIPTS");
            known[place] = Some(script);
        }
        Self { scripts: known, value }
    }

    /// The first key of a command, and what a history says that the command would do to it.
    pub fn intent<'a>(&self, command: &'a Command) -> (&'a [u8], Intent) {
        let semantics = command_semantics::semantics(command, self, || WallTime::from_unix_ns(0));
        (semantics.key, semantics.intent)
    }

    /// What a command with this answer has done to its first key, as a history says it.
    pub fn touch(&self, command: &Command, answer: &Reply) -> Touch {
        let CommandSemantics { intent, gives_old, .. } =
            command_semantics::semantics(command, self, || WallTime::from_unix_ns(0));
        let sent =
            SentCommand { op: 0, acquisition: 0, intent, gives_old, place: None, content: None };
        command_semantics::touch(sent, answer)
    }
}

/// One client's environment, under observation.
#[derive(Clone)]
pub struct Recorded<W: Observed> {
    world: W,
    journal: Journal,
    dialect: Dialect,
    client: u32,
    /// None: that of the task that uses this, because a lock's handle serves many.
    acquisition: Option<u32>,
    /// Whether marks are recorded: only those of the lock under test.
    marks: bool,
}

impl<W: Observed> Recorded<W> {
    /// Observes this client of the run, from 1; 0 is the run itself.
    pub fn new(world: W, journal: Journal, dialect: Dialect, client: u32) -> Self {
        Self { world, journal, dialect, client, acquisition: None, marks: true }
    }

    /// The same client at work with another lock: its commands belong to no acquisition, and its marks are not recorded.
    pub(crate) fn beside(&self) -> Self {
        Self { acquisition: Some(0), marks: false, ..self.clone() }
    }

    /// The same client in a new acquisition, to which all commands of this environment belong.
    pub(crate) fn begin_acquisition(&self) -> Self {
        Self { acquisition: Some(self.journal.next_acquisition()), ..self.clone() }
    }

    /// Does this work for the acquisition: its commands through shared handles belong to it, and so do those of tasks that
    /// it spawns.
    pub(crate) fn during<F: Future>(&self, work: F) -> InAcquisition<F> {
        InAcquisition::new(self.acquisition(), work)
    }

    fn acquisition(&self) -> u32 {
        self.acquisition.unwrap_or_else(current)
    }

    /// Which client this is.
    pub fn client(&self) -> u32 {
        self.client
    }

    /// The client's process ends, and another takes its place: see [`Observed::end_process`].
    pub fn end_process(&self) {
        self.world.end_process();
    }

    /// Whether the client's process is gone: see [`Observed::is_gone`].
    pub fn is_gone(&self) -> bool {
        self.world.is_gone()
    }

    /// Begins an operation and returns its number.
    pub fn invoke(&self, what: What) -> u32 {
        self.invoke_with(|_| what)
    }

    /// Ends an operation.
    pub fn end(&self, op: u32, what: What) {
        self.end_with(op, |_| what);
    }

    /// Ends an operation with an event that names texts.
    pub(crate) fn end_with(&self, op: u32, what: impl FnOnce(&mut Texts) -> What) {
        self.write(self.acquisition(), op, what);
    }

    /// Writes a note.
    pub fn note(&self, what: What) {
        self.end(0, what);
    }

    fn write(&self, acquisition: u32, op: u32, what: impl FnOnce(&mut Texts) -> What) {
        self.journal.write(|| self.world.run_ns(), self.client, acquisition, op, what);
    }

    fn invoke_with(&self, what: impl FnOnce(&mut Texts) -> What) -> u32 {
        self.journal.invoke(|| self.world.run_ns(), self.client, self.acquisition(), what)
    }

    fn begin_command(&self, node: Node, command: &Command) -> SentCommand {
        let wall = || self.world.wall();
        let CommandSemantics { name, key, intent, gives_old, writes } =
            command_semantics::semantics(command, &self.dialect, wall);
        let of_value = gives_old || writes != Writes::Nothing;
        let place = of_value.then(|| KeyDigest::of(node.0, key));
        let op = self.invoke_with(|texts| {
            let name = command_semantics::name(name, texts);
            let key = texts.intern_bytes(key);
            What::Command { node: node.0, name, key, intent }
        });
        let content = match (writes, place) {
            (Writes::Value(value), Some(place)) => Some(place.holding(value)),
            (Writes::Unknown, Some(place)) => {
                self.journal.writes_unknown(place);
                None
            }
            _ => None,
        };
        if let Some(content) = content {
            self.journal.writes(op, content);
        }
        SentCommand { op, acquisition: self.acquisition(), intent, gives_old, place, content }
    }

    /// Ends a command. Another task than the one that sent it may drop it.
    fn end_command(&self, sent: SentCommand, what: impl FnOnce(&mut Texts) -> What) {
        self.write(sent.acquisition, sent.op, what);
    }
}

/// A command that has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SentCommand {
    /// Its number in the history.
    op: u32,
    /// The acquisition that it was sent for.
    acquisition: u32,
    /// What it would do to its key.
    intent: Intent,
    /// Whether its answer has the earlier value.
    gives_old: bool,
    /// The key whose value it writes or answers; none if it does neither.
    place: Option<KeyDigest>,
    /// The value that it would write there, if known.
    content: Option<Content>,
}

impl<W: Observed> Env for Recorded<W> {
    type Conn = RecordedConn<W>;
    type Subscription = W::Subscription;

    fn now(&self) -> Instant {
        self.world.now()
    }

    fn wall(&self) -> WallTime {
        self.world.wall()
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send {
        self.world.sleep(span)
    }

    fn random(&self) -> u64 {
        self.world.random()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.world.spawn(InAcquisition::new(self.acquisition(), task));
    }

    async fn connect(&self, node: Node) -> Result<RecordedConn<W>, CallError> {
        let conn = self.world.connect(node).await?;
        Ok(RecordedConn::new(self.clone(), node, conn))
    }

    /// Only the command is recorded: neither messages nor the end of the subscription are.
    async fn subscribe(&self, node: Node, channel: &[u8]) -> Result<W::Subscription, CallError> {
        let command = Command::new("SUBSCRIBE").arg(channel);
        self.world.before_send(node, &command).await;
        let pending = PendingCommand::subscribe(self, node, channel);
        let answer = self.world.subscribe(node, channel).await;
        pending.settle(&answer.as_ref().map(|_| Reply::Ok).map_err(CallError::clone));
        self.world.after_answer().await;
        answer
    }

    fn counts_listeners(&self, node: Node) -> bool {
        self.world.counts_listeners(node)
    }

    fn mark(&self, mark: Mark) {
        if !self.marks {
            return;
        }
        match mark {
            Mark::Phase(phase) => self.note(What::Phase(phase)),
            Mark::ValidUntil(until) => self.note(What::ValidUntil(self.world.run_ns_at(until))),
            Mark::Fence(token) => self.note(What::Fence(token)),
            Mark::Lost => self.note(What::Lost),
        }
        self.world.mark(mark);
    }
}
