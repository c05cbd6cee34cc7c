//! A call that a client awaits.
//!
//! Invariant: a call that is dropped is not recalled; what has been sent goes its way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use picklock::command::Command;

use super::super::calls::CallOutcome;
use super::super::simulation::{with, with_if_open};

/// A command, and how its call ends.
#[derive(Debug)]
pub(super) struct CallFuture {
    conn: u32,
    command: Option<Command>,
    call: Option<u32>,
    /// Its client has been stopped before it could send.
    stopped: bool,
}

impl CallFuture {
    pub(super) fn new(conn: u32, command: Command) -> Self {
        Self { conn, command: Some(command), call: None, stopped: false }
    }
}

impl Future for CallFuture {
    type Output = CallOutcome;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<CallOutcome> {
        let this = self.get_mut();
        with(|sim| {
            let task = sim.executor.current();
            let call = match (this.call, this.command.take()) {
                (Some(call), _) => call,
                (None, Some(command)) => {
                    let process = sim.network.conn(this.conn).process;
                    if sim.before_send(process, &command, this.stopped) {
                        this.stopped = true;
                        this.command = Some(command);
                        // Where the process is paused, the task is polled again when it goes on.
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
