//! A program of the user's: how it is started, talked to through pipes, signalled and ended.
//!
//! Its process belongs to the [supervisor](super::supervisor), so it ends with picklock, however that ends, and with
//! everything it has started.

#![expect(clippy::disallowed_methods, reason = "programs run in real time")]

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};
use tokio::sync::watch;

use super::page::Page;
use super::run_delay::RunDelays;
use super::supervisor::{
    PAGE_FILE, PIPES, ProgramRequest, ServerState, Signal, SuperviseError, Supervisor,
    SupervisorRequest,
};

/// How often to look whether a process has stopped.
const STOP_POLL: Duration = Duration::from_millis(1);

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no supervisor to start it.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    /// Its command cannot be run.
    #[error("{0}")]
    NotRun(String),
    /// The machine has no room for it.
    #[error("{0}")]
    NoRoom(String),
    /// Its pipes cannot be opened.
    #[error("cannot open a pipe to the program: {0}")]
    Pipe(#[from] io::Error),
}

/// A running program. Dropping it kills it and what it has started, in the background.
#[derive(Debug)]
pub struct Program {
    supervisor: Supervisor,
    id: u32,
    state: watch::Receiver<ServerState>,
    page: Mutex<Option<Page>>,
}

/// The pipes to and from a program. None of them ends when the program does: [`Program::ended`] says when that is.
#[derive(Debug)]
pub struct Pipes {
    /// To its standard input.
    pub stdin: Sender,
    /// From its standard output.
    pub stdout: Receiver,
    /// From its standard error.
    pub stderr: Receiver,
    /// From the pipe for answers, whose path is in its variable `PICKLOCK_ANSWERS`.
    pub answers: Receiver,
}

impl Program {
    /// Starts a program with these variables besides picklock's own. With `clocked` its clocks can be changed, if it
    /// loads libraries at all.
    ///
    /// # Errors
    /// [`ProgramError::NotRun`] if it cannot be run.
    pub async fn start(
        supervisor: &Supervisor,
        command: &[OsString],
        variables: Vec<(String, String)>,
        clocked: bool,
    ) -> Result<(Self, Pipes), ProgramError> {
        Self::start_in(supervisor, command, variables, clocked, None).await
    }

    /// The same for a program that takes no orders: its standard input is empty. The directory of its room is in its
    /// variable `PICKLOCK_DIR`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_in(
        supervisor: &Supervisor,
        command: &[OsString],
        variables: Vec<(String, String)>,
        clocked: bool,
        room: Option<&ProgramRoom>,
    ) -> Result<(Self, Pipes), ProgramError> {
        let (id, mut state) = supervisor.register();
        let command = command.to_vec();
        let room = room.map(|room| room.id);
        let request = ProgramRequest { id, command, variables, paged: clocked, room };
        supervisor.request(SupervisorRequest::Run(request))?;
        let is_known = |state: &ServerState| !matches!(state, ServerState::Asked);
        let known = state.wait_for(is_known).await.map_err(|_| SuperviseError::Gone)?.clone();
        let dir = match known {
            // A program that has ended already has left its last output in its pipes.
            ServerState::Started { dir, .. } | ServerState::Exited { dir, .. } => dir,
            ServerState::NotRun(why) => return Err(ProgramError::NotRun(why)),
            ServerState::Failed(why) => return Err(ProgramError::NoRoom(why)),
            ServerState::Asked | ServerState::Gone => return Err(SuperviseError::Gone.into()),
        };
        let page = clocked.then(|| Page::open(&dir.join(PAGE_FILE))).transpose()?;
        let pipes = Pipes::open(&dir)?;
        let page = Mutex::new(page);
        Ok((Self { supervisor: supervisor.clone(), id, state, page }, pipes))
    }

    /// Waits until it has ended; returns how, in words.
    pub async fn ended(&self) -> String {
        self.end().await
    }

    /// The same, as a future that does not borrow the program.
    pub fn end(&self) -> impl Future<Output = String> + Send + use<> {
        let mut state = self.state.clone();
        async move {
            let is_over = |state: &ServerState| !matches!(state, ServerState::Started { .. });
            match state.wait_for(is_over).await.as_deref() {
                Ok(ServerState::Exited { status, .. }) => status.clone(),
                _ => SuperviseError::Gone.to_string(),
            }
        }
    }

    /// True while its process has not ended, stopped or not.
    pub fn is_running(&self) -> bool {
        matches!(*self.state.borrow(), ServerState::Started { .. })
    }

    /// How long its threads have waited for a processor.
    pub fn run_delays(&self) -> RunDelays {
        match *self.state.borrow() {
            ServerState::Started { pid, .. } => RunDelays::of(pid),
            _ => RunDelays::default(),
        }
    }

    /// Has its pipes end with it: once it has ended, what it has written can be read to the end.
    pub fn let_go(&self) {
        let _ = self.supervisor.request(SupervisorRequest::Forget { id: self.id });
    }

    /// Sends it and what it has started a signal. One that has ended gets none.
    pub fn signal(&self, signal: Signal) {
        // If the supervisor is gone, the program is, too.
        let _ = self.supervisor.request(SupervisorRequest::Signal { id: self.id, signal });
    }

    /// Lets its wall clock jump; false if it does not read its clocks through the C library. A program that does has
    /// done so at its start.
    ///
    /// # Errors
    /// Those of its page.
    pub fn step_wall(&self, by_ns: i64) -> io::Result<bool> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        match page.as_mut() {
            Some(page) if page.has_asked()? => page.step_wall(by_ns).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Returns once it is stopped, after it was sent [`Signal::Stop`], or has ended.
    pub async fn stopped(&self) {
        while self.is_running() && !self.is_stopped() {
            tokio::time::sleep(STOP_POLL).await;
        }
    }

    /// Whether the system shows its process as stopped.
    fn is_stopped(&self) -> bool {
        let ServerState::Started { pid, .. } = *self.state.borrow() else { return false };
        stands_still(pid)
    }
}

/// Whether the system shows this process as stopped.
pub(super) fn stands_still(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After its name, which is in parentheses and may contain parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.is_running() {
            self.signal(Signal::Kill);
        }
        self.let_go();
    }
}

/// A directory that programs share. It is empty at first, and removed when this is dropped.
#[derive(Debug)]
pub struct ProgramRoom {
    supervisor: Supervisor,
    id: u32,
}

impl ProgramRoom {
    /// A new one. It is made with the first program in it.
    pub fn new(supervisor: &Supervisor) -> Self {
        Self { supervisor: supervisor.clone(), id: supervisor.register().0 }
    }
}

impl Drop for ProgramRoom {
    fn drop(&mut self) {
        // If the supervisor is gone, so is the room.
        let _ = self.supervisor.request(SupervisorRequest::Forget { id: self.id });
    }
}

impl Pipes {
    fn open(dir: &Path) -> io::Result<Self> {
        let [stdin, stdout, stderr, answers] = PIPES.map(|name| dir.join(name));
        let open = OpenOptions::new();
        Ok(Self {
            stdin: open.open_sender(stdin)?,
            stdout: open.open_receiver(stdout)?,
            stderr: open.open_receiver(stderr)?,
            answers: open.open_receiver(answers)?,
        })
    }
}
