//! Turmoil: Redis and its clients are two hosts of its network, and talk over its TCP. Each client on a host of its own
//! would be nearer to what is meant; but every host takes a step each millisecond, so that takes a hundred times as long.

use std::net::Ipv4Addr;
use std::sync::Arc;

use picklock::command::Command;
use picklock::env::{CallError, Conn};
use picklock::reply::Reply;
use resp::{Parsed, ProtocolVersion, RequestParser, encode, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use turmoil::net::{TcpListener, TcpStream};

use super::{
    CLIENTS, LATENCY_LEAST, LATENCY_MOST, SimulatedEnv, begin, client, commands, connect, execute,
    understood,
};

const SERVER: &str = "redis";
const PORT: u16 = 6379;
/// All clients connect at once, which is more than a server of turmoil has room for by itself.
const TCP_CAPACITY: usize = 1024;

/// Runs one simulation and returns how many commands were sent.
///
/// # Panics
/// Where a client or the server fails.
pub fn run(seed: u64) -> u64 {
    begin(seed);
    let mut simulation = turmoil::Builder::new()
        .rng_seed(seed)
        .min_message_latency(LATENCY_LEAST)
        .max_message_latency(LATENCY_MOST)
        .tcp_capacity(TCP_CAPACITY)
        .build();
    simulation.host(SERVER, || async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(serve(stream));
        }
    });
    simulation.client("clients", async {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(async {
                let stream = TcpStream::connect((SERVER, PORT)).await.expect("the server listens");
                let conn = HostConn { stream: Arc::new(Mutex::new(stream)) };
                client(SimulatedEnv::new(conn)).await;
            });
        }
        while clients.join_next().await.is_some() {}
        Ok(())
    });
    simulation.run().expect("all clients come to their end");
    commands()
}

async fn serve(mut stream: TcpStream) {
    let client = connect();
    let (mut parser, mut sent, mut answer) = (RequestParser::new(), Vec::new(), Vec::new());
    while stream.read_buf(&mut sent).await.is_ok_and(|read| read > 0) {
        while let Ok(Parsed::Request { used }) = parser.parse(&sent, true) {
            let mut args = Vec::new();
            parser.args(&sent, &mut args);
            let reply = execute(turmoil::elapsed(), client, &args);
            answer.clear();
            encode(&reply, ProtocolVersion::Resp2, &mut answer);
            drop(args);
            sent.drain(..used);
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

#[derive(Clone)]
struct HostConn {
    stream: Arc<Mutex<TcpStream>>,
}

impl Conn for HostConn {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let mut stream = self.stream.lock().await;
        let mut bytes = Vec::new();
        encode_request(&command.args().collect::<Vec<_>>(), &mut bytes);
        let broken = |error: std::io::Error| CallError::Indeterminate(error.to_string().into());
        stream.write_all(&bytes).await.map_err(broken)?;
        bytes.clear();
        loop {
            stream.read_buf(&mut bytes).await.map_err(broken)?;
            if let Some(reply) = reply(&bytes) {
                return understood(reply);
            }
        }
    }
}

/// A reply of these kinds, once all of it is there.
fn reply(bytes: &[u8]) -> Option<resp::Reply> {
    let end = bytes.windows(2).position(|it| it == b"\r\n")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let text = std::str::from_utf8(line.get(1..)?).ok()?;
    match line[0] {
        b'+' => Some(resp::Reply::Ok),
        b':' => Some(resp::Reply::Int(text.parse().ok()?)),
        b'-' => Some(resp::Reply::Error(resp::ErrorReply::of(text))),
        b'$' if text == "-1" => Some(resp::Reply::Nil),
        b'$' => Some(resp::Reply::bulk(rest.get(..text.parse().ok()?)?)),
        _ => None,
    }
}
