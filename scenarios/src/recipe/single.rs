//! The library's lock on one server: token, validity, three outcomes, clean-up.
//!
//! Sound under its assumptions. See `core/src/single.rs`.

use picklock::OptionsError;

use super::shipped::{COMMON, Shipped, WaitStrategy};
use super::{About, Params};

pub(super) static ABOUT: About = About {
    name: "single",
    how: "SET NX PX, validity from the send, compare-and-delete, ambiguous acquire cleaned up",
    ..COMMON
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    Shipped::new(params, WaitStrategy::Poll, |options| options)
}
