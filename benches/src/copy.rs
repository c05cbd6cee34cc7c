//! A plain TCP proxy that copies bytes: what any proxy in user space costs at least.
//!
//! Invariant: it runs on one thread of its own, as the fault proxy does, so that the two can be
//! compared. When the handle has been dropped, the thread is gone.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// A running copy.
#[derive(Debug)]
pub struct PlainCopy {
    /// Where it listens.
    pub addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PlainCopy {
    /// Listens on a port of its own of the loopback interface, and copies to `upstream`.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name("plain-copy".to_owned()).spawn(move || {
                runtime.block_on(async {
                    tokio::spawn(accept(listener, upstream));
                    // An error means that the handle is gone, which is the same.
                    let _ = stopped.await;
                });
            })?;
        Ok(Self { addr, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for PlainCopy {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, upstream: SocketAddr) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(copy(client, upstream));
    }
}

async fn copy(mut client: TcpStream, upstream: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}
