//! The primary, according to the sentinels.
//!
//! Invariant: the sentinels are asked whenever a connection is made, and the server that they name is used
//! only after it has reported itself as a primary. A demoted primary breaks its connections or refuses with READONLY,
//! and one that is cut off from its replicas may refuse with NOREPLICAS: each makes the next connect ask again. But
//! sentinels demote a former primary only some ten seconds after a failover, and until then it grants locks. So while
//! its connection is used, a sentinel is asked every second, and once it names another primary, nothing more is sent on
//! that connection. The sentinels' messages are not subscribed to.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Client, ConnectionInfo};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::addr::Addr;
use super::clock::monotonic;
use super::host::Host;
use super::server_conn::{ServerConn, TokioOptions};
use crate::command::Command;
use crate::env::CallError;
use crate::reply::{Reply, ServerError};
use crate::sync::lock;
use crate::time::Instant;

/// A sentinel that does not answer takes at most this fraction of the connect timeout.
const SHARE: u32 = 4;

/// What the sentinels have said is asked for again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A connect waits this long for that answer, and then goes on with the primary that is known.
const ASK_AGAIN_WAIT: Duration = Duration::from_millis(50);

pub(super) struct Sentinels {
    hosts: Vec<Host>,
    name: Box<str>,
    /// The user, password, database and TLS for the primary.
    like: ConnectionInfo,
    /// The index of the sentinel to ask first. It advances before a sentinel is asked, so that a caller that
    /// gives up on a silent one asks another the next time.
    first: AtomicUsize,
    named: Mutex<Option<NamedServer>>,
    /// The server that was last found to be the primary.
    leader: Mutex<Option<(Addr, Arc<Host>)>>,
    /// When a sentinel was last asked, in nanoseconds.
    asked_ns: AtomicU64,
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
        Self {
            hosts,
            name: name.into(),
            like,
            first: AtomicUsize::new(0),
            named: Mutex::new(None),
            leader: Mutex::new(None),
            asked_ns: AtomicU64::new(0),
            at: watch::Sender::new(None),
        }
    }

    /// Asks in the background whether the primary is still the primary, if that was not asked in the last second.
    pub(super) fn ask_again(self: &Arc<Self>, options: TokioOptions) -> Option<JoinHandle<()>> {
        let leader = lock(&self.leader).as_ref()?.0.clone();
        let asked_ns = self.asked_ns.load(Ordering::Relaxed);
        let now_ns = monotonic().as_ns();
        let asks = Instant::from_ns(now_ns).since(Instant::from_ns(asked_ns)) >= ASK_AGAIN;
        let runtime = asks.then(Handle::try_current)?.ok()?;
        // Of several callers, one asks.
        let (relaxed, asked) = (Ordering::Relaxed, &self.asked_ns);
        asked.compare_exchange(asked_ns, now_ns, relaxed, relaxed).ok()?;
        let sentinels = Arc::clone(self);
        Some(runtime.spawn(async move {
            let place = sentinels.next_place();
            let Ok(addr) = sentinels.ask(place, options).await else { return };
            sentinels.first.store(place, Ordering::Relaxed);
            if addr != leader {
                // Where none is found, what is held goes on at the former.
                let _ = sentinels.find(None, options).await;
            }
        }))
    }

    /// The primary, with a connection that can be used.
    pub(super) async fn primary(
        self: &Arc<Self>,
        options: TokioOptions,
    ) -> Result<(Addr, Arc<Host>, ServerConn), CallError> {
        // Not held while anything is awaited: who is not polled meanwhile would keep all others waiting.
        let named = lock(&self.named).clone();
        let mut former = None;
        if let Some(NamedServer { addr, host, leads: true }) = named
            && let Some(conn) = host.usable_conn().await
        {
            if conn.lacked_replicas() {
                former = Some((addr, host, conn));
            } else {
                if let Some(asking) = self.ask_again(options) {
                    // Without an answer, the primary that is known is used.
                    let _ = timeout(ASK_AGAIN_WAIT, asking).await;
                }
                let leads = |it: &NamedServer| it.leads && it.addr == addr;
                if lock(&self.named).as_ref().is_some_and(leads) {
                    return Ok((addr, host, conn));
                }
            }
        }
        self.find(former, options).await
    }

    /// The primary by the word of the sentinels; `former` if none of them knows one.
    async fn find(
        &self,
        former: Option<(Addr, Arc<Host>, ServerConn)>,
        options: TokioOptions,
    ) -> Result<(Addr, Arc<Host>, ServerConn), CallError> {
        self.asked_ns.store(monotonic().as_ns(), Ordering::Relaxed);
        let mut last = CallError::NotSent("no sentinel is configured".into());
        let mut for_good = 0;
        for _ in &self.hosts {
            let place = self.next_place();
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
                let leader = lock(&self.leader).clone();
                let mut known =
                    named.clone().map(|it| (it.addr, it.host)).into_iter().chain(leader);
                let host = match known.find(|(known, _)| *known == addr) {
                    Some((_, host)) => host,
                    None => Arc::new(Host::new(addr.client(&self.like)?)),
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
                    let before = lock(&self.leader).replace((addr.clone(), Arc::clone(&host)));
                    if let Some((_, before)) = before.filter(|(before, _)| *before != addr) {
                        before.close();
                    }
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

    /// The index of the sentinel to ask now.
    fn next_place(&self) -> usize {
        let place = self.first.load(Ordering::Relaxed) % self.hosts.len();
        self.first.store(place + 1, Ordering::Relaxed);
        place
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
