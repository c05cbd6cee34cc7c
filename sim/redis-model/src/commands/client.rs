//! CLIENT ID, GETNAME, SETNAME, INFO, LIST, NO-EVICT, REPLY; KILL and UNBLOCK are in `client_kill`.
//!
//! Invariant: only what the model knows is shown: buffers, memory and descriptors read as those of an idle
//! connection. Not modelled: PAUSE, TRACKING; and SETINFO, which redis-server 7.0 does not have either: it
//! answers "unknown subcommand", and clients go on.

use resp::{Blob, ErrorReply, ProtocolVersion, Reply, blob, decimal, is_word};

use super::client_kill::{ClientClass, LOCAL, kill, unblock};
use crate::server::session::Replies;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const FLAGS: u32 = flag::NOSCRIPT | flag::LOADING | flag::STALE;

pub(crate) const SPECS: &[CommandSpec] = &[CommandSpec::container("client", SUBCOMMANDS)];

const SUBCOMMANDS: &[CommandSpec] = &[
    group::CONNECTION.command("id", 2, FLAGS, id),
    group::CONNECTION.command("getname", 2, FLAGS, getname),
    group::CONNECTION.command("setname", 3, FLAGS, setname),
    group::CONNECTION.command("info", 2, FLAGS, info),
    group::CONNECTION_DANGEROUS.command("list", -2, FLAGS | flag::ADMIN, list),
    group::CONNECTION_DANGEROUS.command("kill", -3, FLAGS | flag::ADMIN, kill),
    group::CONNECTION_DANGEROUS.command("unblock", -3, FLAGS | flag::ADMIN, unblock),
    group::CONNECTION.command("reply", 3, FLAGS, reply),
    group::CONNECTION_DANGEROUS.command("no-evict", 3, FLAGS | flag::ADMIN, no_evict),
];

fn id(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Int(i64::try_from(server.session(request).id).unwrap_or(i64::MAX)))
}

fn getname(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let name = &server.session(request).name;
    Ok(if name.is_empty() { Reply::Nil } else { Reply::Bulk(name.clone()) })
}

fn setname(server: &mut Server, request: &Request<'_>) -> CommandResult {
    check_name(request.args[2])?;
    server.session(request).name = blob(request.args[2]);
    Ok(Reply::Ok)
}

/// A name that could break the lines of CLIENT LIST is refused.
pub(super) fn check_name(name: &[u8]) -> Result<(), ErrorReply> {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(()),
        false => Err(ErrorReply::new(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        )),
    }
}

fn info(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let line = describe(server, request, request.session as usize);
    Ok(Reply::Verbatim(Blob::from_vec(line.into_bytes())))
}

fn list(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let places: Vec<usize> = match &request.args[2..] {
        [] => server.clients(|_| true),
        [word, name] if is_word(word, "TYPE") => {
            let class = ClientClass::named(name)?;
            server.clients(|session| ClientClass::of(session) == class)
        }
        [word, ids @ ..] if is_word(word, "ID") && !ids.is_empty() => {
            let ids =
                ids.iter().map(|id| decimal(id).ok_or(ErrorReply::new("ERR Invalid client ID")));
            let ids: Vec<i64> = ids.collect::<Result<_, _>>()?;
            let with = |id: i64| server.clients(|session| u64::try_from(id) == Ok(session.id));
            ids.into_iter().flat_map(with).collect()
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    let one = |place: usize| describe(server, request, place);
    Ok(Reply::Verbatim(Blob::from_vec(places.into_iter().map(one).collect::<String>().into())))
}

fn describe(server: &Server, request: &Request<'_>, place: usize) -> String {
    let (session, now_s) = (&server.sessions[place], request.now_us / 1_000_000);
    let executing = server.in_exec.filter(|_| place == request.session as usize);
    let queued = session.queue.as_ref().map(|queue| queue.commands.len()).or(executing);
    let multi = queued.map_or(-1, |commands| i64::try_from(commands).unwrap_or(i64::MAX));
    let last = session.last_command.map_or("NULL", |place| &server.table.line(place).full_name);
    let mut flags = String::new();
    let (channels, patterns) = (session.channels.len(), session.patterns.len());
    for (set, letter) in [
        (session.monitors, 'O'),
        (session.is_subscribed(), 'P'),
        (queued.is_some(), 'x'),
        (session.blocked.is_some(), 'b'),
        (session.dirty, 'd'),
        (session.no_evict, 'e'),
    ] {
        flags.extend(set.then_some(letter));
    }
    if flags.is_empty() {
        flags.push('N');
    }
    format!(
        "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={flags} db={} sub={channels} \
         psub={patterns} ssub={} multi={multi} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 \
         oll=0 omem=0 tot-mem=0 events=r cmd={last} user=default redir=-1 resp={}\n",
        session.id,
        String::from_utf8_lossy(&session.address),
        String::from_utf8_lossy(LOCAL),
        String::from_utf8_lossy(&session.name),
        now_s - session.connected_ms / 1000,
        now_s - session.active_ms / 1000,
        session.db,
        session.shard_channels.len(),
        if session.protocol == ProtocolVersion::Resp3 { 3 } else { 2 },
    )
}

fn no_evict(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let arg = request.args[2];
    server.session(request).no_evict = match is_word(arg, "ON") {
        false if !is_word(arg, "OFF") => return Err(ErrorReply::SYNTAX),
        is_on => is_on,
    };
    Ok(Reply::Ok)
}

fn reply(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let session = server.session(request);
    session.replies = match request.args[2] {
        word if is_word(word, "ON") => Replies::On,
        word if is_word(word, "OFF") => Replies::Off,
        word if !is_word(word, "SKIP") => return Err(ErrorReply::SYNTAX),
        _ if session.replies == Replies::Off => Replies::Off,
        _ => Replies::SkipNext,
    };
    Ok(Reply::Ok)
}
