//! The README and the book's page about this library: their examples compile. They have no server to run on;
//! the same code in the crate's own documentation has one.

#![doc = include_str!("../../README.md")]
#![doc = include_str!("../../docs/lock-library.md")]
