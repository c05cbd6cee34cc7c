//! The connection itself: PING, ECHO, AUTH, HELLO, RESET, QUIT.
//!
//! Invariant: there is one user, `default`; its password is `requirepass`. Not modelled: ACL.

use resp::{ErrorReply, ProtocolVersion, Reply, blob, decimal, is_word};

use super::client::check_name;
use crate::server::session::Replies;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const OPEN: u32 =
    flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::NO_AUTH | flag::ALLOW_BUSY;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::CONNECTION.command("ping", -1, flag::FAST, ping),
    group::CONNECTION.command("echo", 2, flag::LOADING | flag::STALE | flag::FAST, echo),
    group::CONNECTION.command("auth", -2, OPEN, auth),
    group::CONNECTION.command("hello", -1, OPEN, hello),
    group::CONNECTION.command("reset", 1, OPEN, reset),
    group::CONNECTION.command("quit", -1, OPEN, quit),
];

fn ping(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let session = server.session(request);
    let subscribed = session.is_subscribed() && session.protocol == ProtocolVersion::Resp2;
    match request.args {
        [_] if subscribed => Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::bulk("")])),
        [_, text] if subscribed => Ok(Reply::Array(vec![Reply::bulk("pong"), Reply::bulk(text)])),
        [_] => Ok(Reply::status("PONG")),
        [_, text] => Ok(Reply::bulk(text)),
        _ => Err(ErrorReply::arity("ping")),
    }
}

fn echo(_server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::bulk(request.args[1]))
}

fn auth(server: &mut Server, request: &Request<'_>) -> CommandResult {
    match request.args {
        [_, _] if server.parameters.password().is_none() => Err(ErrorReply::new(
            "ERR AUTH <password> called without any password configured for the default user. Are \
             you sure your configuration is correct?",
        )),
        [_, password] => authenticate(server, request, b"default", password),
        [_, user, password] => authenticate(server, request, user, password),
        _ => Err(ErrorReply::SYNTAX),
    }
}

fn authenticate(
    server: &mut Server,
    request: &Request<'_>,
    user: &[u8],
    password: &[u8],
) -> CommandResult {
    let known = server.parameters.password().is_none_or(|known| known == password);
    if user != b"default" || !known {
        return Err(ErrorReply::new(
            "WRONGPASS invalid username-password pair or user is disabled.",
        ));
    }
    server.session(request).authenticated = true;
    Ok(Reply::Ok)
}

fn hello(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let mut args = request.args[1..].iter();
    let protocol = args.next().map(|version| protocol(version)).transpose()?;
    let mut name = None;
    while let Some(option) = args.next() {
        let left = args.as_slice();
        if is_word(option, "AUTH") && left.len() >= 2 {
            // At once, whatever follows.
            authenticate(server, request, left[0], left[1])?;
            args = left[2..].iter();
        } else if is_word(option, "SETNAME") && !left.is_empty() {
            check_name(left[0])?;
            name = Some(left[0]);
            args = left[1..].iter();
        } else {
            let option = resp::until_nul(option);
            return Err(ErrorReply::of(
                [b"ERR Syntax error in HELLO option '", option, b"'"].concat(),
            ));
        }
    }
    if !server.is_permitted(request.session) {
        return Err(ErrorReply::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO AUTH <user> <pass> option can be used to authenticate the client and select the \
             RESP protocol version at the same time",
        ));
    }
    let replica = server.is_replica();
    let session = server.session(request);
    if let Some(name) = name {
        session.name = blob(name);
    }
    session.protocol = protocol.unwrap_or(session.protocol);
    let id = i64::try_from(session.id).unwrap_or(i64::MAX);
    let version = if session.protocol == ProtocolVersion::Resp3 { 3 } else { 2 };
    Ok(Reply::map([
        ("server", Reply::bulk("redis")),
        ("version", Reply::bulk(crate::options::VERSION)),
        ("proto", Reply::Int(version)),
        ("id", Reply::Int(id)),
        ("mode", Reply::bulk("standalone")),
        ("role", Reply::bulk(if replica { "replica" } else { "master" })),
        ("modules", Reply::Array(Vec::new())),
    ]))
}

fn protocol(version: &[u8]) -> Result<ProtocolVersion, ErrorReply> {
    match decimal(version) {
        Some(2) => Ok(ProtocolVersion::Resp2),
        Some(3) => Ok(ProtocolVersion::Resp3),
        Some(_) => Err(ErrorReply::new("NOPROTO unsupported protocol version")),
        None => Err(ErrorReply::new("ERR Protocol version is not an integer or out of range")),
    }
}

fn reset(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let open = server.parameters.password().is_none();
    server.discard(request.session);
    server.unsubscribe_all(request.session);
    server.remove_monitor(request.session);
    let session = server.session(request);
    // What SKIP has asked for is for this reply.
    if session.replies == Replies::Off {
        session.replies = Replies::On;
    }
    session.db = 0;
    session.name.clear();
    session.protocol = ProtocolVersion::Resp2;
    session.authenticated = open;
    Ok(Reply::status("RESET"))
}

fn quit(server: &mut Server, request: &Request<'_>) -> CommandResult {
    server.session(request).closing = true;
    Ok(Reply::Ok)
}
