//! The server as a whole: TIME, MONITOR.
//!
//! Invariant: the time is the one that the request came with. Not modelled: DEBUG, SHUTDOWN, SAVE.

use resp::{ErrorReply, Reply, integer};

use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const FLAGS: u32 = flag::LOADING | flag::STALE;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::SERVER.command("time", 1, FLAGS | flag::FAST, time),
    group::DANGEROUS.command("monitor", 1, FLAGS | flag::ADMIN | flag::NOSCRIPT, monitor),
];

fn time(_server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Array(vec![
        Reply::Bulk(integer(request.now_us / 1_000_000)),
        Reply::Bulk(integer(request.now_us % 1_000_000)),
    ]))
}

fn monitor(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if server.in_exec {
        return Err(ErrorReply::new("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if std::mem::replace(&mut server.session(request).monitors, true) {
        // Whoever looks already is not answered.
        return Ok(Reply::NOTHING);
    }
    server.monitors.push(request.session);
    Ok(Reply::Ok)
}
