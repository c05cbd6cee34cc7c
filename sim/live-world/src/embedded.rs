//! The Redis model served over TCP on the loopback interface: a world for a machine without a
//! redis-server, and for clients in any language.
//!
//! Invariant: one thread owns the model, and every request is carried out whole, in the order in which
//! it arrived, at the wall clock of that moment. A connection that breaks the protocol gets an error and is
//! closed; no other one is affected. No request of a blocked client is carried out, but its disconnecting is noticed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use picklock::time::WallTime;
use redis_model::model::{ConnectionId, Model, Submitted};
use redis_model::options::ModelOptions;
use resp::{Parsed, Reply, RequestParser, encode, is_http};
use smallvec::SmallVec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::task::LocalSet;

/// How often expired keys are deleted that no client accesses, as redis-server does with `hz 10`.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(100);
/// How many expired keys are deleted at a time, so that no client waits for it.
const EXPIRY_LIMIT: usize = 10_000;
/// How much is read at once from one connection.
const CHUNK_BYTES: usize = 16 * 1024;
/// How much more a blocked client may send before it is no longer read from.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// A free port of loopback.
pub(crate) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Why no embedded server could be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address could not be had.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// No thread or no event loop could be had.
    #[error("cannot start the server's thread: {0}")]
    Thread(#[source] io::Error),
}

/// A running server. It ends when this is dropped: its connections are closed and its thread is gone.
#[derive(Debug)]
pub struct EmbeddedServer {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    stalls: UnboundedSender<ThreadStall>,
    /// Dropping this ends a stall.
    stalled: Mutex<Option<mpsc::Sender<()>>>,
    thread: Option<JoinHandle<()>>,
}

/// What a server's thread should wait for, and the sender by which it reports that it waits.
#[derive(Debug)]
struct ThreadStall {
    waits: oneshot::Sender<()>,
    until: mpsc::Receiver<()>,
}

/// Sees every request right after it was carried out, on the server's thread.
pub trait Tap: Send {
    /// `from` has sent `args`, and the model has carried that out at `now` with this outcome.
    fn carried_out(
        &mut self,
        model: &Model,
        now: WallTime,
        from: SocketAddr,
        args: &[&[u8]],
        outcome: &Submitted,
    );
}

/// Starts a server on a port of its own, which INFO and CONFIG report.
///
/// # Errors
/// See [`StartError`].
pub fn start(options: ModelOptions) -> Result<EmbeddedServer, StartError> {
    start_at(LOOPBACK, options, None)
}

/// The same at this address, with a tap that sees every request. Port 0 takes a free one.
///
/// # Errors
/// See [`StartError`].
pub fn start_at(
    wanted: SocketAddr,
    mut options: ModelOptions,
    tap: Option<Box<dyn Tap>>,
) -> Result<EmbeddedServer, StartError> {
    let refused = |error| StartError::Listen(wanted, error);
    let listener = fault_proxy::listen::listen(wanted).map_err(refused)?;
    let addr = listener.local_addr().map_err(refused)?;
    options.port = addr.port();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::Thread)?;
    let (stop, stopped) = oneshot::channel();
    let (stalls, stalled) = unbounded_channel();
    let thread = std::thread::Builder::new()
        .name("embedded-redis".to_owned())
        .spawn(move || {
            // The model is not `Send`, so it is made in this thread.
            let model = Rc::new(RefCell::new(Model::new(options)));
            let local = LocalSet::new();
            local.block_on(&runtime, serve(listener, model, tap, stopped, stalled));
        })
        .map_err(StartError::Thread)?;
    let (stop, stalled) = (Some(stop), Mutex::default());
    Ok(EmbeddedServer { addr, stop, stalls, stalled, thread: Some(thread) })
}

impl EmbeddedServer {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stalls the server: it reads nothing and answers nobody, until it is [woken](Self::wake).
    pub async fn stall(&self) {
        let (waits, waiting) = oneshot::channel();
        let (end, until) = mpsc::channel();
        // If its thread has ended, it is stalled for ever.
        if self.stalls.send(ThreadStall { waits, until }).is_ok() {
            let _ = waiting.await;
        }
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// Lets the server go on.
    pub fn wake(&self) {
        drop(self.stalled.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        self.wake();
        // An error means that the thread has ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    model: Rc<RefCell<Model>>,
    tap: Option<Box<dyn Tap>>,
    mut stopped: oneshot::Receiver<()>,
    mut stalls: UnboundedReceiver<ThreadStall>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let tap = RefCell::new(tap);
    let shared =
        Rc::new(SharedModel { model, tap, outboxes: RefCell::default(), deadlines: Notify::new() });
    let mut expiry = tokio::time::interval(EXPIRY_INTERVAL);
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => return,
            Some(ThreadStall { waits, until }) = stalls.recv() => {
                let _ = waits.send(());
                // The whole thread waits, as a stopped process does; an error ends the wait.
                let _ = until.recv();
            }
            _ = expiry.tick() => {
                shared.model.borrow_mut().expire_due(wall_clock(), EXPIRY_LIMIT);
                shared.model.borrow_mut().fsync_due(wall_clock());
                shared.deliver();
            }
            () = shared.next_deadline() => {
                shared.model.borrow_mut().unblock_due(wall_clock());
                shared.deliver();
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let connection = ClientConnection::new(Rc::clone(&shared), peer);
                    // A broken connection ends by itself, and concerns no other one.
                    tokio::task::spawn_local(async move {
                        let _ = connection.run(stream).await;
                    });
                }
                // Out of descriptors, most likely: the next tick comes before the next try.
                Err(_) => {
                    expiry.tick().await;
                }
            },
        }
    }
}

/// The model, and the output for each connection.
struct SharedModel {
    model: Rc<RefCell<Model>>,
    tap: RefCell<Option<Box<dyn Tap>>>,
    /// What is still to be written to each client, already encoded.
    outboxes: RefCell<BTreeMap<ConnectionId, Rc<Outbox>>>,
    /// A client has begun to block.
    deadlines: Notify,
}

#[derive(Default)]
struct Outbox {
    bytes: RefCell<Vec<u8>>,
    arrived: Notify,
}

impl SharedModel {
    /// Moves replies of the model to the connections of its clients.
    fn deliver(&self) {
        let mut replies: SmallVec<[(ConnectionId, Reply); 4]> = SmallVec::new();
        let mut model = self.model.borrow_mut();
        model.drain_outbox(|client, reply| replies.push((client, reply)));
        let outboxes = self.outboxes.borrow();
        for (client, reply) in replies {
            if let Some(outbox) = outboxes.get(&client) {
                encode(&reply, model.protocol(client), &mut outbox.bytes.borrow_mut());
                outbox.arrived.notify_one();
            }
        }
    }

    /// Returns when a timeout may be over.
    async fn next_deadline(&self) {
        let deadline = self.model.borrow().next_deadline();
        let Some(deadline) = deadline else { return self.deadlines.notified().await };
        let left_ns = deadline.as_unix_ns().saturating_sub(wall_clock().as_unix_ns());
        tokio::select! {
            biased;
            () = self.deadlines.notified() => {}
            // The wall clock may be stepped meanwhile, so it is read again within a second.
            () = pass(Duration::from_nanos(left_ns).min(Duration::from_secs(1))) => {}
        }
    }
}

/// One connection. However it ends, it ends its session in the model.
struct ClientConnection {
    shared: Rc<SharedModel>,
    peer: SocketAddr,
    client: ConnectionId,
    outbox: Rc<Outbox>,
}

impl ClientConnection {
    fn new(shared: Rc<SharedModel>, peer: SocketAddr) -> Self {
        let client = shared.model.borrow_mut().connect(wall_clock(), &peer.to_string());
        let outbox = Rc::new(Outbox::default());
        shared.outboxes.borrow_mut().insert(client, Rc::clone(&outbox));
        Self { shared, peer, client, outbox }
    }

    async fn run(self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut parser = RequestParser::new();
        let mut input = Vec::with_capacity(CHUNK_BYTES);
        let mut output = Vec::with_capacity(CHUNK_BYTES);
        let mut written = 0;
        let mut open = true;
        let (mut reader, mut writer) = stream.split();
        while open {
            // While the client is blocked, it is read from, which also shows its end, but nothing is carried out.
            // A client may send all its requests before it reads, so reading does not wait for writing.
            tokio::select! {
                biased;
                wrote = writer.write(&output[written..]), if written < output.len() => {
                    written += wrote?;
                    if written == output.len() {
                        output.clear();
                        written = 0;
                    }
                }
                () = self.outbox.arrived.notified() => {}
                read = reader.read_buf(&mut input), if self.may_read(input.len()) => {
                    open = read? > 0;
                }
            }
            let mut done = 0;
            while open {
                match self.step(&mut parser, &input[done..], &mut output) {
                    Handled::Used(used) => done += used,
                    Handled::Wait => break,
                    Handled::Close => open = false,
                }
            }
            input.drain(..done);
        }
        writer.write_all(&output[written..]).await?;
        writer.shutdown().await
    }

    fn may_read(&self, unread: usize) -> bool {
        unread < WAITING_BYTES || !self.shared.model.borrow().is_blocked(self.client)
    }

    /// Carries out the first request of the buffer, unless the client is blocked.
    fn step(&self, parser: &mut RequestParser, input: &[u8], output: &mut Vec<u8>) -> Handled {
        output.append(&mut self.outbox.bytes.borrow_mut());
        let mut model = self.shared.model.borrow_mut();
        if model.is_closing(self.client) {
            return Handled::Close;
        }
        if model.is_blocked(self.client) {
            return Handled::Wait;
        }
        let (outcome, used) = match parser.parse(input, model.is_authenticated(self.client)) {
            Ok(Parsed::Incomplete) => return Handled::Wait,
            Ok(Parsed::Nothing { used }) => return Handled::Used(used),
            Ok(Parsed::Request { used }) => {
                let mut args = Vec::new();
                parser.args(input, &mut args);
                if is_http(&args) {
                    return Handled::Close;
                }
                let now = wall_clock();
                let outcome = model.submit(now, self.client, &args);
                if let Some(tap) = &mut *self.shared.tap.borrow_mut() {
                    tap.carried_out(&model, now, self.peer, &args, &outcome);
                }
                (outcome, Some(used).filter(|_| !model.is_closing(self.client)))
            }
            Err(error) => (Submitted::Reply(Reply::Error(error.into())), None),
        };
        drop(model);
        self.shared.deliver();
        // A message to the caller itself comes before its reply. In RESP3 redis-server sends those of some commands
        // after it, such as of an RPUSH of several elements.
        output.append(&mut self.outbox.bytes.borrow_mut());
        match outcome {
            Submitted::Reply(reply) => {
                encode(&reply, self.shared.model.borrow().protocol(self.client), output);
            }
            Submitted::Blocked => self.shared.deadlines.notify_one(),
        }
        used.map_or(Handled::Close, Handled::Used)
    }
}

enum Handled {
    /// This many bytes have been consumed.
    Used(usize),
    Wait,
    Close,
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.shared.outboxes.borrow_mut().remove(&self.client);
        self.shared.model.borrow_mut().disconnect(self.client);
    }
}

#[expect(clippy::disallowed_methods, reason = "this world's time is the machine's")]
async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}

#[expect(clippy::disallowed_methods, reason = "this world's time is the machine's")]
fn wall_clock() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_unix_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
