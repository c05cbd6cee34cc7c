//! Leases on a real server: what the lease model is compared with, and the measurements it is given.

pub mod confirm;
pub mod measure;
