//! Tokio with its clock paused: time goes on where every task waits. The network is a sleep each way.

#![expect(clippy::disallowed_methods, reason = "tokio's time is what is compared with")]

use picklock::command::Command;
use picklock::env::{CallError, Conn};
use picklock::reply::Reply;
use redis_model::model::ConnectionId;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{
    CLIENTS, SimulatedEnv, begin, client, commands, connect, execute, latency, understood,
};

/// Runs one simulation and returns how many commands were sent.
///
/// # Panics
/// Where tokio cannot begin.
pub fn run(seed: u64) -> u64 {
    begin(seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("tokio begins").block_on(async {
        let began = Instant::now();
        let conn = || PausedConn { began, client: connect() };
        let mut clients: JoinSet<()> =
            (0..CLIENTS).map(|_| client(SimulatedEnv::new(conn()))).collect();
        while clients.join_next().await.is_some() {}
    });
    commands()
}

#[derive(Clone)]
struct PausedConn {
    began: Instant,
    client: ConnectionId,
}

impl Conn for PausedConn {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        sleep(latency()).await;
        let args: Vec<_> = command.args().collect();
        let reply = execute(self.began.elapsed(), self.client, &args);
        sleep(latency()).await;
        understood(reply)
    }
}
