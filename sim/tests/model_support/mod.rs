//! What the differential test is made of.

pub(crate) mod commands;
pub(crate) mod copies;
pub(crate) mod fixed;
pub(crate) mod pair;
pub(crate) mod server;
pub(crate) mod stream;
pub(crate) mod templates;
pub(crate) mod wire;
