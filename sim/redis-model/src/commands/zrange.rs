//! Sorted sets by ranges: ZRANGE, ZREVRANGE, ZRANGEBYSCORE, ZREVRANGEBYSCORE, ZREMRANGEBYSCORE,
//! ZREMRANGEBYRANK, ZRANGESTORE; and by bytes ZRANGEBYLEX, ZREVRANGEBYLEX, ZLEXCOUNT, ZREMRANGEBYLEX.
//!
//! Invariant: options are read and refused in the order in which redis-server does it.

use std::ops::Range;

use resp::{Blob, ErrorReply, ProtocolVersion, Reply, is_word, range_end};

use super::arguments::{number, range};
use crate::scored::Scored;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};
use crate::value::StoredValue;

const READ: u32 = flag::READONLY;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::SORTED_SET.keyed("zrange", -4, READ, |s, r| zrange(s, r, None, None)),
    group::SORTED_SET
        .keyed("zrevrange", -4, READ, |s, r| zrange(s, r, Some(RangeKind::Rank), Some(true))),
    group::SORTED_SET
        .keyed("zrangebyscore", -4, READ, |s, r| zrange(s, r, Some(RangeKind::Score), Some(false))),
    group::SORTED_SET.keyed("zrevrangebyscore", -4, READ, |s, r| {
        zrange(s, r, Some(RangeKind::Score), Some(true))
    }),
    group::SORTED_SET
        .keyed("zrangebylex", -4, READ, |s, r| zrange(s, r, Some(RangeKind::Bytes), Some(false))),
    group::SORTED_SET
        .keyed("zrevrangebylex", -4, READ, |s, r| zrange(s, r, Some(RangeKind::Bytes), Some(true))),
    group::SORTED_SET
        .command("zrangestore", -5, flag::WRITE | flag::DENYOOM, zrangestore)
        .keys(1, 2, 1),
    group::SORTED_SET.keyed("zlexcount", 4, READ | flag::FAST, zlexcount),
    group::SORTED_SET.keyed("zremrangebylex", 4, flag::WRITE, zremrangebylex),
    group::SORTED_SET.keyed("zremrangebyscore", 4, flag::WRITE, zremrangebyscore),
    group::SORTED_SET.keyed("zremrangebyrank", 4, flag::WRITE, zremrangebyrank),
];

/// What the ends of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeKind {
    Rank,
    Score,
    Bytes,
}

/// A range of scores; `true` beside an end that does not belong to it.
pub(super) struct ScoreRange {
    low: (f64, bool),
    high: (f64, bool),
}

impl ScoreRange {
    pub(super) fn parse(low: &[u8], high: &[u8]) -> Result<Self, ErrorReply> {
        let end = |text: &[u8]| {
            let (text, open) = match text {
                [b'(', rest @ ..] => (rest, true),
                _ => (text, false),
            };
            // As strtod: nothing at all is 0, and blanks before a number are skipped.
            let text = text.trim_ascii_start();
            let value = range_end(text);
            value.map(|value| (value, open)).ok_or(ErrorReply::new("ERR min or max is not a float"))
        };
        Ok(Self { low: end(low)?, high: end(high)? })
    }

    /// The places of a set's members that lie in the range.
    pub(super) fn places(&self, set: &Scored) -> Range<usize> {
        let below = |score: f64, (end, open): (f64, bool)| score < end || (open && score <= end);
        let within = |score: f64, (end, open): (f64, bool)| score < end || (!open && score <= end);
        let entries = set.as_slice();
        let start = entries.partition_point(|entry| below(entry.0, self.low));
        let end = entries.partition_point(|entry| within(entry.0, self.high));
        start..end.max(start)
    }
}

/// The places of members between two ends in the order of bytes: `-`, `+`, `[m`, `(m`.
fn byte_range(
    low: &[u8],
    high: &[u8],
) -> Result<impl Fn(&Scored) -> Range<usize> + use<>, ErrorReply> {
    enum LexBound {
        First,
        Last,
        At(Blob, bool),
    }
    let bound = |text: &[u8]| match text {
        b"-" => Ok(LexBound::First),
        b"+" => Ok(LexBound::Last),
        [b'[', member @ ..] => Ok(LexBound::At(Blob::from_slice(member), false)),
        [b'(', member @ ..] => Ok(LexBound::At(Blob::from_slice(member), true)),
        _ => Err(ErrorReply::new("ERR min or max not valid string range item")),
    };
    let (low, high) = (bound(low)?, bound(high)?);
    Ok(move |set: &Scored| {
        let entries = set.as_slice();
        // The first place that lies behind a bound, or at it.
        let place = |bound: &LexBound, behind: bool| match bound {
            LexBound::First => 0,
            LexBound::Last => entries.len(),
            LexBound::At(end, open) => entries
                .partition_point(|(_, member)| member < end || (*open != behind && member == end)),
        };
        let (start, end) = (place(&low, false), place(&high, true));
        start..end.max(start)
    })
}

#[derive(Default)]
struct ZrangeOptions {
    by: Option<RangeKind>,
    reverse: Option<bool>,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl ZrangeOptions {
    /// `stores`: the scores go with the members, and are not asked for.
    fn parse(
        args: &[&[u8]],
        by: Option<RangeKind>,
        reverse: Option<bool>,
        stores: bool,
    ) -> Result<Self, ErrorReply> {
        let mut options = Self { by, reverse, ..Self::default() };
        let mut args = args.iter();
        while let Some(word) = args.next() {
            match word {
                word if !stores && is_word(word, "WITHSCORES") => options.with_scores = true,
                word if is_word(word, "LIMIT") && args.len() >= 2 => {
                    let mut limit = || number(args.next().copied().unwrap_or_default());
                    options.limit = Some((limit()?, limit()?));
                }
                word if is_word(word, "REV") && options.reverse.is_none() => {
                    options.reverse = Some(true);
                }
                word if is_word(word, "BYLEX") && options.by.is_none() => {
                    options.by = Some(RangeKind::Bytes);
                }
                word if is_word(word, "BYSCORE") && options.by.is_none() => {
                    options.by = Some(RangeKind::Score);
                }
                _ => return Err(ErrorReply::SYNTAX),
            }
        }
        let by = options.by.unwrap_or(RangeKind::Rank);
        if options.limit.is_some_and(|(_, count)| count != -1) && by == RangeKind::Rank {
            return Err(ErrorReply::new(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if options.with_scores && by == RangeKind::Bytes {
            return Err(ErrorReply::new(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        Ok(options)
    }
}

fn zrange(
    server: &mut Server,
    request: &Request<'_>,
    by: Option<RangeKind>,
    reverse: Option<bool>,
) -> CommandResult {
    let options = ZrangeOptions::parse(&request.args[4..], by, reverse, false)?;
    let nested = server.session(request).protocol == ProtocolVersion::Resp3;
    let found = found(server, request, &request.args[1..4], &options)?;
    Ok(listed(found, options.with_scores, nested))
}

fn zrangestore(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let options = ZrangeOptions::parse(&request.args[5..], None, None, true)?;
    let found = found(server, request, &request.args[2..5], &options)?;
    let count = found.len();
    server.store(request, request.args[1], StoredValue::Scored(found.into_iter().collect()));
    Ok(Reply::count(count))
}

/// Which members of a set are wanted.
type FindRange = Box<dyn Fn(&Scored) -> Range<usize>>;

/// The members between two ends; the arguments are the key and the ends.
fn found(
    server: &mut Server,
    request: &Request<'_>,
    args: &[&[u8]],
    options: &ZrangeOptions,
) -> Result<Vec<(f64, Blob)>, ErrorReply> {
    let (key, first, second) = (args[0], args[1], args[2]);
    let by = options.by.unwrap_or(RangeKind::Rank);
    let reverse = options.reverse == Some(true);
    let (low, high) = if reverse { (second, first) } else { (first, second) };
    let places: FindRange = match by {
        RangeKind::Rank => {
            let (start, stop) = (number(first)?, number(second)?);
            Box::new(move |set| {
                let places = range(start, stop, set.len());
                match reverse {
                    true => set.len() - places.end..set.len() - places.start,
                    false => places,
                }
            })
        }
        RangeKind::Score => {
            let range = ScoreRange::parse(low, high)?;
            Box::new(move |set| range.places(set))
        }
        RangeKind::Bytes => Box::new(byte_range(low, high)?),
    };
    let set = server.read_as::<Scored>(request, key)?;
    let within = set.map_or(&[][..], |set| &set.as_slice()[places(set)]);
    // By rank, a limit that takes all is taken and means nothing.
    let limit = options.limit.filter(|_| by != RangeKind::Rank);
    Ok(limited(within, reverse, limit))
}

fn limited(found: &[(f64, Blob)], reverse: bool, limit: Option<(i64, i64)>) -> Vec<(f64, Blob)> {
    let (offset, count) = limit.unwrap_or((0, -1));
    let Ok(offset) = usize::try_from(offset) else { return Vec::new() };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    match reverse {
        true => found.iter().rev().skip(offset).take(count).cloned().collect(),
        false => found.iter().skip(offset).take(count).cloned().collect(),
    }
}

/// Members, and their scores if they are asked for: in pairs where the protocol is RESP3.
pub(super) fn listed(found: Vec<(f64, Blob)>, with_scores: bool, nested: bool) -> Reply {
    let one = |(score, member): (f64, Blob)| match (with_scores, nested) {
        (false, _) => vec![Reply::Bulk(member)],
        (true, false) => vec![Reply::Bulk(member), Reply::Double(score)],
        (true, true) => vec![Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)])],
    };
    Reply::Array(found.into_iter().flat_map(one).collect())
}

fn zremrangebyscore(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let range = ScoreRange::parse(request.args[2], request.args[3])?;
    remove(server, request, |set| range.places(set))
}

fn zremrangebyrank(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (start, stop) = (number(request.args[2])?, number(request.args[3])?);
    remove(server, request, |set| range(start, stop, set.len()))
}

fn zremrangebylex(server: &mut Server, request: &Request<'_>) -> CommandResult {
    remove(server, request, byte_range(request.args[2], request.args[3])?)
}

fn zlexcount(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let places = byte_range(request.args[2], request.args[3])?;
    let set = server.read_as::<Scored>(request, request.args[1])?;
    Ok(Reply::count(set.map_or(0, |set| places(set).len())))
}

fn remove(
    server: &mut Server,
    request: &Request<'_>,
    places: impl Fn(&Scored) -> Range<usize>,
) -> CommandResult {
    server.take_out(request, |set: &mut Scored| set.drain(places(set)).len())
}
