//! The state of one server, and the only ways in which commands touch its keys.
//!
//! Invariant: a key whose time has passed (`now > when`, on the server's wall clock, in whole
//! milliseconds) is gone before any command sees it, and every change leaves an [`Effect`] and marks
//! the sessions that watch the key. Deliberately absent: what commands mean, and Lua.

use rustc_hash::FxHashSet;

use super::effect::{Change, Effect};
use super::fault::Fault;
use super::keyspace::{Db, Entry, entry};
use super::options::{Options, Parameters};
use super::session::Session;
use super::stats::Stats;
use super::value::Value;
use super::watch::Watchers;
use crate::redis::commands::table::TABLE;

/// One command on its way through the server.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The server's wall clock, frozen for the whole of a script or a transaction.
    pub(crate) now_us: i64,
    /// The place of the session it came from.
    pub(crate) session: u32,
    /// The name, then the arguments.
    pub(crate) args: &'a [&'a [u8]],
}

impl Request<'_> {
    /// Milliseconds since the epoch.
    pub(crate) fn now_ms(&self) -> i64 {
        self.now_us / 1000
    }
}

/// The session that scripts run their commands in; it belongs to no connection.
pub(crate) const SCRIPT_SESSION: u32 = 0;

/// What SET and its kind do about an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Leave the one that is there.
    Keep,
    /// Have none.
    Never,
    /// This one, in milliseconds since the epoch.
    At(i64),
}

/// A server.
pub(crate) struct Server {
    pub(crate) options: Options,
    pub(crate) parameters: Parameters,
    pub(crate) dbs: Vec<Db>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) vacant: Vec<u32>,
    pub(crate) next_id: u64,
    pub(crate) started_us: Option<i64>,
    pub(crate) stats: Stats,
    pub(crate) fault: Option<Fault>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) watchers: Watchers,
    /// The digests that EVALSHA knows.
    pub(crate) scripts: FxHashSet<[u8; 40]>,
    pub(crate) next_incarnation: u64,
}

impl Server {
    pub(crate) fn new(options: Options) -> Self {
        let dbs = (0..options.databases.max(1)).map(|_| Db::default()).collect();
        let script = Session { open: true, authenticated: true, ..Session::default() };
        Self {
            parameters: Parameters::new(&options),
            options,
            dbs,
            sessions: vec![script],
            vacant: Vec::new(),
            next_id: 1,
            started_us: None,
            stats: Stats::new(TABLE.len()),
            fault: None,
            effects: Vec::new(),
            watchers: Watchers::default(),
            scripts: FxHashSet::default(),
            next_incarnation: 1,
        }
    }

    /// As after `new`, the memory kept.
    pub(crate) fn reset(&mut self) {
        self.parameters = Parameters::new(&self.options);
        self.dbs.iter_mut().for_each(Db::clear);
        self.sessions.truncate(1);
        self.sessions[0].db = 0;
        self.vacant.clear();
        self.next_id = 1;
        self.started_us = None;
        self.stats.reset();
        self.fault = None;
        self.effects.clear();
        self.watchers.clear();
        self.scripts.clear();
        self.next_incarnation = 1;
    }

    pub(crate) fn session(&mut self, request: &Request<'_>) -> &mut Session {
        &mut self.sessions[request.session as usize]
    }

    pub(crate) fn db_number(&self, request: &Request<'_>) -> u16 {
        self.sessions[request.session as usize].db
    }

    pub(crate) fn db(&self, request: &Request<'_>) -> &Db {
        &self.dbs[usize::from(self.db_number(request))]
    }

    /// The slot of a key that is there and has not expired.
    pub(crate) fn find(&mut self, request: &Request<'_>, key: &[u8]) -> Option<u32> {
        let number = self.db_number(request);
        let db = &self.dbs[usize::from(number)];
        let slot = db.find(key)?;
        match db.at(slot).expires_at_ms {
            Some(when) if request.now_ms() > when => {
                self.expire(number, slot);
                None
            }
            _ => Some(slot),
        }
    }

    /// The key, for a command that reads it: counted as a hit or a miss.
    pub(crate) fn read(&mut self, request: &Request<'_>, key: &[u8]) -> Option<&Entry> {
        match self.find(request, key) {
            Some(slot) => {
                self.stats.hits += 1;
                Some(self.db(request).at(slot))
            }
            None => {
                self.stats.misses += 1;
                None
            }
        }
    }

    /// The key at a slot, to be changed in place; the caller must report it with [`Server::changed`].
    pub(crate) fn value_mut(&mut self, request: &Request<'_>, slot: u32) -> &mut Value {
        let number = self.db_number(request);
        self.dbs[usize::from(number)].value_mut(slot)
    }

    /// The value at a slot has been changed in place.
    pub(crate) fn changed(&mut self, request: &Request<'_>, slot: u32) {
        self.report(self.db_number(request), slot, Change::Modified);
    }

    /// Puts a value at a key, whatever was there.
    pub(crate) fn put(&mut self, request: &Request<'_>, key: &[u8], value: Value, expiry: Expiry) {
        let slot = self.find(request, key);
        self.put_at(request, slot, key, value, expiry);
    }

    /// As [`Server::put`], where the key has already been looked for.
    pub(crate) fn put_at(
        &mut self,
        request: &Request<'_>,
        slot: Option<u32>,
        key: &[u8],
        value: Value,
        expiry: Expiry,
    ) {
        let number = self.db_number(request);
        let db = &mut self.dbs[usize::from(number)];
        let (slot, change) = match slot {
            Some(slot) => {
                let expires_at_ms = match expiry {
                    Expiry::Keep => db.at(slot).expires_at_ms,
                    Expiry::Never => None,
                    Expiry::At(when) => Some(when),
                };
                db.overwrite(slot, value, expires_at_ms);
                (slot, Change::Overwritten { expires_at_ms })
            }
            None => {
                let expires_at_ms = match expiry {
                    Expiry::Keep | Expiry::Never => None,
                    Expiry::At(when) => Some(when),
                };
                let slot = db.insert(entry(key, value, expires_at_ms, self.next_incarnation));
                self.next_incarnation += 1;
                (slot, Change::Created { expires_at_ms })
            }
        };
        self.report(number, slot, change);
    }

    /// Sets or clears the expiry of the key at a slot.
    pub(crate) fn set_expiry(&mut self, request: &Request<'_>, slot: u32, when: Option<i64>) {
        let number = self.db_number(request);
        self.dbs[usize::from(number)].set_expiry(slot, when);
        self.report(number, slot, Change::ExpiryChanged { expires_at_ms: when });
    }

    /// Takes the key at a slot away.
    pub(crate) fn remove(&mut self, request: &Request<'_>, slot: u32) {
        let number = self.db_number(request);
        self.take_away(number, slot, Change::Deleted);
    }

    /// Takes all keys of a database away.
    pub(crate) fn flush(&mut self, request: &Request<'_>, number: u16) {
        let now_ms = request.now_ms();
        for slot in 0..self.dbs[usize::from(number)].slots() {
            let Some(entry) = self.dbs[usize::from(number)].peek(slot) else { continue };
            let change = match entry.expires_at_ms {
                Some(when) if now_ms > when => Change::Expired { expired_at_ms: when },
                _ => Change::Deleted,
            };
            let slot = u32::try_from(slot).expect("slots are numbered in 32 bits");
            self.take_away(number, slot, change);
        }
        self.dbs[usize::from(number)].clear();
    }

    /// Takes away at most `limit` keys whose time has passed: the earliest first, then by database
    /// and slot. It returns how many they were.
    pub(crate) fn expire_due(&mut self, now_ms: i64, limit: usize) -> usize {
        let mut due = Vec::new();
        for (number, db) in (0_u16..).zip(&self.dbs) {
            if db.volatile() == 0 {
                continue;
            }
            for slot in 0..db.slots() {
                let when = db.peek(slot).and_then(|entry| entry.expires_at_ms);
                if let Some(when) = when.filter(|&when| now_ms > when) {
                    due.push((when, number, u32::try_from(slot).expect("slots fit in 32 bits")));
                }
            }
        }
        due.sort_unstable();
        due.truncate(limit);
        for &(_, number, slot) in &due {
            self.expire(number, slot);
        }
        due.len()
    }

    fn expire(&mut self, number: u16, slot: u32) {
        let when = self.dbs[usize::from(number)].at(slot).expires_at_ms.unwrap_or_default();
        self.stats.expired_keys += 1;
        self.take_away(number, slot, Change::Expired { expired_at_ms: when });
    }

    fn take_away(&mut self, number: u16, slot: u32, change: Change) {
        let Entry { key, incarnation, .. } = self.dbs[usize::from(number)].remove(slot);
        self.touch(number, &key, true);
        self.effects.push(Effect { db: number, key, incarnation, change });
    }

    fn report(&mut self, number: u16, slot: u32, change: Change) {
        let Entry { key, incarnation, .. } = self.dbs[usize::from(number)].at(slot);
        let (key, incarnation) = (key.clone(), *incarnation);
        self.touch(number, &key, false);
        self.effects.push(Effect { db: number, key, incarnation, change });
    }

    /// Marks the sessions that watch a key: their EXEC will do nothing.
    fn touch(&mut self, number: u16, key: &[u8], gone: bool) {
        if self.watchers.is_empty() {
            return;
        }
        for place in self.watchers.of(number, key) {
            let session = &mut self.sessions[place as usize];
            let same = |watched: &&mut super::session::Watched| {
                watched.db == number && &watched.key[..] == key
            };
            match session.watched.iter_mut().find(same) {
                // It had expired before it was watched; that it goes now changes nothing.
                Some(watched) if watched.stale && gone => watched.stale = false,
                _ => session.dirty = true,
            }
        }
    }
}
