//! Scripts that run without Lua: each is a function here, written for exactly one text.
//!
//! Invariant: a function runs only for the text whose SHA-1 is written beside it; any other text, a changed one
//! too, runs in Lua. Reply, statistics and what is propagated are those of the Lua text; where a request is
//! out of the ordinary (a key of another type, an argument that is no number, a replica) the text itself is
//! run. There is no interpreter: each text is a function here.
//!
//! To add a text, add a line to `twins`, and the test that compares native with Lua takes it along. To
//! change a text, change its functions too, and only then its SHA-1.

mod calls;
mod queue;
mod single;

use std::sync::LazyLock;

use calls::ScriptCalls;
use picklock::{fence, queue_scripts, scripts};
use resp::Reply;

use crate::script::digest::{ScriptDigest, digest};
use crate::server::{Request, Server};

/// Whether the keys and arguments are such as the function is made for. It changes nothing.
type Precondition = fn(&ScriptCalls<'_>, &[&[u8]], &[&[u8]]) -> bool;

/// What the text does with these keys and arguments.
type NativeFn = fn(&mut ScriptCalls<'_>, &[&[u8]], &[&[u8]]) -> Reply;

struct NativeScript {
    text: &'static str,
    digest: ScriptDigest,
    fits: Precondition,
    act: NativeFn,
}

/// The compare-and-delete of the documentation of SET.
const AS_DOCUMENTED: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1]\nthen\n    \
    return redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend\n";

/// Each text with the SHA-1 of the text that its functions were written for.
fn native_scripts() -> [(&'static str, &'static str, Precondition, NativeFn); 11] {
    [
        (
            "230a6695bbbb812377e64cd05e384647ef03c2b3",
            scripts::COMPARE_AND_DELETE.text(),
            single::fits_compared,
            single::delete,
        ),
        (
            "2767343070476db0d864adba2e638330d8371ddd",
            scripts::COMPARE_AND_EXTEND.text(),
            single::fits_extend,
            single::extend,
        ),
        (
            "d4575536cbfd0a054406e09ca767b76fb48b7738",
            scripts::DELETE_AND_TELL.text(),
            single::fits_delete_and_tell,
            single::delete_and_tell,
        ),
        (
            "626358b92b181fa1aef9717bda14b722e41503c5",
            scripts::TRY.text(),
            single::fits_try,
            single::try_once,
        ),
        (
            "daa60f14965c4ffea84726194704c6de85a93d98",
            scripts::TRY_FENCED.text(),
            single::fits_try_fenced,
            single::try_fenced,
        ),
        (
            "f7cd68ba2f14ac2612bb157a8d36fef01b8c9c2c",
            fence::WRITE_FENCED.text(),
            single::fits_write_fenced,
            single::write_fenced,
        ),
        (
            "0df94f0c181d164030a056e556fe2176c70f0013",
            AS_DOCUMENTED,
            single::fits_compared,
            single::delete_as_documented,
        ),
        (
            "4c2d9789ce475f6eeb7749e59c71c22b57164a27",
            queue_scripts::TAKE.text(),
            queue::fits_take,
            queue::take,
        ),
        (
            "b82e54e8fc59cef51785b7270b10f061871cc9ed",
            queue_scripts::JOIN.text(),
            queue::fits_ask,
            queue::join,
        ),
        (
            "545f18e3009874aa7cc0cdca6d5c2ba0cf3ef755",
            queue_scripts::LOOK.text(),
            queue::fits_ask,
            queue::look,
        ),
        (
            "bd8619b1c2a6ed99132337e76b46cc88ac20faab",
            queue_scripts::LEAVE.text(),
            queue::fits_leave,
            queue::leave,
        ),
    ]
}

/// The function, if the text is the one it was written for.
fn bound(
    (sha1, text, fits, act): (&str, &'static str, Precondition, NativeFn),
) -> Option<NativeScript> {
    let digest = digest(text.as_bytes());
    (digest == *sha1.as_bytes()).then_some(NativeScript { text, digest, fits, act })
}

static TEXTS: LazyLock<Vec<NativeScript>> =
    LazyLock::new(|| native_scripts().into_iter().filter_map(bound).collect());

/// The digest of a known text.
pub(crate) fn digest_of(text: &[u8]) -> Option<ScriptDigest> {
    TEXTS.iter().find(|known| known.text.as_bytes() == text).map(|known| known.digest)
}

/// The text of a known digest.
pub(crate) fn text_of(digest: &ScriptDigest) -> Option<&'static str> {
    TEXTS.iter().find(|known| known.digest == *digest).map(|known| known.text)
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
    let known = TEXTS.iter().find(|known| match by_digest {
        true => known.digest == *body,
        false => known.text.as_bytes() == body,
    })?;
    if !server.options.native_scripts || server.following.is_some() {
        return None;
    }
    if by_digest {
        server.scripts.get(&known.digest)?;
    }
    let mut calls = ScriptCalls::new(server, request);
    if !(known.fits)(&calls, keys, args) {
        return None;
    }
    if !by_digest {
        calls.learn(known.digest);
    }
    Some((known.act)(&mut calls, keys, args))
}

#[cfg(test)]
mod tests;
