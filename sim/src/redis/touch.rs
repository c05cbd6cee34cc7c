//! The only ways in which commands touch keys.
//!
//! Invariant: a key whose time has passed (`now > when`, on the server's wall clock, in whole
//! milliseconds) is gone before any command sees it, and every change leaves an [`Effect`], marks the
//! sessions that watch the key and counts as dirty. On a replica such a key is hidden and stays, until
//! its primary deletes it. Deliberately absent: what commands mean.

use super::effect::{Change, Effect};
use super::keyspace::{Entry, entry};
use super::server::{Expiry, Request, Server};
use super::text::blob;
use super::value::Value;

impl Server {
    /// The slot of a key that is there and has not expired.
    pub(crate) fn find(&mut self, request: &Request<'_>, key: &[u8]) -> Option<u32> {
        let number = self.db_number(request);
        let db = &self.dbs[usize::from(number)];
        let slot = db.find(key)?;
        match db.at(slot).expires_at_ms {
            Some(when) if request.now_ms() > when => self.meet_expired(number, slot),
            _ => {
                if self.max_memory_bytes > 0 {
                    self.dbs[usize::from(number)].use_at(slot, request.now_us);
                }
                Some(slot)
            }
        }
    }

    /// A key whose time has passed: whether it is still there for whoever asks.
    #[cold]
    fn meet_expired(&mut self, number: u16, slot: u32) -> Option<u32> {
        if self.applying {
            // The primary decides, and says so by a DEL.
            return Some(slot);
        }
        if self.following.is_none() {
            self.expire(number, slot);
        }
        None
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

    /// The value at a slot has been written as it was: nothing but the sessions that watch it can tell.
    pub(crate) fn rewritten_as_it_was(&mut self, request: &Request<'_>, slot: u32) {
        let number = self.db_number(request);
        let key = self.dbs[usize::from(number)].at(slot).key.clone();
        self.touch(number, &key, false);
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
                let awaited = !matches!(value, Value::Str(_) | Value::Hash(_));
                let slot = db.insert(entry(key, value, expires_at_ms, self.next_incarnation));
                self.next_incarnation += 1;
                if self.max_memory_bytes > 0 {
                    self.dbs[usize::from(number)].use_at(slot, request.now_us);
                }
                if awaited {
                    self.blocking.created(number, key);
                }
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
        self.dirty += 1;
        self.take_away(number, slot, Change::Deleted);
    }

    /// Takes all keys of a database away.
    pub(crate) fn flush(&mut self, request: &Request<'_>, number: u16) {
        // Propagated even where there is nothing to take away.
        self.dirty += 1;
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
        if self.following.is_some() {
            return 0;
        }
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
            self.journal.commit();
        }
        due.len()
    }

    fn expire(&mut self, number: u16, slot: u32) {
        let when = self.dbs[usize::from(number)].at(slot).expires_at_ms.unwrap_or_default();
        self.stats.expired_keys += 1;
        if self.journal.on {
            let key = self.dbs[usize::from(number)].at(slot).key.clone();
            self.journal.write(number, &[b"DEL", &key]);
        }
        self.take_away(number, slot, Change::Expired { expired_at_ms: when });
    }

    /// Takes a key away to make room.
    pub(crate) fn evict(&mut self, number: u16, slot: u32) {
        self.stats.evicted_keys += 1;
        if self.journal.on {
            let key = self.dbs[usize::from(number)].at(slot).key.clone();
            self.journal.write(number, &[b"DEL", &key]);
        }
        self.take_away(number, slot, Change::Deleted);
    }

    fn take_away(&mut self, number: u16, slot: u32, change: Change) {
        let Entry { key, incarnation, .. } = self.dbs[usize::from(number)].remove(slot);
        self.touch(number, &key, true);
        self.effects.push(Effect { db: number, key, incarnation, change });
    }

    fn report(&mut self, number: u16, slot: u32, change: Change) {
        let Entry { key, incarnation, .. } = self.dbs[usize::from(number)].at(slot);
        let (key, incarnation) = (blob(key), *incarnation);
        self.dirty += 1;
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
