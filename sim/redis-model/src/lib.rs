//! The Redis model: what a redis-server would answer, without sockets, threads or a clock.

pub mod command_flags;
pub(crate) mod commands;
pub mod first_key;
pub(crate) mod journal;
pub(crate) mod keyspace;
pub(crate) mod libraries;
pub mod model;
pub mod options;
pub(crate) mod scored;
pub(crate) mod script;
pub(crate) mod server;
pub(crate) mod stats;
#[cfg(test)]
mod test_model;
pub(crate) mod value;
pub mod witness;
