//! The watchdog: renews a hold until it ends.
//!
//! Invariant: it never deletes, and it never renews what is lost. A renewal without an answer, or
//! refused, is tried again sooner while validity lasts; the end of validity says *lost* even while
//! a call is outstanding. Deliberately absent: a pardon. A hold that ran out by the node's own clock
//! is lost, even if the server would still have extended it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::env::Env;
use crate::lease::Lease;
use crate::lock::NotExtended;
use crate::options::Renewal;
use crate::time::Instant;
use crate::timeout::{First, race};

/// After a failed renewal the next comes after this fraction of the usual interval.
const RETRY_PART: u32 = 8;
const RETRY_MIN: Duration = Duration::from_millis(1);

/// Renews `lease` until it is lost, released, or held for long enough; then still watches the clock,
/// so that the end of validity is told to the world.
pub(crate) async fn watch<E: Env>(lease: Arc<Lease<E>>, renewal: Renewal) {
    let env = &lease.target.env;
    let stop = renewal.max_hold.map_or(Instant::from_ns(u64::MAX), |span| lease.sent.after(span));
    let mut due = lease.sent.after(renewal.every);
    while due < stop {
        match race(pin!(lease.over()), pin!(env.sleep(due.since(env.now())))).await {
            First::Left(_) => return,
            First::Right(()) => {}
        }
        // A node that was paused comes back late: the renewal is counted from now on.
        let sent = env.now();
        if sent >= stop {
            break;
        }
        match lease.renew().await {
            Ok(_) => due = sent.after(renewal.every),
            Err(NotExtended::Lost(_)) => return,
            Err(NotExtended::Failed(_)) => {
                due = env.now().after((renewal.every / RETRY_PART).max(RETRY_MIN));
            }
        }
    }
    lease.over().await;
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
