//! ROLE and WAIT.
//!
//! Invariant: WAIT counts the replicas that have acknowledged what the stream held when the last command of
//! the same connection had been carried out: of redis-server it is often said that this is the connection's
//! last write, but any later command moves it on. Not modelled: REPLICAOF, FAILOVER, PSYNC; the world
//! connects servers.

use resp::{ErrorReply, Reply, decimal, integer};

use crate::server::blocking::Awaited;
use crate::server::replication::HOST;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const FLAGS: u32 = flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::ADMIN_DANGEROUS.command("role", 1, FLAGS, role),
    group::CONNECTION.command("wait", 3, flag::NOSCRIPT, wait),
];

fn offset(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

fn role(server: &mut Server, _request: &Request<'_>) -> CommandResult {
    let end = Reply::Int(offset(server.journal.end()));
    if let Some(port) = server.primary_port {
        let (host, port) = (Reply::bulk(HOST), Reply::Int(i64::from(port)));
        let state = Reply::bulk("connected");
        return Ok(Reply::Array(vec![Reply::bulk("slave"), host, port, state, end]));
    }
    let replicas = server.replicas.iter().map(|replica| {
        Reply::Array(vec![
            Reply::bulk(HOST),
            Reply::bulk(replica.port.to_string()),
            Reply::Bulk(integer(offset(replica.offset))),
        ])
    });
    Ok(Reply::Array(vec![Reply::bulk("master"), end, Reply::Array(replicas.collect())]))
}

fn wait(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if server.is_replica() {
        return Err(ErrorReply::new(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 \
             if a replica is configured to be writable (which is not the default) writes to replicas \
             are just local and are not propagated.",
        ));
    }
    let replicas = decimal(request.args[1]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let timeout_ms = decimal(request.args[2])
        .ok_or(ErrorReply::new("ERR timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(ErrorReply::new("ERR timeout is negative"));
    }
    // Redis keeps it as a C int, without the high bits.
    #[expect(clippy::cast_possible_truncation, reason = "as there")]
    let replicas = i64::from(replicas as i32);
    let offset = server.session(request).written_to;
    let acknowledged = server.acknowledged(offset);
    if acknowledged < replicas && server.may_block(request.session) {
        server.block(request, Awaited::Acknowledgements { replicas, offset }, timeout_ms);
    }
    Ok(Reply::Int(acknowledged))
}
