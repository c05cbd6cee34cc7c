//! The virtual world: the same lock code, workload and checkers on virtual time.

mod calls;
mod choices;
mod driver;
mod env;
mod executor;
mod latency;
pub mod matrix;
mod nemesis;
mod network;
mod processes;
mod pubsub;
mod queue;
mod run;
mod servers;
mod simulation;
pub mod sweep;
mod tasks;
#[cfg(test)]
mod tests;
mod time;
mod timers;

pub use choices::Choices;
pub use env::{VirtualConn, VirtualEnv, VirtualSubscription};
pub use run::{Runner, Schedule, WORLD};
