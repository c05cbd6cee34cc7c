//! KEYS, SCAN, HSCAN, SSCAN, ZSCAN.
//!
//! Invariant: a SCAN from 0 until 0 answers every key that is there all the while, exactly once; KEYS
//! answers in the order of the bytes, for Redis promises none. The scans of a key answer all of it at
//! once, as Redis does for small ones.

use resp::{Blob, ErrorReply, Reply, decimal, double, glob, is_word};

use crate::scored::Scored;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};
use crate::value::{Fields, SetMembers, StoredValue};

pub(crate) const SPECS: &[CommandSpec] = &[
    group::KEYSPACE_DANGEROUS.command("keys", 2, flag::READONLY, keys),
    group::KEYSPACE.command("scan", -2, flag::READONLY, scan),
    group::HASH.keyed("hscan", -3, flag::READONLY, |s, r| scan_value(s, r, fields)),
    group::SET.keyed("sscan", -3, flag::READONLY, |s, r| scan_value(s, r, members)),
    group::SORTED_SET.keyed("zscan", -3, flag::READONLY, |s, r| scan_value(s, r, scored)),
];

/// An element, and what belongs to it.
pub(super) type CollectionElement = (Blob, Option<Reply>);

/// The elements of a collection of one type.
pub(super) type ElementsOf = fn(&StoredValue) -> Result<Vec<CollectionElement>, ErrorReply>;

pub(super) fn fields(value: &StoredValue) -> Result<Vec<CollectionElement>, ErrorReply> {
    let fields = value.get::<Fields>()?.iter();
    Ok(fields.map(|(name, value)| (name.clone(), Some(Reply::Bulk(value.clone())))).collect())
}

pub(super) fn members(value: &StoredValue) -> Result<Vec<CollectionElement>, ErrorReply> {
    Ok(value.get::<SetMembers>()?.iter().map(|member| (member.clone(), None)).collect())
}

pub(super) fn scored(value: &StoredValue) -> Result<Vec<CollectionElement>, ErrorReply> {
    let set = value.get::<Scored>()?.as_slice().iter();
    Ok(set.map(|(score, member)| (member.clone(), Some(Reply::Double(*score)))).collect())
}

fn scan_value(server: &mut Server, request: &Request<'_>, elements: ElementsOf) -> CommandResult {
    cursor(request.args[2]).ok_or(ErrorReply::new("ERR invalid cursor"))?;
    let found = server.read(request, request.args[1]).map(|entry| elements(&entry.value));
    let found = match found.transpose()? {
        None => Vec::new(),
        Some(elements) => {
            let options = options(&request.args[3..])?;
            if options.type_name.is_some() {
                return Err(ErrorReply::SYNTAX);
            }
            let wanted = |name: &[u8]| options.pattern.is_none_or(|it| names(it, name));
            let wanted = elements.into_iter().filter(|(name, _)| wanted(name));
            // A score is answered as text in either protocol.
            let shown = |with| match with {
                Reply::Double(score) => Reply::bulk(double(score)),
                with => with,
            };
            let flat = |(name, with): CollectionElement| {
                [Some(Reply::Bulk(name)), with.map(shown)].into_iter().flatten()
            };
            wanted.flat_map(flat).collect()
        }
    };
    Ok(Reply::Array(vec![Reply::bulk("0"), Reply::Array(found)]))
}

fn keys(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let now_ms = request.now_ms();
    let alive = |when: Option<i64>| when.is_none_or(|when| now_ms <= when);
    let entries = server.db(request).entries();
    let mut keys: Vec<&[u8]> = entries
        .filter(|entry| alive(entry.expires_at_ms) && names(request.args[1], &entry.key))
        .map(|entry| &entry.key[..])
        .collect();
    keys.sort_unstable();
    Ok(Reply::Array(keys.into_iter().map(Reply::bulk).collect()))
}

/// Whether a pattern names this. A lone star names the empty one as well, which it does not match.
fn names(pattern: &[u8], name: &[u8]) -> bool {
    pattern == b"*" || glob(pattern, name, false)
}

struct ScanOptions<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

fn options<'a>(args: &[&'a [u8]]) -> Result<ScanOptions<'a>, ErrorReply> {
    let mut options = ScanOptions { count: 10, pattern: None, type_name: None };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let &value = args.next().ok_or(ErrorReply::SYNTAX)?;
        if is_word(name, "COUNT") {
            let count = decimal(value).ok_or(ErrorReply::NOT_AN_INTEGER)?;
            let count = usize::try_from(count).map_err(|_| ErrorReply::SYNTAX)?;
            options.count = Some(count).filter(|&count| count > 0).ok_or(ErrorReply::SYNTAX)?;
        } else if is_word(name, "MATCH") {
            options.pattern = Some(value);
        } else if is_word(name, "TYPE") {
            options.type_name = Some(value);
        } else {
            return Err(ErrorReply::SYNTAX);
        }
    }
    Ok(options)
}

/// The cursor is the slot to go on from.
fn scan(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let cursor = cursor(request.args[1]).ok_or(ErrorReply::new("ERR invalid cursor"))?;
    let options = options(&request.args[2..])?;
    let slots = server.db(request).slots();
    let start = usize::try_from(cursor).unwrap_or(usize::MAX).min(slots);
    let end = start.saturating_add(options.count).min(slots);
    let mut found = Vec::new();
    for slot in start..end {
        let Some(entry) = server.db(request).peek(slot) else { continue };
        let key = entry.key.clone();
        if !options.pattern.is_none_or(|pattern| names(pattern, &key)) {
            continue;
        }
        let wanted = match options.type_name {
            // Looking at the type counts as a read of the key.
            Some(name) => server
                .read(request, &key)
                .is_some_and(|entry| is_word(name, entry.value.type_name())),
            None => server.find(request, &key).is_some(),
        };
        if wanted {
            found.push(Reply::Bulk(key));
        }
    }
    let next = if end == slots { 0 } else { end };
    Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(found)]))
}

/// A cursor as strtoul reads one: an empty one is 0, a sign is taken.
fn cursor(text: &[u8]) -> Option<u64> {
    let text = resp::until_nul(text);
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if text.is_empty() {
        return Some(0);
    }
    // Rust would take a second sign.
    digits.first().filter(|byte| byte.is_ascii_digit())?;
    let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}
