//! Servers that die with us however we die.
//!
//! A process that is killed with SIGKILL cleans nothing up, so another one must: `picklock` runs
//! itself once more as [`main`], which starts the servers, waits for the end of its standard input,
//! and then leaves nothing behind.

mod child;
mod handle;
mod protocol;

pub use child::main;
pub(super) use handle::ServerState;
pub use handle::{SuperviseError, Supervisor};
pub use protocol::{
    COMMAND, DIRECTORY_PREFIX, Event, LOG_FILE, PAGE_FILE, Port, Request, Signal, Start,
};
