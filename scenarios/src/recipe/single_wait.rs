//! The library's lock, relied on only when a replica knows of it.
//!
//! Sound under its assumptions. See `core/src/attempt.rs`.

use std::time::Duration;

use picklock::OptionsError;

use super::shipped::{COMMON, Shipped, WaitStrategy};
use super::{About, Params, Servers};

/// The most that is waited for a replica.
const WITHIN_MOST: Duration = Duration::from_secs(1);

pub(super) static ABOUT: About = About {
    name: "single-wait",
    how: "as single, then WAIT for a replica, where there is one, before claiming",
    assumes: &[
        "no pause between the last look at the validity and the write",
        "clocks run apart by less than the drift allowance",
        "a failover promotes a replica that has acknowledged; no power loss",
    ],
    servers: Servers::Followed,
    ..COMMON
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    // Without a replica there is nothing to wait for; half a call timeout is long for one round trip.
    let within = params.ttl / 6;
    let waits = params.replicas > 0;
    Shipped::new(params, WaitStrategy::Poll, |options| {
        if waits { options.wait_for(1, within.min(WITHIN_MOST)) } else { options }
    })
}
