//! picklock as its user meets it, command by command: what it prints and writes, and how it ends.
//!
//! One program, which is built and linked once. What is held to times, or has to have the machine to itself, is a
//! program of its own.

mod check_histories;
mod check_refuses;
#[path = "../cli_support/mod.rs"]
mod cli_support;
mod command_line;
mod explore;
mod no_lock_hangs;
mod paths_are_bytes;
mod readme_page;
mod report;
mod serve;
mod shards;
mod shrink;
mod soak;
mod terminals;
mod tune;
mod written_files;
