//! Servers that end, come back, and take each other's place.
//!
//! Invariant: whoever was connected to a server that has ended never hears of it again, but for the
//! end itself: at once where its machine lives on, else when it is back or by silence. Of what a server
//! held stays what its file has; a replica that is promoted has what had arrived. Deliberately absent:
//! an election; which replica takes over is a choice.

use super::super::choices::Draw;
use super::super::network::Way;
use super::super::world::World;
use super::State;
use redis_model::model::Termination;

impl World {
    /// Whether a server serves.
    pub(in super::super) fn is_up(&self, server: u32) -> bool {
        self.servers[server as usize].state == State::Up
    }

    /// The node whose clients lose something with this server.
    pub(in super::super) fn node_of(&self, server: u32) -> Option<u16> {
        self.fleet.node(server)
    }

    /// Whether anybody could take the primary's place.
    pub(in super::super) fn has_heir(&self) -> bool {
        self.fleet.replicated && !self.heirs().is_empty()
    }

    /// Ends a server that is up.
    pub(in super::super) fn end_server(&mut self, server: u32, ending: Termination) {
        let theirs = (0_u32..).zip(&self.conns);
        let theirs = theirs.filter(|(_, it)| it.server == server && !it.ended);
        let conns: Vec<u32> = theirs.map(|(conn, _)| conn).collect();
        for conn in conns {
            let it = &mut self.conns[conn as usize];
            it.ended = true;
            it.kill(Way::There);
            it.kill(Way::Back);
            if let Some(place) = it.waiting.take() {
                self.lose(place);
            }
            self.lose_unread(conn);
            // A machine without power cannot even say so.
            if ending == Termination::Killed {
                self.break_conn(conn);
            }
        }
        let it = &mut self.servers[server as usize];
        it.sessions.clear();
        (it.waiting, it.listeners) = (0, 0);
        it.model.end(ending);
        it.state = match ending {
            Termination::Killed => State::Dead,
            Termination::PowerLoss => State::Dark,
        };
        if !self.fleet.replicated {
            return;
        }
        if server == self.fleet.primary {
            self.fleet.feeds.clear();
        } else if let Some(place) = self.fleet.feeds.iter().position(|it| it.replica == server) {
            let feed = self.fleet.feeds.remove(place);
            let primary = self.fleet.primary as usize;
            self.servers[primary].model.detach_replica(feed.id);
        }
    }

    /// Starts a server that has ended: with what its file has, and as a replica where there is another
    /// primary.
    pub(in super::super) fn start_server(&mut self, server: u32) {
        if self.is_up(server) {
            return;
        }
        let wall = self.server_wall(server);
        let it = &mut self.servers[server as usize];
        it.model.restart(wall);
        it.state = State::Up;
        // Whoever still waits for the server as it was is told now.
        let theirs = (0_u32..).zip(&self.conns);
        let theirs = theirs.filter(|(_, it)| it.server == server && it.ended && it.open);
        let conns: Vec<u32> = theirs.map(|(conn, _)| conn).collect();
        for conn in conns {
            self.break_conn(conn);
        }
        if self.fleet.replicated {
            if server == self.fleet.primary {
                self.gather();
            } else if self.is_up(self.fleet.primary) {
                self.attach(server);
            }
        }
    }

    /// A replica becomes the primary: the one that is named, or one that is chosen, the most advanced
    /// being the benign choice. Where there is none, the old primary comes back instead.
    pub(in super::super) fn promote(&mut self, to: Option<u32>) {
        let old = self.fleet.primary;
        if self.is_up(old) {
            return;
        }
        let heirs = self.heirs();
        if heirs.is_empty() {
            return self.start_server(old);
        }
        let named = to.filter(|to| heirs.contains(to));
        let heir = named.unwrap_or_else(|| {
            let ways = u32::try_from(heirs.len()).unwrap_or(u32::MAX);
            heirs[self.choices().pick(Draw::Fault, ways) as usize]
        });
        self.servers[heir as usize].model.promote();
        self.fleet.primary = heir;
        self.gather();
    }

    /// Who would take the primary's place: the one that is named, or the most advanced.
    pub(in super::super) fn heir(&self, to: Option<u32>) -> Option<u32> {
        let heirs = self.heirs();
        to.filter(|to| heirs.contains(to)).or_else(|| heirs.first().copied())
    }

    /// Servers that could take the primary's place, the most advanced first.
    fn heirs(&self) -> Vec<u32> {
        let all = (0_u32..).zip(&self.servers);
        let others = all.filter(|(server, it)| {
            *server != self.fleet.primary && it.state == State::Up && it.model.is_replica()
        });
        let mut heirs: Vec<(u64, u32)> =
            others.map(|(server, it)| (it.model.offset(), server)).collect();
        heirs.sort_by_key(|&(offset, server)| (u64::MAX - offset, server));
        heirs.into_iter().map(|(_, server)| server).collect()
    }

    /// Every other server that is up follows the primary.
    fn gather(&mut self) {
        self.fleet.feeds.clear();
        let primary = self.fleet.primary;
        for server in (0..self.lock_servers()).filter(|server| *server != primary) {
            if self.is_up(server) {
                self.attach(server);
            }
        }
    }
}
