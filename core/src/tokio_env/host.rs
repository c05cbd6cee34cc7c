//! One server at one address: the connection for commands, and the one for channels.
//!
//! Invariant: at most one of each is in use, made when first needed and again after it has broken. Connecting may take
//! longer than one call may wait: if a caller gives up, the attempt goes on, and the next caller gets its result.

use std::future::Future;
use std::sync::Arc;

use redis::{Client, ConnectionAddr};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::listener::Listener;
use super::server_conn::{ServerConn, TokioOptions};
use crate::env::CallError;

/// A server and the connections to it.
pub(super) struct Host {
    client: Client,
    conn: Arc<Mutex<Option<ServerConn>>>,
    listener: Arc<Mutex<Option<Listener>>>,
}

impl Host {
    pub(super) fn new(client: Client) -> Self {
        Self { client, conn: Arc::default(), listener: Arc::default() }
    }

    /// Where it is.
    pub(super) fn peer(&self) -> &ConnectionAddr {
        self.client.get_connection_info().addr()
    }

    /// The connection, made again if need be.
    pub(super) async fn conn(&self, options: TokioOptions) -> Result<ServerConn, CallError> {
        let mut cached = Arc::clone(&self.conn).lock_owned().await;
        if let Some(conn) = &*cached
            && conn.is_usable().await
            // Connections to one server mostly break together.
            && (!self.listener_has_ended() || conn.is_open().await)
        {
            return Ok(conn.clone());
        }
        *cached = None;
        let client = self.client.clone();
        connect(cached, async move { ServerConn::open(&client, options).await }).await
    }

    /// The connection, if there is one that can be used.
    pub(super) async fn usable_conn(&self) -> Option<ServerConn> {
        let cached = self.conn.lock().await;
        let conn = cached.as_ref()?;
        conn.is_usable().await.then(|| conn.clone())
    }

    /// Whether the connection for channels has ended since the last call.
    fn listener_has_ended(&self) -> bool {
        // Another task holds it to replace it, and has checked it already.
        let Ok(mut cached) = self.listener.try_lock() else { return false };
        let ended = cached.as_ref().is_some_and(|listener| !listener.is_usable());
        if ended {
            *cached = None;
        }
        ended
    }

    /// The connection for channels, made again if need be.
    pub(super) async fn listener(&self, options: TokioOptions) -> Result<Listener, CallError> {
        let mut cached = Arc::clone(&self.listener).lock_owned().await;
        match &*cached {
            Some(listener) if listener.is_usable() => Ok(listener.clone()),
            _ => {
                // Dropping a silent connection ends its subscriptions, which report that.
                *cached = None;
                let span = options.connect_timeout;
                let client = self.client.clone();
                connect(cached, async move { Listener::open(&client, span).await }).await
            }
        }
    }
}

/// Makes a connection in the background, and puts it where the next caller finds it.
async fn connect<C: Clone + Send + 'static>(
    mut cached: OwnedMutexGuard<Option<C>>,
    opening: impl Future<Output = Result<C, CallError>> + Send + 'static,
) -> Result<C, CallError> {
    let opened = tokio::spawn(async move { Ok(cached.insert(opening.await?).clone()) }).await;
    opened.unwrap_or_else(|error| Err(CallError::NotSent(error.to_string().into())))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::*;

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
