//! What a run without faults shows of a lock, and how closely picklock looks at its key.

use std::time::Duration;

use history::What;
use picklock::reply::Reply;

use crate::arena::Arena;
use crate::clock::{now, pause};
use crate::lock_key::LockKey;
use crate::protocol::Promises;
use crate::recorder::Recorder;

/// How far an expiry may be off: the grain of Redis's clock, and how late it may be noticed.
pub(crate) const MARGIN: Duration = Duration::from_millis(2);
/// So many times as long as asked for a key may live: some libraries count in whole seconds.
pub(crate) const LIFE_MOST: u32 = 4;
/// So much of a key's life may this process itself be late.
pub(crate) const LATE_MOST: f64 = 0.15;
/// How often the lock's key is looked at when everybody has done.
const PROBE_EVERY: Duration = Duration::from_millis(10);

/// What a run without faults has shown of a lock.
pub(crate) struct Known {
    /// Its name is empty where nothing looked like one, as may be with programs that an oracle judges.
    pub(crate) lock_key: LockKey,
    pub(crate) promises: Promises,
    /// Whether the key is deleted before it expires.
    pub(crate) releases: bool,
}

/// Looks at the lock's key until it is gone from every server, or should be.
pub(crate) async fn probe(arena: &Arena, lock_key: &LockKey, recorder: &Recorder) {
    let ask = lock_key.command("PTTL");
    let end = now() + arena.life * 2;
    for server in &arena.servers {
        loop {
            let answer = server.endpoint.command(&ask).await;
            let pttl_ms = match answer {
                Ok(Reply::Int(pttl_ms)) => Some(pttl_ms),
                _ => None,
            };
            pttl_ms.into_iter().for_each(|pttl_ms| recorder.note(What::Probe(pttl_ms)));
            // It has gone, or never will.
            if pttl_ms.is_some_and(|pttl_ms| pttl_ms < 0) || now() >= end {
                break;
            }
            pause(PROBE_EVERY).await;
        }
    }
}
