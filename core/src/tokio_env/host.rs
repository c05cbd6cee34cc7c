//! One server at one address: the connection for commands, and the one for channels.
//!
//! Invariant: at most one of each is in use, made when first needed and again after it has broken. Connecting may take
//! longer than one call may wait: if a caller gives up, the attempt goes on, and the next caller gets its result. Nobody
//! holds a mutex while waiting, so a caller that is not polled keeps nobody else from the connection.

use std::future::Future;
use std::sync::{Arc, Mutex};

use redis::{Client, ConnectionAddr};
use tokio::sync::watch;

use super::listener::Listener;
use super::server_conn::{ServerConn, TokioOptions};
use crate::env::CallError;
use crate::sync::lock;

/// A server and the connections to it.
pub(super) struct Host {
    client: Client,
    conn: CachedConn<ServerConn>,
    listener: CachedConn<Listener>,
}

impl Host {
    pub(super) fn new(client: Client) -> Self {
        Self { client, conn: CachedConn::default(), listener: CachedConn::default() }
    }

    /// Where it is.
    pub(super) fn peer(&self) -> &ConnectionAddr {
        self.client.get_connection_info().addr()
    }

    /// The connection, made again if need be.
    pub(super) async fn conn(&self, options: TokioOptions) -> Result<ServerConn, CallError> {
        if let Some(conn) = self.conn.made() {
            // Connections to one server mostly break together.
            let is_usable =
                conn.is_usable().await && (!self.listener_has_ended() || conn.is_open().await);
            if is_usable {
                return Ok(conn);
            }
            self.conn.forget(|it| it.is_same(&conn));
        }
        let client = self.client.clone();
        self.conn.get(async move { ServerConn::open(&client, options).await }).await
    }

    /// The connection, if there is one that can be used.
    pub(super) async fn usable_conn(&self) -> Option<ServerConn> {
        let conn = self.conn.made()?;
        conn.is_usable().await.then_some(conn)
    }

    /// Sends nothing more on the connection for commands, wherever it is kept. Calls that wait for their answers get them.
    pub(super) fn close(&self) {
        if let Some(conn) = self.conn.made() {
            conn.close();
        }
    }

    /// Whether the connection for channels has ended since the last call.
    fn listener_has_ended(&self) -> bool {
        self.listener.forget(|listener| !listener.is_usable())
    }

    /// The connection for channels, made again if need be.
    pub(super) async fn listener(&self, options: TokioOptions) -> Result<Listener, CallError> {
        // Dropping a silent connection ends its subscriptions, which report that.
        self.listener.forget(|listener| !listener.is_usable());
        let (client, span) = (self.client.clone(), options.connect_timeout);
        self.listener.get(async move { Listener::open(&client, span).await }).await
    }
}

/// A connection that all callers share.
struct CachedConn<C> {
    state: Arc<Mutex<ConnState<C>>>,
}

enum ConnState<C> {
    Missing,
    /// It is being made; the outcome is told here.
    Making(watch::Receiver<Option<Result<C, CallError>>>),
    Made(C),
}

impl<C> Default for CachedConn<C> {
    fn default() -> Self {
        Self { state: Arc::new(Mutex::new(ConnState::Missing)) }
    }
}

impl<C: Clone + Send + Sync + 'static> CachedConn<C> {
    fn made(&self) -> Option<C> {
        match &*lock(&self.state) {
            ConnState::Made(conn) => Some(conn.clone()),
            ConnState::Missing | ConnState::Making(_) => None,
        }
    }

    /// Forgets the connection if it is this one; says whether it was.
    fn forget(&self, is_it: impl FnOnce(&C) -> bool) -> bool {
        let mut state = lock(&self.state);
        let forgotten = match &*state {
            ConnState::Made(conn) if is_it(conn) => {
                std::mem::replace(&mut *state, ConnState::Missing)
            }
            _ => return false,
        };
        // Outside the mutex: it may be the last handle.
        drop(state);
        drop(forgotten);
        true
    }

    /// The connection. Where it is missing, it is made in the background.
    async fn get(
        &self,
        opening: impl Future<Output = Result<C, CallError>> + Send + 'static,
    ) -> Result<C, CallError> {
        let (mut outcome, begins) = {
            let mut state = lock(&self.state);
            match &*state {
                ConnState::Made(conn) => return Ok(conn.clone()),
                ConnState::Making(outcome) => (outcome.clone(), None),
                ConnState::Missing => {
                    let (tell, outcome) = watch::channel(None);
                    *state = ConnState::Making(outcome.clone());
                    (outcome, Some(tell))
                }
            }
        };
        if let Some(tell) = begins {
            let mut making = MakingTask { state: Arc::clone(&self.state), made: None };
            // Outside the mutex: a runtime that ends drops the task at once, and its drop locks it again.
            tokio::spawn(async move {
                let opened = opening.await;
                making.made = opened.as_ref().ok().cloned();
                drop(making);
                tell.send_replace(Some(opened));
            });
        }
        let told = outcome.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        let dropped = "the task that connects was dropped, as by a runtime that ends";
        told.unwrap_or_else(|| Err(CallError::NotSent(dropped.into())))
    }
}

/// The making of a connection. However it ends, also if its task is dropped, the next caller does not wait for it.
struct MakingTask<C> {
    state: Arc<Mutex<ConnState<C>>>,
    made: Option<C>,
}

impl<C> Drop for MakingTask<C> {
    fn drop(&mut self) {
        *lock(&self.state) = self.made.take().map_or(ConnState::Missing, ConnState::Made);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_runtime_that_has_ended_connects_to_nothing_and_keeps_nobody_waiting() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::open(format!("redis://{}/", server.local_addr().unwrap())).unwrap();
        let host = Host::new(client);
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = runtime().handle().clone();
        let _entered = ended.enter();
        for _ in 0..2 {
            let mut connecting = pin!(host.conn(TokioOptions::default()));
            let polled = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Err(CallError::NotSent(_)))));
        }
    }

    /// A handshake may take longer than the call timeout of a lock with a short TTL.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the server is slow in real time")]
    fn who_gives_up_waiting_leaves_the_attempt_to_whoever_comes_next() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::open(format!("redis://{}/", server.local_addr().unwrap())).unwrap();
        thread::spawn(move || {
            for conn in server.incoming() {
                let mut conn = conn.unwrap();
                thread::sleep(Duration::from_millis(300));
                let (mut request, mut read) = ([0; 1024], 1);
                while read > 0 {
                    read = conn.read(&mut request).unwrap_or(0);
                    // As many answers as there are requests.
                    let requests = request[..read].iter().filter(|byte| **byte == b'*').count();
                    let _ = conn.write_all(&b"+OK\r\n".repeat(requests));
                }
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options =
            TokioOptions { connect_timeout: Duration::from_secs(60), ..TokioOptions::default() };
        let (host, mut tries) = (Host::new(client), 0);
        runtime.block_on(async {
            let hasty = || tokio::time::timeout(Duration::from_millis(30), host.conn(options));
            while tries < 100 && hasty().await.is_err() {
                tries += 1;
            }
        });
        assert!(
            (2..100).contains(&tries),
            "longer than a call may wait, and not for ever: {tries}"
        );
    }
}
