//! A world for unit tests: servers with strings and expiry, a clock that moves by hand, and faults
//! that are scripted call by call.
//!
//! Invariant: nothing happens but by the script, in the same order each time. It is not the
//! simulator: it knows the few commands these tests need and takes the meaning of the lock scripts
//! for granted (a real server checks it in `tests/real_servers`).

mod env;
mod server;

use std::collections::{BTreeMap, VecDeque};
use std::pin::{Pin, pin};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

use crate::command::Command;
use crate::env::{CallError, Mark, Node, Phase};
use crate::options::{Options, OptionsBuilder};
use crate::reply::{Reply, ServerError};
use crate::single::Single;
use crate::time::{Instant, span_ns};
use crate::validity::Drift;

use env::Message;
use server::{Server, name_of};

pub(crate) use env::TestEnv;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// A TTL of which nothing is taken off for drift, and the default call timeout for it.
pub(crate) const TTL: Duration = Duration::from_millis(900);
pub(crate) const TIMEOUT: Duration = Duration::from_millis(300);

/// Options of a lock whose validity is its TTL.
pub(crate) fn exact() -> OptionsBuilder {
    Options::builder(TTL).drift(Drift::NONE)
}

/// What happens to one call.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The request and the reply take this long. Later calls on the connection queue up behind.
    Delay { request: Duration, reply: Duration },
    /// Carried out; the reply never comes.
    LoseReply,
    /// Never carried out, never answered.
    Hang,
    /// The connection breaks; the command is not carried out.
    BreakBefore,
    /// The connection breaks; the command is carried out after this long all the same.
    BreakAndArrive(Duration),
    /// The server has closed the connection, and the client knows: the command is not sent.
    Closed,
    /// The server answers with this error line.
    Refuse(&'static str),
    /// The same, after so long.
    RefuseLate(Duration, &'static str),
}

#[derive(Default)]
struct State {
    now_ns: u64,
    seq: u64,
    seed: u64,
    scripted_random: VecDeque<u64>,
    servers: BTreeMap<Node, Server>,
    /// The channel and the inbox of each subscription, until its connection breaks.
    subscribers: Vec<(Vec<u8>, Sender<Message>)>,
    listeners: usize,
    faults: Vec<(&'static str, Fault)>,
    connect_faults: VecDeque<CallError>,
    subscribe_faults: VecDeque<CallError>,
    /// How long it takes to connect; no time where nothing is said.
    connect_spans: BTreeMap<Node, Duration>,
    /// By client and node: the connection, until it breaks.
    conns: BTreeMap<(u32, Node), u64>,
    /// By connection: when its last request arrives.
    arrivals: BTreeMap<u64, u64>,
    events: BTreeMap<(u64, u64), Event>,
    answers: BTreeMap<u64, Result<Reply, CallError>>,
    sent: Vec<String>,
    marks: Vec<Mark>,
    tasks: BTreeMap<u64, Task>,
    ready: VecDeque<u64>,
}

pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

enum Event {
    Wake(Waker),
    Arrive { call: u64, node: Node, command: Command, reply_ns: Option<u64> },
    Answer { call: u64, answer: Result<Reply, CallError> },
}

#[derive(Clone)]
pub(crate) struct World(Arc<Mutex<State>>);

struct TaskWaker {
    world: World,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut state = self.world.state();
        if !state.ready.contains(&self.id) {
            state.ready.push_back(self.id);
        }
    }
}

/// Two subscribers that want nothing, for as long as the tests run. With fewer, tracing asks only the subscriber of the
/// thread that comes first to a span whether it wants the span, and may write its no over another test's yes.
fn subscribers() {
    static BOTH: OnceLock<[Dispatch; 2]> = OnceLock::new();
    BOTH.get_or_init(|| [(), ()].map(|()| Dispatch::new(NoSubscriber::default())));
}

impl World {
    pub(crate) fn new() -> Self {
        subscribers();
        Self(Arc::new(Mutex::new(State { seed: 1, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The first client; every client has a connection of its own.
    pub(crate) fn env(&self) -> TestEnv {
        self.client(0)
    }

    pub(crate) fn client(&self, client: u32) -> TestEnv {
        TestEnv { world: self.clone(), client }
    }

    /// The lock of the key `k` on the first node.
    pub(crate) fn lock(&self, options: OptionsBuilder) -> Single<TestEnv> {
        self.client(0).lock(options)
    }

    pub(crate) fn script_random(&self, bits: impl IntoIterator<Item = u64>) {
        self.state().scripted_random.extend(bits);
    }

    /// The next call of this command (`SET`, `DELETE`, `EXTEND`, …) meets this fault. Faults for the
    /// same command take effect one after the other.
    pub(crate) fn fault(&self, command: &'static str, fault: Fault) {
        self.fault_times(1, command, fault);
    }

    pub(crate) fn fault_times(&self, times: usize, command: &'static str, fault: Fault) {
        self.state().faults.extend(std::iter::repeat_n((command, fault), times));
    }

    pub(crate) fn fault_connect(&self, error: CallError) {
        self.state().connect_faults.push_back(error);
    }

    /// From now on, connecting to this node takes so long.
    pub(crate) fn delay_connect(&self, node: Node, span: Duration) {
        self.state().connect_spans.insert(node, span);
    }

    pub(crate) fn fault_subscribe(&self, error: CallError) {
        self.state().subscribe_faults.push_back(error);
    }

    /// Reports to every subscription that its connection has broken.
    pub(crate) fn break_subscriptions(&self) {
        let mut state = self.state();
        state.subscribers.clear();
        state.wake_all();
    }

    /// How many listen.
    pub(crate) fn listeners(&self) -> usize {
        self.state().listeners
    }

    /// From now on the server has these commands for compare-and-set: `IFEQ` (of SET), `DELEX`,
    /// `DELIFEQ`.
    pub(crate) fn become_native(&self, commands: &'static [&'static str]) {
        self.state().server(Node(0)).native = commands;
    }

    pub(crate) fn flush_scripts(&self) {
        self.state().servers.values_mut().for_each(|server| server.known_scripts.clear());
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_ns(self.state().now_ns)
    }

    /// The names of the commands that clients have sent, in order.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.state().sent.clone()
    }

    pub(crate) fn count(&self, command: &str) -> usize {
        self.state().sent.iter().filter(|sent| *sent == command).count()
    }

    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.state().marks.clone()
    }

    pub(crate) fn marked(&self, mark: Mark) -> usize {
        self.state().marks.iter().filter(|marked| **marked == mark).count()
    }

    pub(crate) fn phases(&self) -> Vec<Phase> {
        let phase = |mark: &Mark| match mark {
            Mark::Phase(phase) => Some(*phase),
            Mark::ValidUntil(_) | Mark::Fence(_) | Mark::Lost => None,
        };
        self.state().marks.iter().filter_map(phase).collect()
    }

    /// Ends all tasks where they are, as a runtime does that shuts down.
    pub(crate) fn drop_tasks(&self) {
        drop(self.suspend_tasks());
    }

    /// Takes all tasks out, as in a runtime that does not run.
    pub(crate) fn suspend_tasks(&self) -> BTreeMap<u64, Task> {
        std::mem::take(&mut self.state().tasks)
    }

    /// Goes on with these tasks.
    pub(crate) fn resume_tasks(&self, tasks: BTreeMap<u64, Task>) {
        let mut state = self.state();
        state.tasks.extend(tasks);
        state.wake_all();
    }

    pub(crate) fn tasks(&self) -> usize {
        self.state().tasks.len()
    }

    /// Lets time pass while every client stands still: replies come in meanwhile, but the next thing
    /// any client sees is later.
    pub(crate) fn pause_clients(&self, span: Duration) {
        let end_ns = self.state().now_ns + span_ns(span);
        let mut rung = Vec::new();
        loop {
            let mut state = self.state();
            let Some(entry) = state.events.first_entry().filter(|entry| entry.key().0 <= end_ns)
            else {
                break;
            };
            if matches!(entry.get(), Event::Wake(_)) {
                rung.push(entry.remove_entry());
            } else {
                drop(state);
                self.step(end_ns);
            }
        }
        let mut state = self.state();
        state.now_ns = end_ns;
        state.events.extend(rung);
    }

    /// Runs everything that is due within `span`, in order.
    pub(crate) fn advance(&self, span: Duration) {
        let end_ns = self.state().now_ns + span_ns(span);
        self.run_tasks();
        while self.step(end_ns) {
            self.run_tasks();
        }
        self.state().now_ns = end_ns;
    }

    /// Runs `work` to its end, letting time pass as needed.
    pub(crate) fn block_on<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        for _ in 0..100_000 {
            if let Poll::Ready(output) = work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                self.run_tasks();
                return output;
            }
            // A task may have made the work ready; only if nobody moves, time does.
            if !self.run_tasks() && !self.step(u64::MAX) {
                panic!("nothing will ever happen");
            }
        }
        panic!("no end after 100000 events");
    }

    /// Polls `work` once, then drops it unless it is ready.
    pub(crate) fn poll_and_drop<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = Box::pin(work);
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn run_tasks(&self) -> bool {
        let mut ran = false;
        loop {
            let Some((id, mut task)) = self.state().next_ready() else { return ran };
            ran = true;
            let waker = Waker::from(Arc::new(TaskWaker { world: self.clone(), id }));
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.state().tasks.insert(id, task);
            }
        }
    }

    fn step(&self, end_ns: u64) -> bool {
        let woken = {
            let mut state = self.state();
            match state.events.first_key_value() {
                Some((&(at_ns, _), _)) if at_ns <= end_ns => {}
                _ => return false,
            }
            let ((at_ns, _), event) = state.events.pop_first().unwrap();
            state.now_ns = state.now_ns.max(at_ns);
            match event {
                Event::Wake(waker) => Some(waker),
                Event::Arrive { call, node, command, reply_ns } => {
                    state.arrive(call, node, &command, reply_ns, at_ns);
                    None
                }
                Event::Answer { call, answer } => {
                    state.answers.insert(call, answer);
                    state.wake_all();
                    None
                }
            }
        };
        if let Some(waker) = woken {
            waker.wake();
        }
        true
    }
}

impl State {
    fn next_ready(&mut self) -> Option<(u64, Task)> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(task) = self.tasks.remove(&id) {
                return Some((id, task));
            }
        }
        None
    }

    /// Whoever waits looks again: every task, for simplicity.
    fn wake_all(&mut self) {
        self.ready = self.tasks.keys().copied().collect();
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        let seq = self.next_seq();
        self.events.insert((at_ns, seq), event);
    }

    fn server(&mut self, node: Node) -> &mut Server {
        self.servers.entry(node).or_default()
    }

    fn send(&mut self, (client, node): (u32, Node), conn: u64, command: Command) -> u64 {
        let call = self.next_seq();
        let name = name_of(&command);
        self.sent.push(name.to_string());
        let now_ns = self.now_ns;
        let place = self.faults.iter().position(|(fault, _)| *fault == name);
        let fault = place.map(|place| self.faults.remove(place).1);
        let (request, reply_ns) = match &fault {
            Some(Fault::Delay { request, reply }) => (span_ns(*request), Some(span_ns(*reply))),
            Some(Fault::BreakAndArrive(request)) => (span_ns(*request), None),
            Some(Fault::LoseReply) => (0, None),
            _ => (0, Some(0)),
        };
        let broken = self.conns.get(&(client, node)) != Some(&conn);
        let breaks =
            matches!(fault, Some(Fault::BreakBefore | Fault::BreakAndArrive(_) | Fault::Closed));
        if broken || breaks {
            if !broken {
                self.conns.remove(&(client, node));
            }
            self.answers.insert(call, Err(CallError::Indeterminate("broken".into())));
        }
        match fault {
            _ if broken => return call,
            Some(Fault::Hang | Fault::BreakBefore) => return call,
            Some(Fault::RefuseLate(span, line)) => {
                let answer = Err(ServerError::from_line(line).into());
                self.at(now_ns + span_ns(span), Event::Answer { call, answer });
                return call;
            }
            Some(Fault::Closed) => {
                self.answers.insert(call, Err(CallError::NotSent("closed".into())));
                return call;
            }
            Some(Fault::Refuse(line)) => {
                self.answers.insert(call, Err(ServerError::from_line(line).into()));
                return call;
            }
            _ => {}
        }
        let last_ns = self.arrivals.get(&conn).copied().unwrap_or_default();
        let arrives_ns = (now_ns + request).max(last_ns);
        self.arrivals.insert(conn, arrives_ns);
        if arrives_ns == now_ns {
            self.arrive(call, node, &command, reply_ns, now_ns);
        } else {
            self.at(arrives_ns, Event::Arrive { call, node, command, reply_ns });
        }
        call
    }

    fn arrive(
        &mut self,
        call: u64,
        node: Node,
        command: &Command,
        reply_ns: Option<u64>,
        now_ns: u64,
    ) {
        let answer = self.server(node).execute(command, now_ns);
        for (channel, message) in std::mem::take(&mut self.server(node).published) {
            for (_, inbox) in self.subscribers.iter().filter(|(theirs, _)| *theirs == channel) {
                // A subscription that was dropped does not need it.
                let _ = inbox.send(message[..].into());
            }
            self.wake_all();
        }
        match reply_ns {
            None => {}
            Some(reply_ns) => self.at(now_ns + reply_ns, Event::Answer { call, answer }),
        }
    }
}
