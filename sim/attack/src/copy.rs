//! A copy of the user's program, which takes no orders and runs until it ends by itself.
//!
//! Invariant: a wait for a copy returns when it ends or its time is over. Then all that it started is gone, too.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use live_world::program::{Pipes, Program, ProgramRoom};
use live_world::supervisor::{Signal, Supervisor};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::clock::now;
use crate::error::AttackError;
use crate::worker::{Printed, read};

/// The status of a program that ended without an error.
pub(crate) const SUCCESS: &str = "exit status: 0";

/// How long its last output may take to arrive. A process that it started may keep its pipes open for longer.
const DRAIN: Duration = Duration::from_millis(500);

/// A running copy. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct ProgramCopy {
    client: u32,
    program: Arc<Program>,
    printed: Arc<Mutex<Printed>>,
    readers: JoinSet<()>,
}

/// How a copy has ended.
#[derive(Clone, Debug)]
pub(crate) struct CopyEnd {
    pub(crate) client: u32,
    pub(crate) at: Instant,
    /// In words, such as [`SUCCESS`].
    pub(crate) status: String,
    /// It had not ended in time, and was killed.
    pub(crate) overdue: bool,
    /// The last lines it printed.
    pub(crate) printed: Vec<String>,
}

impl ProgramCopy {
    /// Starts one for this client, in a room that it shares with the others.
    ///
    /// # Errors
    /// [`AttackError::Start`].
    pub(crate) async fn start(
        supervisor: &Supervisor,
        client: u32,
        command: &[OsString],
        variables: Vec<(String, String)>,
        room: &ProgramRoom,
    ) -> Result<Self, AttackError> {
        let started = Program::start_in(supervisor, command, variables, true, Some(room)).await;
        let (program, Pipes { stdout, stderr, .. }) = started.map_err(AttackError::Start)?;
        let printed = Arc::new(Mutex::new(Printed::default()));
        let mut readers = JoinSet::new();
        for pipe in [stdout, stderr] {
            readers.spawn(read(pipe, None, Arc::clone(&printed)));
        }
        Ok(Self { client, program: Arc::new(program), printed, readers })
    }

    /// Its process, to be signalled.
    pub(crate) fn process(&self) -> Arc<Program> {
        Arc::clone(&self.program)
    }

    /// Waits until it has ended and its output has been read.
    async fn ended(mut self) -> CopyEnd {
        let status = self.program.ended().await;
        let at = now();
        self.program.let_go();
        let _ = timeout(DRAIN, async { while self.readers.join_next().await.is_some() {} }).await;
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let printed = printed.lines.iter().cloned().collect();
        CopyEnd { client: self.client, at, status, overdue: false, printed }
    }

    /// The same, but kills it if `limit` is over first.
    pub(crate) async fn ended_before(self, limit: impl Future<Output = ()>) -> CopyEnd {
        let process = self.process();
        let mut end = std::pin::pin!(self.ended());
        tokio::select! {
            biased;
            end = &mut end => return end,
            () = limit => process.signal(Signal::Kill),
        }
        CopyEnd { overdue: true, ..end.await }
    }
}

impl CopyEnd {
    /// The last lines it printed, as part of a message.
    pub(crate) fn last_words(&self) -> String {
        match self.printed.is_empty() {
            true => String::from("; it printed nothing"),
            false => format!("; it printed:\n{}", self.printed.join("\n")),
        }
    }
}
