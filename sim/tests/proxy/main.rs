//! The proxy on real sockets, in this process and as `picklock proxy`.

mod addresses;
mod api;
#[path = "../cli_support/mod.rs"]
mod cli_support;
mod command;
mod faults;
mod hostile;
mod opaque;
mod page;
#[path = "../proxy_support/mod.rs"]
mod proxy_support;
mod rewrites;
mod tls;
mod token;
mod transparency;
mod wire;
