//! Lua 5.1 as redis-server 7.0 embeds it.

pub(crate) mod api;
pub(crate) mod args;
pub(crate) mod bit;
pub(crate) mod cjson;
pub(crate) mod cmsgpack;
pub(crate) mod convert;
pub(crate) mod engine;
pub(crate) mod functions;
pub(crate) mod limits;
pub(crate) mod native;
pub(crate) mod random;
pub(crate) mod shebang;
pub(crate) mod structs;

#[cfg(test)]
mod tests;
