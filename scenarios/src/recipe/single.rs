//! The library's lock on one server: token, validity, three outcomes, clean-up.
//!
//! Sound under its assumptions. See `core/src/single.rs`.

use picklock::OptionsError;
use picklock::scripts::COMPARE_AND_DELETE;

use super::shipped::{Shipped, WaitStrategy};
use super::{About, KeyValue, Params, Servers, Validity};

pub(super) static ABOUT: About = About {
    name: "single",
    how: "SET NX PX, validity from the send, compare-and-delete, ambiguous acquire cleaned up",
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
    scripts: || vec![&COMPARE_AND_DELETE],
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Poll, |options| options)
}
