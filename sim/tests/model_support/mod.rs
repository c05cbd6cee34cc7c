//! What the differential test is made of.

pub(crate) mod commands;
pub(crate) mod fixed;
pub(crate) mod server;
pub(crate) mod wire;
