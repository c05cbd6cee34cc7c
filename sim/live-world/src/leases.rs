//! Leases taken on a real server: what the lease model is compared with, and what it is told to begin with.

pub mod confirm;
pub mod measure;
