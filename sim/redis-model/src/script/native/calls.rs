//! What a known script does with the server: its commands, and a look beforehand.
//!
//! Invariant: a command goes through its handler, and is counted and propagated as if Lua had called it. A
//! check beforehand changes and counts nothing. There are no errors: the caller has checked first that there can
//! be none.

use std::sync::LazyLock;

use resp::{Blob, ProtocolVersion, Reply, blob, decimal, integer};

use crate::commands::table::TABLE;
use crate::script::native::ScriptDigest;
use crate::server::{Execution, Handler, Lookup, Request, SCRIPT_SESSION, Server};
use crate::value::StoredValue;

/// Numbers up to here are exact in Lua, and so are their sums.
pub(super) const EXACT: i64 = 1 << 50;

/// A command, found once.
#[derive(Clone, Copy)]
pub(super) struct Verb {
    name: &'static str,
    /// The subcommand, where it has any.
    sub: Option<&'static str>,
    command: u16,
    handler: Handler,
}

impl Verb {
    fn find(name: &'static str, sub: Option<&'static str>) -> Self {
        let words: Vec<&[u8]> =
            [Some(name), sub].iter().flatten().map(|it| it.as_bytes()).collect();
        let command = match TABLE.find(&words) {
            Lookup::Command(command) => command,
            Lookup::Unknown | Lookup::UnknownSubcommand => unreachable!("{name} is in the table"),
        };
        let Execution::Plain(handler) = TABLE.spec(command).run else {
            unreachable!("{name} runs on the state alone")
        };
        Self { name, sub, command, handler }
    }
}

macro_rules! verbs {
    ($($verb:ident),*) => {
        $(pub(super) static $verb: LazyLock<Verb> =
            LazyLock::new(|| Verb::find(stringify!($verb), None));)*
    };
}

/// As the documentation of SET spells it, and as the stream shows it.
pub(super) static DEL_AS_DOCUMENTED: LazyLock<Verb> = LazyLock::new(|| Verb::find("del", None));

/// How many listen to channels.
pub(super) static NUMSUB: LazyLock<Verb> = LazyLock::new(|| Verb::find("PUBSUB", Some("NUMSUB")));

verbs!(
    DEL, GET, HDEL, HGET, HSET, INCR, PEXPIRE, PTTL, PUBLISH, SET, TIME, ZADD, ZCARD, ZRANGE,
    ZRANK, ZREM, ZREVRANGE
);

/// A script's way to the server.
pub(super) struct ScriptCalls<'a> {
    server: &'a mut Server,
    now_us: i64,
    pub(super) keys: &'a [&'a [u8]],
    pub(super) args: &'a [&'a [u8]],
}

impl<'a> ScriptCalls<'a> {
    /// For a script that this request has asked for.
    pub(super) fn new(
        server: &'a mut Server,
        request: &Request<'_>,
        keys: &'a [&'a [u8]],
        args: &'a [&'a [u8]],
    ) -> Self {
        let db = server.db_number(request);
        let session = &mut server.sessions[SCRIPT_SESSION as usize];
        (session.db, session.protocol) = (db, ProtocolVersion::Resp2);
        Self { server, now_us: request.now_us, keys, args }
    }

    /// The script has come with its text: from now on its digest will do.
    pub(super) fn learn(&mut self, digest: ScriptDigest) {
        self.server.scripts.insert(digest);
    }

    /// The server's clock: it stands still while a script runs.
    pub(super) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// What a key holds and when it expires, in milliseconds since the epoch; it may be over already.
    pub(super) fn look(&self, key: &[u8]) -> Option<(&StoredValue, Option<i64>)> {
        let db = &self.server.dbs[usize::from(self.server.sessions[SCRIPT_SESSION as usize].db)];
        let entry = db.at(db.find(key)?);
        Some((&entry.value, entry.expires_at_ms))
    }

    /// One command.
    pub(super) fn call(&mut self, verb: &Verb, args: &[&[u8]]) -> Reply {
        let mut all: smallvec::SmallVec<[&[u8]; 8]> = smallvec::smallvec![verb.name.as_bytes()];
        all.extend(verb.sub.map(str::as_bytes));
        all.extend_from_slice(args);
        let request = Request { now_us: self.now_us, session: SCRIPT_SESSION, args: &all };
        self.server.run_handler(verb.command, verb.handler, &request)
    }

    /// One command that answers a number.
    pub(super) fn number(&mut self, verb: &Verb, args: &[&[u8]]) -> i64 {
        match self.call(verb, args) {
            Reply::Int(number) => number,
            other => unreachable!("{} answered {other:?}", verb.name),
        }
    }

    /// One command that answers a text, or nothing.
    pub(super) fn text(&mut self, verb: &Verb, args: &[&[u8]]) -> Option<Blob> {
        match self.call(verb, args) {
            Reply::Bulk(text) => Some(text),
            Reply::Nil => None,
            other => unreachable!("{} answered {other:?}", verb.name),
        }
    }

    /// One command that answers a list of texts: the first.
    pub(super) fn first(&mut self, verb: &Verb, args: &[&[u8]]) -> Option<Blob> {
        match self.call(verb, args) {
            Reply::Array(items) => match items.into_iter().next()? {
                Reply::Bulk(text) => Some(text),
                other => unreachable!("{} answered {other:?}", verb.name),
            },
            other => unreachable!("{} answered {other:?}", verb.name),
        }
    }
}

/// A number that stays exact in Lua, as the text that Redis takes for one.
pub(super) fn exact(text: &[u8]) -> Option<i64> {
    decimal(text).filter(|number| (-EXACT..=EXACT).contains(number))
}

/// A span that Redis takes for a TTL.
pub(super) fn span(text: &[u8]) -> Option<i64> {
    exact(text).filter(|span| *span > 0)
}

/// The number as an argument.
pub(super) fn arg(number: i64) -> Blob {
    integer(number)
}

/// The time in microseconds, as the scripts join it from what TIME answers.
pub(super) fn joined(now_us: i64) -> Blob {
    blob(format!("{}{:06}", now_us / 1_000_000, now_us % 1_000_000).as_bytes())
}
