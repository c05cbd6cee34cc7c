//! Server operations: what the nemesis has the run do to a server.
//!
//! Invariant: a client that came to the place of the fault goes on once the operation has been carried out. What is
//! scheduled (a server is to come back) is carried out when its time has come, or at the heal.

use scenarios::fault::Fault;
use scenarios::history::What;

use super::{LiveNemesis, Locked, POLL_EVERY, staged};
use fault_proxy::Upstream;

/// What is to be done to a server, by which cue and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerOp {
    /// What.
    pub(crate) action: ServerAction,
    /// The cue and the client that came to its place; none for what was scheduled.
    cue: Option<(u32, u32)>,
    /// Whether it met a hold.
    in_hold: bool,
}

/// What is to be done to a server: to this one or, where none is named, to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerAction {
    /// It forgets its scripts.
    FlushScripts { server: Option<u32> },
    /// Its wall clock jumps.
    Step { server: Option<u32>, by_ns: i64 },
    /// Its clocks drift.
    Drift { server: Option<u32>, ppm: i32 },
    /// It ends, as this fault ends it.
    End { fault: Fault, server: Option<u32>, to: Option<u32>, for_ns: u64 },
    /// It is started again.
    Restart { server: usize },
    /// A replica takes its place; it is started again so much later.
    Promote { old: usize, to: Option<u32>, for_ns: u64 },
}

/// The operations that are not done yet.
#[derive(Default)]
pub(super) struct ServerOps {
    in_progress: usize,
    /// With numbers that rise, by which their timers find them.
    scheduled: Vec<(u64, ServerAction)>,
}

impl LiveNemesis {
    /// Writes down that an operation has struck the clients of this node; `kept` where the lock's key outlived it.
    pub(crate) fn struck(&self, op: &ServerOp, node: Option<u16>, kept: bool) {
        let Some((place, _)) = op.cue else { return };
        let locked = self.lock();
        let Some(cue) = locked.state.cues.get(place) else { return };
        let (fault, for_ns) = match op.action {
            ServerAction::Step { by_ns, .. } => (cue.kind, by_ns.unsigned_abs()),
            ServerAction::Drift { .. } => (cue.kind, 0),
            _ => (cue.kind, cue.lasts_ns().unwrap_or(0)),
        };
        let in_hold = op.in_hold && !(cue.loses_hold && kept);
        let what = What::Fault { fault, node, for_ns, in_hold, staged: staged(place) };
        self.inner.write(0, what);
    }

    /// An operation has been carried out, or cannot be.
    pub(crate) fn done(&self, op: &ServerOp) {
        let mut locked = self.lock();
        locked.state.server_ops.in_progress -= 1;
        locked.unblock(op);
    }

    /// Schedules an action in so many nanoseconds; after the heal it is requested at once.
    pub(crate) fn schedule(&self, action: ServerAction, in_ns: u64) {
        let mut locked = self.lock();
        if !locked.state.cues.on() {
            return locked.request(ServerOp { action, cue: None, in_hold: false });
        }
        let scheduled = &mut locked.state.server_ops.scheduled;
        let number = scheduled.last().map_or(0, |(last, _)| last + 1);
        scheduled.push((number, action));
        drop(locked);
        self.later(in_ns, move |it| {
            let mut locked = it.lock();
            let scheduled = &mut locked.state.server_ops.scheduled;
            // The heal may have been earlier.
            if let Some(at) = scheduled.iter().position(|(it, _)| *it == number) {
                let (_, action) = scheduled.remove(at);
                locked.request(ServerOp { action, cue: None, in_hold: false });
            }
        });
    }

    /// Waits until no operation is in progress or scheduled.
    pub(crate) async fn servers_settled(&self) {
        let is_busy = |ops: &ServerOps| ops.in_progress > 0 || !ops.scheduled.is_empty();
        while is_busy(&self.state().server_ops) {
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// The machine of the server behind this link of every client loses its power, or has it again.
    pub(crate) fn set_power(&self, link: Option<usize>, on: bool) {
        if let Some(node) = link {
            self.state().links.set_power(node, on);
        }
    }

    /// A node leads to another server from now on.
    pub(crate) fn redirect(&self, node: u16, upstream: &Upstream) {
        self.state().links.redirect(node, upstream);
    }
}

impl Locked<'_> {
    /// Requests an operation; the client that came to the place waits for it.
    pub(super) fn request_for_cue(&mut self, action: ServerAction) {
        let in_hold = self.meets_hold(0) || matches!(action, ServerAction::Drift { .. });
        let client = self.state.cues.came();
        if let Some(client) = self.client(client) {
            client.block();
        }
        let cue = self.state.cues.striking().map(|cue| (u32::from(cue), client));
        self.request(ServerOp { action, cue, in_hold });
    }

    /// Requests now what was scheduled for later.
    pub(super) fn request_scheduled(&mut self) {
        for (_, action) in std::mem::take(&mut self.state.server_ops.scheduled) {
            self.request(ServerOp { action, cue: None, in_hold: false });
        }
    }

    fn request(&mut self, op: ServerOp) {
        // Nobody receives once the run is over.
        if self.nemesis.inner.server_ops.send(op).is_ok() {
            self.state.server_ops.in_progress += 1;
        } else {
            self.unblock(&op);
        }
    }

    fn unblock(&self, op: &ServerOp) {
        if let Some(client) = op.cue.and_then(|(_, client)| self.client(client)) {
            client.unblock();
        }
    }
}
