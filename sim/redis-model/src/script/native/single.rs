//! The scripts of locks on one key, and of a value behind a fence.

use resp::Reply;

use super::calls::{
    DEL, DEL_AS_DOCUMENTED, GET, INCR, PEXPIRE, PTTL, PUBLISH, SET, ScriptCalls, exact, span,
};
use crate::value::StoredValue;

/// What is answered where a comparison fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mismatch {
    /// Where there is no such key.
    missing: i64,
    /// Where it holds something else.
    other: i64,
}

const THREE: Mismatch = Mismatch { missing: 0, other: -1 };
const TWO: Mismatch = Mismatch { missing: 0, other: 0 };

/// Whether a key can be read as a string.
fn is_string(calls: &ScriptCalls<'_>, key: &[u8]) -> bool {
    calls.look(key).is_none_or(|(value, _)| matches!(value, StoredValue::Str(_)))
}

/// Whether what is left of a key's time is exact in Lua.
fn has_exact_time(calls: &ScriptCalls<'_>, key: &[u8]) -> bool {
    let end = calls.look(key).and_then(|(_, end)| end);
    end.is_none_or(|end| end < super::calls::EXACT)
}

/// Whether a key holds a number that Lua has exactly, or nothing.
fn is_number(calls: &ScriptCalls<'_>, key: &[u8]) -> bool {
    match calls.look(key) {
        None => true,
        Some((StoredValue::Str(text), _)) => exact(text).is_some(),
        Some(_) => false,
    }
}

pub(super) fn fits_compared(calls: &ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> bool {
    matches!((keys, args), ([key, ..], [_, ..]) if is_string(calls, key))
}

fn compared(
    calls: &mut ScriptCalls<'_>,
    key: &[u8],
    token: &[u8],
    answers: Mismatch,
) -> Result<(), i64> {
    match calls.text(&GET, &[key]) {
        None => Err(answers.missing),
        Some(owner) if owner[..] == *token => Ok(()),
        Some(_) => Err(answers.other),
    }
}

pub(super) fn delete(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    Reply::Int(match compared(calls, keys[0], args[0], THREE) {
        Ok(()) => calls.number(&DEL, &[keys[0]]),
        Err(answer) => answer,
    })
}

pub(super) fn delete_as_documented(
    calls: &mut ScriptCalls<'_>,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> Reply {
    Reply::Int(match compared(calls, keys[0], args[0], TWO) {
        Ok(()) => calls.number(&DEL_AS_DOCUMENTED, &[keys[0]]),
        Err(answer) => answer,
    })
}

pub(super) fn fits_extend(calls: &ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> bool {
    // Any number will do: one that is not positive deletes the key.
    fits_compared(calls, keys, args) && args.get(1).is_some_and(|span| exact(span).is_some())
}

pub(super) fn extend(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    Reply::Int(match compared(calls, keys[0], args[0], THREE) {
        Ok(()) => {
            calls.call(&PEXPIRE, &[keys[0], args[1]]);
            1
        }
        Err(answer) => answer,
    })
}

pub(super) fn fits_delete_and_tell(
    calls: &ScriptCalls<'_>,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> bool {
    fits_compared(calls, keys, args) && args.len() > 1
}

pub(super) fn delete_and_tell(
    calls: &mut ScriptCalls<'_>,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> Reply {
    let owner = calls.text(&GET, &[keys[0]]);
    let owned = owner.is_some();
    if owner.is_some_and(|owner| owner[..] != *args[0]) {
        return Reply::Int(-1);
    }
    if owned {
        calls.call(&DEL, &[keys[0]]);
    }
    calls.call(&PUBLISH, &[args[1], b"free"]);
    Reply::Int(i64::from(owned))
}

pub(super) fn fits_try(calls: &ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> bool {
    match (keys, args) {
        ([key, ..], [_, ttl, ..]) => span(ttl).is_some() && has_exact_time(calls, key),
        _ => false,
    }
}

pub(super) fn try_once(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    let set = calls.call(&SET, &[keys[0], args[0], b"NX", b"PX", args[1]]);
    Reply::Array(match set {
        Reply::Ok => vec![Reply::Int(1)],
        _ => vec![Reply::Int(0), Reply::Int(calls.number(&PTTL, &[keys[0]]))],
    })
}

pub(super) fn fits_try_fenced(calls: &ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> bool {
    match keys {
        [key, counter, ..] => {
            fits_try(calls, keys, args) && key != counter && is_number(calls, counter)
        }
        _ => false,
    }
}

pub(super) fn try_fenced(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    let left = calls.number(&PTTL, &[keys[0]]);
    if left != -2 {
        return Reply::Array(vec![Reply::Int(0), Reply::Int(left)]);
    }
    let fence = calls.number(&INCR, &[keys[1]]);
    calls.call(&SET, &[keys[0], args[0], b"PX", args[1]]);
    Reply::Array(vec![Reply::Int(1), Reply::Int(fence)])
}

pub(super) fn fits_write_fenced(calls: &ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> bool {
    match (keys, args) {
        ([_, mark, ..], [shown, _, ..]) => exact(shown).is_some() && is_number(calls, mark),
        _ => false,
    }
}

pub(super) fn write_fenced(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    let mark = calls.text(&GET, &[keys[1]]);
    let mark = mark.and_then(|mark| exact(&mark)).unwrap_or(0);
    if exact(args[0]).is_some_and(|shown| shown < mark) {
        return Reply::Int(-mark);
    }
    calls.call(&SET, &[keys[1], args[0]]);
    calls.call(&SET, &[keys[0], args[1]]);
    Reply::Int(1)
}
