//! How to reach a server that somebody else runs: its address, and whether it speaks TLS.
//!
//! Invariant: a name is resolved once, and every connection of a run leads to the address that was
//! found, so that a name with several addresses does not spread a run over several servers.
//! No password is sent here, only PING.

use std::net::SocketAddr;
use std::time::Duration;

use picklock::command::Command;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::refusal::Refusal;
use super::url::RedisUrl;
use crate::wire::RespWire;
use fault_proxy::{TlsError, Trust, Upstream};

/// The first address of the host that accepts connections.
pub(super) async fn address(url: &RedisUrl, within: Duration) -> Result<SocketAddr, Refusal> {
    let unknown = |why: String| Refusal::UnknownHost { host: url.host.clone(), why };
    let looked_up = timeout(within, lookup_host((url.host.as_str(), url.port))).await;
    let addrs = looked_up
        .map_err(|_| unknown(format!("the name service did not answer within {within:?}")))?
        .map_err(|error| unknown(error.to_string()))?;
    let mut refusal = unknown(String::from("it has no address"));
    for addr in addrs {
        match timeout(within, TcpStream::connect(addr)).await {
            Ok(Ok(_)) => return Ok(addr),
            Ok(Err(error)) => refusal = Refusal::Unreachable { addr, why: error.to_string() },
            Err(_) => {
                let why = format!("no connection within {within:?}");
                refusal = Refusal::Unreachable { addr, why };
            }
        }
    }
    Err(refusal)
}

/// Where the links of the proxy lead for this URL.
pub(super) fn upstream(url: &RedisUrl, addr: SocketAddr) -> Result<Upstream, TlsError> {
    let Some(trust) = &url.trust else { return Ok(Upstream::Tcp(addr)) };
    let mut upstream = Upstream::tls(&url.host, addr.port(), trust)?;
    // The certificate must bear the name, which need not be resolved again.
    if let Upstream::Tls { host, .. } = &mut upstream {
        *host = addr.ip().to_string();
    }
    Ok(upstream)
}

/// Gives a better reason if TLS was spoken to a server without it, or the other way round.
pub(super) async fn explain(
    refusal: Refusal,
    url: &RedisUrl,
    addr: SocketAddr,
    within: Duration,
) -> Refusal {
    match &refusal {
        Refusal::Tls(_) | Refusal::Silent(_) if url.trust.is_some() => {
            let plain = answers_plainly(addr, within).await;
            if plain { Refusal::PlainUnderTls } else { refusal }
        }
        Refusal::NotRedis(_) | Refusal::Closed(_) if url.trust.is_none() => {
            let tls = speaks_tls(addr, within).await;
            if tls { Refusal::TlsUnderPlain } else { refusal }
        }
        _ => refusal,
    }
}

/// Whether PING without TLS is answered as Redis does, with whatever answer.
async fn answers_plainly(addr: SocketAddr, within: Duration) -> bool {
    let asked = async {
        let mut wire = RespWire::connect(&Upstream::Tcp(addr)).await.ok()?;
        wire.call(&Command::new("PING")).await.ok()
    };
    matches!(timeout(within, asked).await, Ok(Some(_)))
}

/// Whether a TLS handshake succeeds; nothing is sent on it.
async fn speaks_tls(addr: SocketAddr, within: Duration) -> bool {
    let host = addr.ip().to_string();
    let Ok(upstream) = Upstream::tls(&host, addr.port(), &Trust::Anyone) else { return false };
    matches!(timeout(within, RespWire::connect(&upstream)).await, Ok(Ok(_)))
}
