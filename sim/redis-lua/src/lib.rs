//! The Lua libraries that redis-server embeds, and the random numbers of its scripts.
//!
//! Invariant: each library answers as the one in redis-server 7.0 does, in its words, and what it may
//! build is bounded.

pub mod args;
pub mod bit;
pub mod cjson;
pub mod cmsgpack;
pub mod error;
pub mod limits;
pub mod random;
pub mod structs;
