//! Asks a starting server whether it is ready, whether it is ours, and its version.
//!
//! Invariant: an answer counts only from the server in our directory: between choosing a port and
//! using it, somebody else's server may have taken it. redis-rs would hide that by reconnecting.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use resp::frame::{FrameKind, Limits, Scanner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Password;

/// The version of the server at `addr` whose working directory is `dir`, or what is wrong.
pub(super) async fn version(
    addr: SocketAddr,
    dir: &Path,
    password: Option<&Password>,
    within: Duration,
) -> Result<String, String> {
    let asked = async {
        let mut stream = TcpStream::connect(addr).await.map_err(|error| error.to_string())?;
        match password {
            // If somebody else's server answers, it learns a password that opens nothing.
            Some(password) => log_in(&mut stream, password).await?,
            None => ask(&mut stream, "PING").await.map(drop)?,
        }
        let info = ask(&mut stream, "INFO server").await?;
        let field = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.trim().to_owned())
        };
        let real = dir.canonicalize().map_err(|error| error.to_string())?;
        let is_ours = |path: &Path| path == dir || path == real;
        let ours = match field("redis_mode:").as_deref() {
            // Sentinels before 7.0 have no CONFIG.
            Some("sentinel") => field("config_file:")
                .is_some_and(|file| Path::new(&file).parent().is_some_and(is_ours)),
            _ => {
                let config = ask(&mut stream, "CONFIG GET dir").await?;
                config.lines().any(|line| is_ours(Path::new(line)))
            }
        };
        if !ours {
            return Err(format!("another server answers on {addr}"));
        }
        field("valkey_version:")
            .or_else(|| field("redis_version:"))
            .ok_or_else(|| String::from("INFO has no redis_version"))
    };
    match tokio::time::timeout(within, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {within:?}")),
    }
}

/// Logs in. Errors do not contain the password.
async fn log_in(stream: &mut TcpStream, password: &Password) -> Result<(), String> {
    let said = ask(stream, &format!("AUTH {}", password.reveal())).await;
    said.map(drop).map_err(|error| error.replace(password.reveal(), "***"))
}

/// Sends an inline command; gives the whole reply as text, or the error in it.
async fn ask(stream: &mut TcpStream, command: &str) -> Result<String, String> {
    stream.write_all(format!("{command}\r\n").as_bytes()).await.map_err(|e| e.to_string())?;
    let mut scanner = Scanner::replies(Limits::default());
    let mut buf = Vec::new();
    loop {
        match scanner.scan(&buf) {
            Err(error) => return Err(format!("{command} was not answered as Redis does: {error}")),
            Ok(Some(frame)) => {
                let text = String::from_utf8_lossy(&buf[..frame.len]).into_owned();
                let refused = frame.kind == FrameKind::Error;
                return if refused { Err(format!("{command}: {}", text.trim())) } else { Ok(text) };
            }
            Ok(None) => {}
        }
        match stream.read_buf(&mut buf).await {
            Ok(0) => return Err(format!("the connection was closed on {command}")),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
