//! The primary, according to the sentinels.
//!
//! Invariant: the sentinels are asked whenever a connection is made, and the server that they name is used
//! only after it has reported itself as a primary. The sentinels' messages are not subscribed to: a demoted
//! primary breaks its connections or refuses with READONLY, and one that is cut off from its replicas may refuse with
//! NOREPLICAS. Each makes the next connect ask again.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use redis::{Client, ConnectionInfo};
use tokio::sync::watch;
use tokio::time::timeout;

use super::addr::Addr;
use super::host::Host;
use super::server_conn::{ServerConn, TokioOptions};
use crate::command::Command;
use crate::env::CallError;
use crate::reply::{Reply, ServerError};
use crate::sync::lock;

/// A sentinel that does not answer takes at most this fraction of the connect timeout.
const SHARE: u32 = 4;

pub(super) struct Sentinels {
    hosts: Vec<Host>,
    name: Box<str>,
    /// The user, password, database and TLS for the primary.
    like: ConnectionInfo,
    /// The index of the sentinel to ask first. It advances before a sentinel is asked, so that a caller that
    /// gives up on a silent one asks another the next time.
    first: AtomicUsize,
    named: Mutex<Option<NamedServer>>,
    /// The address of the primary, as last found, with notice of changes.
    pub(super) at: watch::Sender<Option<Addr>>,
}

/// The server that a sentinel has named last. It is kept from then on, so that a connection which takes longer to make
/// than a call may wait is made once.
#[derive(Clone)]
struct NamedServer {
    addr: Addr,
    host: Arc<Host>,
    /// It has reported itself as a primary on the connection that it has.
    leads: bool,
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers: Vec<String> = self.hosts.iter().map(|host| host.peer().to_string()).collect();
        write!(f, "{} of [{}]", self.name, peers.join(", "))
    }
}

impl Sentinels {
    pub(super) fn new(sentinels: Vec<Client>, name: &str, like: ConnectionInfo) -> Self {
        let hosts = sentinels.into_iter().map(Host::new).collect();
        let (first, named) = (AtomicUsize::new(0), Mutex::new(None));
        Self { hosts, name: name.into(), like, first, named, at: watch::Sender::new(None) }
    }

    /// The primary, with a connection that can be used.
    pub(super) async fn primary(
        &self,
        options: TokioOptions,
    ) -> Result<(Addr, Arc<Host>, ServerConn), CallError> {
        // Not held while anything is awaited: who is not polled meanwhile would keep all others waiting.
        let named = lock(&self.named).clone();
        let mut former = None;
        if let Some(NamedServer { addr, host, leads: true }) = named
            && let Some(conn) = host.usable_conn().await
        {
            if !conn.lacked_replicas() {
                return Ok((addr, host, conn));
            }
            former = Some((addr, host, conn));
        }
        let mut last = CallError::NotSent("no sentinel is configured".into());
        let mut for_good = 0;
        for _ in &self.hosts {
            let place = self.first.load(Ordering::Relaxed) % self.hosts.len();
            self.first.store(place + 1, Ordering::Relaxed);
            let addr = match self.ask(place, options).await {
                Ok(addr) => addr,
                Err(error) => {
                    for_good += usize::from(matches!(error, CallError::Refused(_)));
                    last = error;
                    continue;
                }
            };
            let host = {
                let mut named = lock(&self.named);
                let host = match &*named {
                    Some(known) if known.addr == addr => Arc::clone(&known.host),
                    _ => Arc::new(Host::new(addr.client(&self.like)?)),
                };
                let leads = false;
                *named = Some(NamedServer { addr: addr.clone(), host: Arc::clone(&host), leads });
                host
            };
            match lead(&addr, &host, options).await {
                Ok(conn) => {
                    self.first.store(place, Ordering::Relaxed);
                    self.at.send_if_modified(|at| at.replace(addr.clone()) != Some(addr.clone()));
                    let leader =
                        NamedServer { addr: addr.clone(), host: Arc::clone(&host), leads: true };
                    *lock(&self.named) = Some(leader);
                    return Ok((addr, host, conn));
                }
                // The primary itself refuses us; another sentinel does not change that.
                Err(CallError::Refused(refusal)) => return Err(refusal.into()),
                Err(error) => last = error,
            }
        }
        // Its replicas may come back before a sentinel does.
        if let Some(primary) = former {
            return Ok(primary);
        }
        match last {
            // It is permanent only where every sentinel refuses.
            CallError::Refused(refusal) if for_good < self.hosts.len() => {
                Err(CallError::NotSent(format!("no sentinel knows the primary: {refusal}").into()))
            }
            last => Err(last),
        }
    }

    /// The address that this sentinel names.
    async fn ask(&self, place: usize, options: TokioOptions) -> Result<Addr, CallError> {
        let span = options.connect_timeout / SHARE;
        let question = async {
            let conn = self.hosts[place].conn(options).await?;
            let ask = Command::new("SENTINEL").arg("get-master-addr-by-name").arg(&*self.name);
            conn.call(&ask).await
        };
        let named = timeout(span, question).await.map_err(|_| {
            let peer = self.hosts[place].peer();
            CallError::NotSent(format!("no word of the sentinel {peer} within {span:?}").into())
        })?;
        match named {
            Ok(Reply::Array(parts)) => named_in(&parts).ok_or_else(|| {
                CallError::NotSent(format!("a sentinel names no address: {parts:?}").into())
            }),
            Ok(Reply::Nil) => Err(CallError::Refused(ServerError {
                code: "ERR".into(),
                message: format!("the sentinel knows no primary named {}", self.name).into(),
            })),
            Ok(other) => Err(CallError::NotSent(format!("a sentinel answers {other:?}").into())),
            Err(CallError::Indeterminate(reason)) => Err(CallError::NotSent(reason)),
            Err(error) => Err(error),
        }
    }
}

fn named_in(parts: &[Reply]) -> Option<Addr> {
    let [host, port] = parts else { return None };
    let host = std::str::from_utf8(host.as_bytes()?).ok()?;
    Some(Addr::new(host, u16::try_from(port.as_int()?).ok()?))
}

/// A connection to this server, which must report itself as a primary: a sentinel that is partitioned off
/// may name a former one.
async fn lead(addr: &Addr, host: &Host, options: TokioOptions) -> Result<ServerConn, CallError> {
    let span = options.connect_timeout;
    let asked = async {
        let conn = host.conn(options).await?;
        let role = conn.call(&Command::new("ROLE")).await;
        Ok::<_, CallError>((conn, role))
    };
    let silent = |_| CallError::NotSent(format!("no word of {addr} within {span:?}").into());
    let (conn, role) = timeout(span, asked).await.map_err(silent)??;
    match role {
        Ok(Reply::Array(parts)) if parts.first().and_then(Reply::as_bytes) == Some(b"master") => {
            Ok(conn)
        }
        // Without permission to ask, the first write shows it: a replica refuses that.
        Err(error) if error.has_code("NOPERM") => Ok(conn),
        Err(CallError::Refused(refusal)) => Err(refusal.into()),
        Err(error) => Err(CallError::NotSent(error.to_string().into())),
        Ok(_) => Err(CallError::NotSent(
            format!("{addr}, which a sentinel names as the primary, says that it is none").into(),
        )),
    }
}
