//! Scripts that run without Lua: each is a function here, written for exactly one text.
//!
//! Invariant: a function runs only for the text whose SHA-1 is written beside it. Any other text runs in Lua, also a
//! changed one. Reply, statistics and what is propagated are the same as with the Lua text. For an unusual request (a
//! key of another type, an argument that is no number, a replica, a full server) the text itself is run.
//!
//! To add a text, add a line to `scripts` of its file, and the test that compares native with Lua takes it along. To
//! change a text, change its functions too, and only then its SHA-1.

mod calls;
mod queue;
mod single;

use std::sync::LazyLock;

use calls::ScriptCalls;
use resp::Reply;

use crate::server::{Request, Server};

/// A digest as EVALSHA names it.
pub(crate) type ScriptDigest = [u8; 40];

/// The SHA-1 of a script in lower-case hexadecimal.
pub(crate) fn digest(body: &[u8]) -> ScriptDigest {
    let text = sha1_smol::Sha1::from(body).digest().to_string();
    text.as_bytes().try_into().expect("a SHA-1 has 40 digits")
}

/// Whether the function can handle these keys and arguments. It changes nothing.
type Precondition = fn(&ScriptCalls<'_>) -> bool;

/// What the text does with these keys and arguments.
type NativeFn = fn(&mut ScriptCalls<'_>) -> Reply;

struct NativeScript {
    text: &'static str,
    digest: ScriptDigest,
    fits: Precondition,
    act: NativeFn,
}

/// A text, after the SHA-1 of the text that its functions were written for.
type NativeRow = (&'static str, &'static str, Precondition, NativeFn);

fn native_scripts() -> impl Iterator<Item = NativeRow> {
    single::scripts().into_iter().chain(queue::scripts())
}

/// The function, if the text is the one it was written for.
fn bound((sha1, text, fits, act): NativeRow) -> Option<NativeScript> {
    let digest = digest(text.as_bytes());
    (digest == *sha1.as_bytes()).then_some(NativeScript { text, digest, fits, act })
}

static TEXTS: LazyLock<Vec<NativeScript>> =
    LazyLock::new(|| native_scripts().filter_map(bound).collect());

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
    if server.options.lua_only || server.refusing().is_some() {
        return None;
    }
    if by_digest {
        server.scripts.get(&known.digest)?;
    }
    let mut calls = ScriptCalls::new(server, request, keys, args);
    if !(known.fits)(&calls) {
        return None;
    }
    if !by_digest {
        calls.learn(known.digest);
    }
    Some((known.act)(&mut calls))
}

#[cfg(test)]
mod tests;
