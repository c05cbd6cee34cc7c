//! The Redis model: what a redis-server would answer, without sockets, threads or a clock.

pub(crate) mod admission;
pub(crate) mod blocking;
pub(crate) mod commands;
pub(crate) mod journal;
pub(crate) mod keyspace;
pub(crate) mod libraries;
pub(crate) mod memory;
pub mod model;
pub(crate) mod monitor;
pub(crate) mod notify;
pub mod options;
pub mod persistence;
pub(crate) mod propagate;
pub(crate) mod pubsub;
pub(crate) mod refusal;
pub mod replication;
pub(crate) mod scored;
pub(crate) mod script;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod stats;
pub(crate) mod touch;
pub(crate) mod value;
pub(crate) mod watch;
