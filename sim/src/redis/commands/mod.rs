//! What each command does; one family a file, each with its part of the command table.

pub(crate) mod blocking;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod conditional;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod counters;
pub(crate) mod expire_option;
pub(crate) mod expiry;
pub(crate) mod hashes;
pub(crate) mod info;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod pubsub;
pub(crate) mod replication;
pub(crate) mod scan;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod set;
pub(crate) mod sets;
pub(crate) mod strings;
pub(crate) mod table;
pub(crate) mod transactions;
pub(crate) mod zpop;
pub(crate) mod zrange;
pub(crate) mod zsets;
