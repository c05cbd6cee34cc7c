//! Scripts that are known by their text and run without Lua.
//!
//! Invariant: reply, effects, statistics and what is propagated are those of the Lua text; where a
//! request is out of the ordinary (a key of another type, an argument that is no number, a fault) the
//! text itself is run. Deliberately absent: scripts of any other shape than compare-and-act on one key.
//!
//! To add a text, add a line to `texts`, and the test that compares native with Lua takes it along.

use std::sync::LazyLock;

use crate::redis::commands::table::{Found, Handler, Run, TABLE};
use crate::redis::reply::Reply;
use crate::redis::script::engine::{Digest, digest};
use crate::redis::server::{Request, Server};
use crate::redis::stats::ErrorCount;
use crate::redis::text::decimal;
use crate::redis::value::Value;

/// What is done with a key that holds the first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The command with the key.
    OnKey(&'static str),
    /// The command with the key and the second argument, which is a number of this many milliseconds.
    WithSpan(&'static str, i64),
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answers {
    /// Where there is no such key.
    missing: i64,
    /// Where it holds something else.
    other: i64,
}

/// `(text, act, answers)`; of each, the answer where the act is done is 1.
fn texts() -> Vec<(&'static str, Act, Answers)> {
    let three = Answers { missing: 0, other: -1 };
    let two = Answers { missing: 0, other: 0 };
    vec![
        (picklock::scripts::COMPARE_AND_DELETE.text(), Act::OnKey("DEL"), three),
        (picklock::scripts::COMPARE_AND_EXTEND.text(), Act::WithSpan("PEXPIRE", 1), three),
        // As the documentation of SET has it.
        (
            "if redis.call(\"get\",KEYS[1]) == ARGV[1]\nthen\n    return redis.call(\"del\",KEYS[1])\n\
             else\n    return 0\nend\n",
            Act::OnKey("del"),
            two,
        ),
    ]
}

struct Known {
    text: &'static str,
    digest: Digest,
    act: Act,
    answers: Answers,
    verb: &'static str,
    command: u16,
    handler: Handler,
}

struct All {
    known: Vec<Known>,
    get: u16,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let place = |verb: &str| match TABLE.find(&[verb.as_bytes()]) {
        Found::Command(place) => place,
        Found::Unknown | Found::UnknownSubcommand => unreachable!("{verb} is in the table"),
    };
    let known = texts().into_iter().map(|(text, act, answers)| {
        let (Act::OnKey(verb) | Act::WithSpan(verb, _)) = act;
        let command = place(verb);
        let Run::Plain(handler) = TABLE.spec(command).run else {
            unreachable!("{verb} runs on the state alone")
        };
        let digest = digest(text.as_bytes());
        Known { text, digest, act, answers, verb, command, handler }
    });
    All { known: known.collect(), get: place("GET") }
});

/// The digest of a known text.
pub(crate) fn digest_of(text: &[u8]) -> Option<Digest> {
    ALL.known.iter().find(|known| known.text.as_bytes() == text).map(|known| known.digest)
}

/// The text of a known digest.
pub(crate) fn text_of(digest: &Digest) -> Option<&'static str> {
    ALL.known.iter().find(|known| known.digest == *digest).map(|known| known.text)
}

/// Carries out an EVAL or EVALSHA of a known script; none: Lua must.
pub(crate) fn run(
    server: &mut Server,
    request: &Request<'_>,
    by_digest: bool,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> Option<Reply> {
    let body = request.args[1];
    let known = ALL.known.iter().find(|known| match by_digest {
        true => known.digest == *body,
        false => known.text.as_bytes() == body,
    })?;
    let (&key, &token) = (keys.first()?, args.first()?);
    if !server.options.native_scripts || server.fault.is_some() || server.following.is_some() {
        return None;
    }
    if let Act::WithSpan(_, unit_ms) = known.act {
        let span_ms = decimal(args.get(1)?)?.checked_mul(unit_ms)?;
        span_ms.checked_add(request.now_ms())?;
    }
    if by_digest {
        server.scripts.get(&known.digest)?;
    }
    let db = server.db(request);
    if let Some(slot) = db.find(key)
        && !matches!(db.at(slot).value, Value::Str(_))
    {
        return None;
    }
    if !by_digest {
        server.scripts.insert(known.digest);
    }
    let holds = match server.read(request, key) {
        None => Err(known.answers.missing),
        Some(entry) => match &entry.value {
            Value::Str(value) if value[..] == *token => Ok(()),
            _ => Err(known.answers.other),
        },
    };
    server.stats.called(ALL.get, ErrorCount::default());
    if let Err(answer) = holds {
        return Some(Reply::Int(answer));
    }
    match known.act {
        Act::OnKey(_) => {
            let inner = Request { args: &[known.verb.as_bytes(), key], ..*request };
            server.run_handler(known.command, known.handler, &inner);
        }
        Act::WithSpan(..) => {
            let inner = Request { args: &[known.verb.as_bytes(), key, args[1]], ..*request };
            server.run_handler(known.command, known.handler, &inner);
        }
    }
    Some(Reply::Int(1))
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
