//! Sorted sets, member by member: ZADD, ZINCRBY, ZREM, ZSCORE, ZMSCORE, ZRANK, ZREVRANK, ZCARD, ZCOUNT,
//! ZPOPMIN, ZPOPMAX.
//!
//! Invariant: a score is never NaN: an addition that would make one is refused and changes nothing.
//! Operations on several sets are in `algebra`, ZMPOP is in `blocking`.

use resp::{Blob, ErrorReply, ProtocolVersion, Reply, float, is_word};

use super::arguments::optional_count;
use super::zrange::{ScoreRange, listed};
use crate::scored::Scored;
use crate::server::blocking::ListEnd;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const READ: u32 = flag::READONLY | flag::FAST;
const WRITE: u32 = flag::WRITE | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::SORTED_SET.keyed("zadd", -4, WRITE | flag::DENYOOM, |s, r| zadd(s, r, false)),
    group::SORTED_SET.keyed("zincrby", 4, WRITE | flag::DENYOOM, |s, r| zadd(s, r, true)),
    group::SORTED_SET.keyed("zrem", -3, WRITE, zrem),
    group::SORTED_SET.keyed("zscore", 3, READ, zscore),
    group::SORTED_SET.keyed("zmscore", -3, READ, zmscore),
    group::SORTED_SET.keyed("zrank", 3, READ, |s, r| rank(s, r, false)),
    group::SORTED_SET.keyed("zrevrank", 3, READ, |s, r| rank(s, r, true)),
    group::SORTED_SET.keyed("zcard", 2, READ, zcard),
    group::SORTED_SET.keyed("zpopmin", -2, WRITE, |s, r| pop(s, r, ListEnd::Left)),
    group::SORTED_SET.keyed("zpopmax", -2, WRITE, |s, r| pop(s, r, ListEnd::Right)),
    group::SORTED_SET.keyed("zcount", 4, READ, zcount),
];

const NOT_A_FLOAT: ErrorReply = ErrorReply::new("ERR value is not a valid float");

/// When a score is set, and what is answered.
#[derive(Clone, Copy, Default)]
struct ZaddConditions {
    only_new: bool,
    only_known: bool,
    greater: bool,
    less: bool,
    count_changed: bool,
    increment: bool,
}

impl ZaddConditions {
    /// Reads the options, and returns what follows them.
    fn parse<'a, 'b>(args: &'b [&'a [u8]]) -> Result<(Self, &'b [&'a [u8]]), ErrorReply> {
        let mut given = Self::default();
        let mut rest = args;
        while let [word, after @ ..] = rest {
            match word {
                word if is_word(word, "NX") => given.only_new = true,
                word if is_word(word, "XX") => given.only_known = true,
                word if is_word(word, "GT") => given.greater = true,
                word if is_word(word, "LT") => given.less = true,
                word if is_word(word, "CH") => given.count_changed = true,
                word if is_word(word, "INCR") => given.increment = true,
                _ => break,
            }
            rest = after;
        }
        let fail = match () {
            () if rest.is_empty() || rest.len() % 2 == 1 => return Err(ErrorReply::SYNTAX),
            () if given.only_new && given.only_known => {
                "ERR XX and NX options at the same time are not compatible"
            }
            () if (given.greater && given.less)
                || (given.only_new && (given.greater || given.less)) =>
            {
                "ERR GT, LT, and/or NX options at the same time are not compatible"
            }
            () if given.increment && rest.len() > 2 => {
                "ERR INCR option supports a single increment-element pair"
            }
            () => return Ok((given, rest)),
        };
        Err(ErrorReply::new(fail))
    }

    /// The score that a member is to have; none: it stays as it is.
    fn score(self, before: Option<f64>, given: f64) -> Result<Option<f64>, ErrorReply> {
        let Some(before) = before else { return Ok((!self.only_known).then_some(given)) };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.increment { before + given } else { given };
        if score.is_nan() {
            return Err(ErrorReply::new("ERR resulting score is not a number (NaN)"));
        }
        let refused = (self.less && score >= before) || (self.greater && score <= before);
        Ok((!refused).then_some(score))
    }
}

/// ZADD, or ZINCRBY, which also takes the options of ZADD for what they are.
fn zadd(server: &mut Server, request: &Request<'_>, increment: bool) -> CommandResult {
    let (mut conditions, pairs) = ZaddConditions::parse(&request.args[2..])?;
    conditions.increment |= increment;
    let scores = pairs.iter().step_by(2).map(|text| float(text).ok_or(NOT_A_FLOAT));
    let scores: Vec<f64> = scores.collect::<Result<_, _>>()?;
    let slot = server.find_as::<Scored>(request, request.args[1])?;
    server.event = if conditions.increment { "zincr" } else { "zadd" };
    server.edit(request, request.args[1], slot, |set: &mut Scored| {
        let (mut added, mut updated, mut last) = (0, 0, None);
        for (&score, member) in scores.iter().zip(pairs.iter().skip(1).step_by(2)) {
            let before = set.score(member);
            let Some(score) = conditions.score(before, score)? else { continue };
            last = Some(score);
            match before {
                None => added += 1,
                Some(before) if before == score => continue,
                Some(_) => updated += 1,
            }
            set.insert(member, score);
        }
        let reply = match () {
            () if conditions.increment => last.map_or(Reply::Nil, Reply::Double),
            () if conditions.count_changed => Reply::Int(added + updated),
            () => Reply::Int(added),
        };
        Ok((reply, added + updated > 0))
    })
}

fn zrem(server: &mut Server, request: &Request<'_>) -> CommandResult {
    server.take_out(request, |set: &mut Scored| {
        request.args[2..].iter().filter(|member| set.remove(member)).count()
    })
}

fn zscore(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as::<Scored>(request, request.args[1])?;
    let score = set.and_then(|set| set.score(request.args[2]));
    Ok(score.map_or(Reply::Nil, Reply::Double))
}

fn zmscore(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as::<Scored>(request, request.args[1])?;
    let one =
        |member: &&[u8]| set.and_then(|set| set.score(member)).map_or(Reply::Nil, Reply::Double);
    Ok(Reply::Array(request.args[2..].iter().map(one).collect()))
}

fn rank(server: &mut Server, request: &Request<'_>, from_highest: bool) -> CommandResult {
    let Some(set) = server.read_as::<Scored>(request, request.args[1])? else {
        return Ok(Reply::Nil);
    };
    let rank = set.rank(request.args[2]);
    let rank = rank.map(|rank| if from_highest { set.len() - 1 - rank } else { rank });
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

fn zcard(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as::<Scored>(request, request.args[1])?;
    Ok(Reply::count(set.map_or(0, Scored::len)))
}

fn zcount(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let range = ScoreRange::parse(request.args[2], request.args[3])?;
    let set = server.read_as::<Scored>(request, request.args[1])?;
    Ok(Reply::count(set.map_or(0, |set| range.places(set).len())))
}

fn pop(server: &mut Server, request: &Request<'_>, from: ListEnd) -> CommandResult {
    let count = optional_count(request)?;
    let slot = server.find_as::<Scored>(request, request.args[1])?;
    let Some(slot) = slot else { return Ok(Reply::Array(Vec::new())) };
    let popped = pop_scored_at(server, request, slot, from, count.unwrap_or(1))?;
    let nested = server.session(request).protocol == ProtocolVersion::Resp3 && count.is_some();
    Ok(listed(popped, true, nested))
}

/// Takes this many members from an end of the sorted set at a slot.
pub(super) fn pop_scored_at(
    server: &mut Server,
    request: &Request<'_>,
    slot: u32,
    from: ListEnd,
    count: usize,
) -> Result<Vec<(f64, Blob)>, ErrorReply> {
    server.event = if from == ListEnd::Left { "zpopmin" } else { "zpopmax" };
    let set = server.value_mut::<Scored>(request, slot)?;
    let count = count.min(set.len());
    let popped = match from {
        ListEnd::Left => set.drain(0..count),
        ListEnd::Right => set.drain(set.len() - count..set.len()).into_iter().rev().collect(),
    };
    if count > 0 {
        server.elements_removed(request, slot);
    }
    Ok(popped)
}
