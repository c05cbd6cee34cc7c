//! Operations on several sets: SINTER, SUNION, SDIFF, ZINTER, ZUNION, ZDIFF, the forms of each that
//! store, SINTERCARD and ZINTERCARD.
//!
//! Invariant: plain sets are combined as sorted ones whose scores are all 1, so there is one routine.
//! Scores are added from the smallest set to the largest, because sums of floating-point numbers depend
//! on it.

use std::collections::BTreeMap;

use resp::encode::ProtocolVersion;
use resp::number::{decimal, float};
use resp::reply::{Answer, ErrorReply, Reply};
use resp::text::{Blob, is_word};

use super::arguments::positive;
use super::zrange::listed;
use crate::scored::Scored;
use crate::server::table::{CommandSpec, Handler, flag};
use crate::server::{Request, Server};
use crate::value::Value;

const READ: u32 = flag::READONLY;
const STORE: u32 = flag::WRITE | flag::DENYOOM;
const MOVABLE_STORE: u32 = STORE | flag::MOVABLE_KEYS;

pub(crate) const SPECS: &[CommandSpec] = &[
    plain("sinter", -2, READ, |s, r| sets(s, r, Operation::Intersection)),
    plain("sunion", -2, READ, |s, r| sets(s, r, Operation::Union)),
    plain("sdiff", -2, READ, |s, r| sets(s, r, Operation::Difference)),
    plain("sinterstore", -3, STORE, |s, r| store_sets(s, r, Operation::Intersection)),
    plain("sunionstore", -3, STORE, |s, r| store_sets(s, r, Operation::Union)),
    plain("sdiffstore", -3, STORE, |s, r| store_sets(s, r, Operation::Difference)),
    CommandSpec::new("sintercard", -3, READ, sintercard).counted_keys(1).group("set"),
    scored("zinter", |s, r| scored_sets(s, r, Operation::Intersection)),
    scored("zunion", |s, r| scored_sets(s, r, Operation::Union)),
    scored("zdiff", |s, r| scored_sets(s, r, Operation::Difference)),
    stored("zinterstore", |s, r| store_scored(s, r, Operation::Intersection)),
    stored("zunionstore", |s, r| store_scored(s, r, Operation::Union)),
    stored("zdiffstore", |s, r| store_scored(s, r, Operation::Difference)),
    scored("zintercard", zintercard),
];

const fn plain(name: &'static str, arity: i8, flags: u32, handler: Handler) -> CommandSpec {
    CommandSpec::new(name, arity, flags, handler).keys(1, -1, 1).group("set")
}

const fn scored(name: &'static str, handler: Handler) -> CommandSpec {
    CommandSpec::new(name, -3, READ, handler).counted_keys(1).group("sortedset")
}

const fn stored(name: &'static str, handler: Handler) -> CommandSpec {
    CommandSpec::new(name, -4, MOVABLE_STORE, handler).keys(1, 1, 1).group("sortedset")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
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

type Members = BTreeMap<Blob, f64>;

/// The members of the sets at these keys. Where `or_scored`, sorted sets are taken too.
fn operands(
    server: &mut Server,
    request: &Request<'_>,
    keys: &[&[u8]],
    or_scored: bool,
) -> Result<Vec<Members>, ErrorReply> {
    let mut operands = Vec::with_capacity(keys.len());
    for key in keys {
        operands.push(match server.read(request, key).map(|entry| &entry.value) {
            None => Members::new(),
            Some(Value::Scored(set)) if or_scored => {
                set.as_slice().iter().map(|(score, member)| (member.clone(), *score)).collect()
            }
            Some(value) => value.as_set()?.iter().map(|member| (member.clone(), 1.0)).collect(),
        });
    }
    Ok(operands)
}

fn combine(operation: Operation, mut operands: Vec<Members>, aggregate: Aggregate) -> Members {
    if operation != Operation::Difference {
        operands.sort_by_key(BTreeMap::len);
    }
    let mut operands = operands.into_iter();
    let mut result = operands.next().unwrap_or_default();
    for operand in operands {
        match operation {
            Operation::Difference => result.retain(|member, _| !operand.contains_key(member)),
            Operation::Intersection => result.retain(|member, score| {
                let other = operand.get(member);
                *score = other.map_or(*score, |other| aggregate.of(*score, *other));
                other.is_some()
            }),
            Operation::Union => {
                for (member, score) in operand {
                    let add = |before: &mut f64| *before = aggregate.of(*before, score);
                    result.entry(member).and_modify(add).or_insert(score);
                }
            }
        }
    }
    result
}

fn sets(server: &mut Server, request: &Request<'_>, operation: Operation) -> Answer {
    let operands = operands(server, request, &request.args[1..], false)?;
    let members = combine(operation, operands, Aggregate::Sum);
    Ok(Reply::Set(members.into_keys().map(Reply::Bulk).collect()))
}

fn store_sets(server: &mut Server, request: &Request<'_>, operation: Operation) -> Answer {
    let operands = operands(server, request, &request.args[2..], false)?;
    let members = combine(operation, operands, Aggregate::Sum);
    let count = members.len();
    server.store(request, request.args[1], Value::Set(members.into_keys().collect()));
    Ok(Reply::count(count))
}

fn sintercard(server: &mut Server, request: &Request<'_>) -> Answer {
    let count = positive(request.args[1]).ok().filter(|&count| count > 0);
    let count = count.ok_or(ErrorReply::new("ERR numkeys should be greater than 0"))?;
    let keys = request.args[2..].get(..count);
    let keys =
        keys.ok_or(ErrorReply::new("ERR Number of keys can't be greater than number of args"))?;
    let limit = Options::parse(&request.args[2 + count..], count, Form::Count)?.limit;
    let operands = operands(server, request, keys, false)?;
    let members = combine(Operation::Intersection, operands, Aggregate::Sum);
    Ok(Reply::count(members.len().min(limit)))
}

/// Which options a command knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Reply(Operation),
    Store(Operation),
    Count,
}

#[derive(Default)]
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

impl Options {
    fn parse(args: &[&[u8]], keys: usize, form: Form) -> Result<Self, ErrorReply> {
        use Form::{Count, Reply, Store};
        let mut options = Self { limit: usize::MAX, ..Self::default() };
        let combines =
            !matches!(form, Count | Reply(Operation::Difference) | Store(Operation::Difference));
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
    form: Form,
) -> Result<(Members, Options), ErrorReply> {
    let count = decimal(args[0]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let name = request.args[0].to_ascii_lowercase();
    let name = String::from_utf8_lossy(&name);
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    let count = count.ok_or_else(|| {
        ErrorReply::of(format!("ERR at least 1 input key is needed for '{name}' command"))
    })?;
    let keys = args[1..].get(..count).ok_or(ErrorReply::SYNTAX)?;
    let mut operands = operands(server, request, keys, true)?;
    let options = Options::parse(&args[1 + count..], count, form)?;
    for (members, weight) in operands.iter_mut().zip(&options.weights) {
        members.values_mut().for_each(|score| *score = number(*score * weight));
    }
    let operation = match form {
        Form::Reply(operation) | Form::Store(operation) => operation,
        Form::Count => Operation::Intersection,
    };
    Ok((combine(operation, operands, options.aggregate), options))
}

fn scored_sets(server: &mut Server, request: &Request<'_>, operation: Operation) -> Answer {
    let form = Form::Reply(operation);
    let (members, options) = combined(server, request, &request.args[1..], form)?;
    let nested = server.session(request).protocol == ProtocolVersion::Resp3;
    Ok(listed(in_order(members).as_slice().to_vec(), options.with_scores, nested))
}

fn in_order(members: Members) -> Scored {
    members.into_iter().map(|(member, score)| (score, member)).collect()
}

fn store_scored(server: &mut Server, request: &Request<'_>, operation: Operation) -> Answer {
    let form = Form::Store(operation);
    let (members, _) = combined(server, request, &request.args[2..], form)?;
    let count = members.len();
    server.store(request, request.args[1], Value::Scored(in_order(members)));
    Ok(Reply::count(count))
}

fn zintercard(server: &mut Server, request: &Request<'_>) -> Answer {
    let (members, options) = combined(server, request, &request.args[1..], Form::Count)?;
    Ok(Reply::count(members.len().min(options.limit)))
}
