//! Workers for `picklock attack`, one binary for each library.

pub mod worker;
