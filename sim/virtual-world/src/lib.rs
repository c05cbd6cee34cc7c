//! The virtual world: the same lock code, workload and checkers on virtual time.

mod budget;
mod calls;
mod choices;
mod contract;
mod driver;
mod env;
mod executor;
mod latency;
mod nemesis;
mod network;
mod processes;
mod pubsub;
mod queue;
mod run;
mod servers;
mod simulation;
mod tasks;
#[cfg(test)]
mod tests;
mod time;
mod timers;
mod watch;

pub use budget::Livelock;
pub use choices::Choices;
pub use contract::VirtualWorld;
pub use run::{Runner, Schedule, WORLD};
pub use simulation::WitnessedCommand;
pub use watch::{EndlessPoll, watch_polls};
