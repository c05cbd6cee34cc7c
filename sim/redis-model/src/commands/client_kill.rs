//! CLIENT KILL and UNBLOCK: what one client does to others.
//!
//! Invariant: a client that is killed does nothing and receives nothing from that moment. An empty message
//! wakes its connection, which then finds that it must close. A client that kills itself is answered first.

use resp::{ErrorReply, Reply, decimal, is_word};

use crate::server::session::Session;
use crate::server::{CommandResult, FIRST_CLIENT, Request, Server};

/// The address that the server shows as its own.
pub(super) const LOCAL: &[u8] = b"127.0.0.1:0";

/// The classes of clients of which the model has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientClass {
    Normal,
    Pubsub,
    /// Replicas and primaries are no sessions here.
    Other,
}

impl ClientClass {
    pub(super) fn of(session: &Session) -> Self {
        if session.is_subscribed() { Self::Pubsub } else { Self::Normal }
    }

    pub(super) fn named(name: &[u8]) -> Result<Self, ErrorReply> {
        match name {
            name if is_word(name, "normal") => Ok(Self::Normal),
            name if is_word(name, "pubsub") => Ok(Self::Pubsub),
            name if ["slave", "replica", "master"].iter().any(|word| is_word(name, word)) => {
                Ok(Self::Other)
            }
            name => {
                let name = resp::until_nul(name);
                Err(ErrorReply::of([b"ERR Unknown client type '", name, b"'"].concat()))
            }
        }
    }
}

/// Which clients are to be killed.
struct Filter<'a> {
    address: Option<&'a [u8]>,
    class: Option<ClientClass>,
    id: Option<u64>,
    /// No client matches: for instance, another address of the server was asked for.
    nobody: bool,
    spares_caller: bool,
}

impl<'a> Filter<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Self, ErrorReply> {
        let (address, class, id) = Default::default();
        let mut filter = Self { address, class, id, nobody: false, spares_caller: true };
        if let [address] = args {
            return Ok(Self { address: Some(address), spares_caller: false, ..filter });
        }
        let mut rest = args;
        while let [word, value, after @ ..] = rest {
            match word {
                word if is_word(word, "ID") => {
                    let id = decimal(value).and_then(|id| u64::try_from(id).ok());
                    let id = id.filter(|&id| id > 0);
                    let why = ErrorReply::new("ERR client-id should be greater than 0");
                    filter.id = Some(id.ok_or(why)?);
                }
                word if is_word(word, "TYPE") => filter.class = Some(ClientClass::named(value)?),
                word if is_word(word, "ADDR") => filter.address = Some(value),
                word if is_word(word, "LADDR") => filter.nobody |= *value != LOCAL,
                word if is_word(word, "USER") && *value == b"default" => {}
                word if is_word(word, "USER") => {
                    let name = resp::until_nul(value);
                    return Err(ErrorReply::of([b"ERR No such user '", name, b"'"].concat()));
                }
                word if is_word(word, "SKIPME") && is_word(value, "yes") => {
                    filter.spares_caller = true;
                }
                word if is_word(word, "SKIPME") && is_word(value, "no") => {
                    filter.spares_caller = false;
                }
                _ => return Err(ErrorReply::SYNTAX),
            }
            rest = after;
        }
        if rest.is_empty() { Ok(filter) } else { Err(ErrorReply::SYNTAX) }
    }

    fn takes(&self, session: &Session) -> bool {
        !self.nobody
            && self.address.is_none_or(|address| session.address[..] == *address)
            && self.class.is_none_or(|class| ClientClass::of(session) == class)
            && self.id.is_none_or(|id| session.id == id)
    }
}

pub(super) fn kill(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let filter = Filter::parse(&request.args[2..])?;
    let mut killed = server.clients(|session| filter.takes(session));
    let caller = request.session as usize;
    killed.retain(|&place| place != caller || !filter.spares_caller);
    for &place in &killed {
        server.sessions[place].closing = true;
        if place != caller {
            let session = u32::try_from(place).expect("fewer than 2^32 connections");
            server.unblock(session);
            server.discard(session);
            server.unsubscribe_all(session);
            server.remove_monitor(session);
            server.outbox.retain(|(other, _)| *other != session);
            server.outbox.push((session, Reply::NOTHING));
        }
    }
    match request.args.len() {
        3 if killed.is_empty() => Err(ErrorReply::new("ERR No such client")),
        3 => Ok(Reply::Ok),
        _ => Ok(Reply::count(killed.len())),
    }
}

pub(super) fn unblock(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let fails = match request.args[3..] {
        [] => false,
        [word] if is_word(word, "TIMEOUT") => false,
        [word] if is_word(word, "ERROR") => true,
        [_] => {
            return Err(ErrorReply::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    let id = decimal(request.args[2]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let found = server.clients(|session| u64::try_from(id) == Ok(session.id));
    let session = found.first().and_then(|&place| u32::try_from(place).ok());
    let Some((session, blocked)) = session.and_then(|it| Some((it, server.unblock(it)?))) else {
        return Ok(Reply::Int(0));
    };
    match fails {
        false => server.time_out(session, &blocked),
        true => {
            let fail = ErrorReply::new("UNBLOCKED client unblocked via CLIENT UNBLOCK");
            server.reply_to_blocked(session, &blocked, Reply::Error(fail));
        }
    }
    Ok(Reply::Int(1))
}

impl Server {
    /// The places of the clients that are wanted, the oldest first.
    pub(super) fn clients(&self, wanted: impl Fn(&Session) -> bool) -> Vec<usize> {
        let open = |place: &usize| self.sessions[*place].open && !self.sessions[*place].closing;
        let all = (FIRST_CLIENT..self.sessions.len()).filter(open);
        let mut found: Vec<usize> = all.filter(|&place| wanted(&self.sessions[place])).collect();
        found.sort_unstable_by_key(|&place| self.sessions[place].id);
        found
    }
}
