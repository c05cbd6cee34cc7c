//! What every world shares: the contract, staged faults, clocks, and many runs in a row.

pub mod clock;
pub mod cues;
pub mod injector;
pub mod matrix;
pub mod partition;
pub mod soak;
pub mod sweep;
pub mod threads;
pub mod world;
