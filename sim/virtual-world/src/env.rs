//! The environment of a process: what lock code sees of the virtual world.
//!
//! Invariant: a process sees only its own clocks, connections and random numbers. A handle is a number, and
//! means the simulation of the thread on which it is used.

mod call;
mod connect;
mod sleep;
mod subscription;

use std::future::Future;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Mark, Node};
use picklock::reply::Reply;
use picklock::time::{Instant, WallTime, span_ns};
use scenarios::record::Observed;

use self::call::CallFuture;
use self::connect::ConnectFuture;
use self::sleep::SleepFuture;
pub use self::subscription::VirtualSubscription;
use super::network::Purpose;
use super::simulation::with;
use super::time::now_ns;

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
        Instant::from_ns(with(|sim| sim.processes[self.process].clock.local(sim.time.now_ns())))
    }

    fn wall(&self) -> WallTime {
        let wall_ns = with(|sim| sim.processes[self.process].clock.wall(sim.time.now_ns()));
        WallTime::from_unix_ns(wall_ns)
    }

    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send {
        SleepFuture::until(self.process, self.now().as_ns().saturating_add(span_ns(span)))
    }

    fn random(&self) -> u64 {
        with(|sim| sim.processes.random(self.process))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let refused = with(|sim| sim.executor.spawn(self.process, Box::pin(task)));
        // The task of a process that is gone is dropped, while the simulation is not borrowed.
        drop(refused);
    }

    async fn connect(&self, node: Node) -> Result<VirtualConn, CallError> {
        let conn = ConnectFuture::new(self.process, node, Purpose::Commands).await?;
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
        with(|sim| {
            if !sim.executor.is_closed() {
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
}

/// A process's connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualConn {
    conn: u32,
}

impl Conn for VirtualConn {
    fn gave_up(&self, silence: Duration) -> bool {
        with(|sim| sim.give_up_conn(self.conn, span_ns(silence)))
    }

    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, CallError>> + Send {
        CallFuture::new(self.conn, command)
    }
}
