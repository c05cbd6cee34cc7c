//! Replies as bytes: where one ends, and what of it can be compared.

use std::collections::BTreeMap;

use resp::frame::{Limits, RequestFrame, Scanner};

/// How many bytes the first reply in the buffer has, once it is all there.
pub(crate) fn reply_length(buffer: &[u8]) -> Option<usize> {
    let frame = Scanner::replies(Limits::default()).scan(buffer).ok()??;
    Some(frame.len)
}

/// The words of the first request in the buffer, and its length.
pub(crate) fn request_words(buffer: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let length = reply_length(buffer)?;
    let words = RequestFrame::new(&buffer[..length]).args().map(<[u8]>::to_vec);
    Some((words.collect(), length))
}

/// The frames of these bytes.
fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some(length) = reply_length(bytes) {
        frames.push(&bytes[..length]);
        bytes = &bytes[length..];
    }
    frames
}

/// An aggregate reply's first line, and its parts.
fn parts(reply: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let end = reply.windows(2).position(|pair| pair == b"\r\n").map_or(reply.len(), |at| at + 2);
    let (head, rest) = reply.split_at(end);
    (head, frames(rest))
}

/// The reply without what two servers cannot agree on.
pub(crate) fn level(command: &[Vec<u8>], reply: &[u8]) -> Vec<u8> {
    let name = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
    match (name.as_str(), reply.first()) {
        // A set has no order; nor have the channels.
        ("smembers" | "spop" | "pubsub" | "sinter" | "sunion" | "sdiff", Some(b'*' | b'~')) => {
            sorted(reply)
        }
        ("scan" | "sscan" | "keys", Some(b'*')) => {
            let (head, parts) = parts(reply);
            let one = |part: &[u8]| if name == "keys" { part.to_vec() } else { sorted(part) };
            let mut parts: Vec<Vec<u8>> = parts.into_iter().map(one).collect();
            if name == "keys" {
                parts.sort();
            }
            [head, &parts.concat()].concat()
        }
        // Of these only whether they are answered at all.
        (
            "time" | "hello" | "client" | "info" | "command" | "role" | "randomkey",
            Some(b'*' | b'%' | b'$' | b'=' | b':'),
        ) => reply[..1].to_vec(),
        _ => reply.to_vec(),
    }
}

/// What the reply of COMMAND says of each command and subcommand: arity, flags, key positions and categories.
pub(crate) fn described(reply: &[u8]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for command in parts(reply).1 {
        let (_, fields) = parts(command);
        let name = String::from_utf8_lossy(&fields[0][parts(fields[0]).0.len()..]);
        let text = |field: &[u8]| sorted(field).escape_ascii().to_string();
        let said = [1, 2, 3, 4, 5, 6].map(|at: usize| text(fields[at])).join(" ");
        found.insert(name.trim_end().to_owned(), said);
        found.extend(described(fields[9]));
    }
    found
}

/// The frames of these bytes, in an order of their own. Pushes are frames wherever they stand: redis-server
/// sends them between the elements of a reply that it has begun.
pub(crate) fn unordered(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut pushes, mut others, mut rest) = (Vec::new(), Vec::new(), bytes);
    while let Some(first) = rest.first() {
        let is_push = *first == b'>';
        let length = match first {
            b'*' | b'%' | b'~' => Some(parts(rest).0.len()),
            _ => reply_length(rest),
        };
        let (element, after) = rest.split_at(length.unwrap_or(rest.len()));
        if is_push {
            pushes.push(element.to_vec())
        } else {
            others.extend_from_slice(element)
        }
        rest = after;
    }
    pushes.extend(frames(&others).into_iter().map(<[u8]>::to_vec));
    pushes.sort_unstable();
    pushes
}

fn sorted(reply: &[u8]) -> Vec<u8> {
    let (head, mut parts) = parts(reply);
    parts.sort_unstable();
    [head, &parts.concat()].concat()
}

/// Whether both replies say the same. Two servers reckon times some moments apart.
pub(crate) fn agree(command: &[Vec<u8>], real: &[u8], mine: &[u8]) -> bool {
    let name = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
    let tolerance = match name.as_str() {
        "ttl" | "expiretime" => 1,
        "pttl" | "pexpiretime" => 1_000,
        _ => return level(command, real) == level(command, mine),
    };
    match (integer(real), integer(mine)) {
        // -1 and -2 are answers of their own kind.
        (Some(real), Some(mine)) if real >= 0 && mine >= 0 => real.abs_diff(mine) <= tolerance,
        _ => real == mine,
    }
}

fn integer(reply: &[u8]) -> Option<i64> {
    let digits = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A command as a person would type it.
pub(crate) fn show(command: &[Vec<u8>]) -> String {
    let words: Vec<String> =
        command.iter().map(|word| format!("\"{}\"", word.escape_ascii())).collect();
    words.join(" ")
}
