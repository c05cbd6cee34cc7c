//! A private redis-server, and raw connections to it.

use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::wire::reply_length;

/// The redis-server that the model is held to.
pub(crate) fn on_path() -> PathBuf {
    which::which("redis-server").expect(
        "this test compares the model with a real server: install redis-server 7.0 \
         (apt-get install redis-server) or put it on PATH",
    )
}

/// A redis-server on a port of its own, killed by its process when this is dropped.
pub(crate) struct RealServer {
    process: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl RealServer {
    pub(crate) fn start(binary: &Path) -> Self {
        for _ in 0..20 {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let probe = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = probe.local_addr().expect("its address").port();
            drop(probe);
            let process = Command::new(binary)
                .args(["--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes"])
                .args(["--appendonly", "yes", "--appendfsync", "no"])
                .args(["--auto-aof-rewrite-percentage", "0"])
                // With what is 7.0's default and no later server's, UNLINK is propagated as DEL.
                .args(["--lazyfree-lazy-user-del", "no", "--lazyfree-lazy-expire", "no"])
                .args(["--lazyfree-lazy-server-del", "no"])
                // Time-outs of waiting clients are looked at so often.
                .args(["--hz", "500"])
                .args(["--port", &port.to_string()])
                .current_dir(directory.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the server starts");
            let mut server = Self { process, port, directory };
            if server.answers() {
                return server;
            }
            // Somebody else was quicker to take the port; dropping ends what was started.
        }
        panic!("{} did not come up on any of 20 ports", binary.display());
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.port).expect("the server takes connections")
    }

    /// Whether the process runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_none())
    }

    /// How long the append-only file is by now.
    pub(crate) fn file_length(&self) -> u64 {
        std::fs::metadata(self.file()).map_or(0, |about| about.len())
    }

    /// What the append-only file holds from there on. It is written before the replies are.
    pub(crate) fn file_from(&self, start: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut file = std::fs::File::open(self.file()).expect("the append-only file is there");
        file.seek(SeekFrom::Start(start)).expect("it is so long");
        file.read_to_end(&mut bytes).expect("it can be read");
        bytes
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("appendonlydir/appendonly.aof.1.incr.aof")
    }

    /// Whether the server that answers on the port is the one that was started.
    #[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
    fn answers(&mut self) -> bool {
        let own = format!("process_id:{}\r\n", self.process.id());
        for _ in 0..500 {
            if self.process.try_wait().is_ok_and(|status| status.is_some()) {
                return false;
            }
            let info = Connection::open(self.port)
                .and_then(|mut connection| connection.try_call(&[b"INFO", b"server"]));
            if let Ok(info) = info {
                return String::from_utf8_lossy(&info).contains(&own);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends one request and returns the bytes of one reply.
    pub(crate) fn call(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.try_call(args).expect("the server answers")
    }

    /// Sends one request. That nobody reads it is seen when no answer comes.
    pub(crate) fn send(&mut self, args: &[&[u8]]) {
        let _ = self.try_send(args);
    }

    /// What has arrived that nobody has asked for.
    pub(crate) fn unread(&mut self) -> Vec<u8> {
        let _ = self.stream.set_nonblocking(true);
        let _ = self.stream.read_to_end(&mut self.buffer);
        let _ = self.stream.set_nonblocking(false);
        std::mem::take(&mut self.buffer)
    }

    /// The bytes of so many messages.
    ///
    /// # Errors
    /// The server has ended, or says nothing for seconds.
    pub(crate) fn receive(&mut self, messages: usize) -> Result<Vec<u8>, String> {
        let silent = |error| format!("redis-server does not answer: {error}");
        let one = |_| self.try_receive().map_err(silent);
        Ok((0..messages).map(one).collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn try_call(&mut self, args: &[&[u8]]) -> std::io::Result<Vec<u8>> {
        self.try_send(args)?;
        self.try_receive()
    }

    fn try_send(&mut self, args: &[&[u8]]) -> std::io::Result<()> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend(format!("${}\r\n", arg.len()).bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&request)
    }

    fn try_receive(&mut self) -> std::io::Result<Vec<u8>> {
        loop {
            if let Some(length) = reply_length(&self.buffer) {
                return Ok(self.buffer.drain(..length).collect());
            }
            let mut chunk = [0; 65_536];
            let read = self.stream.read(&mut chunk)?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend_from_slice(&chunk[..read]);
        }
    }
}
