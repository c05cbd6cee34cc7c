//! A key under another name or in another database: RENAME, RENAMENX, COPY, MOVE.
//!
//! Invariant: the value goes with its expiry, and under the new name a new life of a key begins unless
//! one was there.

use resp::{ErrorReply, Reply, is_word};

use super::keys::database;
use crate::keyspace::KeyEntry;
use crate::server::notify::event;
use crate::server::{CommandResult, CommandSpec, Expiry, Request, Server, flag, group};
use crate::value::StoredValue;

const WRITE: u32 = flag::WRITE;
const QUICK: u32 = WRITE | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::KEYSPACE.command("rename", 3, WRITE, |s, r| rename(s, r, false)).keys(1, 2, 1),
    group::KEYSPACE.command("renamenx", 3, QUICK, |s, r| rename(s, r, true)).keys(1, 2, 1),
    group::KEYSPACE.command("copy", -3, WRITE | flag::DENYOOM, copy).keys(1, 2, 1),
    group::KEYSPACE.keyed("move", 3, QUICK, move_),
];

const SAME: ErrorReply = ErrorReply::new("ERR source and destination objects are the same");

fn rename(server: &mut Server, request: &Request<'_>, only_if_free: bool) -> CommandResult {
    let (from, to) = (request.args[1], request.args[2]);
    let source = server.find(request, from).ok_or(ErrorReply::new("ERR no such key"))?;
    let done = if only_if_free { Reply::Int(1) } else { Reply::Ok };
    if from == to {
        return Ok(if only_if_free { Reply::Int(0) } else { done });
    }
    let target = server.find(request, to);
    if only_if_free && target.is_some() {
        return Ok(Reply::Int(0));
    }
    let number = server.db_number(request);
    let KeyEntry { value, expires_at_ms, .. } = server.remove_silently(number, source);
    place(server, request, to, value, expires_at_ms, Some((number, from, "rename_from")));
    Ok(done)
}

/// Puts a value with its expiry at a key, and wakes the clients that wait for it. `left` is where the value was, with
/// the event for that key.
fn place(
    server: &mut Server,
    request: &Request<'_>,
    key: &[u8],
    value: StoredValue,
    expires_at_ms: Option<i64>,
    left: Option<(u16, &[u8], &'static str)>,
) {
    if matches!(value, StoredValue::List(_) | StoredValue::Scored(_)) {
        server.blocking.created(server.db_number(request), key);
    }
    let expiry = expires_at_ms.map_or(Expiry::Never, Expiry::At);
    let slot = server.find(request, key);
    let slot = server.write_at(request, slot, key, value, expiry);
    // A key that was there has been deleted first, so that this one is new all the same.
    server.notify(server.db_number(request), key, event::NEW, "new");
    if let Some((number, key, name)) = left {
        server.notify(number, key, event::GENERIC, name);
    }
    server.changed(request, slot);
}

fn copy(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (from, to) = (request.args[1], request.args[2]);
    let here = server.db_number(request);
    let (mut there, mut replace) = (here, false);
    let mut args = request.args[3..].iter();
    while let Some(word) = args.next() {
        match word {
            word if is_word(word, "REPLACE") => replace = true,
            word if is_word(word, "DB") => {
                there = database(server, args.next().ok_or(ErrorReply::SYNTAX)?)?;
            }
            _ => return Err(ErrorReply::SYNTAX),
        }
    }
    if here == there && from == to {
        return Err(SAME);
    }
    let Some(entry) = server.read(request, from) else { return Ok(Reply::Int(0)) };
    let (value, expires_at_ms) = (entry.value.clone(), entry.expires_at_ms);
    Ok(server.in_database(request, there, |server| {
        let free = server.find(request, to).is_none();
        if free || replace {
            place(server, request, to, value, expires_at_ms, None);
        }
        Reply::Int(i64::from(free || replace))
    }))
}

fn move_(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let key = request.args[1];
    let (here, there) = (server.db_number(request), database(server, request.args[2])?);
    if here == there {
        return Err(SAME);
    }
    let Some(source) = server.find(request, key) else { return Ok(Reply::Int(0)) };
    if server.in_database(request, there, |server| server.find(request, key).is_some()) {
        return Ok(Reply::Int(0));
    }
    let KeyEntry { value, expires_at_ms, .. } = server.remove_silently(here, source);
    server.in_database(request, there, |server| {
        place(server, request, key, value, expires_at_ms, Some((here, key, "move_from")));
    });
    Ok(Reply::Int(1))
}

impl Server {
    /// Does something as if the session had selected this database.
    fn in_database<T>(
        &mut self,
        request: &Request<'_>,
        number: u16,
        act: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = std::mem::replace(&mut self.session(request).db, number);
        let outcome = act(self);
        self.session(request).db = before;
        outcome
    }
}
