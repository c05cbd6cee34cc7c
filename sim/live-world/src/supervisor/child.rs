//! The supervisor's own process.
//!
//! Invariant: a server is in the table from the moment it exists, because starting and the end of
//! standard input are handled one after the other by one task. So at the end every process is
//! known, killed and waited for before the directory is removed.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{self, killpg};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal as signal_stream};
use tokio::sync::mpsc;

use super::directory::{self, ServersDirectory, write_private};
use super::protocol::{
    ANSWERS_VARIABLE, COMMAND, LOG_FILE, PAGE_FILE, PIPES, ProgramRequest, ROOM_VARIABLE, Signal,
    StartRequest, SupervisorEvent, SupervisorRequest,
};
use super::watcher::{self, Watcher};
use crate::page::{LIBRARY, PAGE_BYTES};

/// How long a server may take to end after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How much of a server's log is quoted.
const LOG_TAIL: usize = 4096;

/// Becomes the supervisor or its watcher if the arguments of this program say so. The caller is
/// the whole program.
pub fn main(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let name = args.next()?;
    if name == watcher::COMMAND {
        return Some(watcher::main(args.next().map(PathBuf::from)));
    }
    (name == COMMAND).then(supervisor)
}

/// Supervises until standard input ends.
fn supervisor() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match runtime.block_on(supervise()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &io::Error) -> ExitCode {
    // Standard error may be closed, which is no reason to panic.
    let _ = writeln!(io::stderr(), "picklock supervisor: {error}");
    ExitCode::FAILURE
}

/// What wakes the supervisor.
enum Incoming {
    Line(String),
    /// Standard input has ended: so has picklock.
    Eof,
    Ended(u32, io::Result<ExitStatus>),
    /// A server was asked to end [`TERM_GRACE`] ago. The pid distinguishes it from a later one with the same number.
    GraceOver(u32, Pid),
}

async fn supervise() -> io::Result<()> {
    // The signals are caught and dropped, so that a Ctrl-C ends picklock first. Unlike an ignored signal, a caught
    // one is reset to its default in the servers.
    let _swallowed = [
        signal_stream(SignalKind::interrupt())?,
        signal_stream(SignalKind::terminate())?,
        signal_stream(SignalKind::hangup())?,
    ];
    let (sender, mut news) = mpsc::unbounded_channel();
    let lines = sender.clone();
    std::thread::Builder::new().name("stdin".into()).spawn(move || read_lines(&lines))?;
    let mut table = ServerTable { directory: None, servers: BTreeMap::new(), news: sender };
    while let Some(what) = news.recv().await {
        let written = match what {
            Incoming::Eof => break,
            Incoming::Line(line) => table.line(&line),
            Incoming::Ended(id, status) => table.ended(id, &status),
            Incoming::GraceOver(id, pid) => {
                if table.running(id) == Some(pid) {
                    send(pid, signal::Signal::SIGKILL);
                }
                Ok(())
            }
        };
        if written.is_err() {
            break; // Our standard output is closed: picklock is gone.
        }
    }
    table.kill_all();
    while table.servers.values().any(|server| server.pid.is_some()) {
        if let Some(Incoming::Ended(id, _)) = news.recv().await {
            table.forget(id);
        }
    }
    if let Some((directory, watcher)) = table.directory {
        directory::clear(&directory.path);
        watcher.end();
    }
    Ok(())
}

fn read_lines(news: &mpsc::UnboundedSender<Incoming>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if news.send(Incoming::Line(line)).is_err() {
            return;
        }
    }
    let _ = news.send(Incoming::Eof);
}

/// Every server there is or was.
struct ServerTable {
    /// Made with the first server, and watched from then on.
    directory: Option<(ServersDirectory, Watcher)>,
    servers: BTreeMap<u32, ServerEntry>,
    news: mpsc::UnboundedSender<Incoming>,
}

struct ServerEntry {
    /// While it runs.
    pid: Option<Pid>,
    dir: PathBuf,
    /// The pipes of a program, kept open so that its last output can be read after its end.
    pipes: Vec<File>,
}

impl ServerTable {
    fn line(&mut self, line: &str) -> io::Result<()> {
        let (id, result) = match serde_json::from_str(line) {
            Err(error) => (None, Err(io::Error::other(format!("cannot read request: {error}")))),
            Ok(SupervisorRequest::Start(start)) => (Some(start.id), self.start(&start)),
            Ok(SupervisorRequest::Run(run)) => (Some(run.id), self.run(&run)),
            Ok(SupervisorRequest::Signal { id, signal }) => (Some(id), self.signal(id, signal)),
            Ok(SupervisorRequest::Stop { id }) => (Some(id), self.stop(id)),
            Ok(SupervisorRequest::Forget { id }) => (Some(id), self.let_go(id)),
        };
        match result {
            Ok(None) => Ok(()),
            Ok(Some(event)) => report(&event),
            Err(error) => report(&SupervisorEvent::Error { id, message: error.to_string() }),
        }
    }

    fn start(&mut self, start: &StartRequest) -> io::Result<Option<SupervisorEvent>> {
        let StartRequest { id, binary, port, args, config, paged } = start;
        let id = *id;
        if self.running(id).is_some() {
            return Err(io::Error::other(format!("server {id} is already running")));
        }
        let dir = self.directory(id)?;
        let port = port.map_or_else(free_port, Ok)?;
        let config_file = dir.join("redis.conf");
        write_private(&config_file, config.as_bytes())?;
        let log = OpenOptions::new().create(true).append(true).open(dir.join(LOG_FILE))?;
        let mut command = Command::new(binary);
        if *paged {
            share_page(&dir, &mut command)?;
        }
        let child = command
            .arg(&config_file)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--protected-mode", "yes"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            // Its standard output is its log, so that what it says before it has read its
            // configuration is in there too.
            .args(["--logfile", "", "--dir"])
            .arg(&dir)
            .args(args)
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("cannot run {}: {error}", binary.display()))
            })?;
        self.started(id, child, port, dir, Vec::new())
    }

    fn run(&mut self, run: &ProgramRequest) -> io::Result<Option<SupervisorEvent>> {
        let ProgramRequest { id, command: words, variables, paged, room } = run;
        let id = *id;
        let Some((program, args)) = words.split_first() else {
            return Err(io::Error::other("there is no command to run"));
        };
        let dir = self.directory(id)?;
        let mut pipes = Vec::with_capacity(PIPES.len());
        for name in PIPES {
            let path = dir.join(name);
            mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
            // Open in both directions, so that opening does not block, and what is written is kept until it is read.
            pipes.push(OpenOptions::new().read(true).write(true).open(path)?);
        }
        let mut command = Command::new(program);
        if *paged {
            share_page(&dir, &mut command)?;
        }
        let stdin = match room {
            Some(room) => {
                command.env(ROOM_VARIABLE, self.directory(*room)?);
                Stdio::null()
            }
            None => pipes[0].try_clone()?.into(),
        };
        let child = command
            .args(args)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env(ANSWERS_VARIABLE, dir.join(PIPES[3]))
            .stdin(stdin)
            .stdout(pipes[1].try_clone()?)
            .stderr(pipes[2].try_clone()?)
            .process_group(0)
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                let path = Path::new(program);
                // The system says of a script without its interpreter that the script is not there.
                let is_script = error.kind() == io::ErrorKind::NotFound && path.is_file();
                let why = match is_script {
                    true => String::from(
                        "its interpreter is missing: the one that its first line names, or the loader of a binary",
                    ),
                    false => error.to_string(),
                };
                let message = format!("cannot run {}: {why}", path.display());
                return Ok(Some(SupervisorEvent::NotRun { id, message }));
            }
        };
        self.started(id, child, 0, dir, pipes)
    }

    /// Takes a new process into the table.
    fn started(
        &mut self,
        id: u32,
        child: Child,
        port: u16,
        dir: PathBuf,
        pipes: Vec<File>,
    ) -> io::Result<Option<SupervisorEvent>> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let Some(pid) = pid else { return Err(io::Error::other("the new process has no pid")) };
        self.servers.insert(id, ServerEntry { pid: Some(pid), dir: dir.clone(), pipes });
        tokio::spawn(wait(id, child, self.news.clone()));
        Ok(Some(SupervisorEvent::Started { id, pid: pid.as_raw(), port, dir }))
    }

    /// The directory of this server, made if it is new.
    fn directory(&mut self, id: u32) -> io::Result<PathBuf> {
        let directory = match &self.directory {
            Some((directory, _)) => directory,
            None => {
                // In a thread of its own: starting a server need not wait for it.
                std::thread::Builder::new().name("sweep".into()).spawn(directory::sweep)?;
                let directory = ServersDirectory::make().map_err(|error| no_room(&error))?;
                let watcher = Watcher::start(&directory.path)?;
                &self.directory.insert((directory, watcher)).0
            }
        };
        directory.server(id)
    }

    fn signal(&self, id: u32, signal: Signal) -> io::Result<Option<SupervisorEvent>> {
        let pid = self.known(id)?;
        match signal {
            Signal::Stop => send(pid, signal::Signal::SIGSTOP),
            Signal::Cont => send(pid, signal::Signal::SIGCONT),
            Signal::Kill => send(pid, signal::Signal::SIGKILL),
            Signal::Term => send(pid, signal::Signal::SIGTERM),
        }
        Ok(None)
    }

    fn stop(&self, id: u32) -> io::Result<Option<SupervisorEvent>> {
        let pid = self.known(id)?;
        send(pid, signal::Signal::SIGTERM);
        // A stopped process handles SIGTERM only after it is continued.
        send(pid, signal::Signal::SIGCONT);
        let news = self.news.clone();
        tokio::spawn(async move {
            tokio::time::sleep(TERM_GRACE).await;
            let _ = news.send(Incoming::GraceOver(id, pid));
        });
        Ok(None)
    }

    fn let_go(&mut self, id: u32) -> io::Result<Option<SupervisorEvent>> {
        match self.servers.get_mut(&id) {
            // Its directory stays: processes that it may have left behind are recognised by it.
            Some(program) => program.pipes.clear(),
            // Anything that is still written there is removed with the whole directory at the end.
            None => drop(fs::remove_dir_all(self.directory(id)?)),
        }
        Ok(None)
    }

    fn ended(&mut self, id: u32, status: &io::Result<ExitStatus>) -> io::Result<()> {
        let dir = self.forget(id);
        let status = match status {
            Ok(status) => status.to_string(),
            Err(error) => format!("unknown: {error}"),
        };
        let log = dir.map(|dir| tail(&dir.join(LOG_FILE))).unwrap_or_default();
        report(&SupervisorEvent::Exited { id, status, log })
    }

    fn forget(&mut self, id: u32) -> Option<PathBuf> {
        let entry = self.servers.get_mut(&id)?;
        entry.pid = None;
        Some(entry.dir.clone())
    }

    fn running(&self, id: u32) -> Option<Pid> {
        self.servers.get(&id).and_then(|entry| entry.pid)
    }

    fn known(&self, id: u32) -> io::Result<Pid> {
        self.running(id).ok_or_else(|| io::Error::other(format!("server {id} is not running")))
    }

    fn kill_all(&self) {
        for pid in self.servers.values().filter_map(|entry| entry.pid) {
            send(pid, signal::Signal::SIGKILL);
        }
    }
}

fn no_room(error: &io::Error) -> io::Error {
    let why = format!(
        "cannot create a directory for it in {}: {error}; set TMPDIR to a directory that has room",
        std::env::temp_dir().display()
    );
    io::Error::new(error.kind(), why)
}

/// Has a server load the library that shares a page with picklock. A server that is started again keeps its page:
/// its clocks are those of its machine.
fn share_page(dir: &Path, command: &mut Command) -> io::Result<()> {
    let (library, page) = (dir.join("preload.so"), dir.join(PAGE_FILE));
    fs::write(&library, LIBRARY)?;
    let file = OpenOptions::new().create(true).write(true).truncate(false).open(&page)?;
    file.set_len(PAGE_BYTES)?;
    command.env("LD_PRELOAD", library).env("PICKLOCK_PAGE", page);
    Ok(())
}

/// Waits for the end of a server, and then kills what it may have started itself (a background save), so that nothing
/// writes into the directory any more.
async fn wait(id: u32, mut child: Child, news: mpsc::UnboundedSender<Incoming>) {
    let group = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
    let status = child.wait().await;
    if let Some(group) = group {
        send(group, signal::Signal::SIGKILL);
    }
    let _ = news.send(Incoming::Ended(id, status));
}

/// Sends a signal to a server and what it has started.
fn send(pid: Pid, signal: signal::Signal) {
    match killpg(pid, signal) {
        // It has ended meanwhile, which its waiter will report.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => {
            let _ = writeln!(io::stderr(), "picklock supervisor: cannot signal {pid}: {error}");
        }
    }
}

fn report(event: &SupervisorEvent) -> io::Result<()> {
    let mut line = serde_json::to_string(event)?;
    line.push('\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

/// A port that was free a moment ago. Somebody may take it first; the server then says so and
/// ends, and is requested again.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The last lines of a log.
fn tail(path: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(LOG_TAIL as u64);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).trim_end().to_owned()
}
