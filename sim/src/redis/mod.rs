//! The Redis model: what a redis-server would answer, without sockets, threads or a clock.

pub(crate) mod admission;
pub(crate) mod commands;
pub mod effect;
pub mod fault;
pub(crate) mod keyspace;
pub mod model;
pub mod options;
pub mod reply;
pub(crate) mod script;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod stats;
pub mod text;
pub(crate) mod value;
pub(crate) mod watch;
