//! Any elements of a collection: SRANDMEMBER, HRANDFIELD, ZRANDMEMBER.
//!
//! Invariant: the first ones are answered, over and over where more are wanted: Redis promises no
//! others, so these are right and can be replayed. More than [`MOST`] are refused.

use resp::{ErrorReply, ProtocolVersion, Reply, decimal, is_word};

use super::scan::{CollectionElement, ElementsOf, fields, members, scored};
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const READ: u32 = flag::READONLY;

/// So many elements may be asked for again and again; redis-server would answer until it has no memory.
const MOST: u64 = 1 << 20;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::SET.keyed("srandmember", -2, READ, |s, r| pick(s, r, None, members)),
    group::HASH.keyed("hrandfield", -2, READ, |s, r| pick(s, r, Some("WITHVALUES"), fields)),
    group::SORTED_SET.keyed("zrandmember", -2, READ, |s, r| pick(s, r, Some("WITHSCORES"), scored)),
];

/// A number of elements, or of places from either end.
pub(super) fn count(text: &[u8]) -> Result<i64, ErrorReply> {
    match decimal(text).ok_or(ErrorReply::NOT_AN_INTEGER)? {
        i64::MIN => Err(ErrorReply::new(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        )),
        count => Ok(count),
    }
}

fn pick(
    server: &mut Server,
    request: &Request<'_>,
    with: Option<&str>,
    elements: ElementsOf,
) -> CommandResult {
    let out_of_range = ErrorReply::new("ERR value is out of range");
    let (wanted, paired) = match (request.args, with) {
        ([_, _], _) => (None, false),
        ([_, _, number], _) => (Some(count(number)?), false),
        ([_, _, number, words @ ..], Some(with)) => {
            let number = count(number)?;
            match words {
                [word] if !is_word(word, with) => return Err(ErrorReply::SYNTAX),
                [_] if number.unsigned_abs() > i64::MAX.unsigned_abs() / 2 => {
                    return Err(out_of_range);
                }
                [_] => (Some(number), true),
                _ => return Err(ErrorReply::SYNTAX),
            }
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    let nested = paired && server.session(request).protocol == ProtocolVersion::Resp3;
    let found = server.read(request, request.args[1]).map(|entry| elements(&entry.value));
    let found = found.transpose()?.unwrap_or_default();
    let Some(wanted) = wanted else {
        return Ok(found
            .into_iter()
            .next()
            .map_or(Reply::Nil, |(element, _)| Reply::Bulk(element)));
    };
    let most = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
    let chosen: Vec<CollectionElement> = match wanted < 0 {
        false => found.into_iter().take(most).collect(),
        true if found.is_empty() => Vec::new(),
        true if wanted.unsigned_abs() > MOST => return Err(out_of_range),
        true => found.iter().cycle().take(most).cloned().collect(),
    };
    let one = |(element, other): CollectionElement| match (other.filter(|_| paired), nested) {
        (None, _) => vec![Reply::Bulk(element)],
        (Some(other), false) => vec![Reply::Bulk(element), other],
        (Some(other), true) => vec![Reply::Array(vec![Reply::Bulk(element), other])],
    };
    Ok(Reply::Array(chosen.into_iter().flat_map(one).collect()))
}
