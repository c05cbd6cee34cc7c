//! Server operations: what the nemesis wants done to a server, and how it is done.
//!
//! Invariant: a client that came to the place of the fault goes on once the operation has been carried out. A fault is
//! recorded after it has happened and before the server that it struck serves again. A fault that could not happen is
//! not recorded, and the run says why. A scheduled action (such as a restart) is carried out when it is due, or at the
//! heal.

use std::convert::Infallible;

use harness::injector::{self, ForeignValue, ServerFault};
use history::What;
use history::fault::Fault;
use picklock::env::Node;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{LiveNemesis, Locked, POLL_EVERY, staged};
use crate::deployment::Deployment;

/// What is to be done to a server, by which cue and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerOp {
    action: ServerAction,
    /// The cue and the client that came to its place; none for a scheduled action.
    cue: Option<(u32, u32)>,
    /// Whether it met a hold.
    in_hold: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ServerAction {
    /// A fault strikes this server or, if none is named, the primary.
    Strike(Option<u32>, ServerFault),
    /// It is started again.
    Restart { server: usize },
    /// It is stalled no longer.
    Wake { server: usize },
    /// The foreign value under the lock's key is deleted, on this server or on whichever the node leads to by then.
    ClearKey { with: ForeignValue, server: usize, node: Option<u16> },
    /// It has memory again.
    MakeRoom { server: usize },
    /// The old primary that went on for this client becomes the replica of the new one.
    StepDown { keeps: u32 },
    /// A replica takes its place; it is started again `for_ns` later.
    Promote { old: usize, to: Option<u32>, for_ns: u64 },
}

/// The operations that are not done yet.
#[derive(Default)]
pub(super) struct ServerOps {
    in_progress: usize,
    /// Scheduled actions, with rising numbers by which their timers find them.
    scheduled: Vec<(u64, ServerAction)>,
    /// What was to be done to a server that was down, and is done once one is there again.
    overdue: Vec<ServerAction>,
}

impl ServerOps {
    /// Whether an operation is in progress or scheduled.
    pub(super) fn is_busy(&self) -> bool {
        self.in_progress > 0 || !self.scheduled.is_empty()
    }
}

impl LiveNemesis {
    /// Carries out on these servers everything that is requested, one operation after the other.
    pub(crate) async fn carry_out_all(
        &self,
        deployment: &Deployment,
        requests: &mut UnboundedReceiver<ServerOp>,
    ) -> Infallible {
        while let Some(op) = requests.recv().await {
            if let Err(why) = self.carry_out(deployment, &op).await {
                self.remark(why);
            }
            let mut locked = self.lock();
            locked.state.server_ops.in_progress -= 1;
            locked.unblock(&op);
        }
        // Nothing will be requested any more.
        std::future::pending().await
    }

    /// Carries out one operation; an error says why that failed.
    async fn carry_out(&self, deployment: &Deployment, op: &ServerOp) -> Result<(), String> {
        match op.action {
            ServerAction::Strike(server, fault) => {
                let server = deployment.server_or_primary(server);
                self.strike(deployment, op, server, fault).await
            }
            ServerAction::Restart { server } => self.restart(deployment, server).await,
            ServerAction::Wake { server } => {
                deployment.wake(server).await.map_err(|error| error.to_string())
            }
            ServerAction::ClearKey { with, server, node } => {
                let server = node.map_or(server, |node| deployment.server_of(Node(node)));
                if !deployment.is_up(server) {
                    self.state().server_ops.overdue.push(op.action);
                    return Ok(());
                }
                deployment.clear(server, with).await.map_err(|error| error.to_string())
            }
            ServerAction::MakeRoom { server } => {
                // A server that was restarted meanwhile has its memory already.
                let room = deployment.command(server, &injector::memory("0")).await;
                room.map(drop).map_err(|error| error.to_string())
            }
            ServerAction::StepDown { keeps } => {
                let upstream = deployment.upstream(Node(0));
                self.state().links.lead_away(&upstream, |client| client == keeps);
                deployment.step_down().await.map_err(|error| error.to_string())
            }
            ServerAction::Promote { old, to, for_ns } => {
                let promoted = if deployment.has_sentinels() {
                    deployment.await_election(old).await
                } else {
                    let promoted = deployment.promote(to.map(|it| it as usize)).await;
                    self.state().links.redirect(&deployment.upstream(Node(0)));
                    promoted
                };
                self.schedule(ServerAction::Restart { server: old }, for_ns);
                self.request_overdue();
                promoted.map_err(|error| error.to_string())
            }
        }
    }

    /// Strikes a server, where the fault can meet it.
    async fn strike(
        &self,
        deployment: &Deployment,
        op: &ServerOp,
        server: usize,
        fault: ServerFault,
    ) -> Result<(), String> {
        match fault {
            ServerFault::FlushScripts => {
                let flush = ["SCRIPT", "FLUSH"];
                if !deployment.serves(server) || deployment.command(server, &flush).await.is_err() {
                    return Ok(());
                }
            }
            ServerFault::Evict => {
                if !deployment.serves(server) || deployment.evict(server).await.is_err() {
                    return Ok(());
                }
            }
            ServerFault::Flush => {
                if !deployment.serves(server) || deployment.flush(server).await.is_err() {
                    return Ok(());
                }
            }
            ServerFault::Occupy { with, for_ns } => {
                if deployment.serves(server) && deployment.occupy(server, with).await {
                    // Recorded before the time begins to count: the value stays at least that long.
                    let node = deployment.node_of(server);
                    self.struck(op, node, false);
                    self.schedule(ServerAction::ClearKey { with, server, node }, for_ns);
                }
                return Ok(());
            }
            ServerFault::Stall { for_ns } => {
                if !deployment.serves(server) {
                    return Ok(());
                }
                deployment.stall(server).await.map_err(|error| error.to_string())?;
                self.schedule(ServerAction::Wake { server }, for_ns);
            }
            ServerFault::Fill { for_ns } => {
                if !deployment.serves(server)
                    || deployment.command(server, &injector::memory("1")).await.is_err()
                {
                    return Ok(());
                }
                self.schedule(ServerAction::MakeRoom { server }, for_ns);
            }
            ServerFault::Switchover { to } => return self.switch_over(deployment, op, to).await,
            ServerFault::SplitBrain { to, keeps, for_ns } => {
                return self.split(deployment, op, to, keeps, for_ns).await;
            }
            ServerFault::StepClock(by_ns) if deployment.step_clock(server, by_ns).await => {}
            ServerFault::Drift(ppm) if deployment.set_drift(server, ppm).await => {}
            ServerFault::StepClock(_) | ServerFault::Drift(_) => {
                return Err(no_library(server, "its clock cannot be changed"));
            }
            ServerFault::End { fault, to, for_ns } => {
                return self.end(deployment, op, server, fault, to, for_ns).await;
            }
        }
        self.struck(op, deployment.node_of(server), false);
        Ok(())
    }

    /// Ends a server that is up.
    async fn end(
        &self,
        deployment: &Deployment,
        op: &ServerOp,
        server: usize,
        fault: Fault,
        to: Option<u32>,
        for_ns: u64,
    ) -> Result<(), String> {
        let is_failover = fault == Fault::Failover;
        if !deployment.is_up(server) || (is_failover && !deployment.has_candidate()) {
            return Ok(());
        }
        let power = fault == Fault::PowerLoss;
        if power && !deployment.is_paged(server) {
            return Err(no_library(server, "what is on its disk is unknown"));
        }
        if is_failover {
            deployment.note_unawaited_election().await;
        }
        // Asked before it ends: the primary may be another one afterwards.
        let node = deployment.node_of(server);
        if power {
            // First, so that clients do not see connections close: a machine without power is silent.
            self.state().links.set_power(deployment.link_of(server), false);
        }
        deployment.kill(server).await.map_err(|error| error.to_string())?;
        if power
            && let Some(cut) =
                deployment.lose_power(server).await.map_err(|error| error.to_string())?
        {
            let (kept, written) = (cut.kept, cut.written);
            self.remark(format!(
                "server {server} lost its power: {kept} of the {written} bytes of its append-only file were on the disk"
            ));
        }
        let kept = is_failover && deployment.candidate_has_key(to.map(|it| it as usize)).await;
        self.struck(op, node, kept);
        let then = match is_failover {
            true => ServerAction::Promote { old: server, to, for_ns },
            false => ServerAction::Restart { server },
        };
        self.schedule(then, for_ns);
        Ok(())
    }

    /// A replica takes the primary's place, if there is one, and the primary goes on for one client.
    async fn split(
        &self,
        deployment: &Deployment,
        op: &ServerOp,
        to: Option<u32>,
        keeps: u32,
        for_ns: u64,
    ) -> Result<(), String> {
        let (old, to) = (deployment.server_or_primary(None), to.map(|it| it as usize));
        if !deployment.is_up(old) || deployment.is_split() || !deployment.has_candidate() {
            return Ok(());
        }
        deployment.cut_replication(old);
        let kept = deployment.candidate_has_key(to).await;
        // Before the other one serves: from here on it is not known which of the two has carried out a command.
        self.struck(op, deployment.node_of(old), kept);
        let split = deployment.split(to).await;
        let upstream = deployment.upstream(Node(0));
        self.state().links.lead_away(&upstream, |client| client != keeps);
        self.schedule(ServerAction::StepDown { keeps }, for_ns);
        split.map_err(|error| error.to_string())
    }

    /// A replica that has caught up takes the primary's place, if there is one, and connections to the old primary
    /// stay.
    async fn switch_over(
        &self,
        deployment: &Deployment,
        op: &ServerOp,
        to: Option<u32>,
    ) -> Result<(), String> {
        let old = deployment.server_or_primary(None);
        if !deployment.serves(old) || deployment.is_split() || !deployment.has_candidate() {
            return Ok(());
        }
        let node = deployment.node_of(old);
        let switched = deployment.switch_over(to.map(|it| it as usize)).await;
        self.struck(op, node, false);
        self.state().links.redirect(&deployment.upstream(Node(0)));
        switched.map_err(|error| error.to_string())?;
        deployment.attach_others(Some(old)).await.map_err(|error| error.to_string())
    }

    async fn restart(&self, deployment: &Deployment, server: usize) -> Result<(), String> {
        let restarted = deployment.restart(server).await;
        // It serves from now on, whether or not replicas follow it yet.
        self.state().links.set_power(deployment.link_of(server), true);
        self.request_overdue();
        restarted.map_err(|error| format!("server {server} cannot be restarted: {error}"))?;
        deployment.attach_replicas().await.map_err(|error| error.to_string())
    }

    /// Records that an operation has struck the clients of this node; `kept` if the lock's key has survived it.
    fn struck(&self, op: &ServerOp, node: Option<u16>, kept: bool) {
        let Some((place, _)) = op.cue else { return };
        let locked = self.lock();
        let Some(cue) = locked.state.cues.get(place) else { return };
        let for_ns = match op.action {
            ServerAction::Strike(_, ServerFault::StepClock(by_ns)) => by_ns.unsigned_abs(),
            ServerAction::Strike(_, ServerFault::Drift(_)) => 0,
            _ => cue.lasts_ns().unwrap_or(0),
        };
        let in_hold = op.in_hold && !(cue.loses_hold && kept);
        let what = What::Fault { fault: cue.kind, node, for_ns, in_hold, staged: staged(place) };
        self.inner.write(0, what);
    }

    /// A server may be there again: what had to wait for that is requested.
    fn request_overdue(&self) {
        let mut locked = self.lock();
        for action in std::mem::take(&mut locked.state.server_ops.overdue) {
            locked.request(ServerOp { action, cue: None, in_hold: false });
        }
    }

    /// Schedules an action in `in_ns`; after the heal it is requested at once.
    fn schedule(&self, action: ServerAction, in_ns: u64) {
        let mut locked = self.lock();
        if !locked.state.cues.on() {
            return locked.request(ServerOp { action, cue: None, in_hold: false });
        }
        let scheduled = &mut locked.state.server_ops.scheduled;
        let number = scheduled.last().map_or(0, |(last, _)| last + 1);
        scheduled.push((number, action));
        drop(locked);
        // The heal may come earlier, and request it then.
        self.later(in_ns, move |it| it.lock().request_scheduled(|of| of == number));
    }

    /// Waits until no operation is in progress or scheduled.
    pub(crate) async fn servers_settled(&self) {
        while self.state().server_ops.is_busy() {
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

impl Locked<'_> {
    /// Requests an operation; the client that came to the place waits for it.
    pub(super) fn request_for_cue(&mut self, action: ServerAction) {
        let drifts = matches!(action, ServerAction::Strike(_, ServerFault::Drift(_)));
        let in_hold = self.meets_hold(0) || drifts;
        let client = self.state.cues.came();
        if let Some(client) = self.client(client) {
            client.block();
        }
        let cue = self.state.cues.striking().map(|cue| (u32::from(cue), client));
        self.request(ServerOp { action, cue, in_hold });
    }

    /// Requests now the scheduled actions with these numbers.
    pub(super) fn request_scheduled(&mut self, which: impl Fn(u64) -> bool) {
        let scheduled = &mut self.state.server_ops.scheduled;
        let due: Vec<_> = scheduled.extract_if(.., |(number, _)| which(*number)).collect();
        for (_, action) in due {
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

fn no_library(server: usize, what: &str) -> String {
    format!(
        "{what}: server {server} has not loaded the library that picklock starts it with (is its executable linked \
         statically, or is the temporary directory mounted noexec?)"
    )
}
