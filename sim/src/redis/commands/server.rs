//! The server as a whole: TIME.
//!
//! Invariant: the time is the one that the world has told. Deliberately absent: DEBUG, SHUTDOWN, SAVE,
//! MONITOR.

use super::table::{Spec, flag};
use crate::redis::reply::{Answer, Reply};
use crate::redis::server::{Request, Server};
use crate::redis::text::integer;

const FLAGS: u32 = flag::LOADING | flag::STALE | flag::FAST;

pub(crate) const SPECS: &[Spec] = &[Spec::new("time", 1, FLAGS, time)];

fn time(_server: &mut Server, request: &Request<'_>) -> Answer {
    Ok(Reply::Array(vec![
        Reply::Bulk(integer(request.now_us / 1_000_000)),
        Reply::Bulk(integer(request.now_us % 1_000_000)),
    ]))
}
