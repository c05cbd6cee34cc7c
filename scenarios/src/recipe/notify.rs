//! The library's lock, whose waiters sleep until they are told of the release.
//!
//! Sound under its assumptions. See `core/src/single.rs`.

use picklock::OptionsError;
use picklock::scripts::{DELETE_AND_TELL, TRY};

use super::shipped::{Shipped, WaitStrategy};
use super::{About, KeyValue, Params, Servers, Validity};

pub(super) static ABOUT: About = About {
    name: "notify",
    how: "as single, and the release publishes; a waiter listens, tries again, then sleeps for the TTL at most",
    from: "the picklock library",
    flaw: None,
    assumes: &[
        "no pause between the last look at the validity and the write",
        "clocks run apart by less than the drift allowance",
        "the server does not forget: no failover, no power loss",
    ],
    validity: Validity::Tracked,
    locks: true,
    fair: None,
    servers: Servers::One,
    value: KeyValue::Token,
    native: false,
    scripts: || vec![&TRY, &DELETE_AND_TELL],
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Notify, |options| options)
}
