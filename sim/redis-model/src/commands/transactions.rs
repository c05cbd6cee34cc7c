//! MULTI, DISCARD, WATCH, UNWATCH. EXEC itself runs other commands, so the model carries it out.
//!
//! Invariant: between MULTI and EXEC nothing is carried out but what ends or describes the
//! transaction; a touched or expired watched key makes EXEC answer nil and do nothing.

use resp::{Blob, ErrorReply, Reply, blob};

use crate::server::session::{TransactionQueue, WatchedKey};
use crate::server::{CommandResult, CommandSpec, Execution, Request, Server, flag, group};

const FLAGS: u32 = flag::NOSCRIPT | flag::LOADING | flag::STALE;
const QUICK: u32 = FLAGS | flag::FAST | flag::ALLOW_BUSY;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::TRANSACTION.command("multi", 1, QUICK, multi),
    group::TRANSACTION.run("exec", 1, FLAGS | flag::SKIP_SLOWLOG, Execution::Exec),
    group::TRANSACTION.command("discard", 1, QUICK, discard),
    group::TRANSACTION.command("watch", -2, QUICK, watch).keys(1, -1, 1),
    group::TRANSACTION.command("unwatch", 1, QUICK, unwatch),
];

/// What EXEC is to carry out.
pub(crate) type CollectedCommands = Vec<(u16, Vec<Blob>)>;

fn multi(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let session = server.session(request);
    if session.queue.is_some() {
        return Err(ErrorReply::new("ERR MULTI calls can not be nested"));
    }
    session.queue = Some(TransactionQueue::default());
    Ok(Reply::Ok)
}

/// Ends the transaction: the commands to carry out, or the answer where there is none.
pub(crate) fn take_queue(
    server: &mut Server,
    request: &Request<'_>,
) -> Result<CollectedCommands, Reply> {
    if server.session(request).queue.is_none() {
        return Err(Reply::Error(ErrorReply::new("ERR EXEC without MULTI")));
    }
    let touched = server.session(request).dirty || server.watched_has_expired(request);
    let queue = server.session(request).queue.take().unwrap_or_default();
    server.discard(request.session);
    if queue.refused {
        let text = "EXECABORT Transaction discarded because of previous errors.";
        return Err(Reply::Error(ErrorReply::new(text)));
    }
    if touched { Err(Reply::NilArray) } else { Ok(queue.commands) }
}

fn discard(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if server.session(request).queue.is_none() {
        return Err(ErrorReply::new("ERR DISCARD without MULTI"));
    }
    server.discard(request.session);
    Ok(Reply::Ok)
}

fn watch(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if server.session(request).queue.is_some() {
        return Err(ErrorReply::new("ERR WATCH inside MULTI is not allowed"));
    }
    // A transaction that is already lost cannot be lost again.
    if server.session(request).dirty {
        return Ok(Reply::Ok);
    }
    let db = server.db_number(request);
    for key in &request.args[1..] {
        let known = |watched: &WatchedKey| watched.db == db && &watched.key[..] == *key;
        if server.session(request).watched.iter().any(known) {
            continue;
        }
        let stale = server.has_expired(request, db, key);
        server.session(request).watched.push(WatchedKey { db, key: blob(key), stale });
        server.watchers.push((db, blob(key), request.session));
    }
    Ok(Reply::Ok)
}

fn unwatch(server: &mut Server, request: &Request<'_>) -> CommandResult {
    server.unwatch(request.session);
    Ok(Reply::Ok)
}

impl Server {
    /// Forgets a session's transaction and what it watches.
    pub(crate) fn discard(&mut self, session: u32) {
        self.sessions[session as usize].queue = None;
        self.unwatch(session);
    }

    /// Forgets what a session watches.
    pub(crate) fn unwatch(&mut self, session: u32) {
        let state = &mut self.sessions[session as usize];
        state.dirty = false;
        if !state.watched.is_empty() {
            state.watched.clear();
            self.watchers.retain(|(.., watcher)| *watcher != session);
        }
    }

    /// Whether a watched key has expired since, even if nobody has noticed yet.
    fn watched_has_expired(&mut self, request: &Request<'_>) -> bool {
        let watched = &self.sessions[request.session as usize].watched;
        let fresh = watched.iter().filter(|watched| !watched.stale);
        fresh.into_iter().any(|watched| self.has_expired(request, watched.db, &watched.key))
    }

    /// Whether a key is there but its time has passed.
    fn has_expired(&self, request: &Request<'_>, db: u16, key: &[u8]) -> bool {
        let db = &self.dbs[usize::from(db)];
        let when = db.find(key).and_then(|slot| db.at(slot).expires_at_ms);
        when.is_some_and(|when| request.now_ms() > when)
    }
}
