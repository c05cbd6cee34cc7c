//! The worlds picklock runs in.

pub mod live;
pub mod redis;
pub mod resp;
