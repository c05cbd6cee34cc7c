//! A private redis-server, and raw connections to it.

use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use resp::encode_request;
use test_server::RedisServer;

use super::wire::reply_length;

/// The redis-server that the model is held to.
pub(crate) fn on_path() -> PathBuf {
    which::which("redis-server").expect(
        "this test compares the model with a real server: install redis-server 7.0 \
         (apt-get install redis-server) or put it on PATH",
    )
}

/// A redis-server with an append-only file, configured as the model is.
pub(crate) struct RealServer(RedisServer);

impl RealServer {
    pub(crate) fn start(binary: &Path) -> Self {
        let arguments = [
            ["--enable-debug-command", "yes"],
            ["--appendonly", "yes"],
            ["--appendfsync", "no"],
            ["--auto-aof-rewrite-percentage", "0"],
            // With what is 7.0's default and no later server's, UNLINK is propagated as DEL.
            ["--lazyfree-lazy-user-del", "no"],
            ["--lazyfree-lazy-expire", "no"],
            ["--lazyfree-lazy-server-del", "no"],
            // Time-outs of waiting clients are looked at so often.
            ["--hz", "500"],
        ];
        Self(RedisServer::start_program(binary, &arguments.concat()))
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.0.port()).expect("the server takes connections")
    }

    /// Whether the process runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.0.is_running()
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
        self.0.directory().join("appendonlydir/appendonly.aof.1.incr.aof")
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
        let mut request = Vec::new();
        encode_request(args, &mut request);
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
