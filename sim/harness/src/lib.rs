//! What every world shares.

pub mod clock;
pub mod cues;
pub mod injector;
