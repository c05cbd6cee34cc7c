//! picklock's end of the pipe to its supervisor.
//!
//! Invariant: the pipe closes when the last handle is dropped, or when this process ends in any way, and
//! only the pipe keeps servers alive. If the supervisor is killed, what it leaves behind is ended here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};

use super::COMMAND;
use super::directory;
use super::protocol::{SupervisorEvent, SupervisorRequest};

/// Why there is no supervisor.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// This program's own file is unknown.
    #[error("cannot find picklock's own executable: {0}")]
    OwnPath(io::Error),
    /// It cannot be run once more.
    #[error("cannot run {path} as the supervisor of servers: {source}", path = path.display())]
    Spawn {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// It has ended.
    #[error("the supervisor has ended, and every server with it; run again")]
    Gone,
}

/// What is known of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ServerState {
    /// It has been requested.
    #[default]
    Asked,
    /// Its process runs.
    Started { pid: i32, port: u16, dir: PathBuf },
    /// Its process has ended.
    Exited { status: String, log: String, dir: PathBuf },
    /// The command of a program cannot be run.
    NotRun(String),
    /// It could not be started, or signalled.
    Failed(String),
    /// The supervisor has ended.
    Gone,
}

/// The supervisor of this run's servers. Cloning gives another handle; the servers end with the last
/// one.
#[derive(Clone, Debug)]
pub struct Supervisor {
    inner: Arc<SupervisorInner>,
}

#[derive(Debug)]
struct SupervisorInner {
    requests: mpsc::UnboundedSender<SupervisorRequest>,
    states: States,
    next_id: AtomicU32,
    /// Changes to true when the supervisor's process has ended.
    ended: watch::Receiver<bool>,
}

type States = Arc<Mutex<BTreeMap<u32, watch::Sender<ServerState>>>>;

impl Supervisor {
    /// Starts a supervisor: this program once more, or the picklock at `exe`. Belongs to the tokio
    /// runtime it is called on, and ends with it.
    ///
    /// # Errors
    /// [`SuperviseError`] where the executable cannot be found or run.
    pub fn spawn(exe: Option<&Path>) -> Result<Self, SuperviseError> {
        let path = match exe {
            Some(path) => path.to_owned(),
            None => std::env::current_exe().map_err(SuperviseError::OwnPath)?,
        };
        let failed = |source| SuperviseError::Spawn { path: path.clone(), source };
        let mut child = Command::new(&path)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A terminal's Ctrl-C goes to the foreground group; the supervisor must outlive it.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(SuperviseError::Gone);
        };
        let states = States::default();
        let (sender, receiver) = mpsc::unbounded_channel();
        let (ended, end) = watch::channel(false);
        tokio::spawn(write(stdin, receiver));
        tokio::spawn(read(child, stdout, Arc::clone(&states), ended));
        let next_id = AtomicU32::new(0);
        Ok(Self {
            inner: Arc::new(SupervisorInner { requests: sender, states, next_id, ended: end }),
        })
    }

    /// Ends every server and waits until nothing is left: no process, no directory. Dropping the
    /// handles does the same without waiting. Servers hold handles too: drop them first.
    pub async fn shutdown(self) {
        let mut ended = self.inner.ended.clone();
        drop(self);
        // An error means that the reader is gone, and so is the child.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Whether this is another handle of the same supervisor.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// A number for a new server, and what will be known of it.
    pub(crate) fn register(&self) -> (u32, watch::Receiver<ServerState>) {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = watch::channel(ServerState::default());
        lock(&self.inner.states).insert(id, sender);
        (id, receiver)
    }

    /// Forgets what was known of a server, before it is started anew.
    pub(crate) fn reset(&self, id: u32) {
        if let Some(state) = lock(&self.inner.states).get(&id) {
            state.send_replace(ServerState::Asked);
        }
    }

    pub(crate) fn request(&self, request: SupervisorRequest) -> Result<(), SuperviseError> {
        if *self.inner.ended.borrow() {
            return Err(SuperviseError::Gone);
        }
        self.inner.requests.send(request).map_err(|_| SuperviseError::Gone)
    }
}

async fn write(mut stdin: ChildStdin, mut requests: mpsc::UnboundedReceiver<SupervisorRequest>) {
    while let Some(request) = requests.recv().await {
        let Ok(mut line) = serde_json::to_vec(&request) else { continue };
        line.push(b'\n');
        if stdin.write_all(&line).await.is_err() {
            return; // The reader sees the end of the supervisor and reports it.
        }
    }
}

async fn read(mut child: Child, stdout: ChildStdout, states: States, ended: watch::Sender<bool>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let (id, mut state) = match serde_json::from_str(&line) {
            Ok(SupervisorEvent::Started { id, pid, port, dir }) => {
                (id, ServerState::Started { pid, port, dir })
            }
            Ok(SupervisorEvent::Exited { id, status, log }) => {
                (id, ServerState::Exited { status, log, dir: PathBuf::new() })
            }
            Ok(SupervisorEvent::NotRun { id, message }) => (id, ServerState::NotRun(message)),
            Ok(SupervisorEvent::Error { id: Some(id), message }) => {
                (id, ServerState::Failed(message))
            }
            // An error without a server: a request that it could not read. Both ends are this binary.
            Ok(SupervisorEvent::Error { id: None, .. }) | Err(_) => continue,
        };
        if let Some(sender) = lock(&states).get(&id) {
            sender.send_modify(|known| {
                // An error because a signal came too late says nothing new about a server that has ended.
                let late =
                    matches!(state, ServerState::Failed(_)) && !matches!(known, ServerState::Asked);
                if let (ServerState::Exited { dir, .. }, ServerState::Started { dir: its, .. }) =
                    (&mut state, &*known)
                {
                    // So a reader that looks only now still learns its directory.
                    dir.clone_from(its);
                }
                if !late {
                    *known = state;
                }
            });
        }
    }
    let last: Vec<ServerState> =
        lock(&states).values().map(|sender| sender.send_replace(ServerState::Gone)).collect();
    let status = child.wait().await;
    if status.is_ok_and(|status| !status.success()) {
        last.iter().for_each(clear_directory);
    }
    ended.send_replace(true);
}

/// Removes what a supervisor that was killed has left behind, in case its watcher was killed, too.
fn clear_directory(server: &ServerState) {
    if let ServerState::Started { dir, .. } = server
        && let Some(root) = dir.parent()
    {
        directory::clear(root);
    }
}

fn lock(states: &States) -> std::sync::MutexGuard<'_, BTreeMap<u32, watch::Sender<ServerState>>> {
    states.lock().unwrap_or_else(PoisonError::into_inner)
}
