//! Scripts that are known by their text and run without Lua.
//!
//! Invariant: reply, effects, statistics and what is propagated are those of the Lua text; where a
//! request is out of the ordinary (a key of another type, an argument that is no number, a fault) the
//! text itself is run. Deliberately absent: an interpreter. Each text is one function here, and what is
//! out of the ordinary for it another.
//!
//! To add a text, add a line to `TEXTS`, and the test that compares native with Lua takes it along.

mod calls;
mod queue;
mod single;

use std::sync::LazyLock;

use picklock::{fence, queue_scripts, scripts};

use crate::redis::reply::Reply;
use crate::redis::script::engine::{Digest, digest};
use crate::redis::server::{Request, Server};
use calls::Calls;

/// Whether the keys and arguments are such as the function is made for. It changes nothing.
type Fits = fn(&Calls<'_>, &[&[u8]], &[&[u8]]) -> bool;

/// What the text does with these keys and arguments.
type Act = fn(&mut Calls<'_>, &[&[u8]], &[&[u8]]) -> Reply;

struct Known {
    text: &'static str,
    digest: Digest,
    fits: Fits,
    act: Act,
}

/// The compare-and-delete of the documentation of SET.
const AS_DOCUMENTED: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1]\nthen\n    \
    return redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend\n";

static TEXTS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let known = |text: &'static str, fits: Fits, act: Act| {
        let digest = digest(text.as_bytes());
        Known { text, digest, fits, act }
    };
    vec![
        known(scripts::COMPARE_AND_DELETE.text(), single::fits_compared, single::delete),
        known(scripts::COMPARE_AND_EXTEND.text(), single::fits_extend, single::extend),
        known(
            scripts::DELETE_AND_TELL.text(),
            single::fits_delete_and_tell,
            single::delete_and_tell,
        ),
        known(scripts::TRY.text(), single::fits_try, single::try_once),
        known(scripts::TRY_FENCED.text(), single::fits_try_fenced, single::try_fenced),
        known(fence::WRITE_FENCED.text(), single::fits_write_fenced, single::write_fenced),
        known(AS_DOCUMENTED, single::fits_compared, single::delete_as_documented),
        known(queue_scripts::TAKE.text(), queue::fits_take, queue::take),
        known(queue_scripts::JOIN.text(), queue::fits_ask, queue::join),
        known(queue_scripts::LOOK.text(), queue::fits_ask, queue::look),
        known(queue_scripts::LEAVE.text(), queue::fits_leave, queue::leave),
    ]
});

/// The digest of a known text.
pub(crate) fn digest_of(text: &[u8]) -> Option<Digest> {
    TEXTS.iter().find(|known| known.text.as_bytes() == text).map(|known| known.digest)
}

/// The text of a known digest.
pub(crate) fn text_of(digest: &Digest) -> Option<&'static str> {
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
    if !server.options.native_scripts || server.fault.is_some() || server.following.is_some() {
        return None;
    }
    if by_digest {
        server.scripts.get(&known.digest)?;
    }
    let mut calls = Calls::new(server, request);
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
