//! The environment of a process: what lock code sees of the virtual world.
//!
//! Invariant: a process sees only its own clocks, connections and random numbers. A handle is a number, and
//! belongs to the simulation of the thread on which it is used.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Mark, Node, Subscription};
use picklock::reply::Reply;
use picklock::time::{Instant, WallTime, span_ns};
use scenarios::record::Observed;

use super::executor::ProcessState;
use super::network::Purpose;
use super::queue::SimEvent;
use super::simulation::{with, with_counted, with_if_open};
use super::time::now_ns;

/// A process's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VirtualEnv {
    process: u32,
}

impl VirtualEnv {
    /// The process of this number.
    pub(super) fn of(process: u32) -> Self {
        Self { process }
    }
}

impl Env for VirtualEnv {
    type Conn = VirtualConn;
    type Subscription = VirtualSubscription;

    fn now(&self) -> Instant {
        Instant::from_ns(with_counted(|sim| {
            sim.processes[self.process].clock.local(sim.time.now_ns())
        }))
    }

    fn wall(&self) -> WallTime {
        let wall_ns = with_counted(|sim| sim.processes[self.process].clock.wall(sim.time.now_ns()));
        WallTime::from_unix_ns(wall_ns)
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send {
        let deadline_ns = self.now().as_ns().saturating_add(span_ns(span));
        SleepFuture { process: self.process, deadline_ns, timer: None }
    }

    fn random(&self) -> u64 {
        with_counted(|sim| sim.processes.random(self.process))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Boxed here, because each closure on the way would copy it.
        let task = Box::pin(task);
        let refused = with_counted(|sim| sim.executor.spawn(self.process, task));
        // The task of a process that is gone is dropped, while the simulation is not borrowed.
        drop(refused);
    }

    async fn connect(&self, node: Node) -> Result<VirtualConn, CallError> {
        let conn = connect(self.process, node, Purpose::Commands).await?;
        Ok(VirtualConn { conn })
    }

    /// It resolves once the server has confirmed it; every message published from then on arrives, or the
    /// subscription says that its connection broke.
    async fn subscribe(
        &self,
        node: Node,
        channel: &[u8],
    ) -> Result<VirtualSubscription, CallError> {
        let conn = connect(self.process, node, Purpose::Subscriptions).await?;
        // The inbox exists before the server knows of it, so no message is missed in between.
        let subscription = with(|sim| sim.pubsub.subscribe(conn, channel));
        let it = VirtualSubscription { subscription };
        VirtualConn { conn }.call(Command::new("SUBSCRIBE").arg(channel)).await?;
        Ok(it)
    }

    fn mark(&self, mark: Mark) {
        with_counted(|sim| {
            if !sim.executor.closed {
                sim.marked(self.process, mark);
            }
        });
    }
}

impl Observed for VirtualEnv {
    fn run_ns(&self) -> u64 {
        now_ns()
    }

    fn run_ns_at(&self, at: Instant) -> u64 {
        with(|sim| sim.processes[self.process].clock.moment(at.as_ns()))
    }

    fn end_process(&self) {
        with_counted(|sim| sim.end_process(self.process));
    }

    fn is_gone(&self) -> bool {
        with(|sim| sim.executor.is_gone(self.process))
    }
}

/// A process's connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VirtualConn {
    conn: u32,
}

impl Conn for VirtualConn {
    fn gave_up(&self, silence: Duration) -> bool {
        with_counted(|sim| sim.give_up_conn(self.conn, span_ns(silence)))
    }

    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, CallError>> + Send {
        CallFuture { conn: self.conn, command: Some(command), call: None, stopped: false }
    }
}

/// A process's subscription to a channel.
#[derive(Debug)]
pub(super) struct VirtualSubscription {
    subscription: u32,
}

impl Subscription for VirtualSubscription {
    fn next(&mut self) -> impl Future<Output = Result<Box<[u8]>, CallError>> + Send {
        poll_fn(|_| {
            with_counted(|sim| {
                let Some(inbox) = sim.pubsub.inbox(self.subscription) else { return Poll::Pending };
                if let Some(message) = inbox.messages.pop_front() {
                    return Poll::Ready(Ok(message));
                }
                if !sim.network.conn(inbox.conn).open {
                    let broken = "the connection broke while listening";
                    return Poll::Ready(Err(CallError::Indeterminate(broken.into())));
                }
                inbox.waiter = Some(sim.executor.current);
                Poll::Pending
            })
        })
    }
}

impl Drop for VirtualSubscription {
    fn drop(&mut self) {
        with_if_open(|sim| sim.unsubscribe(self.subscription));
    }
}

/// A connection to the server that a node leads to: the one in use, unless it has broken or been silent for a second,
/// or a new one.
async fn connect(process: u32, node: Node, purpose: Purpose) -> Result<u32, CallError> {
    let mut attempt = None;
    poll_fn(|_| {
        with_counted(|sim| {
            let Some(server) = sim.servers.of_node(process, node.0.into()) else {
                let why = format!("no server is configured as {}", node.0);
                return Poll::Ready(Err(CallError::NotSent(why.into())));
            };
            let task = sim.executor.current;
            if sim.executor.state(process) != ProcessState::Running {
                // If the process is paused, the task is polled again when it goes on.
                sim.executor.wake(task);
                return Poll::Pending;
            }
            let Some(attempt) = attempt else {
                if let Some(conn) = sim.usable_conn(process, server, purpose) {
                    return Poll::Ready(Ok(conn));
                }
                attempt = Some(sim.connect(process, server, purpose));
                return Poll::Pending;
            };
            let attempt = sim.network.attempt(attempt);
            attempt.task = task;
            attempt.outcome.take().map_or(Poll::Pending, Poll::Ready)
        })
    })
    .await
}

/// A command, and the wait for its outcome. Dropping it does not recall the request: what was sent is delivered.
#[derive(Debug)]
struct CallFuture {
    conn: u32,
    command: Option<Command>,
    call: Option<u32>,
    /// Its client has been stopped before it could send.
    stopped: bool,
}

impl Future for CallFuture {
    type Output = Result<Reply, CallError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        with_counted(|sim| {
            let task = sim.executor.current;
            let call = match (this.call, this.command.take()) {
                (Some(call), _) => call,
                (None, Some(command)) => {
                    let process = sim.network.conn(this.conn).process;
                    if sim.before_send(process, &command, this.stopped) {
                        this.stopped = true;
                        this.command = Some(command);
                        // If the process is paused, the task is polled again when it goes on.
                        sim.executor.wake(task);
                        return Poll::Pending;
                    }
                    *this.call.insert(sim.send_request(this.conn, command))
                }
                (None, None) => return Poll::Pending,
            };
            let outcome = sim.calls.poll(call, task);
            if outcome.is_some() {
                this.call = None;
            }
            outcome.map_or(Poll::Pending, Poll::Ready)
        })
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            with_if_open(|sim| sim.calls.abandon(call));
        }
    }
}

/// A wait until the process's monotonic clock shows this.
#[derive(Debug)]
struct SleepFuture {
    process: u32,
    deadline_ns: u64,
    timer: Option<u32>,
}

impl Future for SleepFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        with_counted(|sim| {
            let clock = sim.processes[this.process].clock;
            if clock.local(sim.time.now_ns()) >= this.deadline_ns {
                return Poll::Ready(());
            }
            let timer = *this.timer.get_or_insert_with(|| sim.timers.add());
            sim.timers.arm(timer, sim.executor.current, || {
                sim.time.plan(clock.moment(this.deadline_ns), SimEvent::Timer(timer))
            });
            Poll::Pending
        })
    }
}

impl Drop for SleepFuture {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            with_if_open(|sim| sim.timers.remove(timer));
        }
    }
}
