//! Asks a starting server whether it is ready, whether it is ours, and its version.
//!
//! Invariant: an answer counts only from the server in our directory: between choosing a port and
//! using it, somebody else's server may have taken it. redis-rs would hide that by reconnecting.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fault_proxy::Upstream;
use picklock::reply::Reply;

use super::Password;
use crate::wire::{RespWire, command_of};

/// The version of the server at `addr` whose working directory is `dir`, or what is wrong.
pub(super) async fn version(
    addr: SocketAddr,
    dir: &Path,
    password: Option<&Password>,
    within: Duration,
) -> Result<String, String> {
    let asked = async {
        let wire = RespWire::connect(&Upstream::Tcp(addr)).await;
        let mut wire = wire.map_err(|error| error.to_string())?;
        match password {
            // If somebody else's server answers, it learns a password that opens nothing.
            Some(password) => {
                let said = ask(&mut wire, &["AUTH", password.reveal()]).await;
                said.map_err(|error| error.replace(password.reveal(), "***"))?
            }
            None => ask(&mut wire, &["PING"]).await?,
        };
        let info = ask(&mut wire, &["INFO", "server"]).await?;
        let info = String::from_utf8_lossy(info.as_bytes().unwrap_or_default());
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
                let Reply::Array(config) = ask(&mut wire, &["CONFIG", "GET", "dir"]).await? else {
                    return Err(String::from("CONFIG GET was not answered as Redis does"));
                };
                let is_ours = |it: &[u8]| is_ours(Path::new(&*String::from_utf8_lossy(it)));
                config.iter().filter_map(Reply::as_bytes).any(is_ours)
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

/// The reply to a command, or what is wrong.
async fn ask(wire: &mut RespWire, words: &[&str]) -> Result<Reply, String> {
    match wire.call(&command_of(words)).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => Err(format!("{}: {error}", words[0])),
        Err(error) => Err(error.to_string()),
    }
}
