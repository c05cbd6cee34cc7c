//! A Redis lock that passes its own test.

pub mod command;
pub mod env;
pub mod reply;
pub mod script;
pub mod time;
pub mod validity;
