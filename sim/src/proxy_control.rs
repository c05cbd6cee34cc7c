//! Where the control API of `picklock proxy` listens, and its token.
//!
//! Invariant: without a token it listens on loopback only. A token that others can read or have written is none.

use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use fault_proxy::switchboard::{ControlApi, ControlToken};

use super::args::ProxyArgs;
use super::failure::Failure;
use super::input;

/// Others may read it, or the group or others may write it.
const NOT_SECRET: u32 = 0o026;
/// A longer file is no token.
const FILE_MOST: u64 = 4096;

/// A control API as it was asked for.
#[derive(Debug)]
pub(super) struct Control {
    addr: SocketAddr,
    token: Option<ControlToken>,
}

impl Control {
    /// Reads the token, and refuses an address that needs one.
    pub(super) fn of(addr: SocketAddr, args: &ProxyArgs) -> Result<Self, Failure> {
        let token = args.token_file.as_deref().map(token).transpose()?;
        if token.is_none() && addr.ip() != IpAddr::V4(Ipv4Addr::LOCALHOST) {
            return Err(Failure::usage_text(
                format!(
                    "the control API cannot listen on {addr} without a token: whoever can reach it could switch faults"
                ),
                "add --token-file FILE, or use a loopback port, such as --control 127.0.0.1:8475",
            ));
        }
        Ok(Self { addr, token })
    }

    /// Whether other machines can reach it.
    pub(super) fn is_open(&self) -> bool {
        !self.addr.ip().is_loopback()
    }

    /// Listens.
    pub(super) async fn bind(self) -> Result<ControlApi, Failure> {
        let addr = self.addr;
        ControlApi::bind(addr, self.token).await.map_err(|error| {
            Failure::unavailable_text(
                format!("the control API cannot listen on {addr}: {error}"),
                "stop the process that uses this port, or choose another; 0 picks a free one",
            )
        })
    }
}

/// The token in this file. A link may lead to it, as where secrets are mounted.
fn token(path: &Path) -> Result<ControlToken, Failure> {
    let refused = |why: String, help: &str| {
        Failure::usage_text(format!("--token-file {}: {why}", path.display()), help)
    };
    let make = "make one: (umask 077 && head -c 32 /dev/urandom | base64 > FILE)";
    let read = || -> io::Result<Result<String, String>> {
        let file = input::open(path)?;
        // Checked on the open file, so that it cannot be exchanged in between.
        let mode = file.metadata()?.permissions().mode() & 0o777;
        if mode & NOT_SECRET != 0 {
            return Ok(Err(format!("others may read or change it (mode {mode:o})")));
        }
        let mut text = String::new();
        file.take(FILE_MOST).read_to_string(&mut text)?;
        Ok(Ok(text))
    };
    match read() {
        Err(error) => Err(refused(error.to_string(), make)),
        Ok(Err(why)) => {
            Err(refused(why, "keep it to yourself: chmod 600, or 640 for a group that reads it"))
        }
        Ok(Ok(text)) => ControlToken::new(&text).map_err(|error| refused(error.to_string(), make)),
    }
}
