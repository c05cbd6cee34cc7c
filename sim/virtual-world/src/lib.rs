//! The virtual world: the same lock code, workload and checkers on virtual time.

mod audience;
mod call;
mod choices;
mod contract;
mod dial;
mod env;
mod fleet;
mod nemesis;
mod network;
mod process;
mod queue;
mod run;
mod sleep;
mod tasks;
#[cfg(test)]
mod tests;
mod travel;
mod world;

pub use audience::VirtualSubscription;
pub use choices::{Choices, Draw};
pub use contract::VirtualWorld;
pub use env::{VirtualConn, VirtualEnv};
pub use run::{Runner, Schedule, WORLD};
