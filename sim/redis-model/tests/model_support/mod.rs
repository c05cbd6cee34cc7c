//! What the differential tests are made of.

#![allow(dead_code, reason = "each of the two uses a part of it")]

pub(crate) mod builtins;
pub(crate) mod commands;
pub(crate) mod conditional;
pub(crate) mod copies;
pub(crate) mod divergences;
pub(crate) mod explore;
pub(crate) mod fixed;
pub(crate) mod pair;
pub(crate) mod scripts;
pub(crate) mod server;
pub(crate) mod stream;
pub(crate) mod templates;
pub(crate) mod wire;
