//! `maxmemory`: what the keys take, and which are evicted where that is too much.
//!
//! Invariant: the same requests evict the same keys: where Redis takes a sample, the model examines all.
//! What a key takes is estimated, for the model has another layout than redis-server; an empty server takes
//! what an empty redis-server does. A replica evicts nothing, as `replica-ignore-maxmemory` has it. Not
//! modelled: buffers of clients, and how often a key is used (`lfu` evicts as `lru`, and so do the policies
//! that Redis leaves to chance).

use super::Server;
use crate::keyspace::KeyEntry;
use crate::value::StoredValue;

/// What redis-server 7.0 takes with no key in it.
const EMPTY_BYTES: u64 = 876_000;
/// What a key takes besides its bytes: its place in the table, its object, and what an allocator adds.
const KEY_BYTES: usize = 96;
/// The same for an element of a collection.
const ELEMENT_BYTES: usize = 32;

impl Server {
    /// An estimate of what the server takes.
    pub(crate) fn used_memory(&self) -> u64 {
        let entries = self.dbs.iter().flat_map(|db| db.entries());
        EMPTY_BYTES + entries.map(bytes).sum::<u64>()
    }

    /// Evicts keys until the limit is kept, where there is one, and notes whether it is.
    pub(crate) fn evict_to_limit(&mut self) {
        self.out_of_memory = false;
        if self.max_memory_bytes == 0 || self.is_replica() {
            return;
        }
        let mut used = self.used_memory();
        while used > self.max_memory_bytes {
            let Some((number, slot)) = self.victim() else {
                self.out_of_memory = true;
                break;
            };
            used -= bytes(self.dbs[usize::from(number)].at(slot));
            self.evict(number, slot);
        }
        if self.journal.has_pending() {
            self.journal.commit();
            self.after_commit();
        }
    }

    /// The key that the policy gives up first.
    fn victim(&self) -> Option<(u16, u32)> {
        let policy = self.parameters.get("maxmemory-policy");
        let only_volatile = policy.starts_with(b"volatile");
        if policy == b"noeviction" {
            return None;
        }
        let rank = |entry: &KeyEntry| match policy {
            b"volatile-ttl" => entry.expires_at_ms.unwrap_or(i64::MAX),
            _ => entry.used_us,
        };
        let mut first: Option<(i64, u16, u32)> = None;
        for (number, db) in (0_u16..).zip(&self.dbs) {
            for (slot, place) in (0_u32..).zip(0..db.slots()) {
                let Some(entry) = db.peek(place) else { continue };
                if only_volatile && entry.expires_at_ms.is_none() {
                    continue;
                }
                let found = (rank(entry), number, slot);
                first = Some(first.map_or(found, |first| first.min(found)));
            }
        }
        first.map(|(_, number, slot)| (number, slot))
    }
}

fn bytes(entry: &KeyEntry) -> u64 {
    let element = |length: usize| length + ELEMENT_BYTES;
    let value: usize = match &entry.value {
        StoredValue::Str(text) => text.len(),
        StoredValue::Hash(fields) => {
            fields.iter().map(|(field, text)| element(field.len() + text.len())).sum()
        }
        StoredValue::List(items) => items.iter().map(|item| element(item.len())).sum(),
        StoredValue::Set(members) => members.iter().map(|member| element(member.len())).sum(),
        StoredValue::Scored(members) => {
            members.as_slice().iter().map(|(_, member)| element(member.len())).sum()
        }
    };
    (KEY_BYTES + entry.key.len() + value) as u64
}
