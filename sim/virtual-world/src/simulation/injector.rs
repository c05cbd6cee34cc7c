//! What a fault does to clients, connections, clocks and servers, and how servers come back.
//!
//! Invariant: a fault that meets nobody (a client that has crashed, a server that is down already, a primary
//! without a replica) does nothing and is not recorded. No fault strikes the server of the protected
//! resource. Deliberately absent: which kind of fault does which of these; `harness::injector` says it for every
//! world.
//!
//! Nothing reaches a server's clients any more once it has ended. They learn of that at once if its machine still
//! runs; otherwise when it is back, or by its silence.

use harness::cues::{Cues, Recovery};
use harness::injector::{self, ForeignValue, Injector, ServerFault};
use history::fault::{Chance, Fault, Staged, Ways};
use redis_model::model::Termination;
use resp::Reply;

use super::super::executor::ProcessState;
use super::super::nemesis::{KeptValue, PendingCrash, PlannedFault, StalledDirection};
use super::super::network::{Direction, NetworkConn, Purpose};
use super::Simulation;

impl Injector for Simulation {
    type Held = StalledDirection;

    fn cues(&mut self) -> &mut Cues<StalledDirection> {
        &mut self.nemesis.cues
    }

    fn strike_later(&mut self, cue: u32, in_ns: u64) {
        self.plan_in(in_ns, PlannedFault::Cue(cue));
    }

    fn end_later(&mut self, end: Recovery<StalledDirection>, in_ns: u64) {
        self.plan_in(in_ns, PlannedFault::Over(end));
    }

    fn happens(&mut self, chance: Chance) -> bool {
        self.choices.strikes(chance.per_64k())
    }

    fn any_client(&mut self) -> u32 {
        1 + self.choices.pick(self.processes.count() - 1)
    }

    fn any_server(&mut self) -> Option<u32> {
        Some(self.choices.pick(self.servers.of_lock()))
    }

    fn pause(&mut self, client: u32, cue: &Staged) -> bool {
        self.pause_client(client, cue.surely_lasts_ns().unwrap_or(0))
    }

    fn resume(&mut self, client: u32) {
        self.executor.resume(client);
    }

    fn kill(&mut self, client: u32, comes_back_ns: Option<u64>) {
        if self.executor.is_polling(client) {
            let striking = self.nemesis.cues.striking();
            self.nemesis.pending_crash = Some(PendingCrash { client, striking, comes_back_ns });
        } else {
            self.crash_client(client, comes_back_ns);
        }
    }

    fn revive(&mut self, client: u32) {
        if self.executor.state(client) != ProcessState::Crashed {
            return;
        }
        self.processes[client].forget_conns();
        self.executor.revive(client);
        self.budget.begin_again();
        let begins = self.begins.as_ref().map(|begins| begins(client));
        // A process that has just begun takes tasks.
        drop(begins.and_then(|task| self.executor.spawn(client, task)));
    }

    fn cut(&mut self, client: u32, ways: Ways, cue: &Staged) {
        self.cut_links(client, ways.there_and_back(), cue.surely_lasts_ns().unwrap_or(0));
    }

    fn mend(&mut self, client: u32) {
        for server in 0..self.servers.of_lock() {
            self.network.link(client, server).cut = [false; 2];
            for direction in [Direction::ToServer, Direction::ToClient] {
                let withheld = &mut self.network.link(client, server).withheld;
                for call in std::mem::take(&mut withheld[direction as usize]) {
                    self.send_on(self.calls[call].conn, direction, call);
                }
            }
        }
    }

    fn arm(&mut self, client: u32, cue: u32) {
        self.nemesis.armed.push((client, cue));
    }

    fn disarm(&mut self, client: u32, cue: u32) {
        self.nemesis.armed.retain(|armed| *armed != (client, cue));
    }

    fn deliver(&mut self, StalledDirection { conn, direction }: StalledDirection) {
        for call in self.network.take_stalled(conn, direction) {
            self.send_on(conn, direction, call);
        }
    }

    fn set_drift(&mut self, client: u32, ppm: i32) {
        self.processes[client].clock.set_drift(self.time.now_ns(), ppm);
        // It lasts as long as the schedule, so it meets every hold that is still to come.
        self.nemesis.note_as(client, None, Fault::Drift, 0, true);
    }

    fn step_clock(&mut self, client: u32, by_ns: i64) {
        self.processes[client].clock.step_wall(by_ns);
        self.nemesis.note(client, None, Fault::ClockStep, by_ns.unsigned_abs());
    }

    fn strike_server(&mut self, server: Option<u32>, with: ServerFault) {
        let now_ns = self.time.now_ns();
        let server = server.unwrap_or(self.servers.primary);
        let node = self.servers.node_of(server);
        let it = &mut self.servers[server];
        match with {
            ServerFault::FlushScripts if it.serves() => {
                it.execute_at_once(now_ns, &[b"SCRIPT", b"FLUSH"]);
                self.nemesis.note(0, None, Fault::ScriptFlush, 0);
            }
            ServerFault::Evict | ServerFault::Flush if it.serves() => {
                self.lose_keys(server, node, with);
            }
            ServerFault::Occupy { with, for_ns } if it.serves() => {
                self.occupy_key(server, node, with, for_ns);
            }
            ServerFault::Stall { for_ns } if it.serves() => {
                it.stalled = Some(Vec::new());
                self.nemesis.note(0, node, Fault::Stall, for_ns);
                self.plan_in(for_ns, PlannedFault::WakeServer(server));
            }
            ServerFault::Fill { for_ns } if it.serves() => {
                it.execute_at_once(now_ns, &injector::memory("1").map(str::as_bytes));
                self.nemesis.note(0, node, Fault::Full, for_ns);
                self.plan_in(for_ns, PlannedFault::MakeRoom(server));
            }
            ServerFault::Switchover { to } if it.serves() => self.switch_over(to),
            ServerFault::SplitBrain { to, keeps, for_ns } if it.is_up() => {
                self.split(to, keeps, for_ns);
            }
            ServerFault::StepClock(by_ns) => {
                it.clock.step_wall(by_ns);
                self.nemesis.note(0, node, Fault::ClockStep, by_ns.unsigned_abs());
            }
            ServerFault::Drift(ppm) => {
                it.clock.set_drift(now_ns, ppm);
                self.nemesis.note_as(0, None, Fault::Drift, 0, true);
            }
            ServerFault::End { fault, to, for_ns } if it.is_up() => {
                self.end_server(fault, server, to, for_ns);
            }
            // It is down, or stalled.
            ServerFault::FlushScripts
            | ServerFault::Evict
            | ServerFault::Flush
            | ServerFault::Occupy { .. }
            | ServerFault::Stall { .. }
            | ServerFault::Fill { .. }
            | ServerFault::Switchover { .. }
            | ServerFault::SplitBrain { .. }
            | ServerFault::End { .. } => {}
        }
    }
}

impl Simulation {
    /// Ends a server that is up, unless it is to be replaced and nobody can take its place.
    fn end_server(&mut self, fault: Fault, server: u32, to: Option<u32>, for_ns: u64) {
        if fault == Fault::Failover && self.servers.successor(None).is_none() {
            return;
        }
        // Asked before it ends: the next primary and what it knows depend on which servers are up.
        let in_hold = self.nemesis.meets_hold(0) && !(self.must_lose_hold() && self.keeps_key(to));
        let node = self.servers.node_of(server);
        self.nemesis.note_as(0, node, fault, for_ns, in_hold);
        let (ending, then) = match fault {
            Fault::Failover => (Termination::Killed, PlannedFault::Promote { to, for_ns }),
            Fault::PowerLoss => (Termination::PowerLoss, PlannedFault::StartServer(server)),
            _ => (Termination::Killed, PlannedFault::StartServer(server)),
        };
        self.stop_server(server, ending);
        self.plan_in(for_ns, then);
    }

    /// Pauses a client that runs; true if it ran.
    pub(crate) fn pause_client(&mut self, client: u32, for_ns: u64) -> bool {
        let runs = self.executor.state(client) == ProcessState::Running;
        if runs {
            self.executor.pause(client);
            self.nemesis.note(client, None, Fault::Pause, for_ns);
        }
        runs
    }

    /// Ends a client: for good, unless it is to come back.
    pub(super) fn crash_client(&mut self, client: u32, comes_back_ns: Option<u64>) {
        if self.executor.state(client) == ProcessState::Crashed {
            return;
        }
        self.nemesis.note(client, None, Fault::Crash, comes_back_ns.unwrap_or(0));
        self.crash(client);
        if let Some(in_ns) = comes_back_ns {
            self.end_later(Recovery::Revive(client), in_ns);
        }
    }

    /// Cuts a client off from the servers of the lock.
    pub(super) fn cut_links(&mut self, client: u32, directions: [bool; 2], for_ns: u64) {
        for server in 0..self.servers.of_lock() {
            self.network.link(client, server).cut = directions;
        }
        self.nemesis.note(client, None, Fault::Partition, for_ns);
    }

    /// A message is lost silently.
    pub(super) fn lose_message(&mut self, conn: u32, direction: Direction, fault: Fault) {
        let it = self.network.conn_mut(conn);
        it.kill(direction);
        // TCP: after a lost reply, later requests are lost as well.
        it.kill(Direction::ToServer);
        self.nemesis.note(it.process, None, fault, 0);
    }

    /// A connection breaks.
    pub(super) fn reset_conn(&mut self, conn: u32) {
        let it = self.network.conn_mut(conn);
        it.kill(Direction::ToServer);
        it.kill(Direction::ToClient);
        self.nemesis.note(it.process, None, Fault::Reset, 0);
        self.break_conn(conn);
    }

    /// Whether the fault that is striking must end a hold that the next primary does not know of.
    fn must_lose_hold(&self) -> bool {
        let striking = self.nemesis.cues.striking();
        let cue = striking.and_then(|cue| self.nemesis.cues.get(cue.into()));
        cue.is_some_and(|cue| cue.loses_hold)
    }

    /// Whether the server that is to be the next primary has the lock's key.
    fn keeps_key(&self, to: Option<u32>) -> bool {
        let Some(next) = self.servers.successor(to) else { return false };
        self.lock_key().is_some_and(|key| self.servers[next].model.has(&key))
    }

    fn lock_key(&self) -> Option<Vec<u8>> {
        let journal = self.nemesis.journal.as_ref()?;
        Some(journal.look(|history| history.head.lock_key.clone().into_bytes()))
    }

    /// A server that serves loses the lock's key, or all keys.
    fn lose_keys(&mut self, server: u32, node: Option<u16>, with: ServerFault) {
        let Some(key) = self.lock_key() else { return };
        let it = &mut self.servers[server];
        let in_hold = it.model.has(&key) && self.nemesis.meets_hold(0);
        let (fault, command): (_, &[&[u8]]) = match with {
            ServerFault::Flush => (Fault::Flush, &[b"FLUSHALL"]),
            _ => (Fault::Evict, &[b"DEL", &key]),
        };
        self.nemesis.note_as(0, node, fault, 0, in_hold);
        it.execute_at_once(self.time.now_ns(), command);
        self.servers.after_command(server, &mut self.time, &mut self.choices);
    }

    /// Stores something else under the lock's key for `for_ns`, if the key is free.
    fn occupy_key(&mut self, server: u32, node: Option<u16>, with: ForeignValue, for_ns: u64) {
        let Some(key) = self.lock_key() else { return };
        let key = String::from_utf8_lossy(&key);
        let put = with.put(&key).map(str::as_bytes);
        if self.servers[server].execute_at_once(self.time.now_ns(), &put) != Reply::Int(1) {
            return;
        }
        self.nemesis.note(0, node, with.fault(), for_ns);
        self.servers.after_command(server, &mut self.time, &mut self.choices);
        self.plan_in(for_ns, PlannedFault::ClearKey(KeptValue { with, server, node }));
    }

    /// Deletes a foreign value under the lock's key. If its server is down, that is done once it is there again.
    pub(crate) fn clear_key(&mut self, kept: KeptValue) {
        let Some(key) = self.lock_key() else { return };
        let leads_to = kept.node.and_then(|node| self.servers.of_node(0, node.into()));
        let server = leads_to.unwrap_or(kept.server);
        if !self.servers[server].is_up() {
            return self.nemesis.overdue.push(kept);
        }
        let key = String::from_utf8_lossy(&key);
        let remove = kept.with.remove(&key).map(str::as_bytes);
        self.servers[server].execute_at_once(self.time.now_ns(), &remove);
        self.servers.after_command(server, &mut self.time, &mut self.choices);
    }

    /// A server is there: what was to be deleted from it while it was down is deleted now.
    fn clear_overdue(&mut self) {
        std::mem::take(&mut self.nemesis.overdue).into_iter().for_each(|it| self.clear_key(it));
    }

    /// A server that was full has room again. One that was restarted meanwhile has room already.
    pub(crate) fn make_room(&mut self, server: u32) {
        if self.servers[server].is_up() {
            let now_ns = self.time.now_ns();
            self.servers[server].execute_at_once(now_ns, &injector::memory("0").map(str::as_bytes));
        }
    }

    /// A replica that has caught up takes the primary's place, if there is one. Connections to the old primary stay,
    /// except those with a blocked command, which Redis closes, and those of subscribers.
    fn switch_over(&mut self, to: Option<u32>) {
        let old = self.servers.primary;
        if self.servers.lingering.is_some() || self.servers.successor(None).is_none() {
            return;
        }
        self.nemesis.note(0, self.servers.node_of(old), Fault::Switchover, 0);
        let closes =
            |it: &NetworkConn| it.blocked.is_some() || it.purpose == Purpose::Subscriptions;
        self.end_conns(|it| it.server == old && closes(it), true);
        self.servers.switch_over(to, self.time.now_ns(), &mut self.choices);
    }

    /// A replica takes the primary's place, if there is one. The old primary goes on for one client, and the
    /// connections of all others to it break.
    fn split(&mut self, to: Option<u32>, keeps: u32, for_ns: u64) {
        let old = self.servers.primary;
        if self.servers.lingering.is_some() || self.servers.successor(None).is_none() {
            return;
        }
        let in_hold = self.nemesis.meets_hold(0) && !(self.must_lose_hold() && self.keeps_key(to));
        self.nemesis.note_as(0, self.servers.node_of(old), Fault::SplitBrain, for_ns, in_hold);
        self.servers.split(to, keeps, self.time.now_ns(), &mut self.choices);
        self.end_conns(|it| it.server == old && it.process != keeps, true);
        self.plan_in(for_ns, PlannedFault::StepDown);
    }

    /// The old primary that goes on beside the new one, if there is one, becomes its replica. It loses the writes that
    /// the new one lacks, as by a restart.
    pub(super) fn step_down(&mut self) {
        if let Some((old, _)) = self.servers.lingering {
            self.stop_server(old, Termination::Killed);
            self.start_server(old);
        }
    }

    /// Ends a process at once.
    pub(crate) fn crash(&mut self, process: u32) {
        self.executor.crash(process);
        self.ends(process);
    }

    /// A process ends by itself, and another takes its place at once: only the task that calls this goes on.
    pub(crate) fn end_process(&mut self, process: u32) {
        self.executor.end_others(process);
        self.ends(process);
        self.processes[process].forget_conns();
    }

    /// A process holds no lock any more, and has no connections.
    fn ends(&mut self, process: u32) {
        self.nemesis.holders[process as usize] = false;
        self.nemesis.cues.dies(process);
        for conn in self.network.conns_where(|it| it.process == process) {
            self.break_conn(conn);
            self.hang_up(conn);
        }
    }

    /// Ends a server that is up.
    pub(crate) fn stop_server(&mut self, server: u32, ending: Termination) {
        // A machine without power cannot even close connections.
        self.end_conns(|it| it.server == server, ending == Termination::Killed);
        self.servers.end(server, ending);
    }

    /// Ends connections at their server, with all messages on their way; `told` if their clients learn it now.
    fn end_conns(&mut self, which: impl Fn(&NetworkConn) -> bool, told: bool) {
        for conn in self.network.conns_where(|it| which(it) && !it.ended) {
            let it = self.network.conn_mut(conn);
            it.ended = true;
            it.kill(Direction::ToServer);
            it.kill(Direction::ToClient);
            let NetworkConn { server, session, .. } = *it;
            if let Some(call) = it.blocked.take() {
                self.calls.lose(call);
                self.servers[server].blocked -= 1;
            }
            self.calls.lose_unread(conn);
            self.servers[server].model.disconnect(session);
            if told {
                self.break_conn(conn);
            }
        }
    }

    /// Starts a server that has ended.
    pub(crate) fn start_server(&mut self, server: u32) {
        if self.servers[server].is_up() {
            return;
        }
        self.servers.restart(server, self.time.now_ns());
        // Clients that still wait for the server before its end learn now that it has restarted.
        for conn in self.network.conns_where(|it| it.server == server && it.ended && it.open) {
            self.break_conn(conn);
        }
        self.clear_overdue();
    }

    /// A replica takes the place of the primary, if that has ended. If there is none, the primary comes
    /// back instead.
    pub(crate) fn promote(&mut self, to: Option<u32>) {
        let primary = self.servers.primary;
        if self.servers[primary].is_up() {
            return;
        }
        if !self.servers.promote(to, self.time.now_ns(), &mut self.choices) {
            self.start_server(primary);
        }
        self.clear_overdue();
    }
}
