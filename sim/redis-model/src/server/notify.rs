//! Keyspace notifications: what happens to keys, published to subscribers and told to a witness.
//!
//! Invariant: whatever changes a key is notified of in the same moment, under the name that
//! redis-server 7.0.15 gives it. With `notify-keyspace-events` empty, that costs one comparison.

use resp::{Blob, blob};

use super::Server;
use crate::value::StoredValue;

/// The classes of events, by bits, and which channels they are published to.
pub(crate) mod event {
    pub(crate) const GENERIC: u16 = 1;
    pub(crate) const STRING: u16 = 1 << 1;
    pub(crate) const LIST: u16 = 1 << 2;
    pub(crate) const SET: u16 = 1 << 3;
    pub(crate) const HASH: u16 = 1 << 4;
    pub(crate) const SCORED: u16 = 1 << 5;
    pub(crate) const EXPIRED: u16 = 1 << 6;
    pub(crate) const EVICTED: u16 = 1 << 7;
    pub(crate) const NEW: u16 = 1 << 10;
    pub(crate) const KEYSPACE: u16 = 1 << 11;
    pub(crate) const KEYEVENT: u16 = 1 << 12;
    pub(crate) const MISSED: u16 = 1 << 13;
    /// No letter: a witness of the keys wants every event, and no subscriber sees any for that.
    pub(crate) const WITNESSED: u16 = 1 << 14;
    /// What `A` stands for: all before `NEW`.
    pub(crate) const ALL: u16 = NEW - 1;

    /// The letters in the order in which CONFIG GET shows them.
    pub(crate) const LETTERS: &[u8] = b"g$lshzxetdnKEm";
}

/// The classes and channels that a text names; none where a letter has no meaning.
pub(crate) fn parse(text: &[u8]) -> Option<u16> {
    text.iter().try_fold(0, |flags, letter| match letter {
        b'A' => Some(flags | event::ALL),
        letter => Some(flags | 1 << event::LETTERS.iter().position(|known| known == letter)?),
    })
}

/// The flags as CONFIG GET shows them.
pub(crate) fn shown(flags: u16) -> Vec<u8> {
    let all = flags & event::ALL == event::ALL;
    let hidden = if all { event::ALL | event::NEW } else { 0 };
    let letters = (0..).zip(event::LETTERS).filter(|(bit, _)| flags & !hidden & 1 << bit != 0);
    all.then_some(b'A').into_iter().chain(letters.map(|(_, letter)| *letter)).collect()
}

/// What a command of this name calls what it does to a value.
pub(crate) fn named(command: &'static str) -> &'static str {
    match command {
        "setnx" | "setex" | "psetex" | "getset" | "mset" | "msetnx" => "set",
        "incr" | "decr" | "decrby" => "incrby",
        "lpushx" => "lpush",
        "rpushx" => "rpush",
        "hsetnx" | "hmset" => "hset",
        "zincrby" => "zincr",
        "copy" => "copy_to",
        "move" => "move_to",
        "rename" | "renamenx" => "rename_to",
        own => own,
    }
}

/// An event of a key, as a witness is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyspaceEvent {
    pub(crate) db: u16,
    pub(crate) key: Blob,
    pub(crate) name: &'static str,
}

impl Server {
    /// The events since the last call; those before the first one are not known.
    pub(crate) fn take_key_events(&mut self) -> Vec<KeyspaceEvent> {
        self.notify_classes |= event::WITNESSED;
        std::mem::take(&mut self.key_events)
    }

    /// Publishes an event, if its class is switched on.
    pub(crate) fn notify(&mut self, number: u16, key: &[u8], class: u16, event: &'static str) {
        if self.notify_classes & event::WITNESSED != 0 {
            self.key_events.push(KeyspaceEvent { db: number, key: blob(key), name: event });
        }
        if self.notify_classes & class == 0 {
            return;
        }
        if self.notify_classes & event::KEYSPACE != 0 {
            let channel = [format!("__keyspace@{number}__:").as_bytes(), key].concat();
            self.publish(&channel, event.as_bytes());
        }
        if self.notify_classes & event::KEYEVENT != 0 {
            self.publish(format!("__keyevent@{number}__:{event}").as_bytes(), key);
        }
    }

    /// Publishes what the command under way does to the key at a slot.
    pub(crate) fn notify_of(&mut self, number: u16, slot: u32) {
        if self.notify_classes == 0 {
            return;
        }
        let entry = self.dbs[usize::from(number)].at(slot);
        let key = entry.key.clone();
        let class = match (self.event, &entry.value) {
            ("expire" | "persist" | "copy_to" | "move_to" | "rename_to" | "restore", _) => {
                event::GENERIC
            }
            (_, StoredValue::Str(_)) => event::STRING,
            (_, StoredValue::Hash(_)) => event::HASH,
            (_, StoredValue::List(_)) => event::LIST,
            (_, StoredValue::Set(_)) => event::SET,
            (_, StoredValue::Scored(_)) => event::SCORED,
        };
        self.notify(number, &key, class, self.event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_shown_as_they_were_given_or_shorter() {
        for (given, expected) in [("", ""), ("KEA", "AKE"), ("Ex", "xE"), ("g$lshzxetdE", "AE")] {
            let flags = parse(given.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(shown(flags)).unwrap(), expected, "{given}");
        }
        assert_eq!(parse(b"KEq"), None);
    }
}
