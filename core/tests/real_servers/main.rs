//! The library on real servers, which each test starts for itself and kills at its end.
//!
//! Nothing here asserts how long something takes: a test waits for a condition, up to a deadline
//! that only a broken build reaches.
#![cfg(all(feature = "tokio", not(picklock_loom)))]

mod channels;
mod cluster;
mod fake;
mod half_open;
mod locks;
#[cfg(unix)]
mod nodes;
mod one_server;
mod permissions;
mod queue;
mod queue_refusals;
mod sentinel;
mod support;
