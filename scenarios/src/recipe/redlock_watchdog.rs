//! The library's lock on several independent servers, renewed in the background at a third of its TTL.
//!
//! Sound under its assumptions. See `core/src/held_lock/all_nodes.rs`.

use picklock::OptionsError;

use super::shipped::{Shipped, watched};
use super::{About, Params, redlock};

pub(super) static ABOUT: About = About {
    name: "redlock-watchdog",
    how: "as redlock, with compare-and-extend on all nodes at a third of the TTL; a quorum renews it",
    renewed: true,
    ..redlock::ABOUT
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    let renewal = watched(&params);
    redlock::on_nodes(params, |options| options.renewal(renewal))
}
