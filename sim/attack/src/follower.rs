//! A model that carries out what MONITOR shows of a server's commands, and tells the server's log what they did.
//!
//! Invariant: the model carries out only what the server has carried out. MONITOR shows MULTI at once, and the commands
//! of a transaction together, right before its EXEC. It does not show a transaction that the server refuses. So lines
//! of a client after its MULTI are kept until it is known whether an EXEC follows them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use live_world::embedded::Tap;
use picklock::time::WallTime;
use redis_model::model::{ConnectionId, Model};
use redis_model::options::ModelOptions;

use crate::seen::ServerLog;

/// How the text of a marker begins.
pub(crate) const MARKER: &str = "picklock:marker:";

/// A command as MONITOR shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MonitorLine {
    pub(crate) at: WallTime,
    pub(crate) db: u16,
    /// None if a script called the command.
    pub(crate) from: Option<SocketAddr>,
    pub(crate) args: Vec<Vec<u8>>,
}

/// The model, and the connections that it knows.
pub(crate) struct Follower {
    model: Model,
    log: ServerLog,
    tap: Box<dyn Tap>,
    clients: BTreeMap<SocketAddr, ConnectionId>,
    /// The clients that have sent MULTI, and neither EXEC nor DISCARD yet.
    in_multi: BTreeSet<SocketAddr>,
    /// Lines of one of these clients, of which it is not known yet whether they belong to the transaction.
    kept: Vec<MonitorLine>,
    /// When the last line was shown.
    last: WallTime,
    /// The number of the last marker that was seen.
    passed: Arc<AtomicU64>,
}

/// When a client's timeout is over, the server unblocks it the next time that it wakes up: after the next command, or
/// after this time at the latest (`hz` of its configuration).
const WAKES_EVERY_NS: u64 = 100_000_000;

impl Follower {
    /// Follows a server that has no keys.
    pub(crate) fn new(log: &ServerLog, passed: Arc<AtomicU64>) -> Self {
        Self {
            model: Model::new(ModelOptions::default()),
            log: log.clone(),
            tap: log.tap(),
            clients: BTreeMap::new(),
            in_multi: BTreeSet::new(),
            kept: Vec::new(),
            last: WallTime::from_unix_ns(0),
            passed,
        }
    }

    /// Begins again with a server without keys.
    pub(crate) fn forget(&mut self) {
        self.model.reset();
        self.tap = self.log.tap();
    }

    /// All connections to the server are gone.
    pub(crate) fn disconnect(&mut self) {
        self.settle();
        self.in_multi.clear();
        let clients = std::mem::take(&mut self.clients);
        clients.into_values().for_each(|client| self.model.disconnect(client));
    }

    /// Whether lines are kept until the next line comes.
    pub(crate) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Takes the next line of MONITOR.
    pub(crate) fn see(&mut self, line: MonitorLine) {
        let Some(from) = line.from else { return };
        self.time_out(line.at);
        let marker =
            line.args.get(1).and_then(|arg| std::str::from_utf8(arg).ok()?.strip_prefix(MARKER));
        if let Some(number) = marker.and_then(|number| number.parse().ok()) {
            self.settle();
            return self.passed.store(number, Ordering::Release);
        }
        let is = |name: &str| line.args[0].eq_ignore_ascii_case(name.as_bytes());
        // A login changes no key, and MONITOR does not show its password.
        if line.args.is_empty() || is("HELLO") || is("AUTH") {
            return;
        }
        if self.kept.first().is_some_and(|it| it.from != line.from) {
            self.settle();
        }
        if !self.in_multi.contains(&from) {
            if is("MULTI") {
                self.in_multi.insert(from);
            }
            return self.carry_out(from, &line);
        }
        match () {
            () if is("EXEC") => {
                let queued = std::mem::take(&mut self.kept);
                queued.iter().for_each(|queued| self.carry_out(from, queued));
                self.carry_out(from, &line);
                self.in_multi.remove(&from);
            }
            () if is("DISCARD") && self.kept.is_empty() => {
                self.carry_out(from, &line);
                self.in_multi.remove(&from);
            }
            // None of these is ever part of a transaction.
            () if is("MULTI") || is("WATCH") || is("DISCARD") => {
                self.settle();
                self.discard(from, line.at);
                self.see(line);
            }
            () => self.kept.push(line),
        }
    }

    /// No EXEC has followed the kept lines: the transaction was refused before them, and they are not part of it.
    pub(crate) fn settle(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let Some((from, at)) = kept.first().and_then(|it| Some((it.from?, it.at))) else { return };
        self.discard(from, at);
        kept.iter().for_each(|line| self.carry_out(from, line));
    }

    /// Unblocks the clients that the server unblocked before it carried out the line of this time.
    fn time_out(&mut self, at: WallTime) {
        let woke_ns = at.as_unix_ns().saturating_sub(WAKES_EVERY_NS);
        let woke = WallTime::from_unix_ns(woke_ns.max(self.last.as_unix_ns()));
        self.model.unblock_due(woke);
        self.last = at;
        self.deliver();
    }

    /// Writes the replies to clients that were blocked to the log.
    fn deliver(&mut self) {
        let (clients, log) = (&self.clients, &self.log);
        self.model.drain_outbox(|client, reply| {
            let of = clients.iter().find(|(_, theirs)| **theirs == client);
            of.into_iter().for_each(|(from, _)| log.answered(*from, &reply));
        });
    }

    /// The server has discarded the client's transaction, which MONITOR does not show.
    fn discard(&mut self, from: SocketAddr, at: WallTime) {
        self.in_multi.remove(&from);
        if let Some(client) = self.clients.get(&from) {
            self.model.submit(at, *client, &[b"DISCARD"]);
        }
    }

    /// Has the model carry out what the server has carried out.
    fn carry_out(&mut self, from: SocketAddr, line: &MonitorLine) {
        let at = line.at;
        if self.clients.get(&from).is_some_and(|client| self.model.is_blocked(*client)) {
            // The server has unblocked this client in a way that is not modelled.
            self.clients.remove(&from).into_iter().for_each(|it| self.model.disconnect(it));
        }
        let client = match self.clients.get(&from) {
            Some(client) => *client,
            None => {
                let client = self.model.connect(at, &from.to_string());
                self.model.submit(at, client, &[b"SELECT", line.db.to_string().as_bytes()]);
                self.clients.insert(from, client);
                client
            }
        };
        let args: Vec<&[u8]> = line.args.iter().map(Vec::as_slice).collect();
        let outcome = self.model.submit(at, client, &args);
        self.tap.carried_out(&self.model, at, from, &args, &outcome);
        self.deliver();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::SeenAnswer;

    /// The log after these lines of clients: names with answers, with a star at those that changed a key.
    fn seen(lines: &[(u16, &str)]) -> Vec<String> {
        let log = ServerLog::default();
        let mut follower = Follower::new(&log, Arc::default());
        for (place, (client, line)) in (0..).zip(lines) {
            follower.see(MonitorLine {
                at: WallTime::from_unix_ns(1_000_000_000_000_000_000 + place * 1_000_000),
                db: 0,
                from: Some(([127, 0, 0, 1], *client).into()),
                args: line.split(' ').map(|it| it.as_bytes().to_vec()).collect(),
            });
        }
        follower.settle();
        let told = |answer: &SeenAnswer| match answer {
            SeenAnswer::Text(text) => text.clone(),
            other => format!("{other:?}"),
        };
        let star = |is: bool| if is { "*" } else { "" };
        let commands = log.commands();
        let all = commands
            .iter()
            .map(|it| format!("{}{} {}", it.name, star(!it.changes.is_empty()), told(&it.answer)));
        all.collect()
    }

    #[test]
    fn a_transaction_is_carried_out_at_its_exec() {
        let all = seen(&[(1, "WATCH k"), (1, "MULTI"), (1, "SET k v"), (1, "EXEC"), (2, "DEL k")]);
        assert_eq!(all, ["WATCH Ok", "MULTI Ok", "SET QUEUED", "EXEC* List", "DEL* Int(1)"]);
    }

    #[test]
    fn a_transaction_that_the_server_refuses_is_not_carried_out() {
        // After the first MULTI the server refused an EXEC, which MONITOR does not show.
        let again = [(1, "MULTI"), (1, "WATCH k"), (1, "MULTI"), (1, "SET k v"), (1, "EXEC")];
        assert_eq!(seen(&again), ["MULTI Ok", "WATCH Ok", "MULTI Ok", "SET QUEUED", "EXEC* List"]);
        let plain = [(1, "MULTI"), (1, "SET k v"), (2, "GET k"), (1, "DEL k")];
        assert_eq!(seen(&plain), ["MULTI Ok", "SET* Ok", "GET v", "DEL* Int(1)"]);
        let thrown_away = [(1, "MULTI"), (1, "DISCARD"), (1, "SET k v")];
        assert_eq!(seen(&thrown_away), ["MULTI Ok", "DISCARD Ok", "SET* Ok"]);
    }

    #[test]
    fn who_waits_has_the_answer_of_the_end() {
        let served = seen(&[(1, "BLPOP w 1"), (2, "LPUSH w x"), (1, "GET k")]);
        assert_eq!(served[0], "BLPOP Waited(List)");
        let waits = seen(&[(1, "BLPOP w 1"), (2, "GET k")]);
        assert_eq!(waits[0], "BLPOP Waits");
        // Nothing has woken the server since the timeout was over.
        let late = seen(&[(1, "BLPOP w 0.001"), (2, "GET k"), (2, "LPUSH w x")]);
        assert_eq!(late[0], "BLPOP Waited(List)");
        let over =
            [(1, "BLPOP w 0.001"), (2, "GET k"), (2, "GET k"), (2, "GET k"), (2, "LPUSH w x")];
        assert_eq!(seen(&over)[0], "BLPOP Waited(Nil)");
    }
}
