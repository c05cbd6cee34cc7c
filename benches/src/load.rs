//! Load on a Redis: connections that send SETs in batches and wait for the replies.
//!
//! Invariant: time is taken from when all connections stand to the last reply, and every reply is
//! looked at. The load runs on the runtime it is called on.

#![expect(clippy::disallowed_methods, reason = "a measurement takes the machine's time")]

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const REQUEST: &[u8] = b"*3\r\n$3\r\nSET\r\n$12\r\npicklock:key\r\n$3\r\nxxx\r\n";
const REPLY: &[u8] = b"+OK\r\n";

/// Requests a second over so many connections, each of which keeps `pipeline` requests on their way.
///
/// # Errors
/// What the network says, or that an answer was not `+OK`.
pub async fn throughput(
    addr: SocketAddr,
    connections: u32,
    pipeline: usize,
    requests: u32,
) -> io::Result<f64> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let mut client = Client::connect(addr, pipeline).await?;
        // The way through a proxy is made with the first request.
        client.batch().await?;
        clients.push(client);
    }
    let per_batch = connections * u32::try_from(pipeline).unwrap_or(u32::MAX);
    let batches = requests.div_ceil(per_batch);
    let began = Instant::now();
    let mut running = Vec::new();
    for mut client in clients {
        running.push(tokio::spawn(async move {
            for _ in 0..batches {
                client.batch().await?;
            }
            Ok::<_, io::Error>(())
        }));
    }
    for client in running {
        client.await.map_err(io::Error::other)??;
    }
    Ok(f64::from(batches * per_batch) / began.elapsed().as_secs_f64())
}

/// How long each of so many requests took on one connection, one at a time.
///
/// # Errors
/// As [`throughput`].
pub async fn latencies(addr: SocketAddr, requests: u32) -> io::Result<Vec<Duration>> {
    let mut client = Client::connect(addr, 1).await?;
    client.batch().await?;
    let mut all = Vec::new();
    for _ in 0..requests {
        let sent = Instant::now();
        client.batch().await?;
        all.push(sent.elapsed());
    }
    Ok(all)
}

struct Client {
    stream: TcpStream,
    requests: Vec<u8>,
    replies: Vec<u8>,
}

impl Client {
    async fn connect(addr: SocketAddr, pipeline: usize) -> io::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let replies = vec![0; REPLY.len() * pipeline];
        Ok(Self { stream, requests: REQUEST.repeat(pipeline), replies })
    }

    async fn batch(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.requests).await?;
        self.stream.read_exact(&mut self.replies).await?;
        match self.replies.chunks(REPLY.len()).find(|reply| *reply != REPLY) {
            None => Ok(()),
            Some(reply) => Err(io::Error::other(format!("not +OK: {}", reply.escape_ascii()))),
        }
    }
}
