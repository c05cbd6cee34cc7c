//! The worlds picklock runs in, and its command line.

pub mod cli;
mod clock;
mod cues;
pub mod live;
pub mod redis;
pub mod resp;
pub mod tune;
pub mod virtual_time;
