//! RESP, the protocol of Redis: requests, replies and frames as bytes; numbers and patterns as Redis reads them.
//!
//! Invariant: no socket, no clock, and no meaning of commands.

mod encode;
pub mod frame;
mod number;
mod reply;
mod request;
mod strtod;
mod text;

pub use encode::{ProtocolVersion, encode, encode_request};
pub use number::{decimal, double, float, general, integer, range_end};
pub use reply::{ErrorReply, Reply};
pub use request::{Parsed, ProtocolError, RequestParser, is_http, split_args};
pub use strtod::{Strtod, is_space, strtod};
pub use text::{Blob, blob, glob, is_word, until_nul};
