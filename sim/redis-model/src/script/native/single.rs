//! The scripts of locks on one key, and of a value behind a fence.

use picklock::{fence, scripts};
use resp::Reply;

use super::NativeRow;
use super::calls::{
    DEL, DEL_AS_DOCUMENTED, GET, INCR, PEXPIRE, PTTL, PUBLISH, SET, ScriptCalls, exact, span,
};
use crate::value::StoredValue;

/// The compare-and-delete of the documentation of SET.
const AS_DOCUMENTED: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1]\nthen\n    \
    return redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend\n";

pub(super) fn scripts() -> [NativeRow; 7] {
    [
        (
            "230a6695bbbb812377e64cd05e384647ef03c2b3",
            scripts::COMPARE_AND_DELETE.text(),
            fits_compared,
            delete,
        ),
        (
            "2767343070476db0d864adba2e638330d8371ddd",
            scripts::COMPARE_AND_EXTEND.text(),
            fits_extend,
            extend,
        ),
        (
            "d4575536cbfd0a054406e09ca767b76fb48b7738",
            scripts::DELETE_AND_TELL.text(),
            fits_delete_and_tell,
            delete_and_tell,
        ),
        ("626358b92b181fa1aef9717bda14b722e41503c5", scripts::TRY.text(), fits_try, try_once),
        (
            "daa60f14965c4ffea84726194704c6de85a93d98",
            scripts::TRY_FENCED.text(),
            fits_try_fenced,
            try_fenced,
        ),
        (
            "f7cd68ba2f14ac2612bb157a8d36fef01b8c9c2c",
            fence::WRITE_FENCED.text(),
            fits_write_fenced,
            write_fenced,
        ),
        (
            "0df94f0c181d164030a056e556fe2176c70f0013",
            AS_DOCUMENTED,
            fits_compared,
            delete_as_documented,
        ),
    ]
}

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

fn fits_compared(calls: &ScriptCalls<'_>) -> bool {
    matches!((calls.keys, calls.args), ([key, ..], [_, ..]) if is_string(calls, key))
}

/// Acts if the key holds the token. The answer is 0 where there is no key, `other` where another holds it.
fn compared(
    calls: &mut ScriptCalls<'_>,
    other: i64,
    act: impl FnOnce(&mut ScriptCalls<'_>) -> i64,
) -> Reply {
    Reply::Int(match calls.text(&GET, &[calls.keys[0]]) {
        None => 0,
        Some(owner) if owner[..] == *calls.args[0] => act(calls),
        Some(_) => other,
    })
}

fn delete(calls: &mut ScriptCalls<'_>) -> Reply {
    compared(calls, -1, |calls| calls.number(&DEL, &[calls.keys[0]]))
}

fn delete_as_documented(calls: &mut ScriptCalls<'_>) -> Reply {
    compared(calls, 0, |calls| calls.number(&DEL_AS_DOCUMENTED, &[calls.keys[0]]))
}

fn fits_extend(calls: &ScriptCalls<'_>) -> bool {
    // Any number will do: one that is not positive deletes the key.
    fits_compared(calls) && calls.args.get(1).is_some_and(|span| exact(span).is_some())
}

fn extend(calls: &mut ScriptCalls<'_>) -> Reply {
    compared(calls, -1, |calls| {
        calls.call(&PEXPIRE, &[calls.keys[0], calls.args[1]]);
        1
    })
}

fn fits_delete_and_tell(calls: &ScriptCalls<'_>) -> bool {
    fits_compared(calls) && calls.args.len() > 1
}

fn delete_and_tell(calls: &mut ScriptCalls<'_>) -> Reply {
    let owner = calls.text(&GET, &[calls.keys[0]]);
    let owned = owner.is_some();
    if owner.is_some_and(|owner| owner[..] != *calls.args[0]) {
        return Reply::Int(-1);
    }
    if owned {
        calls.call(&DEL, &[calls.keys[0]]);
    }
    calls.call(&PUBLISH, &[calls.args[1], b"free"]);
    Reply::Int(i64::from(owned))
}

fn fits_try(calls: &ScriptCalls<'_>) -> bool {
    match (calls.keys, calls.args) {
        ([key, ..], [_, ttl, ..]) => span(ttl).is_some() && has_exact_time(calls, key),
        _ => false,
    }
}

fn try_once(calls: &mut ScriptCalls<'_>) -> Reply {
    let set = calls.call(&SET, &[calls.keys[0], calls.args[0], b"NX", b"PX", calls.args[1]]);
    Reply::Array(match set {
        Reply::Ok => vec![Reply::Int(1)],
        _ => vec![Reply::Int(0), Reply::Int(calls.number(&PTTL, &[calls.keys[0]]))],
    })
}

fn fits_try_fenced(calls: &ScriptCalls<'_>) -> bool {
    match calls.keys {
        [key, counter, ..] => fits_try(calls) && key != counter && is_number(calls, counter),
        _ => false,
    }
}

fn try_fenced(calls: &mut ScriptCalls<'_>) -> Reply {
    let left = calls.number(&PTTL, &[calls.keys[0]]);
    if left != -2 {
        return Reply::Array(vec![Reply::Int(0), Reply::Int(left)]);
    }
    let fence = calls.number(&INCR, &[calls.keys[1]]);
    calls.call(&SET, &[calls.keys[0], calls.args[0], b"PX", calls.args[1]]);
    Reply::Array(vec![Reply::Int(1), Reply::Int(fence)])
}

fn fits_write_fenced(calls: &ScriptCalls<'_>) -> bool {
    match (calls.keys, calls.args) {
        ([_, mark, ..], [shown, _, ..]) => exact(shown).is_some() && is_number(calls, mark),
        _ => false,
    }
}

fn write_fenced(calls: &mut ScriptCalls<'_>) -> Reply {
    let mark = calls.text(&GET, &[calls.keys[1]]);
    let mark = mark.and_then(|mark| exact(&mark)).unwrap_or(0);
    if exact(calls.args[0]).is_some_and(|shown| shown < mark) {
        return Reply::Int(-mark);
    }
    calls.call(&SET, &[calls.keys[1], calls.args[0]]);
    calls.call(&SET, &[calls.keys[0], calls.args[1]]);
    Reply::Int(1)
}
