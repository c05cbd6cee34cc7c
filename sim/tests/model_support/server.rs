//! A private redis-server, and raw connections to it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::wire::reply_length;

/// A redis-server on a port of its own, killed by its process when this is dropped.
pub(crate) struct RealServer {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl RealServer {
    pub(crate) fn start() -> Self {
        let binary = which::which("redis-server").expect(
            "this test compares the model with a real server: install redis-server 7.0 \
             (apt-get install redis-server) or put it on PATH",
        );
        for _ in 0..20 {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let probe = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = probe.local_addr().expect("its address").port();
            drop(probe);
            let process = Command::new(&binary)
                .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
                .args(["--port", &port.to_string()])
                .current_dir(directory.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("redis-server starts");
            let mut server = Self { process, port, _directory: directory };
            if server.answers() {
                return server;
            }
            // Somebody else was quicker to take the port; dropping ends what was started.
        }
        panic!("redis-server did not come up on any of 20 ports");
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.port).expect("the server takes connections")
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
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends one request and returns the bytes of one reply.
    pub(crate) fn call(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.try_call(args).expect("the server answers")
    }

    fn try_call(&mut self, args: &[&[u8]]) -> std::io::Result<Vec<u8>> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend(format!("${}\r\n", arg.len()).bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&request)?;
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
