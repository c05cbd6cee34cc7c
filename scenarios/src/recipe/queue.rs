//! The library's lock that is handed over to the next in line.
//!
//! Sound under its assumptions. See `core/src/queue.rs`.

use picklock::OptionsError;
use picklock::queue_scripts::{JOIN, LEAVE, LOOK, TAKE};

use super::shipped::{Shipped, WaitStrategy};
use super::{About, KeyValue, Params, Servers, Validity};

pub(super) static ABOUT: About = About {
    name: "queue",
    how: "first come, first served; the release hands the lock to the next waiter who can be reached",
    from: "the picklock library",
    flaw: None,
    assumes: &[
        "no pause between the last look at the validity and the write",
        "clocks run apart by less than the drift allowance",
        "the server does not forget: no failover, no power loss",
        "the server's clock does not step while somebody waits",
    ],
    validity: Validity::Tracked,
    locks: true,
    fair: Some(0),
    servers: Servers::One,
    value: KeyValue::Token,
    native: false,
    scripts: || vec![&TAKE, &JOIN, &LOOK, &LEAVE],
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Line, |options| options)
}
