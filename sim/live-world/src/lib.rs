//! The live worlds: real sockets, real time.

pub mod capability;
mod contract;
mod deployment;
pub mod embedded;
pub mod endpoint;
pub mod env;
pub mod leases;
pub mod limits;
mod nemesis;
mod page;
mod process;
pub mod program;
mod run;
pub mod run_delay;
pub mod server;
pub mod supervisor;
mod wire;

pub use contract::LiveWorld;
