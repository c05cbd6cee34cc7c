//! Lua as redis-server embeds it, without the server: its libraries, replies as Lua values, random numbers.
//!
//! Invariant: each library answers as the one in redis-server 7.0 does, in its words, and what it may
//! build is bounded.

pub mod args;
pub mod bit;
pub mod builtin;
pub mod cjson;
pub mod cmsgpack;
pub mod convert;
pub mod error;
pub mod limits;
pub mod random;
pub mod structs;
