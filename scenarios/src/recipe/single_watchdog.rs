//! The library's lock on one server, renewed in the background at a third of its TTL.
//!
//! Sound under its assumptions. See `core/src/watchdog.rs`.

use picklock::OptionsError;
use picklock::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND};

use super::shipped::{Shipped, WaitStrategy};
use super::{About, KeyValue, Params, Servers, Validity};

pub(super) static ABOUT: About = About {
    name: "single-watchdog",
    how: "as single, with compare-and-extend at a third of the TTL and a notice of loss",
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
    scripts: || vec![&COMPARE_AND_DELETE, &COMPARE_AND_EXTEND],
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Poll, |options| options.watchdog())
}
