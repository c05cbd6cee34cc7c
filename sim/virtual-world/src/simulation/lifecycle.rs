//! Lifecycle: processes that crash, and servers that end, come back and take each other's place.
//!
//! Invariant: nothing reaches a server's clients any more once it has ended. They learn of it at once where
//! its machine lives on, else when it is back, or by its silence.

use redis_model::model::Termination;

use super::super::network::Direction;
use super::Simulation;

impl Simulation {
    /// Ends a process at once.
    pub(crate) fn crash(&mut self, process: u32) {
        self.executor.crash(process);
        self.nemesis.set_holds(process, false);
        for conn in self.network.conns_where(|it| it.process == process) {
            self.break_conn(conn);
            self.hang_up(conn);
        }
    }

    /// Ends a server that is up.
    pub(crate) fn stop_server(&mut self, server: u32, ending: Termination) {
        for conn in self.network.conns_where(|it| it.server == server && !it.ended) {
            let it = self.network.conn_mut(conn);
            it.ended = true;
            it.kill(Direction::ToServer);
            it.kill(Direction::ToClient);
            if let Some(call) = it.blocked.take() {
                self.calls.lose(call);
            }
            self.calls.lose_unread(conn);
            // A machine without power cannot even say so.
            if ending == Termination::Killed {
                self.break_conn(conn);
            }
        }
        self.servers.end(server, ending);
    }

    /// Starts a server that has ended.
    pub(crate) fn start_server(&mut self, server: u32) {
        if self.servers[server].is_up() {
            return;
        }
        self.servers.restart(server, self.time.now_ns());
        // Who still waits for the server as it was learns now that it is another.
        for conn in self.network.conns_where(|it| it.server == server && it.ended && it.open) {
            self.break_conn(conn);
        }
    }

    /// A replica takes the place of the primary, if that has ended. Where there is none, the primary comes
    /// back instead.
    pub(crate) fn promote(&mut self, to: Option<u32>) {
        let primary = self.servers.primary();
        if self.servers[primary].is_up() {
            return;
        }
        if !self.servers.promote(to, self.time.now_ns(), &mut self.choices) {
            self.start_server(primary);
        }
    }
}
