//! A private redis-server on loopback.
//!
//! Invariant: the server that answers is the process that was started, and it ends with its handle, also by a panic.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How many ports are tried: another process may take a port before the server binds it.
const PORTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);
/// How many pauses a server may take to start: 30 seconds, which only a broken build reaches.
const PAUSES: usize = 3_000;
/// How long a server that accepts a connection may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// A redis-server with a port and a directory of its own. It is killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl RedisServer {
    /// The `redis-server` on the PATH, without files, with these further arguments.
    ///
    /// # Panics
    /// Where it is not installed, or does not start.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_program("redis-server", arguments)
    }

    /// Another program that takes the arguments of redis-server.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start_program(program: impl AsRef<OsStr>, arguments: &[&str]) -> Self {
        Self::start_with(program, |port, _| Self::arguments(port, arguments))
    }

    /// redis-server as a node of a cluster, and the port on which other nodes meet it.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_node(arguments: &[&str]) -> (Self, u16) {
        let bus = Cell::new(0);
        let server = Self::start_with("redis-server", |port, _| {
            // A new one for each try: the last may have been in use.
            bus.set(free_port());
            let of_cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus.get().to_string()];
            Self::arguments(port, &[&of_cluster[..], arguments].concat())
        });
        (server, bus.get())
    }

    fn arguments(port: u16, more: &[&str]) -> Vec<String> {
        let own = format!("--port {port} --bind 127.0.0.1 --save  --appendonly no");
        let own = own.split(' ').map(str::to_owned);
        // redis-server takes the last of two equal options.
        own.chain(more.iter().map(ToString::to_string)).collect()
    }

    /// A program with all its arguments, given the port and the directory of the server. The directory is the
    /// working directory of the process.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start_with(
        program: impl AsRef<OsStr>,
        arguments: impl Fn(u16, &Path) -> Vec<String>,
    ) -> Self {
        let program = program.as_ref();
        for _ in 0..PORTS {
            let (port, directory) = (free_port(), tempfile::tempdir().expect("a directory"));
            let process = Command::new(program)
                .args(arguments(port, directory.path()))
                .current_dir(directory.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!("{}: {error}; apt-get install redis-server", program.display())
                });
            let mut server = Self { process, port, directory };
            if server.becomes_ready() {
                return server;
            }
        }
        panic!("{} did not start on any of {PORTS} ports", program.display());
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL, without user and database.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The id of its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Whether its process is running.
    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Ends its process by SIGKILL.
    pub fn kill(&mut self) {
        // A process that has ended already cannot be killed, and need not be.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits until it answers; false where it has ended instead, as on a port that is in use.
    #[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
    fn becomes_ready(&mut self) -> bool {
        for _ in 0..PAUSES {
            if !self.is_running() {
                return false;
            }
            if self.answers().unwrap_or(false) {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the server on port {} neither answers nor ends", self.port);
    }

    /// Whether this process answers on its port. Another server there names another process id.
    fn answers(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(b"INFO server\r\n")?;
        let own = format!("process_id:{}\r\n", self.process.id());
        let (mut answer, mut chunk) = (Vec::new(), [0; 8192]);
        loop {
            let length @ 1.. = stream.read(&mut chunk)? else { return Ok(false) };
            answer.extend_from_slice(&chunk[..length]);
            let text = String::from_utf8_lossy(&answer);
            // A server with a password answers nothing else without it.
            if text.contains(&own) || text.starts_with("-NOAUTH") {
                return Ok(true);
            }
            // Any other error: it is still loading.
            if text.starts_with('-') {
                return Ok(false);
            }
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}
