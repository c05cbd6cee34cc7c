//! A private redis-server: how it is started, queried, signalled and ended.
//!
//! Its process belongs to the [supervisor](super::supervisor), which this asks to start, signal and end it.
//!
//! Invariant: a [`PrivateServer`] that has been handed out was ready and was *ours*: what answered on its
//! port runs in the directory that the supervisor made for it.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

mod aof;
mod discover;
mod password;
mod probe;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub(crate) use aof::CutAt;
pub use discover::{DiscoverError, ServerBinary, find_server};
pub use password::Password;

use super::page::Page;
use super::program::stands_still;
use super::supervisor::{
    PAGE_FILE, ServerState, Signal, StartRequest, SuperviseError, Supervisor, SupervisorRequest,
};

/// How often to try another port when somebody else has taken one first.
const PORT_TRIES: usize = 10;
/// How often to check a server that is starting.
const POLL: Duration = Duration::from_millis(5);

/// What kind of server to start.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The executable; see [`find_server`].
    pub binary: PathBuf,
    /// Arguments after the standard ones, which they override, such as `["--appendonly", "yes"]`.
    pub args: Vec<String>,
    /// Lines of its configuration file.
    pub config: String,
    /// How long it may take until it answers.
    pub ready_within: Duration,
    /// Whether its clocks are to be set wrong, or its power is to be lost.
    pub paged: bool,
    /// The password that its clients need; none if they need no login.
    pub password: Option<Password>,
}

impl ServerSpec {
    /// A standalone server without persistence or password, ready within ten seconds.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let ready_within = Duration::from_secs(10);
        let (args, config, paged) = (Vec::new(), String::new(), false);
        let binary = binary.into();
        Self { binary, args, config, ready_within, paged, password: None }
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum PrivateServerError {
    /// There is no supervisor to start it.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    /// The supervisor could not do it.
    #[error("{0}")]
    Refused(String),
    /// It ended before it was ready.
    #[error("{binary} ended before it was ready ({status}); the end of its log:\n{log}",
            binary = binary.display(), log = if log.is_empty() { "(empty)" } else { log })]
    Died {
        /// Which executable.
        binary: PathBuf,
        /// How it ended.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// It runs, and does not answer.
    #[error("{binary} did not answer PING within {within:?}: {why}; \
             check that it is a Redis server and that the machine is not overloaded", binary = binary.display())]
    NotReady {
        /// Which executable.
        binary: PathBuf,
        /// How long it had.
        within: Duration,
        /// What the last attempt showed.
        why: String,
    },
    /// It is not running any more.
    #[error("the server is not running ({0})")]
    NotRunning(String),
}

impl PrivateServerError {
    /// What to do where it cannot be started.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            // Its log says so where the machine allows fewer open files than it needs to start.
            Self::Died { log, .. } if log.contains("open file limit") => {
                "raise the limit with `ulimit -n`"
            }
            // No other server would have a directory either.
            Self::Refused(why) if why.contains("TMPDIR") => {
                "run, matrix and attack need none with --world embedded"
            }
            _ => {
                "name another one with --server-bin; run, matrix and attack need none with --world embedded"
            }
        }
    }

    /// The error for a server that picklock has not started: nothing can be done to it.
    pub(crate) fn not_ours() -> Self {
        Self::NotRunning(String::from("picklock has not started it"))
    }
}

/// A running server. Dropping it ends it, in the background.
#[derive(Debug)]
pub struct PrivateServer {
    supervisor: Supervisor,
    id: u32,
    spec: ServerSpec,
    state: watch::Receiver<ServerState>,
    addr: SocketAddr,
    pid: i32,
    dir: PathBuf,
    version: String,
    /// Its page, if it was started with one. Only its answers show whether it uses it.
    pub(crate) page: Option<Page>,
}

impl PrivateServer {
    /// Starts a server on a free port and waits until it answers.
    ///
    /// # Errors
    /// [`PrivateServerError`], with the end of the server's own log if it has one.
    pub async fn start(
        supervisor: &Supervisor,
        spec: ServerSpec,
    ) -> Result<Self, PrivateServerError> {
        let (id, state) = supervisor.register();
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let supervisor = supervisor.clone();
        let (dir, version) = (PathBuf::new(), String::new());
        // From here on a dropped future stops what it has started.
        let mut server =
            Self { supervisor, id, spec, state, addr, pid: 0, dir, version, page: None };
        for _ in 1..PORT_TRIES {
            match server.launch(None).await {
                Err(PrivateServerError::Died { log, .. }) if port_taken(&log) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(server),
            }
        }
        server.launch(None).await.map(|()| server)
    }

    /// Starts the server again in its directory and on its port, after it has ended.
    ///
    /// # Errors
    /// As [`start`](Self::start); somebody else may have taken the port.
    pub async fn restart(&mut self) -> Result<(), PrivateServerError> {
        self.launch(Some(self.addr.port())).await
    }

    async fn launch(&mut self, port: Option<u16>) -> Result<(), PrivateServerError> {
        let deadline = Instant::now() + self.spec.ready_within;
        let password = self.spec.password.clone();
        let config = password.as_ref().map(Password::config).unwrap_or_default();
        self.supervisor.reset(self.id);
        self.supervisor.request(SupervisorRequest::Start(StartRequest {
            id: self.id,
            binary: self.spec.binary.clone(),
            port,
            args: self.spec.args.clone(),
            config: config + &self.spec.config,
            paged: self.spec.paged,
        }))?;
        let mut why = String::from("it has not been started yet");
        loop {
            let known = self.state.borrow_and_update().clone();
            match known {
                ServerState::Asked => {}
                ServerState::Started { pid, port, dir } => {
                    self.addr.set_port(port);
                    (self.pid, self.dir) = (pid, dir);
                    match probe::version(self.addr, &self.dir, password.as_ref(), POLL * 40).await {
                        Ok(version) => {
                            self.version = version;
                            return self.open_page();
                        }
                        Err(problem) => why = problem,
                    }
                }
                ServerState::Exited { status, log, .. } => {
                    let binary = self.spec.binary.clone();
                    return Err(PrivateServerError::Died { binary, status, log });
                }
                ServerState::Failed(message) | ServerState::NotRun(message) => {
                    return Err(PrivateServerError::Refused(message));
                }
                ServerState::Gone => return Err(SuperviseError::Gone.into()),
            }
            if Instant::now() >= deadline {
                let (binary, within) = (self.spec.binary.clone(), self.spec.ready_within);
                return Err(PrivateServerError::NotReady { binary, within, why });
            }
            // Whichever comes first: an event of the supervisor, or the next check.
            let _ = tokio::time::timeout(POLL, self.state.changed()).await;
        }
    }

    fn open_page(&mut self) -> Result<(), PrivateServerError> {
        if self.spec.paged && self.page.is_none() {
            let page = Page::open(&self.dir.join(PAGE_FILE));
            self.page = Some(page.map_err(|error| PrivateServerError::Refused(error.to_string()))?);
        }
        Ok(())
    }

    /// After it has been killed, it loses what it had written and not synced yet; returns where its file was cut, if
    /// it has one.
    pub(crate) fn lose_power(&mut self) -> Result<Option<CutAt>, PrivateServerError> {
        let unknown =
            || PrivateServerError::Refused(String::from("it is unknown what was on its disk"));
        let page = self.page.as_ref().ok_or_else(unknown)?;
        aof::lose_unsynced(&self.dir, page)
            .map_err(|error| PrivateServerError::Refused(error.to_string()))
    }

    /// Whether all that it has written so far is on its disk; true if that is unknown.
    pub(crate) fn is_synced(&self) -> bool {
        self.page.as_ref().is_none_or(|page| aof::is_synced(&self.dir, page).unwrap_or(true))
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its working directory, with `server.log`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The version it reports in INFO, such as `7.0.15`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// True while its process has not ended, stopped or not.
    pub fn is_running(&self) -> bool {
        matches!(*self.state.borrow(), ServerState::Started { .. })
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// [`PrivateServerError::NotRunning`] where it has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), PrivateServerError> {
        if let ServerState::Exited { status, .. } = &*self.state.borrow() {
            return Err(PrivateServerError::NotRunning(status.clone()));
        }
        Ok(self.supervisor.request(SupervisorRequest::Signal { id: self.id, signal })?)
    }

    /// Stops its process, and waits until it is stopped.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    pub async fn stall(&self) -> Result<(), PrivateServerError> {
        self.signal(Signal::Stop)?;
        while self.is_running() && !stands_still(self.pid) {
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Kills it as a crash would, and waits for its end. One that has ended is left alone.
    ///
    /// # Errors
    /// [`PrivateServerError::Supervise`] where the supervisor is gone, and the server with it.
    pub async fn kill(&mut self) -> Result<(), PrivateServerError> {
        self.end(SupervisorRequest::Signal { id: self.id, signal: Signal::Kill }).await
    }

    /// Ends it in good order (SIGTERM, then SIGKILL after two seconds), and waits for its end.
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub async fn stop(&mut self) -> Result<(), PrivateServerError> {
        self.end(SupervisorRequest::Stop { id: self.id }).await
    }

    async fn end(&mut self, request: SupervisorRequest) -> Result<(), PrivateServerError> {
        if !self.is_running() {
            return Ok(());
        }
        self.supervisor.request(request)?;
        let over = |state: &ServerState| !matches!(state, ServerState::Started { .. });
        self.state.wait_for(over).await.map_err(|_| SuperviseError::Gone)?;
        Ok(())
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // If this fails, the supervisor is gone, and the server with it.
        let _ = self
            .supervisor
            .request(SupervisorRequest::Signal { id: self.id, signal: Signal::Kill });
    }
}

fn port_taken(log: &str) -> bool {
    // A node of a cluster listens 10,000 ports higher, too, which may be beyond the last one.
    log.contains("Address already in use") || log.contains("port number too high")
}
