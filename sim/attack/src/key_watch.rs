//! Watches who has the lock's key, by the commands that the server carries out: for programs that do not report it.
//!
//! Invariant: the board of a plan shows what the server has done so far, and nothing that a program believes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fault_proxy::{ProxyEvent, ProxyLog};
use history::Touch;
use redis_model::witness::KeyChange;
use tokio::time::sleep_until;

use crate::board::{PlanStage, VICTIM, VictimState};
use crate::clock::now;
use crate::seen::{CommandSeen, ServerLog};
use crate::shared_key::{PartLife, SharedKey, Writer};
use crate::transcript::HANDSHAKE;

/// A client is in the middle of its hold when this part of the key's life has passed since its creation.
pub(crate) const MIDDLE: f64 = 0.05;

/// Follows the key of a plan.
pub(crate) struct KeyWatch {
    stage: Arc<PlanStage>,
    log: ServerLog,
    proxy: Arc<ProxyLog>,
    /// None before it is known: then any key that is created with a TTL counts.
    key: Option<Vec<u8>>,
    shared: SharedKey,
    looked_at: usize,
    clients: BTreeMap<SocketAddr, u32>,
    hold: Option<WatchedHold>,
}

#[derive(Clone, Copy, Debug)]
struct WatchedHold {
    client: u32,
    from: Instant,
    until: Option<Instant>,
}

impl KeyWatch {
    /// Both logs must be empty.
    pub(crate) fn new(
        stage: Arc<PlanStage>,
        log: ServerLog,
        proxy: Arc<ProxyLog>,
        key: Option<Vec<u8>>,
    ) -> Self {
        let (shared, clients) =
            (SharedKey::new(PartLife { life: stage.attack.ttl, jumped: None }), BTreeMap::new());
        Self { stage, log, proxy, key, shared, looked_at: 0, clients, hold: None }
    }

    /// Follows it until it is dropped.
    pub(crate) async fn follow(mut self) {
        loop {
            for seen in self.log.since(self.looked_at) {
                self.looked_at += 1;
                self.see(&seen);
            }
            match self.show() {
                Some(next) => tokio::select! {
                    biased;
                    () = self.log.grows() => {}
                    () = sleep_until(next.into()) => {}
                },
                None => self.log.grows().await,
            }
        }
    }

    fn see(&mut self, seen: &CommandSeen) {
        let client = self.client(seen.from);
        if client == VICTIM && !HANDSHAKE.contains(&seen.name.as_str()) {
            self.stage.board.send_if_modified(|board| !std::mem::replace(&mut board.spoken, true));
        }
        for change in &seen.changes {
            if !self.is_meant(change) {
                continue;
            }
            let until = |ns: u64| seen.at.checked_add(Duration::from_nanos(ns));
            let (gets, takes) = (false, false);
            let by = Writer { client, at: seen.at, since: seen.at, gets, takes };
            let touch = match self.key {
                Some(_) => self.shared.see(by, change, None),
                None => change.touch,
            };
            match touch {
                Touch::Create(ttl) | Touch::Overwrite(ttl) => {
                    let hold = WatchedHold { client, from: seen.at, until: ttl.and_then(until) };
                    // A key that is created again without having been deleted had expired.
                    let before = self.hold.replace(hold).map(|hold| hold.client);
                    let place = usize::try_from(client).ok().and_then(|it| it.checked_sub(1));
                    self.stage.board.send_modify(|board| {
                        if let Some(acquired) = place.and_then(|it| board.acquired.get_mut(it)) {
                            *acquired += 1;
                        }
                        board.outlived |=
                            board.struck.is_some() && client != VICTIM && before == Some(VICTIM);
                    });
                }
                Touch::Extend(ns) => {
                    if let Some(hold) = &mut self.hold {
                        hold.until = until(ns);
                    }
                }
                Touch::Delete => self.hold = None,
                Touch::None | Touch::Unknown => {}
            }
        }
    }

    fn is_meant(&self, change: &KeyChange) -> bool {
        match &self.key {
            Some(key) => change.key == *key,
            None => matches!(change.touch, Touch::Create(Some(_))),
        }
    }

    /// The client whose connection has this address; 0 if no client's has.
    fn client(&mut self, from: SocketAddr) -> u32 {
        if let Some(client) = self.clients.get(&from) {
            return *client;
        }
        let is_it =
            |event: &ProxyEvent| matches!(event, ProxyEvent::Connected(addr) if *addr == from);
        let found = self.proxy.newest(1, |record| is_it(&record.event));
        let Some(client) = found.first().map(|record| record.client.0) else { return 0 };
        self.clients.insert(from, client);
        client
    }

    /// Shows on the board who has the key now; returns when that may change without a command.
    fn show(&mut self) -> Option<Instant> {
        let at = now();
        let hold = self.hold.filter(|hold| hold.until.is_none_or(|until| until > at));
        let middle = self.stage.ttl().mul_f64(MIDDLE);
        let middle = hold.filter(|it| it.client == VICTIM).map(|it| it.from + middle);
        let victim = match middle {
            Some(middle) if middle <= at => VictimState::Holding,
            _ => VictimState::Waiting,
        };
        let working = u32::from(hold.is_some_and(|it| it.client > VICTIM));
        self.stage.board.send_if_modified(|board| {
            let victim = if board.victim == VictimState::Done { board.victim } else { victim };
            let is_new = (board.victim, board.working) != (victim, working);
            (board.victim, board.working) = (victim, working);
            is_new
        });
        let end = hold.and_then(|it| it.until);
        middle.filter(|middle| *middle > at).into_iter().chain(end).min()
    }
}
