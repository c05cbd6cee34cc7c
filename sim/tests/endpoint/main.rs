//! Servers that somebody else runs: which of them are taken, and what is left behind there.

mod counts;
#[path = "../endpoint_support/mod.rs"]
mod endpoint_support;
mod keys;
mod not_redis;
#[path = "../proxy_support/mod.rs"]
mod proxy_support;
mod refusals;
