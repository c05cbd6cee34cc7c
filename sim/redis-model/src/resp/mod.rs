//! RESP, the protocol of Redis, as bytes: no sockets, no clock.

pub mod encode;
pub mod frame;
pub mod request;
