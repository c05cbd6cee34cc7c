//! What a command would do to its key, and what its answer says it did.
//!
//! Invariant: where picklock does not know a command, it says *unknown*, which makes a checker careful;
//! it never guesses *nothing*.

use history::{Answer, Intent, Text, Texts, Touch};
use picklock::command::{Args, Command};
use picklock::reply::Reply;
use picklock::script::Meaning;
use picklock::time::WallTime;

use super::{Dialect, SentCommand};
use crate::recipe::KeyValue;

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;
/// No command that is known here has a longer name.
const NAME_BYTES: usize = 16;
/// Longer strings are cut: the history tells who did what, it is no backup.
const TEXT_BYTES: usize = 64;

/// Changes the value of a key and leaves its life alone.
fn counts(verb: &[u8]) -> bool {
    matches!(verb, b"DECR" | b"INCR" | b"INCRBY" | b"DECRBY")
}

/// Changes no key. What a transaction does is written down as the commands that were queued in it.
fn is_harmless(verb: &[u8]) -> bool {
    let reads = matches!(verb, b"GET" | b"GETRANGE" | b"STRLEN" | b"TYPE" | b"TOUCH" | b"EXISTS");
    let looks = matches!(verb, b"TTL" | b"PTTL" | b"PING" | b"ECHO" | b"TIME" | b"INFO" | b"ROLE");
    let queues = matches!(verb, b"WATCH" | b"UNWATCH" | b"MULTI" | b"EXEC" | b"DISCARD");
    let others =
        matches!(verb, b"WAIT" | b"PUBLISH" | b"SCRIPT" | b"CONFIG" | b"CLIENT" | b"HELLO");
    reads || looks || queues || others
}

/// A command, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommandSemantics<'a> {
    /// Its name, as it came.
    pub(super) name: &'a [u8],
    /// Its first key; empty where it has none.
    pub(super) key: &'a [u8],
    /// What it would do to that key.
    pub(super) intent: Intent,
    /// It answers what was there before.
    pub(super) gives_old: bool,
    /// What it would write.
    pub(super) writes: Writes<'a>,
}

/// What a command would write into its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes<'a> {
    /// Nothing that was not there.
    Nothing,
    /// This value.
    Value(&'a [u8]),
    /// Nobody can tell.
    Unknown,
}

/// The command's name in capitals, as Redis counts commands.
pub(super) fn name(name: &[u8], texts: &mut Texts) -> Text {
    if name.iter().any(u8::is_ascii_lowercase) {
        texts.intern_bytes(&name.to_ascii_uppercase())
    } else {
        texts.intern_bytes(name)
    }
}

/// The first key of a command, and what the command would do to it.
/// `wall` is the wall clock of whoever sends it.
pub(super) fn semantics<'a>(
    command: &'a Command,
    dialect: &Dialect,
    wall: impl FnOnce() -> WallTime,
) -> CommandSemantics<'a> {
    let mut args = command.args();
    let name = args.next().unwrap_or_default();
    let (upper, length) = upper(name);
    let verb = &upper[..length];
    if matches!(verb, b"EVALSHA" | b"EVAL") {
        let body = args.next().unwrap_or_default();
        let key = args.nth(1).unwrap_or_default();
        let intent = script(verb == b"EVALSHA", body, args, dialect);
        let writes = match intent.touch {
            Touch::Delete | Touch::Extend(_) => Writes::Nothing,
            _ => Writes::Unknown,
        };
        return CommandSemantics { name, key, intent, gives_old: false, writes };
    }
    let key = args.next().unwrap_or_default();
    let value = args.clone().next().unwrap_or_default();
    let certain = |touch| Intent { touch, compares: false };
    let mut gives_old = matches!(verb, b"GETSET" | b"GETDEL");
    let intent = match verb {
        b"SET" => {
            let set = set(args, dialect);
            gives_old = set.gives_old;
            set.intent
        }
        b"SETNX" => certain(Touch::Create(stamped(args.next(), dialect, wall))),
        b"GETSET" => certain(Touch::Overwrite(stamped(args.next(), dialect, wall))),
        b"DEL" | b"UNLINK" | b"GETDEL" => certain(Touch::Delete),
        b"DELEX" => delex(args, dialect),
        b"DELIFEQ" => Intent { touch: Touch::Delete, compares: spares_others(dialect) },
        b"PEXPIRE" => certain(expiry(args.next(), NS_PER_MS)),
        b"EXPIRE" => certain(expiry(args.next(), NS_PER_S)),
        it if is_harmless(it) || counts(it) => certain(Touch::None),
        _ => certain(Touch::Unknown),
    };
    let writes = match intent.touch {
        Touch::Create(_) | Touch::Overwrite(_) => Writes::Value(value),
        Touch::Unknown => Writes::Unknown,
        _ if counts(verb) => Writes::Unknown,
        _ => Writes::Nothing,
    };
    CommandSemantics { name, key, intent, gives_old, writes }
}

/// The name in capitals, and its length; nothing of one that is longer than any that is known.
fn upper(name: &[u8]) -> ([u8; NAME_BYTES], usize) {
    let mut upper = [0; NAME_BYTES];
    let Some(letters) = upper.get_mut(..name.len()) else { return (upper, 0) };
    letters.copy_from_slice(name);
    letters.make_ascii_uppercase();
    (upper, name.len())
}

/// A whole number, not negative.
fn number(digits: &[u8]) -> Option<u64> {
    let (&first, rest) = digits.split_first()?;
    // As the standard library reads numbers: a plus may stand before them.
    let digits = if first == b'+' && !rest.is_empty() { rest } else { digits };
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn expiry(span: Option<&[u8]>, unit_ns: u64) -> Touch {
    match span.and_then(number) {
        Some(span) => Touch::Extend(span.saturating_mul(unit_ns)),
        None => Touch::Unknown,
    }
}

/// How long a hold lasts whose key has this value: as long as the value says, where it says so, counted
/// from now by the clock of the client that wrote it; otherwise for ever.
fn stamped(
    value: Option<&[u8]>,
    dialect: &Dialect,
    wall: impl FnOnce() -> WallTime,
) -> Option<u64> {
    let stamp_ms = value.filter(|_| dialect.value == KeyValue::Stamp).and_then(number)?;
    Some(stamp_ms.saturating_mul(NS_PER_MS).saturating_sub(wall().as_unix_ns()))
}

/// Comparing values spares the holds of others only where each has a value of its own.
fn spares_others(dialect: &Dialect) -> bool {
    dialect.value == KeyValue::Token
}

/// DELEX with its condition, behind the key. Whatever else than equality it asks for may be true of
/// another's key.
fn delex(mut args: Args<'_>, dialect: &Dialect) -> Intent {
    let equal = args.next().is_some_and(|word| word.eq_ignore_ascii_case(b"IFEQ"));
    Intent { touch: Touch::Delete, compares: equal && spares_others(dialect) }
}

/// A SET, understood.
struct SetCommand {
    intent: Intent,
    gives_old: bool,
}

/// SET with its options, behind the key; one that keeps or computes the expiry otherwise is beyond us.
/// To write the same value where it stands, with a new TTL, is to extend the hold of whoever has it.
fn set(mut args: Args<'_>, dialect: &Dialect) -> SetCommand {
    let unsupported =
        SetCommand { intent: Intent { touch: Touch::Unknown, compares: false }, gives_old: false };
    let (mut creates, mut replaces, mut gives_old) = (false, false, false);
    let (mut compared, mut ttl_ns) = (None, None);
    let value = args.next();
    while let Some(option) = args.next() {
        match option {
            [b'N' | b'n', b'X' | b'x'] => creates = true,
            [b'X' | b'x', b'X' | b'x'] => replaces = true,
            [unit @ (b'P' | b'p' | b'E' | b'e'), b'X' | b'x'] => {
                let Some(span) = args.next().and_then(number) else { return unsupported };
                let unit_ns = if matches!(unit, b'P' | b'p') { NS_PER_MS } else { NS_PER_S };
                ttl_ns = Some(span.saturating_mul(unit_ns));
            }
            _ if option.eq_ignore_ascii_case(b"IFEQ") => compared = args.next(),
            _ if option.eq_ignore_ascii_case(b"GET") => gives_old = true,
            _ => return unsupported,
        }
    }
    // Its answer is what was there, and does not say whether the condition was met.
    if gives_old && (replaces || compared.is_some()) {
        return unsupported;
    }
    let same = compared.is_some() && compared == value;
    let touch = match ttl_ns {
        Some(ttl_ns) if same => Touch::Extend(ttl_ns),
        _ if creates => Touch::Create(ttl_ns),
        _ => Touch::Overwrite(ttl_ns),
    };
    let compares = compared.is_some() && spares_others(dialect);
    SetCommand { intent: Intent { touch, compares }, gives_old }
}

fn script(by_digest: bool, body: &[u8], args: Args<'_>, dialect: &Dialect) -> Intent {
    let known = dialect.scripts.iter().flatten().find(|script| {
        if by_digest {
            body.eq_ignore_ascii_case(script.sha1().as_bytes())
        } else {
            body == script.text().as_bytes()
        }
    });
    let touch = match known.map(|script| script.meaning()) {
        Some(Meaning::Deletes) => Touch::Delete,
        Some(Meaning::Extends) => expiry(args.last(), NS_PER_MS),
        Some(Meaning::Creates) => {
            let ttl_ms = args.last().and_then(number);
            let touch = ttl_ms.map_or(Touch::Unknown, |ttl_ms| {
                Touch::Create(Some(ttl_ms.saturating_mul(NS_PER_MS)))
            });
            return Intent { touch, compares: false };
        }
        Some(Meaning::HandsOver | Meaning::Other) | None => Touch::Unknown,
    };
    Intent { touch, compares: known.is_some() && spares_others(dialect) }
}

/// What the command did, to judge by its answer.
pub(super) fn touch(sent: SentCommand, reply: &Reply) -> Touch {
    let SentCommand { intent, gives_old, .. } = sent;
    let done = match intent.touch {
        Touch::None => return Touch::None,
        // A script that hands over says so where it found another's key and left it alone.
        Touch::Unknown if intent.compares && matches!(reply, Reply::Int(-1 | 2)) => {
            return Touch::None;
        }
        Touch::Unknown => return Touch::Unknown,
        // With GET it answers what kept it from writing.
        Touch::Create(_) if gives_old => *reply == Reply::Nil,
        // A script that found the caller's own key has given it a whole TTL again.
        Touch::Create(Some(ttl_ns)) if matches!(reply, Reply::Array(list) if list.first() == Some(&Reply::Int(2))) =>
        {
            return Touch::Extend(ttl_ns);
        }
        // SET says OK where it wrote and nothing where it did not; SETNX says 1 or 0; a script says so
        // in the first place of a list.
        Touch::Create(_) => match reply {
            Reply::Array(list) => list.first() == Some(&Reply::Int(1)),
            reply => matches!(reply, Reply::Ok | Reply::Int(1)),
        },
        // GETSET and SET with GET answer the old value; where there was none, it has made the key.
        Touch::Overwrite(ttl_ns) if gives_old && *reply == Reply::Nil => {
            return Touch::Create(ttl_ns);
        }
        Touch::Overwrite(_) => gives_old || *reply == Reply::Ok,
        Touch::Delete if gives_old => *reply != Reply::Nil,
        Touch::Delete => matches!(reply, Reply::Int(1..)),
        // A script says 1, SET says OK.
        Touch::Extend(_) => matches!(reply, Reply::Ok | Reply::Int(1)),
    };
    if done { intent.touch } else { Touch::None }
}

/// An answer as it is written down.
pub(super) fn answer(reply: &Reply, texts: &mut Texts) -> Answer {
    match reply {
        Reply::Nil => Answer::Nil,
        Reply::Ok => Answer::Ok,
        Reply::Int(value) => Answer::Int(*value),
        Reply::Status(text) => Answer::Text(texts.intern(cut(text))),
        Reply::Bulk(bytes) if bytes.len() <= TEXT_BYTES => Answer::Text(texts.intern_bytes(bytes)),
        Reply::Bulk(bytes) => Answer::Text(texts.intern(cut(&String::from_utf8_lossy(bytes)))),
        Reply::Array(_) => Answer::List,
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests;
