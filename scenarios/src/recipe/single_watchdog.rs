//! The library's lock on one server, renewed in the background at a third of its TTL.
//!
//! Sound under its assumptions. See `core/src/watchdog.rs`.

use picklock::OptionsError;

use super::shipped::{COMMON, Shipped, WaitStrategy, watched};
use super::{About, Params};

pub(super) static ABOUT: About = About {
    name: "single-watchdog",
    how: "as single, with compare-and-extend at a third of the TTL and a notice of loss",
    renewed: true,
    ..COMMON
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    let renewal = watched(&params);
    Shipped::new(params, WaitStrategy::Poll, |options| options.renewal(renewal))
}
