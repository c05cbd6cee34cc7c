//! The live worlds: real sockets, real time.

pub mod proxy;
