//! The watchdog: renews a hold until it ends.
//!
//! Invariant: it never deletes, and it never renews a lost hold. A renewal that was refused or has no answer
//! is tried again sooner while validity lasts. At the end of validity the hold is lost, even if a call is
//! outstanding that the server would still carry out. `renewal.rs` computes when the next one is due.

use std::pin::pin;
use std::sync::Arc;

use crate::env::Env;
use crate::held_lock::HeldLock;
use crate::lock::NotExtended;
use crate::options::Renewal;
use crate::time::Instant;
use crate::timeout::{Either, race};

/// Renews `held` until it is lost, released, or held for as long as [`Renewal::max_hold`] says; then waits for
/// the end of validity, so that the loss is reported.
pub(crate) async fn watch<E: Env>(held: Arc<HeldLock<E>>, renewal: Renewal) {
    let env = &held.target.env;
    let stop = renewal.max_hold.map_or(Instant::from_ns(u64::MAX), |span| held.sent.after(span));
    // When a renewal is due by the schedule, and when the next one is tried.
    let mut due = held.sent.after(renewal.first(env.random()));
    let (mut at, mut failures) = (due, 0);
    while at < stop {
        match race(pin!(held.over()), pin!(env.sleep(at.since(env.now())))).await {
            Either::Left(_) => return,
            Either::Right(()) => {}
        }
        // The clock is read again: a node that was paused wakes late.
        let sent = env.now();
        if sent >= stop {
            break;
        }
        match held.renew().await {
            Ok(_) => {
                due = renewal.next(due, sent);
                (at, failures) = (due, 0);
            }
            Err(NotExtended::Lost(_)) => return,
            Err(NotExtended::Failed(_)) => {
                failures += 1;
                let now = env.now();
                let left = held.hold.valid_until().since(now);
                // Where no time is left for another try, a renewal by hand may still save the hold.
                let pause = renewal.retry_pause(failures, left, env.random()).unwrap_or(left);
                at = now.after(pause);
            }
        }
    }
    held.over().await;
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
