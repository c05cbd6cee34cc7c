//! The protocol between picklock and its supervisor: a JSON object per line.
//!
//! Invariant: every [`SupervisorRequest::Start`] is answered by `started` or `error`, and every `started` is
//! followed by exactly one `exited` unless the supervisor ends first. It has no versions: both ends are the same
//! binary.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The hidden command under which the binary becomes the supervisor.
pub const COMMAND: &str = "__supervise";

/// The file in a server's directory that is its log.
pub const LOG_FILE: &str = "server.log";

/// The pipes in the directory of a program, in this order: its standard input, output and error, and the pipe for
/// answers of one that prints other things on its standard output.
pub const PIPES: [&str; 4] = ["stdin", "stdout", "stderr", "answers"];

/// The variable that tells a program the directory of its room.
pub(super) const ROOM_VARIABLE: &str = "PICKLOCK_DIR";

/// The variable that tells a program its pipe for answers.
pub(super) const ANSWERS_VARIABLE: &str = "PICKLOCK_ANSWERS";

/// The file in a server's directory that is its page.
pub const PAGE_FILE: &str = "page";

/// How the directory of a run begins, so that people recognise it.
pub const DIRECTORY_PREFIX: &str = "picklock-";

/// Signals a server can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// SIGSTOP: it is paused, connections stay open.
    Stop,
    /// SIGCONT: it goes on.
    Cont,
    /// SIGKILL: it is gone at once, as in a crash.
    Kill,
    /// SIGTERM: it saves what it should and ends.
    Term,
}

/// A program of the user's, which speaks on pipes in its directory: `stdin`, `stdout` and `stderr`, and `answers`
/// for one that prints other things on its standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRequest {
    /// Its number, chosen by the caller.
    pub id: u32,
    /// The program and its arguments.
    #[serde(with = "words")]
    pub command: Vec<OsString>,
    /// What is added to the environment.
    pub variables: Vec<(String, String)>,
    /// Whether it is to share a page with picklock; see `page.rs`.
    pub paged: bool,
    /// The room that it shares with others, if it does. Then it takes no orders: its standard input is empty.
    #[serde(default)]
    pub room: Option<u32>,
}

/// Arguments as bytes, because one need not be UTF-8.
mod words {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(words: &[OsString], into: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        bytes.serialize(into)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<OsString>, D::Error> {
        let bytes: Vec<Vec<u8>> = Vec::deserialize(from)?;
        Ok(bytes.into_iter().map(OsString::from_vec).collect())
    }
}

/// What the supervisor is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum SupervisorRequest {
    /// Start a server. The number of one that has ended starts it again in its old directory.
    Start(StartRequest),
    /// Run a program of the user's.
    Run(ProgramRequest),
    /// Send a signal to a server.
    Signal {
        /// Which server.
        id: u32,
        /// Which signal.
        signal: Signal,
    },
    /// Close a program's pipes, which nobody reads any more, or remove a room.
    Forget {
        /// Which program or room.
        id: u32,
    },
    /// End a server: SIGTERM, and SIGKILL if it has not ended after two seconds.
    Stop {
        /// Which server.
        id: u32,
    },
}

/// Which server to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRequest {
    /// The server's number, chosen by the caller.
    pub id: u32,
    /// The executable.
    #[serde(with = "bytes")]
    pub binary: PathBuf,
    /// The port to listen on; a free one if none is named.
    pub port: Option<u16>,
    /// Arguments after the standard ones, which they override.
    #[serde(default)]
    pub args: Vec<String>,
    /// Lines of a configuration file.
    #[serde(default)]
    pub config: String,
    /// Whether it is to share a page with picklock; see `page.rs`.
    #[serde(default)]
    pub paged: bool,
}

/// Paths as bytes, because a path need not be UTF-8.
mod bytes {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, into: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(into)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }
}

/// What the supervisor reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum SupervisorEvent {
    /// A server's process runs; it need not answer yet.
    Started {
        /// Which server.
        id: u32,
        /// Its process, which is its process group too.
        pid: i32,
        /// Its port on 127.0.0.1.
        port: u16,
        /// Its working directory, with `server.log`.
        #[serde(with = "bytes")]
        dir: PathBuf,
    },
    /// A server's process has ended.
    Exited {
        /// Which server.
        id: u32,
        /// How, in words: `exit status: 1`, `signal: 9 (SIGKILL)`.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// The command of a program cannot be run.
    NotRun {
        /// Which program.
        id: u32,
        /// Why.
        message: String,
    },
    /// A request could not be carried out.
    Error {
        /// Which server; none if the request could not be read.
        id: Option<u32>,
        /// Why.
        message: String,
    },
}
