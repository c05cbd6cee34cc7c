//! The library's lock, whose waiters sleep until they are told of the release.
//!
//! Sound under its assumptions. See `core/src/single.rs`.

use picklock::OptionsError;
use picklock::scripts::{COMPARE_AND_EXTEND, DELETE_AND_TELL, TRY};

use super::shipped::{COMMON, Shipped, WaitStrategy};
use super::{About, Params};

pub(super) static ABOUT: About = About {
    name: "notify",
    how: "as single, and the release publishes; a waiter listens, tries again, then sleeps for the TTL at most",
    scripts: || vec![&TRY, &DELETE_AND_TELL, &COMPARE_AND_EXTEND],
    ..COMMON
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Notify, |options| options)
}
