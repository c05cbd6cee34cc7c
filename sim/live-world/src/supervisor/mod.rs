//! Servers that end with picklock, however it ends.
//!
//! A process that is killed with SIGKILL cleans nothing up, so another one must. `picklock` runs
//! itself once more as a supervisor (`child.rs`), which starts the servers, waits for the end of its standard
//! input, and then removes everything; and once more as a watcher (`watcher.rs`), which does the same if the
//! supervisor was killed, too. `handle.rs` is picklock's own end.

mod child;
mod directory;
mod handle;
mod protocol;
mod watcher;

pub use child::main;
pub(super) use handle::ServerState;
pub use handle::{SuperviseError, Supervisor};
pub use protocol::{
    COMMAND, DIRECTORY_PREFIX, LOG_FILE, PAGE_FILE, PIPES, ProgramRequest, Signal, StartRequest,
    SupervisorEvent, SupervisorRequest,
};
