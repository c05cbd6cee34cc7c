//! What a process of the virtual world sees.
//!
//! Invariant: only its own clocks, its own connections and its own randomness; a handle is a number,
//! and means the world of the thread it is used on.

use std::future::Future;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Mark, Node};
use picklock::reply::Reply;
use picklock::time::{Instant, WallTime, span_ns};
use scenarios::record::Observed;

use super::audience::VirtualSubscription;
use super::call::Asking;
use super::dial::{Dialling, Purpose};
use super::sleep::Sleep;
use super::world::{now_ns, with};

/// A process's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualEnv {
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
        let process = self.process as usize;
        Instant::from_ns(with(|world| world.processes[process].clock.local(world.now_ns)))
    }

    fn wall(&self) -> WallTime {
        let process = self.process as usize;
        WallTime::from_unix_ns(with(|world| world.processes[process].clock.wall(world.now_ns)))
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send {
        Sleep::until(self.process, self.now().as_ns().saturating_add(span_ns(span)))
    }

    fn random(&self) -> u64 {
        with(|world| world.random(self.process))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let refused = with(|world| world.spawn(self.process, Box::pin(task)));
        // A process that is gone does nothing more; what it would have done is dropped out here.
        drop(refused);
    }

    async fn connect(&self, node: Node) -> Result<VirtualConn, CallError> {
        let conn = Dialling::new(self.process, u32::from(node.0), Purpose::Commands).await?;
        Ok(VirtualConn { conn })
    }

    fn subscribe(
        &self,
        node: Node,
        channel: &[u8],
    ) -> impl Future<Output = Result<VirtualSubscription, CallError>> + Send {
        VirtualSubscription::begin(self.process, node, channel)
    }

    fn mark(&self, mark: Mark) {
        with(|world| {
            if !world.closed {
                world.marked(self.process, mark);
            }
        });
    }
}

impl Observed for VirtualEnv {
    fn run_ns(&self) -> u64 {
        now_ns()
    }

    fn run_ns_at(&self, at: Instant) -> u64 {
        with(|world| world.processes[self.process as usize].clock.moment(at.as_ns()))
    }
}

/// A process's connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualConn {
    conn: u32,
}

impl Conn for VirtualConn {
    fn gave_up(&self, silence: Duration) -> bool {
        with(|world| world.give_up_conn(self.conn, span_ns(silence)))
    }

    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, CallError>> + Send {
        Asking::new(self.conn, command)
    }
}
