//! The library's lock with a number that rises from hold to hold, for the resource to check.
//!
//! Sound under its assumptions. See `core/src/fence.rs`.

use picklock::OptionsError;
use picklock::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND, TRY_FENCED};

use super::shipped::{COMMON, Shipped, WaitStrategy};
use super::{About, Params};

pub(super) static ABOUT: About = About {
    name: "fenced",
    how: "as single, and the script that acquires counts a fencing token up",
    assumes: &[
        "no pause between the last look at the validity and the write, or a resource that checks the token",
        "clocks run apart by less than the drift allowance",
        "the server does not forget: no failover, no power loss",
    ],
    scripts: || vec![&TRY_FENCED, &COMPARE_AND_DELETE, &COMPARE_AND_EXTEND],
    ..COMMON
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Poll, |options| options.fenced())
}
