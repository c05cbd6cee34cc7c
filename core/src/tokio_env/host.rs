//! One server at one address: the connection for commands, and the one for channels.
//!
//! Invariant: at most one of each is in use, made when first needed and again after it has broken.

use redis::Client;
use tokio::sync::Mutex;

use super::listener::Listener;
use super::server_conn::{ServerConn, TokioOptions};
use crate::env::CallError;

/// A server and the connections to it.
pub(super) struct Host {
    client: Client,
    conn: Mutex<Option<ServerConn>>,
    listener: Mutex<Option<Listener>>,
}

impl Host {
    pub(super) fn new(client: Client) -> Self {
        Self { client, conn: Mutex::new(None), listener: Mutex::new(None) }
    }

    /// The connection, made again if need be.
    pub(super) async fn conn(&self, options: TokioOptions) -> Result<ServerConn, CallError> {
        let mut cached = self.conn.lock().await;
        if let Some(conn) = &*cached
            && conn.is_usable().await
            // Connections to one server mostly break together.
            && (!self.listener_has_ended() || conn.is_open().await)
        {
            return Ok(conn.clone());
        }
        *cached = None;
        Ok(cached.insert(ServerConn::open(&self.client, options).await?).clone())
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
        let mut cached = self.listener.lock().await;
        match &*cached {
            Some(listener) if listener.is_usable() => Ok(listener.clone()),
            _ => {
                // Dropping a silent connection ends its subscriptions, which report that.
                *cached = None;
                let span = options.connect_timeout;
                Ok(cached.insert(Listener::open(&self.client, span).await?).clone())
            }
        }
    }
}
