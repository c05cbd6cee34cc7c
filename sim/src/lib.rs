//! The worlds picklock runs in, and its command line.

pub mod cli;
pub mod live;
pub mod redis;
pub mod resp;
pub mod virtual_time;
