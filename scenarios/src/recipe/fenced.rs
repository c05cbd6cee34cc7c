//! The library's lock with a number that rises from hold to hold, for the resource to check.
//!
//! Sound under its assumptions. See `core/src/fence.rs`.

use picklock::OptionsError;
use picklock::scripts::{COMPARE_AND_DELETE, TRY_FENCED};

use super::shipped::{Shipped, WaitStrategy};
use super::{About, KeyValue, Params, Servers, Validity};

pub(super) static ABOUT: About = About {
    name: "fenced",
    how: "as single, and the script that acquires counts a fencing token up",
    from: "the picklock library",
    flaw: None,
    assumes: &[
        "no pause between the last look at the validity and the write, or a resource that checks the token",
        "clocks run apart by less than the drift allowance",
        "the server does not forget: no failover, no power loss",
    ],
    validity: Validity::Tracked,
    locks: true,
    fair: None,
    servers: Servers::One,
    value: KeyValue::Token,
    native: false,
    scripts: || vec![&TRY_FENCED, &COMPARE_AND_DELETE],
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Poll, |options| options.fenced())
}
