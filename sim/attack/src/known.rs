//! What a run without faults has shown of a lock, and the margins with which its key is judged.

use std::time::Duration;

use history::What;
use picklock::reply::Reply;

use crate::arena::Arena;
use crate::clock::{now, pause};
use crate::lock_key::LockKey;
use crate::protocol::Promises;
use crate::recorder::Recorder;

/// How far an expiry may be off: the resolution of Redis's clock, and how late Redis may notice the expiry.
pub(crate) const MARGIN: Duration = Duration::from_millis(2);
/// How late this process itself may be, as a part of the key's life.
pub(crate) const LATE_MOST: f64 = 0.15;
/// How often the lock's key is probed after all clients are done.
const PROBE_EVERY: Duration = Duration::from_millis(10);

/// What a run without faults has shown of a lock.
pub(crate) struct Known {
    /// Its name is empty if no key looked like a lock's, which may happen with programs that an oracle judges.
    pub(crate) lock_key: LockKey,
    pub(crate) promises: Promises,
    /// Whether the key is deleted before it expires.
    pub(crate) releases: bool,
    /// How long it took until all programs had ended; zero for workers.
    pub(crate) took: Duration,
}

/// Probes the lock's key until it is gone from every server, or should be.
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
            // The key is gone, never expires, or should be gone by now.
            if pttl_ms.is_some_and(|pttl_ms| pttl_ms < 0) || now() >= end {
                break;
            }
            pause(PROBE_EVERY).await;
        }
    }
}
