//! The library's lock on several independent servers.
//!
//! Sound under its assumptions. See `core/src/redlock.rs`.

use picklock::OptionsError;
use picklock::options::OptionsBuilder;

use super::shipped::{COMMON, Shipped, WaitStrategy};
use super::{About, Params, Servers};

pub(super) static ABOUT: About = About {
    name: "redlock",
    how: "single on each of several nodes at once, held by a quorum; with fewer than three nodes, on one",
    assumes: &[
        "no pause between the last look at the validity and the write",
        "clocks run apart by less than the drift allowance",
        "no node forgets what it has granted and is back within a TTL, and no node's clock jumps",
    ],
    servers: Servers::Several,
    ..COMMON
};

/// The recipe.
pub(super) fn recipe(params: Params) -> Result<Shipped, OptionsError> {
    on_nodes(params, |options| options)
}

/// The lock on so many servers, with what `also` adds to its options.
pub(super) fn on_nodes(
    params: Params,
    also: impl FnOnce(OptionsBuilder) -> OptionsBuilder,
) -> Result<Shipped, OptionsError> {
    let nodes = u16::try_from(params.nodes).unwrap_or(u16::MAX);
    // Of an even number one node would be of no use.
    let odd = if nodes.is_multiple_of(2) { nodes.saturating_sub(1) } else { nodes };
    let way = if odd < 3 { WaitStrategy::Poll } else { WaitStrategy::Nodes(odd) };
    let patience = params.ttl / 10;
    Shipped::new(params, way, |options| {
        let options = also(options);
        if odd < 3 { options } else { options.call_timeout(patience) }
    })
}
