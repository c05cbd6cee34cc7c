//! Operations on several sets: SINTER, SUNION, SDIFF, ZINTER, ZUNION, ZDIFF, the forms of each that
//! store, SINTERCARD and ZINTERCARD.
//!
//! Invariant: plain sets are combined as sorted ones whose scores are all 1, so there is one routine.
//! Scores are added from the smallest set to the largest, because sums of floating-point numbers depend
//! on it.

use std::collections::BTreeMap;

use resp::{Blob, ErrorReply, ProtocolVersion, Reply, float, is_word};

use super::arguments::positive;
use super::zrange::listed;
use crate::scored::Scored;
use crate::server::{CommandResult, CommandSpec, Handler, Request, Server, flag, group};
use crate::value::{SetMembers, StoredValue};

const READ: u32 = flag::READONLY;
const STORE: u32 = flag::WRITE | flag::DENYOOM;
const MOVABLE_STORE: u32 = STORE | flag::MOVABLE_KEYS;

pub(crate) const SPECS: &[CommandSpec] = &[
    plain("sinter", -2, READ, |s, r| sets(s, r, SetOp::Intersection)),
    plain("sunion", -2, READ, |s, r| sets(s, r, SetOp::Union)),
    plain("sdiff", -2, READ, |s, r| sets(s, r, SetOp::Difference)),
    plain("sinterstore", -3, STORE, |s, r| store_sets(s, r, SetOp::Intersection)),
    plain("sunionstore", -3, STORE, |s, r| store_sets(s, r, SetOp::Union)),
    plain("sdiffstore", -3, STORE, |s, r| store_sets(s, r, SetOp::Difference)),
    group::SET.command("sintercard", -3, READ, sintercard).counted_keys(1),
    scored("zinter", |s, r| scored_sets(s, r, SetOp::Intersection)),
    scored("zunion", |s, r| scored_sets(s, r, SetOp::Union)),
    scored("zdiff", |s, r| scored_sets(s, r, SetOp::Difference)),
    stored("zinterstore", |s, r| store_scored(s, r, SetOp::Intersection)),
    stored("zunionstore", |s, r| store_scored(s, r, SetOp::Union)),
    stored("zdiffstore", |s, r| store_scored(s, r, SetOp::Difference)),
    scored("zintercard", zintercard),
];

const fn plain(name: &'static str, arity: i8, flags: u32, handler: Handler) -> CommandSpec {
    group::SET.command(name, arity, flags, handler).keys(1, -1, 1)
}

const fn scored(name: &'static str, handler: Handler) -> CommandSpec {
    group::SORTED_SET.command(name, -3, READ, handler).counted_keys(1)
}

const fn stored(name: &'static str, handler: Handler) -> CommandSpec {
    group::SORTED_SET.command(name, -4, MOVABLE_STORE, handler).keys(1, 1, 1)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SetOp {
    Union,
    Intersection,
    Difference,
}

#[derive(Clone, Copy, Default)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinity and its negative are nothing together.
            Self::Sum => number(one + other),
            Self::Min => one.min(other),
            Self::Max => one.max(other),
        }
    }
}

fn number(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

type WeightedMembers = BTreeMap<Blob, f64>;

/// The members of the sets at these keys. Where `or_scored`, sorted sets are taken too.
fn operands(
    server: &mut Server,
    request: &Request<'_>,
    keys: &[&[u8]],
    or_scored: bool,
) -> Result<Vec<WeightedMembers>, ErrorReply> {
    let mut operands = Vec::with_capacity(keys.len());
    for key in keys {
        operands.push(match server.read(request, key).map(|entry| &entry.value) {
            None => WeightedMembers::new(),
            Some(StoredValue::Scored(set)) if or_scored => {
                set.as_slice().iter().map(|(score, member)| (member.clone(), *score)).collect()
            }
            Some(value) => {
                value.get::<SetMembers>()?.iter().map(|member| (member.clone(), 1.0)).collect()
            }
        });
    }
    Ok(operands)
}

fn combine(
    operation: SetOp,
    mut operands: Vec<WeightedMembers>,
    aggregate: Aggregate,
) -> WeightedMembers {
    if operation != SetOp::Difference {
        operands.sort_by_key(BTreeMap::len);
    }
    let mut operands = operands.into_iter();
    let mut result = operands.next().unwrap_or_default();
    for operand in operands {
        match operation {
            SetOp::Difference => result.retain(|member, _| !operand.contains_key(member)),
            SetOp::Intersection => result.retain(|member, score| {
                let other = operand.get(member);
                *score = other.map_or(*score, |other| aggregate.of(*score, *other));
                other.is_some()
            }),
            SetOp::Union => {
                for (member, score) in operand {
                    let add = |before: &mut f64| *before = aggregate.of(*before, score);
                    result.entry(member).and_modify(add).or_insert(score);
                }
            }
        }
    }
    result
}

fn sets(server: &mut Server, request: &Request<'_>, operation: SetOp) -> CommandResult {
    let operands = operands(server, request, &request.args[1..], false)?;
    let members = combine(operation, operands, Aggregate::Sum);
    Ok(Reply::Set(members.into_keys().map(Reply::Bulk).collect()))
}

fn store_sets(server: &mut Server, request: &Request<'_>, operation: SetOp) -> CommandResult {
    let operands = operands(server, request, &request.args[2..], false)?;
    let members = combine(operation, operands, Aggregate::Sum);
    let count = members.len();
    server.store(request, request.args[1], StoredValue::Set(members.into_keys().collect()));
    Ok(Reply::count(count))
}

fn sintercard(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let count = positive(request.args[1]).ok().filter(|&count| count > 0);
    let count = count.ok_or(ErrorReply::new("ERR numkeys should be greater than 0"))?;
    let keys = request.args[2..].get(..count);
    let keys =
        keys.ok_or(ErrorReply::new("ERR Number of keys can't be greater than number of args"))?;
    let limit = AlgebraOptions::parse(&request.args[2 + count..], count, OptionSet::Count)?.limit;
    let operands = operands(server, request, keys, false)?;
    let members = combine(SetOp::Intersection, operands, Aggregate::Sum);
    Ok(Reply::count(members.len().min(limit)))
}

/// Which options a command knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionSet {
    Reply(SetOp),
    Store(SetOp),
    Count,
}

#[derive(Default)]
struct AlgebraOptions {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

impl AlgebraOptions {
    fn parse(args: &[&[u8]], keys: usize, form: OptionSet) -> Result<Self, ErrorReply> {
        use OptionSet::{Count, Reply, Store};
        let mut options = Self { limit: usize::MAX, ..Self::default() };
        let combines = !matches!(form, Count | Reply(SetOp::Difference) | Store(SetOp::Difference));
        let mut rest = args;
        while let [word, after @ ..] = rest {
            rest = match after {
                all if combines && all.len() >= keys && is_word(word, "WEIGHTS") => {
                    let (weights, after) = all.split_at(keys);
                    let weights = weights.iter().map(|text| {
                        float(text).ok_or(ErrorReply::new("ERR weight value is not a float"))
                    });
                    options.weights = weights.collect::<Result<_, _>>()?;
                    after
                }
                [how, after @ ..] if combines && is_word(word, "AGGREGATE") => {
                    options.aggregate = match how {
                        how if is_word(how, "SUM") => Aggregate::Sum,
                        how if is_word(how, "MIN") => Aggregate::Min,
                        how if is_word(how, "MAX") => Aggregate::Max,
                        _ => return Err(ErrorReply::SYNTAX),
                    };
                    after
                }
                after if matches!(form, Reply(_)) && is_word(word, "WITHSCORES") => {
                    options.with_scores = true;
                    after
                }
                [text, after @ ..] if form == Count && is_word(word, "LIMIT") => {
                    let limit = positive(text);
                    let limit =
                        limit.map_err(|_| ErrorReply::new("ERR LIMIT can't be negative"))?;
                    options.limit = if limit == 0 { usize::MAX } else { limit };
                    after
                }
                _ => return Err(ErrorReply::SYNTAX),
            };
        }
        Ok(options)
    }
}

/// The combined members, and the options. The arguments begin with the number of keys.
fn combined(
    server: &mut Server,
    request: &Request<'_>,
    args: &[&[u8]],
    form: OptionSet,
) -> Result<(WeightedMembers, AlgebraOptions), ErrorReply> {
    let count = super::arguments::number(args[0])?;
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    let count = count.ok_or_else(|| {
        let name = request.name();
        ErrorReply::of(format!("ERR at least 1 input key is needed for '{name}' command"))
    })?;
    let keys = args[1..].get(..count).ok_or(ErrorReply::SYNTAX)?;
    let mut operands = operands(server, request, keys, true)?;
    let options = AlgebraOptions::parse(&args[1 + count..], count, form)?;
    for (members, weight) in operands.iter_mut().zip(&options.weights) {
        members.values_mut().for_each(|score| *score = number(*score * weight));
    }
    let operation = match form {
        OptionSet::Reply(operation) | OptionSet::Store(operation) => operation,
        OptionSet::Count => SetOp::Intersection,
    };
    Ok((combine(operation, operands, options.aggregate), options))
}

fn scored_sets(server: &mut Server, request: &Request<'_>, operation: SetOp) -> CommandResult {
    let form = OptionSet::Reply(operation);
    let (members, options) = combined(server, request, &request.args[1..], form)?;
    let nested = server.session(request).protocol == ProtocolVersion::Resp3;
    Ok(listed(in_order(members).as_slice().to_vec(), options.with_scores, nested))
}

fn in_order(members: WeightedMembers) -> Scored {
    members.into_iter().map(|(member, score)| (score, member)).collect()
}

fn store_scored(server: &mut Server, request: &Request<'_>, operation: SetOp) -> CommandResult {
    let form = OptionSet::Store(operation);
    let (members, _) = combined(server, request, &request.args[2..], form)?;
    let count = members.len();
    server.store(request, request.args[1], StoredValue::Scored(in_order(members)));
    Ok(Reply::count(count))
}

fn zintercard(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (members, options) = combined(server, request, &request.args[1..], OptionSet::Count)?;
    Ok(Reply::count(members.len().min(options.limit)))
}
