//! RESP, the protocol of Redis: requests, replies and frames as bytes; numbers and patterns as Redis reads them.
//!
//! Invariant: no socket, no clock, and no meaning of commands.

pub mod encode;
pub mod frame;
pub mod number;
pub mod reply;
pub mod request;
pub mod strtod;
pub mod text;
