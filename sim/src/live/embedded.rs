//! The Redis model served over TCP on the loopback interface: a world for a machine without a
//! redis-server, and for clients in any language.
//!
//! Invariant: one thread owns the model, and every request is carried out whole, in the order in which
//! it arrived, at the wall clock of that moment. A connection that breaks the protocol is told so and
//! closed; no other one notices. Deliberately absent: faults, which are the proxy's, and blocking.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use picklock::time::WallTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::redis::model::{ClientId, Model};
use crate::redis::options::Options;
use crate::redis::reply::{Fail, Reply};
use crate::resp::encode::encode;
use crate::resp::request::{Parsed, RequestParser};

/// How often keys are taken away that nobody asks for, as redis-server does with `hz 10`.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(100);
/// At most so many at a time, so that nobody waits for it.
const EXPIRY_LIMIT: usize = 10_000;
/// Read at once from one connection.
const CHUNK_BYTES: usize = 16 * 1024;
/// Replies are written once they have grown to this, even if more requests wait.
const FLUSH_BYTES: usize = 1024 * 1024;

/// Why no embedded server could be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No port could be had on 127.0.0.1.
    #[error("cannot listen on 127.0.0.1: {0}")]
    Listen(#[source] io::Error),
    /// No thread or no event loop could be had.
    #[error("cannot start the server's thread: {0}")]
    Thread(#[source] io::Error),
}

/// A running server. It ends when this is dropped: its connections are closed and its thread is gone.
#[derive(Debug)]
pub struct EmbeddedServer {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a server on a port of its own. What INFO and CONFIG say of the port is set to it.
///
/// # Errors
/// See [`StartError`].
pub fn start(mut options: Options) -> Result<EmbeddedServer, StartError> {
    let listener =
        std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(StartError::Listen)?;
    listener.set_nonblocking(true).map_err(StartError::Listen)?;
    let addr = listener.local_addr().map_err(StartError::Listen)?;
    options.port = addr.port();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::Thread)?;
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("embedded-redis".to_owned())
        .spawn(move || {
            // The model is not Send, so it is made where it lives.
            let model = Rc::new(RefCell::new(Model::new(options)));
            let local = LocalSet::new();
            local.block_on(&runtime, serve(listener, model, stopped));
        })
        .map_err(StartError::Thread)?;
    Ok(EmbeddedServer { addr, stop: Some(stop), thread: Some(thread) })
}

impl EmbeddedServer {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        // That nobody listens any more means that the thread has ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    model: Rc<RefCell<Model>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut expiry = tokio::time::interval(EXPIRY_INTERVAL);
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => return,
            _ = expiry.tick() => {
                model.borrow_mut().expire_due(wall_clock(), EXPIRY_LIMIT);
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let connection = Connection::new(Rc::clone(&model), peer);
                    // A broken connection ends itself; there is nobody to tell.
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

/// One connection, which ends its session in the model however it ends itself.
struct Connection {
    model: Rc<RefCell<Model>>,
    client: ClientId,
}

impl Connection {
    fn new(model: Rc<RefCell<Model>>, peer: SocketAddr) -> Self {
        let client = model.borrow_mut().connect(wall_clock(), &peer.to_string());
        Self { model, client }
    }

    async fn run(self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut parser = RequestParser::new();
        let mut input = Vec::with_capacity(CHUNK_BYTES);
        let mut output = Vec::with_capacity(CHUNK_BYTES);
        loop {
            if stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
            let mut done = 0;
            let mut open = true;
            while open {
                match self.step(&mut parser, &input[done..], &mut output) {
                    Step::Used(used) => done += used,
                    Step::Wait => break,
                    Step::Close => open = false,
                }
                if output.len() >= FLUSH_BYTES {
                    stream.write_all(&output).await?;
                    output.clear();
                }
            }
            input.drain(..done);
            stream.write_all(&output).await?;
            output.clear();
            if !open {
                return stream.shutdown().await;
            }
        }
    }

    /// Carries out the first request of the buffer.
    fn step(&self, parser: &mut RequestParser, input: &[u8], output: &mut Vec<u8>) -> Step {
        let mut model = self.model.borrow_mut();
        let reply = match parser.parse(input, model.is_authenticated(self.client)) {
            Ok(Parsed::Incomplete) => return Step::Wait,
            Ok(Parsed::Nothing { used }) => return Step::Used(used),
            Ok(Parsed::Request { used }) => {
                let mut args = Vec::new();
                parser.args(input, &mut args);
                let reply = model.execute(wall_clock(), self.client, &args);
                (reply, Some(used).filter(|_| !model.is_closing(self.client)))
            }
            Err(error) => (Reply::Error(Fail::of(format!("ERR {error}"))), None),
        };
        let (reply, used) = reply;
        encode(&reply, model.protocol(self.client), output);
        used.map_or(Step::Close, Step::Used)
    }
}

enum Step {
    /// So many bytes are done with.
    Used(usize),
    Wait,
    Close,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.model.borrow_mut().disconnect(self.client);
    }
}

#[expect(clippy::disallowed_methods, reason = "this world's time is the machine's")]
fn wall_clock() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_unix_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
