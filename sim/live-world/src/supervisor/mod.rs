//! Servers that die with us however we die.
//!
//! A process that is killed with SIGKILL cleans nothing up, so another one must: `picklock` runs
//! itself once more as a supervisor, which starts the servers, waits for the end of its standard
//! input, and then leaves nothing behind; and once more as a watcher, which does the same where the
//! supervisor was killed, too.

mod child;
mod directory;
mod handle;
mod protocol;
mod watcher;

pub use child::main;
pub(super) use handle::ServerState;
pub use handle::{SuperviseError, Supervisor};
pub use protocol::{
    COMMAND, DIRECTORY_PREFIX, LOG_FILE, PAGE_FILE, Port, Signal, StartRequest, SupervisorEvent,
    SupervisorRequest,
};
