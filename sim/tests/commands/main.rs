//! picklock as its user meets it, command by command: what it prints and writes, and how it ends.
//!
//! Tests of live faults, signals and kills are programs of their own: beside these they would not have the machine to
//! themselves.

mod bad_servers;
mod check_histories;
mod check_refuses;
#[path = "../cli_support/mod.rs"]
mod cli_support;
mod command_line;
#[path = "../endpoint_support/mod.rs"]
mod endpoint_support;
mod expected;
mod explore;
mod no_lock_hangs;
mod paths_are_bytes;
mod pipes;
#[path = "../proxy_support/mod.rs"]
mod proxy_support;
mod readme_page;
mod report;
mod serve;
mod shards;
mod shrink;
mod soak;
mod terminals;
mod threads;
mod tune;
mod variables;
mod written_files;
