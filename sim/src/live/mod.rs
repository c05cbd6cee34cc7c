//! The live worlds: real sockets, real time.

pub mod capability;
pub mod embedded;
pub mod env;
pub mod fleet;
pub mod limits;
mod listen;
mod nemesis;
mod process;
pub mod proxy;
pub mod run;
pub mod server;
pub mod supervisor;
pub mod switchboard;
pub mod target;
