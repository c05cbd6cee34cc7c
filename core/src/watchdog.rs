//! The watchdog: renews a hold until it ends.
//!
//! Invariant: it never deletes, and it never renews what is lost. A renewal without an answer, or
//! refused, is tried again sooner while validity lasts; the end of validity says *lost* even while
//! a call is outstanding. When the next one comes is decided by `renewal.rs`. Deliberately absent: a pardon. A
//! hold that ran out by the node's own clock is lost, even if the server would still have extended it.

use std::pin::pin;
use std::sync::Arc;

use crate::env::Env;
use crate::lease::Lease;
use crate::lock::NotExtended;
use crate::options::Renewal;
use crate::time::Instant;
use crate::timeout::{First, race};

/// Renews `lease` until it is lost, released, or held for long enough; then still watches the clock,
/// so that the end of validity is told to the world.
pub(crate) async fn watch<E: Env>(lease: Arc<Lease<E>>, renewal: Renewal) {
    let env = &lease.target.env;
    let stop = renewal.max_hold.map_or(Instant::from_ns(u64::MAX), |span| lease.sent.after(span));
    // Where one is due by rights, and where the next is tried.
    let mut due = lease.sent.after(renewal.first(env.random()));
    let (mut at, mut failures) = (due, 0);
    while at < stop {
        match race(pin!(lease.over()), pin!(env.sleep(at.since(env.now())))).await {
            First::Left(_) => return,
            First::Right(()) => {}
        }
        // A node that was paused comes back late.
        let sent = env.now();
        if sent >= stop {
            break;
        }
        match lease.renew().await {
            Ok(_) => {
                due = renewal.next(due, sent);
                (at, failures) = (due, 0);
            }
            Err(NotExtended::Lost(_)) => return,
            Err(NotExtended::Failed(_)) => {
                failures += 1;
                let now = env.now();
                let left = lease.hold.valid_until().since(now);
                let Some(pause) = renewal.again(failures, left, env.random()) else { break };
                at = now.after(pause);
            }
        }
    }
    lease.over().await;
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
