//! Lua 5.1 as redis-server 7.0 embeds it.

pub(crate) mod api;
pub(crate) mod engine;
pub(crate) mod functions;
pub(crate) mod native;
pub(crate) mod shebang;

#[cfg(test)]
mod tests;
