//! The thread that runs all links, and the handle that ends them.
//!
//! Invariant: once [`Proxy`] is dropped, no listener, connection or thread of it is left. It has a thread and runtime
//! of its own, so that clients under test cannot starve it, nor it their runtime; and only one, so that rules count
//! without races. It listens on loopback unless another address is named.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use picklock::env::Node;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::connection::{self, ConnectionContext};
use super::effect::Effect;
use super::ids::{ClientId, Cut};
use super::link::{Ended, Link, LinkState, Plan};
use super::log::{Detail, ProxyEvent, ProxyLog};
use super::rule::Rules;
use super::timer::WakeTimer;
use super::upstream::{Stream, Upstream};
use crate::descriptors::is_out_of_files;
use crate::listen::listen;

/// How many records a log keeps until somebody takes them.
const LOG_RECORDS: usize = 1 << 20;
/// How long to wait when the system has no file descriptor for a new connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// Why the proxy cannot do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// A thread or the event loop cannot be started.
    #[error("cannot start the fault proxy: {0}")]
    Start(io::Error),
    /// There is no port to listen on.
    #[error("cannot listen on {addr} for client {client} and node {node}: {source}",
            client = client.0, node = node.0)]
    Listen {
        /// Where.
        addr: SocketAddr,
        /// For whom.
        client: ClientId,
        /// For which server.
        node: Node,
        /// What is wrong.
        source: io::Error,
    },
    /// The proxy's thread has ended.
    #[error("the fault proxy has stopped")]
    Stopped,
}

/// The fault proxy. Dropping it closes every listener and connection.
#[derive(Debug)]
pub struct Proxy {
    log: Arc<ProxyLog>,
    rules: Arc<Rules>,
    /// How often there was no file descriptor for a connection.
    starved: Arc<AtomicU64>,
    listeners: Option<mpsc::UnboundedSender<LinkListener>>,
    thread: Option<JoinHandle<()>>,
}

/// A new link on its way to the thread.
#[derive(Debug)]
struct LinkListener {
    socket: StdListener,
    link: Arc<LinkState>,
    stop: oneshot::Receiver<Ended>,
}

impl Proxy {
    /// Starts a proxy without links, with a log of this detail.
    ///
    /// # Errors
    /// [`ProxyError::Start`] where the system gives no thread.
    pub fn start(detail: Detail) -> Result<Self, ProxyError> {
        Self::start_with(ProxyLog::new(detail, LOG_RECORDS))
    }

    /// The same, with a log of one's own.
    ///
    /// # Errors
    /// [`ProxyError::Start`] where the system gives no thread.
    pub fn start_with(log: ProxyLog) -> Result<Self, ProxyError> {
        Self::start_for(log, Semaphore::MAX_PERMITS)
    }

    /// The same for at most `connections` at once, over all links. A further client is not refused: it waits in
    /// the system's queue until a connection has ended.
    ///
    /// # Errors
    /// [`ProxyError::Start`] where the system gives no thread.
    pub fn bounded(detail: Detail, connections: usize) -> Result<Self, ProxyError> {
        let connections = connections.min(Semaphore::MAX_PERMITS);
        Self::start_for(ProxyLog::new(detail, LOG_RECORDS), connections)
    }

    fn start_for(log: ProxyLog, connections: usize) -> Result<Self, ProxyError> {
        let log = Arc::new(log);
        let starved = Arc::new(AtomicU64::new(0));
        let room = ConnectionLimit {
            free: Arc::new(Semaphore::new(connections)),
            starved: Arc::clone(&starved),
        };
        let rules = Arc::new(Rules::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ProxyError::Start)?;
        let timer = Arc::new(WakeTimer::start().map_err(ProxyError::Start)?);
        let (sender, receiver) = mpsc::unbounded_channel();
        let theirs = Arc::clone(&rules);
        let thread = std::thread::Builder::new()
            .name("picklock-proxy".into())
            .spawn(move || {
                runtime.block_on(serve(receiver, theirs, Arc::clone(&timer), room));
                // Connections are dropped before the timer, so that the timer's thread is not the one to end it.
                drop(runtime);
                drop(timer);
            })
            .map_err(ProxyError::Start)?;
        Ok(Self { log, rules, starved, listeners: Some(sender), thread: Some(thread) })
    }

    /// Opens a link: a listener on an ephemeral port of 127.0.0.1.
    ///
    /// # Errors
    /// [`ProxyError::Listen`] where there is no port or file descriptor left.
    pub fn listen(
        &self,
        client: ClientId,
        node: Node,
        upstream: Upstream,
        plan: Plan,
    ) -> Result<Link, ProxyError> {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.listen_on(loopback, client, node, upstream, plan)
    }

    /// The same on a given address. Everybody who can reach it can reach the server.
    ///
    /// # Errors
    /// [`ProxyError::Listen`] if it is in use or not of this machine.
    pub fn listen_on(
        &self,
        addr: SocketAddr,
        client: ClientId,
        node: Node,
        upstream: Upstream,
        plan: Plan,
    ) -> Result<Link, ProxyError> {
        let state = LinkState::new(client, node, upstream, plan, Arc::clone(&self.log));
        self.open(addr, Arc::new(state))
    }

    /// Opens a link that was closed, on this address; its effects and counters go on.
    ///
    /// # Errors
    /// [`ProxyError::Listen`] where the address is taken or not this machine's.
    pub fn reopen(&self, link: &Link, addr: SocketAddr) -> Result<Link, ProxyError> {
        self.open(addr, Arc::clone(&link.state))
    }

    fn open(&self, addr: SocketAddr, link: Arc<LinkState>) -> Result<Link, ProxyError> {
        let (client, node) = (link.client, link.node);
        let failed = |source| ProxyError::Listen { addr, client, node, source };
        let socket = listen(addr).map_err(failed)?;
        let addr = socket.local_addr().map_err(failed)?;
        let stop = link.listened_to();
        let listener = LinkListener { socket, link: Arc::clone(&link), stop };
        let sender = self.listeners.as_ref().ok_or(ProxyError::Stopped)?;
        sender.send(listener).map_err(|_| ProxyError::Stopped)?;
        Ok(Link { addr, state: link })
    }

    /// Its rules, to add some while it runs.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// How often there was no file descriptor for a connection that a client had made.
    pub fn starved(&self) -> u64 {
        self.starved.load(Ordering::Relaxed)
    }

    /// What has happened.
    pub fn log(&self) -> Arc<ProxyLog> {
        Arc::clone(&self.log)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listeners = None;
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed, and there is nothing to be saved.
            let _ = thread.join();
        }
    }
}

/// Room for connections of all links.
#[derive(Clone, Debug)]
struct ConnectionLimit {
    free: Arc<Semaphore>,
    starved: Arc<AtomicU64>,
}

impl ConnectionLimit {
    /// Accepts a connection within the limit. A listener without clients occupies no permit.
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> (OwnedSemaphorePermit, io::Result<(TcpStream, SocketAddr)>) {
        loop {
            // The permit is given back at once: the first connection takes it.
            drop(self.free.acquire().await);
            let accepted = poll_fn(|cx| {
                let Ok(place) = Arc::clone(&self.free).try_acquire_owned() else {
                    return Poll::Ready(None);
                };
                listener.poll_accept(cx).map(|accepted| Some((place, accepted)))
            });
            if let Some(accepted) = accepted.await {
                return accepted;
            }
        }
    }

    fn failed(&self, error: &io::Error) {
        if is_out_of_files(error) {
            self.starved.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs links until the proxy's handle is gone.
async fn serve(
    mut listeners: mpsc::UnboundedReceiver<LinkListener>,
    rules: Arc<Rules>,
    timer: Arc<WakeTimer>,
    room: ConnectionLimit,
) {
    let tasks = Arc::new(AtomicU64::new(0));
    while let Some(LinkListener { socket, link, stop }) = listeners.recv().await {
        match TcpListener::from_std(socket) {
            Ok(socket) => {
                let around = ConnectionContext {
                    link,
                    rules: Arc::clone(&rules),
                    timer: Arc::clone(&timer),
                    task: 0,
                    number: 0,
                    epoch: 0,
                    server: None,
                };
                tokio::spawn(accept(socket, stop, around, Arc::clone(&tasks), room.clone()));
            }
            Err(error) => link.log.note(link.place(0), ProxyEvent::Unreachable(error.to_string())),
        }
    }
}

/// Accepts connections until it is asked to stop; the sender it gets then is dropped after the listener.
async fn accept(
    listener: TcpListener,
    mut stop: oneshot::Receiver<Ended>,
    mut around: ConnectionContext,
    tasks: Arc<AtomicU64>,
    room: ConnectionLimit,
) {
    // Only the first failure of a series is logged.
    let mut fails = false;
    let _ended = loop {
        let (place, accepted) = tokio::select! {
            biased;
            ended = &mut stop => break ended,
            accepted = room.accept(&listener) => accepted,
        };
        match accepted {
            Ok((client, _)) => {
                fails = false;
                around.task = tasks.fetch_add(1, Ordering::Relaxed);
                around.number = around.link.accepted.fetch_add(1, Ordering::Relaxed) + 1;
                around.epoch = around.link.switches().epoch;
                around.link.count(|counters| counters.connections += 1);
                let (around, room) = (around.clone(), room.clone());
                tokio::spawn(async move {
                    connect(around, client, &room).await;
                    drop(place);
                });
            }
            Err(error) => {
                room.failed(&error);
                drop(place);
                if !std::mem::replace(&mut fails, true) {
                    let event =
                        ProxyEvent::Unreachable(format!("cannot accept a connection: {error}"));
                    around.link.log.note(around.link.place(0), event);
                }
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    };
    drop(listener);
}

/// Returns once the client has closed. What it has sent is left to be read, but wakes nobody any more.
async fn gives_up(client: &TcpStream) {
    let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
    while client.ready(Interest::READABLE).await.is_ok_and(|ready| !ready.is_read_closed()) {
        let _ = client.try_io(Interest::READABLE, nothing);
    }
}

/// Connects a new client to the server, once the link is whole. A cut link lets no handshake through, so a client that
/// gives up meanwhile has sent nothing.
async fn connect(mut around: ConnectionContext, client: TcpStream, room: &ConnectionLimit) {
    let link = Arc::clone(&around.link);
    let whole = poll_fn(|cx| {
        link.wakers.register(around.task, cx.waker());
        let switches = link.switches();
        let cut = switches.effects.iter().find(|installed| {
            installed.effect == Effect::Cut && link.strikes(installed, around.number)
        });
        if let Some(installed) = cut {
            link.note_struck(installed.id);
        }
        let is_cut = switches.cut != Cut::None || cut.is_some();
        let goes = !is_cut || switches.epoch != around.epoch;
        if goes { Poll::Ready(switches) } else { Poll::Pending }
    });
    let switches = tokio::select! {
        biased;
        switches = whole => Some(switches),
        () = gives_up(&client) => None,
    };
    link.wakers.remove(around.task);
    let Some(switches) = switches.filter(|switches| switches.epoch == around.epoch) else {
        let _ = client.set_zero_linger();
        return;
    };
    around.server = switches.upstream.ip();
    // Registered anew, so that what has come already wakes the connection.
    let Ok(client) = client.into_std().and_then(TcpStream::from_std) else { return };
    let is_reset = poll_fn(|cx| {
        link.wakers.register(around.task, cx.waker());
        let is_reset = link.switches().epoch != around.epoch;
        if is_reset { Poll::Ready(()) } else { Poll::Pending }
    });
    let connected = async {
        client.set_nodelay(true)?;
        Stream::connect(&switches.upstream).await
    };
    // A server may take its time: a full listen queue, or a handshake that it does not answer.
    let connected = tokio::select! {
        biased;
        () = is_reset => None,
        stream = connected => Some(stream),
    };
    link.wakers.remove(around.task);
    let Some(stream) = connected else {
        let _ = client.set_zero_linger();
        return;
    };
    if let (Ok(Stream::Tcp(upstream)), Detail::Replies) = (&stream, link.log.detail())
        && let Ok(addr) = upstream.local_addr()
    {
        link.log.note(link.place(around.number), ProxyEvent::Connected(addr));
    }
    match stream {
        Ok(Stream::Tcp(upstream)) => connection::run(around, client, upstream).await,
        Ok(Stream::Tls(upstream)) => connection::run(around, client, upstream).await,
        Err(error) => {
            room.failed(&error);
            link.log.note(link.place(around.number), ProxyEvent::Unreachable(error.to_string()));
            let _ = client.set_zero_linger();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::upstream::Trust;

    #[tokio::test]
    async fn who_gives_up_while_the_link_is_cut_has_sent_nothing() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Upstream::Tcp(server.local_addr().unwrap());
        // There is room for one, so the second comes in only when the first is let go.
        let proxy = Proxy::bounded(Detail::Faults, 1).unwrap();
        let link = proxy.listen(ClientId(0), Node(0), upstream, Plan::default()).unwrap();
        link.cut(Cut::Both);
        let mut first = TcpStream::connect(link.addr()).await.unwrap();
        first.write_all(b"SET k 1\r\n").await.unwrap();
        drop(first);
        let mut second = TcpStream::connect(link.addr()).await.unwrap();
        second.write_all(b"GET k").await.unwrap();
        let accepted = async {
            while link.counters().connections < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), accepted).await.expect("it is let go");
        link.cut(Cut::None);
        second.write_all(b"\r\n").await.unwrap();
        let (mut served, _) = server.accept().await.unwrap();
        let mut request = [0; 7];
        served.read_exact(&mut request).await.unwrap();
        assert_eq!(&request, b"GET k\r\n");
    }

    #[tokio::test]
    async fn a_connection_whose_server_does_not_answer_yet_is_reset_as_others_are() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        // It accepts, and says nothing to the beginning of a handshake.
        let upstream = Upstream::tls("127.0.0.1", port, &Trust::Anyone).unwrap();
        let proxy = Proxy::start(Detail::Faults).unwrap();
        let link = proxy.listen(ClientId(0), Node(0), upstream, Plan::default()).unwrap();
        let mut client = TcpStream::connect(link.addr()).await.unwrap();
        let _handshake = server.accept().await.unwrap();
        link.reset_connections();
        let mut byte = [0];
        let end = tokio::time::timeout(Duration::from_secs(30), client.read(&mut byte));
        let end = end.await.expect("it is reset").unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    }
}
