//! The only ways in which commands touch keys.
//!
//! Invariant: an expired key (`now > when`, on the server's wall clock, in whole milliseconds) is gone before
//! any command sees it. Every change marks the sessions that watch the key, and counts as dirty. On a replica
//! an expired key is hidden and stays, until its primary deletes it.

use resp::{ErrorReply, Reply};

use super::notify::event;
use super::{CommandResult, Expiry, Request, Server};
use crate::keyspace::{KeyEntry, entry};
use crate::value::{StoredValue, ValueType};

impl Server {
    /// The slot of a key that is there and has not expired.
    pub(crate) fn find(&mut self, request: &Request<'_>, key: &[u8]) -> Option<u32> {
        let number = self.db_number(request);
        let db = &self.dbs[usize::from(number)];
        let slot = db.find(key)?;
        match db.at(slot).expires_at_ms {
            Some(when) if request.now_ms() > when => self.handle_expired(number, slot),
            _ => {
                if self.max_memory_bytes > 0 {
                    self.dbs[usize::from(number)].use_at(slot, request.now_us);
                }
                Some(slot)
            }
        }
    }

    /// The slot of an expired key, if the caller may still see it.
    #[cold]
    fn handle_expired(&mut self, number: u16, slot: u32) -> Option<u32> {
        if self.applying {
            // The primary decides, and says so by a DEL.
            return Some(slot);
        }
        if !self.is_replica() {
            self.expire(number, slot);
        }
        None
    }

    /// The key, for a command that reads it: counted as a hit or a miss.
    pub(crate) fn read(&mut self, request: &Request<'_>, key: &[u8]) -> Option<&KeyEntry> {
        match self.find(request, key) {
            Some(slot) => {
                self.stats.hits += 1;
                Some(self.db(request).at(slot))
            }
            None => {
                self.stats.misses += 1;
                self.notify(self.db_number(request), key, event::MISSED, "keymiss");
                None
            }
        }
    }

    /// The slot of a key that holds this type; none where there is no such key.
    pub(crate) fn find_as<T: ValueType>(
        &mut self,
        request: &Request<'_>,
        key: &[u8],
    ) -> Result<Option<u32>, ErrorReply> {
        let slot = self.find(request, key);
        slot.map_or(Ok(()), |slot| self.value::<T>(request, slot).map(|_| ()))?;
        Ok(slot)
    }

    /// What a key of this type holds, for a command that reads it.
    pub(crate) fn read_as<T: ValueType>(
        &mut self,
        request: &Request<'_>,
        key: &[u8],
    ) -> Result<Option<&T>, ErrorReply> {
        self.read(request, key).map(|entry| entry.value.get()).transpose()
    }

    /// The value at a slot, which is of this type.
    pub(crate) fn value<T: ValueType>(
        &self,
        request: &Request<'_>,
        slot: u32,
    ) -> Result<&T, ErrorReply> {
        self.db(request).at(slot).value.get()
    }

    /// The value at a slot, to be changed in place; the caller must report it with [`Server::changed`].
    pub(crate) fn value_mut<T: ValueType>(
        &mut self,
        request: &Request<'_>,
        slot: u32,
    ) -> Result<&mut T, ErrorReply> {
        let number = self.db_number(request);
        T::of_mut(self.dbs[usize::from(number)].value_mut(slot))
    }

    /// Changes the value at a slot, or an empty one that becomes the key's. `change` gives its
    /// result, and whether it has changed anything.
    pub(crate) fn edit<T: ValueType, R>(
        &mut self,
        request: &Request<'_>,
        key: &[u8],
        slot: Option<u32>,
        change: impl FnOnce(&mut T) -> Result<(R, bool), ErrorReply>,
    ) -> Result<R, ErrorReply> {
        let Some(slot) = slot else {
            let mut fresh = T::default();
            let (result, changed) = change(&mut fresh)?;
            if changed {
                self.put_at(request, None, key, fresh.stored(), Expiry::Never);
            }
            return Ok(result);
        };
        let (result, changed) = change(self.value_mut(request, slot)?)?;
        if changed {
            self.changed(request, slot);
        }
        Ok(result)
    }

    /// Takes elements out of the key that a request names first; the answer is how many.
    pub(crate) fn take_out<T: ValueType>(
        &mut self,
        request: &Request<'_>,
        take: impl FnOnce(&mut T) -> usize,
    ) -> CommandResult {
        let Some(slot) = self.find_as::<T>(request, request.args[1])? else {
            return Ok(Reply::Int(0));
        };
        let taken = take(self.value_mut(request, slot)?);
        if taken > 0 {
            self.elements_removed(request, slot);
        }
        Ok(Reply::count(taken))
    }

    /// The value at a slot has been changed in place.
    pub(crate) fn changed(&mut self, request: &Request<'_>, slot: u32) {
        self.report(self.db_number(request), slot);
    }

    /// Elements of the value at a slot have been taken away; with the last one the key goes.
    pub(crate) fn elements_removed(&mut self, request: &Request<'_>, slot: u32) {
        if self.db(request).at(slot).value.is_empty() {
            self.notify_of(self.db_number(request), slot);
            self.remove(request, slot);
        } else {
            self.changed(request, slot);
        }
    }

    /// Puts what a command has made of others at a key: an empty collection is no key, and a key that
    /// has expired goes as any other.
    pub(crate) fn store(&mut self, request: &Request<'_>, key: &[u8], value: StoredValue) {
        if !value.is_empty() {
            return self.put(request, key, value, Expiry::Never);
        }
        if let Some(slot) = self.db(request).find(key) {
            self.remove(request, slot);
        }
    }

    /// The value at a slot has been written as it was: that is not propagated, but the sessions that watch it and
    /// those that listen are told.
    pub(crate) fn rewritten_unchanged(&mut self, request: &Request<'_>, slot: u32) {
        let number = self.db_number(request);
        let key = self.dbs[usize::from(number)].at(slot).key.clone();
        self.mark_watchers(number, &key, false);
        self.notify_of(number, slot);
    }

    /// Puts a value at a key, whatever was there.
    pub(crate) fn put(
        &mut self,
        request: &Request<'_>,
        key: &[u8],
        value: StoredValue,
        expiry: Expiry,
    ) {
        let slot = self.find(request, key);
        self.put_at(request, slot, key, value, expiry);
    }

    /// As [`Server::put`], where the key has already been looked for.
    pub(crate) fn put_at(
        &mut self,
        request: &Request<'_>,
        slot: Option<u32>,
        key: &[u8],
        value: StoredValue,
        expiry: Expiry,
    ) {
        let number = self.db_number(request);
        let is_new = slot.is_none();
        let slot = self.write_at(request, slot, key, value, expiry);
        if is_new {
            self.notify(number, key, event::NEW, "new");
        }
        self.report(number, slot);
    }

    /// As [`Server::put_at`], but the caller notifies of the key and reports it with [`Server::changed`].
    pub(crate) fn write_at(
        &mut self,
        request: &Request<'_>,
        slot: Option<u32>,
        key: &[u8],
        value: StoredValue,
        expiry: Expiry,
    ) -> u32 {
        let number = self.db_number(request);
        let db = &mut self.dbs[usize::from(number)];
        let expires_at_ms = match expiry {
            Expiry::Keep => slot.and_then(|slot| db.at(slot).expires_at_ms),
            Expiry::Never => None,
            Expiry::At(when) => Some(when),
        };
        match slot {
            Some(slot) => {
                db.overwrite(slot, value, expires_at_ms);
                slot
            }
            None => {
                // A client can wait for an element, which a string or a hash has not.
                let awaited = !matches!(value, StoredValue::Str(_) | StoredValue::Hash(_));
                let slot = db.insert(entry(key, value, expires_at_ms));
                if self.max_memory_bytes > 0 {
                    self.dbs[usize::from(number)].use_at(slot, request.now_us);
                }
                if awaited {
                    self.blocking.created(number, key);
                }
                slot
            }
        }
    }

    /// Sets or clears the expiry of the key at a slot.
    pub(crate) fn set_expiry(&mut self, request: &Request<'_>, slot: u32, when: Option<i64>) {
        let number = self.db_number(request);
        self.dbs[usize::from(number)].set_expiry(slot, when);
        self.event = if when.is_some() { "expire" } else { "persist" };
        self.report(number, slot);
    }

    /// Takes the key at a slot away.
    pub(crate) fn remove(&mut self, request: &Request<'_>, slot: u32) {
        let number = self.db_number(request);
        let gone = self.remove_silently(number, slot);
        self.notify(number, &gone.key, event::GENERIC, "del");
    }

    /// Takes the key at a slot away, and the caller notifies of it.
    pub(crate) fn remove_silently(&mut self, number: u16, slot: u32) -> KeyEntry {
        self.dirty += 1;
        self.delete_entry(number, slot)
    }

    /// Takes all keys of a database away.
    pub(crate) fn flush(&mut self, number: u16) {
        // Propagated even where there is nothing to take away.
        self.dirty += 1;
        for slot in 0..self.dbs[usize::from(number)].slots() {
            if self.dbs[usize::from(number)].peek(slot).is_some() {
                self.delete_entry(number, u32::try_from(slot).expect("slots fit in 32 bits"));
            }
        }
        self.dbs[usize::from(number)].clear();
    }

    /// Deletes at most `limit` expired keys: the earliest first, then by database
    /// and slot. It returns how many they were.
    pub(crate) fn expire_due(&mut self, now_ms: i64, limit: usize) -> usize {
        let mut due = Vec::new();
        if self.is_replica() {
            return 0;
        }
        for (number, db) in (0_u16..).zip(&self.dbs) {
            due.extend(db.expired(now_ms).map(|(when, slot)| (when, number, slot)));
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
        self.stats.expired_keys += 1;
        self.delete_unasked(number, slot, event::EXPIRED, "expired");
    }

    /// Takes a key away to make room.
    pub(crate) fn evict(&mut self, number: u16, slot: u32) {
        self.stats.evicted_keys += 1;
        self.delete_unasked(number, slot, event::EVICTED, "evicted");
    }

    /// Takes a key away that no command has deleted: the stream has to say so.
    fn delete_unasked(&mut self, number: u16, slot: u32, class: u16, event: &'static str) {
        let gone = self.delete_entry(number, slot);
        if self.journal.on {
            self.journal.write(number, &[b"DEL", &gone.key]);
        }
        self.notify(number, &gone.key, class, event);
    }

    fn delete_entry(&mut self, number: u16, slot: u32) -> KeyEntry {
        let entry = self.dbs[usize::from(number)].remove(slot);
        self.mark_watchers(number, &entry.key, true);
        entry
    }

    fn report(&mut self, number: u16, slot: u32) {
        self.dirty += 1;
        // Copied only where a session watches, for most writes have none to mark.
        if !self.watchers.is_empty() {
            let key = self.dbs[usize::from(number)].at(slot).key.clone();
            self.mark_watchers(number, &key, false);
        }
        self.notify_of(number, slot);
    }

    /// Marks the sessions that watch a key: their EXEC will do nothing.
    fn mark_watchers(&mut self, number: u16, key: &[u8], gone: bool) {
        let watchers = self.watchers.iter();
        let of_key = watchers.filter(|(db, watched, _)| *db == number && &watched[..] == key);
        for &(.., place) in of_key {
            let session = &mut self.sessions[place as usize];
            let same = |watched: &&mut super::session::WatchedKey| {
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
