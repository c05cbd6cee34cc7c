//! A connection that a client awaits.
//!
//! Invariant: a connection is used until it has broken or been silent for a second, as in the tokio
//! environment.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use picklock::env::{CallError, Node};

use super::super::executor::ProcessState;
use super::super::network::Purpose;
use super::super::simulation::with;

/// A connection to the server that a node leads to: the one in use, or a new one.
#[derive(Debug)]
pub(super) struct ConnectFuture {
    process: u32,
    node: u32,
    purpose: Purpose,
    attempt: Option<u32>,
}

impl ConnectFuture {
    pub(super) fn new(process: u32, node: Node, purpose: Purpose) -> Self {
        Self { process, node: node.0.into(), purpose, attempt: None }
    }
}

impl Future for ConnectFuture {
    type Output = Result<u32, CallError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<u32, CallError>> {
        let this = self.get_mut();
        with(|sim| {
            let Some(server) = sim.servers.of_node(this.node) else {
                let why = format!("no server is configured as {}", this.node);
                return Poll::Ready(Err(CallError::NotSent(why.into())));
            };
            let task = sim.executor.current();
            if sim.executor.state(this.process) != ProcessState::Running {
                // Where the process is paused, the task is polled again when it goes on.
                sim.executor.wake(task);
                return Poll::Pending;
            }
            let Some(attempt) = this.attempt else {
                if let Some(conn) = sim.usable_conn(this.process, server, this.purpose) {
                    return Poll::Ready(Ok(conn));
                }
                this.attempt = Some(sim.connect(this.process, server, this.purpose));
                return Poll::Pending;
            };
            let attempt = sim.network.attempt(attempt);
            attempt.task = task;
            attempt.outcome.take().map_or(Poll::Pending, Poll::Ready)
        })
    }
}
