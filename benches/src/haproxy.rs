//! haproxy as a plain TCP proxy, where it is installed: what another proxy costs in the same run.
//!
//! Invariant: it runs on one thread, as the others do, and ends when the handle is dropped.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A running haproxy.
#[derive(Debug)]
pub struct Haproxy {
    /// Where it listens.
    pub addr: SocketAddr,
    child: Child,
    _dir: TempDir,
}

impl Haproxy {
    /// Has it listen on a port of its own of the loopback interface, and lead to `upstream`. Nothing
    /// where there is no haproxy.
    ///
    /// # Errors
    /// What the system says, or that it ended.
    pub fn start(upstream: SocketAddr) -> io::Result<Option<Self>> {
        let dir = tempfile::tempdir()?;
        let addr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let file = dir.path().join("haproxy.cfg");
        let config = format!(
            "global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode tcp\n  timeout connect 5s\n  \
             timeout client 60s\n  timeout server 60s\nlisten redis\n  bind {addr}\n  \
             server redis {upstream}\n"
        );
        fs::write(&file, config)?;
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut haproxy = Self { child, addr, _dir: dir };
        while TcpStream::connect(addr).is_err() {
            if let Some(status) = haproxy.child.try_wait()? {
                return Err(io::Error::other(format!("haproxy has ended: {status}")));
            }
            std::thread::yield_now();
        }
        Ok(Some(haproxy))
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        // Where it has ended there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
