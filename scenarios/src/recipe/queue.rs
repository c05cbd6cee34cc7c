//! The library's lock that is handed over to the next in line.
//!
//! Sound under its assumptions. See `core/src/queue.rs`.

use picklock::OptionsError;
use picklock::queue_scripts::{JOIN, LEAVE, LOOK, TAKE, keys_beside};
use picklock::scripts::COMPARE_AND_EXTEND;

use super::shipped::{COMMON, Shipped, WaitStrategy};
use super::{About, Params};

pub(super) static ABOUT: About = About {
    name: "queue",
    how: "first come, first served; the release hands the lock to the next waiter who can be reached",
    assumes: &[
        "no pause between the last look at the validity and the write",
        "clocks run apart by less than the drift allowance",
        "the server does not forget: no failover, no power loss",
        "the server's clock does not step while somebody waits",
    ],
    fair: Some(0),
    // A key for which there can be no queue is refused when the lock is made.
    keys_beside: |key| keys_beside(key).map_or_else(|_| Vec::new(), Vec::from),
    scripts: || vec![&TAKE, &JOIN, &LOOK, &LEAVE, &COMPARE_AND_EXTEND],
    ..COMMON
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Line, |options| options)
}
