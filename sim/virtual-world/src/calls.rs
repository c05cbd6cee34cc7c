//! Pending calls: their commands, their replies and the tasks that wait for them.
//!
//! Invariant: a reply reaches only the call it answers. A call's number is used again only when nobody
//! waits for it and no message of it is on its way.

use std::ops::{Index, IndexMut};

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::Reply;
use smallvec::SmallVec;

/// How a call ends.
pub(super) type CallOutcome = Result<Reply, CallError>;

/// A call, or a message of a channel that a server sends by itself.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) conn: u32,
    /// The task that waits; none once nobody does.
    waiter: Option<u32>,
    /// Until it is executed.
    pub(super) command: Option<Command>,
    /// Once it was executed.
    pub(super) outcome: Option<CallOutcome>,
    progress: CallProgress,
    /// Its connection broke before the reply.
    broken: bool,
    /// Its connection was known to be closed: nothing was sent.
    unsent: bool,
    /// The cue whose fault strikes it.
    pub(super) staged: Option<u32>,
    is_push: bool,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallProgress {
    /// A message of it is on its way, or withheld: an event will come.
    InTransit,
    /// The reply is there.
    Arrived,
    /// No event will come any more.
    Lost,
}

/// What a reply is when it arrives.
pub(super) enum Arrival {
    /// The reply that this task waits for.
    Awaited(u32),
    /// A reply that nobody waits for.
    Unawaited,
    /// A message of a channel.
    Push(Reply),
}

/// All calls.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    calls: Vec<PendingCall>,
    vacant: Vec<u32>,
    /// Connections and requests that have arrived behind a blocked command, or at a stalled server. The server reads
    /// them when the command is answered, or when it goes on.
    pub(super) unread: Vec<(u32, u32)>,
}

impl PendingCall {
    fn new(conn: u32) -> Self {
        Self {
            conn,
            waiter: None,
            command: None,
            outcome: None,
            progress: CallProgress::InTransit,
            broken: false,
            unsent: false,
            staged: None,
            is_push: false,
        }
    }
}

impl Index<u32> for PendingCalls {
    type Output = PendingCall;

    fn index(&self, call: u32) -> &PendingCall {
        &self.calls[call as usize]
    }
}

impl IndexMut<u32> for PendingCalls {
    fn index_mut(&mut self, call: u32) -> &mut PendingCall {
        &mut self.calls[call as usize]
    }
}

impl PendingCalls {
    pub(super) fn clear(&mut self) {
        self.calls.clear();
        self.vacant.clear();
        self.unread.clear();
    }

    /// A call that is not sent, because its client knows that the connection is closed.
    pub(super) fn begin_unsent(&mut self, conn: u32) -> u32 {
        let progress = CallProgress::Lost;
        self.add(PendingCall { progress, unsent: true, ..PendingCall::new(conn) })
    }

    /// A call on a connection; it is lost if the connection is not open.
    pub(super) fn begin(&mut self, conn: u32, command: Command, task: u32, open: bool) -> u32 {
        let progress = if open { CallProgress::InTransit } else { CallProgress::Lost };
        let (waiter, command) = (Some(task), Some(command));
        let call = PendingCall::new(conn);
        self.add(PendingCall { waiter, command, progress, broken: !open, ..call })
    }

    /// A message of a channel, sent by the server.
    pub(super) fn push(&mut self, conn: u32) -> u32 {
        self.add(PendingCall { is_push: true, ..PendingCall::new(conn) })
    }

    fn add(&mut self, call: PendingCall) -> u32 {
        if let Some(place) = self.vacant.pop() {
            self.calls[place as usize] = call;
            return place;
        }
        self.calls.push(call);
        u32::try_from(self.calls.len() - 1).expect("fewer than 2^32 calls")
    }

    fn free_if_over(&mut self, call: u32) {
        let it = &self.calls[call as usize];
        if it.waiter.is_none() && it.progress != CallProgress::InTransit {
            self.vacant.push(call);
        }
    }

    /// The outcome of a call, if that is known; otherwise this task waits for it.
    pub(super) fn poll(&mut self, call: u32, task: u32) -> Option<CallOutcome> {
        let it = &mut self.calls[call as usize];
        let outcome = match it.progress {
            CallProgress::Arrived => it.outcome.take(),
            _ if it.unsent => Some(Err(CallError::NotSent("the connection is closed".into()))),
            _ if it.broken => {
                let broken = "the connection broke before the answer";
                Some(Err(CallError::Indeterminate(broken.into())))
            }
            _ => None,
        };
        it.waiter = if outcome.is_some() { None } else { Some(task) };
        if outcome.is_some() {
            self.free_if_over(call);
        }
        outcome
    }

    /// Nobody waits for this call any more; a request that was sent is still delivered.
    pub(super) fn abandon(&mut self, call: u32) {
        // After a reset the call may not exist any more.
        if let Some(it) = self.calls.get_mut(call as usize) {
            it.waiter = None;
            self.free_if_over(call);
        }
    }

    /// The reply of a call is there.
    pub(super) fn arrive(&mut self, call: u32) -> Arrival {
        let it = &mut self.calls[call as usize];
        it.progress = CallProgress::Arrived;
        if let Some(task) = it.waiter {
            return Arrival::Awaited(task);
        }
        let push = it.outcome.take_if(|_| it.is_push);
        self.free_if_over(call);
        match push {
            Some(Ok(message)) => Arrival::Push(message),
            _ => Arrival::Unawaited,
        }
    }

    /// A message of this call is lost; a task that waits for it waits until the connection breaks.
    pub(super) fn lose(&mut self, call: u32) {
        self.calls[call as usize].progress = CallProgress::Lost;
        self.free_if_over(call);
    }

    /// A connection has broken: the tasks that wait for calls on it, to be woken.
    pub(super) fn break_conn(&mut self, conn: u32) -> SmallVec<[u32; 4]> {
        let mut woken = SmallVec::new();
        for call in &mut self.calls {
            if call.conn == conn
                && call.progress != CallProgress::Arrived
                && let Some(task) = call.waiter
            {
                call.broken = true;
                woken.push(task);
            }
        }
        woken
    }

    /// Whether the server has not read all that has arrived on this connection.
    pub(super) fn has_unread(&self, conn: u32) -> bool {
        self.unread.iter().any(|(of, _)| *of == conn)
    }

    /// The next request that the server reads on this connection.
    pub(super) fn next_unread(&mut self, conn: u32) -> Option<u32> {
        let next = self.unread.iter().position(|(of, _)| *of == conn)?;
        Some(self.unread.remove(next).1)
    }

    /// The connections for which this is true and that have unread requests, in the order in which these arrived.
    pub(super) fn unread_conns(&self, is: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut conns = Vec::new();
        for &(conn, _) in &self.unread {
            if is(conn) && !conns.contains(&conn) {
                conns.push(conn);
            }
        }
        conns
    }

    /// What has arrived on this connection and was not read is lost.
    pub(super) fn lose_unread(&mut self, conn: u32) {
        while let Some(call) = self.next_unread(conn) {
            self.lose(call);
        }
    }
}
