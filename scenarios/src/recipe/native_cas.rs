//! The library's lock, renewed and released by the server's own compare-and-set instead of scripts.
//!
//! Sound under its assumptions. See `core/src/native.rs`. It is renewed, for otherwise nothing would
//! compare and extend.

use picklock::OptionsError;

use super::shipped::{COMMON, Shipped, WaitStrategy, watched};
use super::{About, Params};

pub(super) static ABOUT: About = About {
    name: "native-cas",
    how: "as single-watchdog, by SET IFEQ and DELEX or DELIFEQ; by scripts where the server has neither",
    native: true,
    renewed: true,
    ..COMMON
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    let renewal = watched(&params);
    Shipped::new(params, WaitStrategy::Poll, |options| options.renewal(renewal).native())
}
