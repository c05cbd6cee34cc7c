//! What the measurements are made with.
//!
//! Invariant: nothing here asserts how long anything takes; what is asserted is that the thing
//! measured did what it should.

pub mod contend;
pub mod copy;
pub mod counted;
pub mod counted_code;
pub mod crash;
pub mod figures;
pub mod haproxy;
pub mod limits;
pub mod load;
pub mod locks;
pub mod renewed;
pub mod seeds;
pub mod served;
#[cfg(feature = "simulators")]
pub mod simulators;
pub mod synthetic;
pub mod workload_w;
