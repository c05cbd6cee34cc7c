//! The server as a whole: TIME, ROLE, WAIT.
//!
//! Invariant: there are no replicas yet, so WAIT answers 0 at once, as redis-server does when it is
//! asked for none. Deliberately absent: DEBUG, SHUTDOWN, SAVE, REPLICAOF, MONITOR.

use super::table::{Spec, flag};
use crate::redis::reply::{Answer, Fail, Reply};
use crate::redis::server::{Request, Server};
use crate::redis::text::{decimal, integer};

const FLAGS: u32 = flag::LOADING | flag::STALE | flag::FAST;

pub(crate) const SPECS: &[Spec] = &[
    Spec::new("time", 1, FLAGS, time),
    Spec::new("role", 1, FLAGS | flag::NOSCRIPT, role).group("admin dangerous"),
    Spec::new("wait", 3, flag::NOSCRIPT, wait).group("connection"),
];

fn time(_server: &mut Server, request: &Request<'_>) -> Answer {
    Ok(Reply::Array(vec![
        Reply::Bulk(integer(request.now_us / 1_000_000)),
        Reply::Bulk(integer(request.now_us % 1_000_000)),
    ]))
}

fn role(_server: &mut Server, _request: &Request<'_>) -> Answer {
    Ok(Reply::Array(vec![Reply::bulk("master"), Reply::Int(0), Reply::Array(Vec::new())]))
}

fn wait(_server: &mut Server, request: &Request<'_>) -> Answer {
    decimal(request.args[1]).ok_or(Fail::NOT_AN_INTEGER)?;
    let timeout_ms = decimal(request.args[2])
        .ok_or(Fail::new("ERR timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(Fail::new("ERR timeout is negative"));
    }
    Ok(Reply::Int(0))
}
