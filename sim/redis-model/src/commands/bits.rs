//! Strings as bits: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP.
//!
//! Invariant: the first bit is the highest one of the first byte. Not modelled: BITFIELD.

use resp::{Blob, ErrorReply, Reply, decimal, is_word};

use super::arguments::number;
use super::strings::{clamped, edit, span};
use crate::server::{CommandResult, CommandSpec, Expiry, Request, Server, flag, group};
use crate::value::{Elements, StoredValue};

const WRITE: u32 = flag::WRITE | flag::DENYOOM;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::BITMAP.keyed("setbit", 4, WRITE, setbit),
    group::BITMAP.keyed("getbit", 3, flag::READONLY | flag::FAST, getbit),
    group::BITMAP.keyed("bitcount", -2, flag::READONLY, bitcount),
    group::BITMAP.keyed("bitpos", -3, flag::READONLY, bitpos),
    group::BITMAP.command("bitop", -4, WRITE, bitop).keys(2, -1, 1),
];

/// As many as a string may have.
const BITS_MAX: usize = 512 * 1024 * 1024 * 8;

fn place(text: &[u8]) -> Result<usize, ErrorReply> {
    let place = decimal(text).and_then(|place| usize::try_from(place).ok());
    let place = place.filter(|&place| place < BITS_MAX);
    place.ok_or(ErrorReply::new("ERR bit offset is not an integer or out of range"))
}

fn bit(bytes: &[u8], place: usize) -> bool {
    bytes.get(place / 8).is_some_and(|byte| byte & (0x80 >> (place % 8)) != 0)
}

fn setbit(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let place = place(request.args[2])?;
    let on = match request.args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(ErrorReply::new("ERR bit is not an integer or out of range")),
    };
    let slot = server.find_as::<Blob>(request, request.args[1])?;
    if let Some(slot) = slot {
        let value = server.value::<Blob>(request, slot)?;
        if place / 8 < value.len() && bit(value, place) == on {
            return Ok(Reply::Int(i64::from(on)));
        }
    }
    edit(server, request, slot, |value| {
        value.resize(value.len().max(place / 8 + 1), 0);
        let before = bit(value, place);
        let mask = 0x80 >> (place % 8);
        value[place / 8] = value[place / 8] & !mask | if on { mask } else { 0 };
        Reply::Int(i64::from(before))
    })
}

fn getbit(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let place = place(request.args[2])?;
    let value = server.read_as::<Blob>(request, request.args[1])?;
    Ok(Reply::Int(i64::from(value.is_some_and(|value| bit(value, place)))))
}

/// Whether a range is given in bits.
fn in_bits(unit: &[u8]) -> Result<bool, ErrorReply> {
    match unit {
        unit if is_word(unit, "BIT") => Ok(true),
        unit if is_word(unit, "BYTE") => Ok(false),
        _ => Err(ErrorReply::SYNTAX),
    }
}

fn bitcount(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let Some(value) = server.read_as::<Blob>(request, request.args[1])? else {
        return Ok(Reply::Int(0));
    };
    let bits = match request.args[2..] {
        [] => 0..value.len() * 8,
        [start, end, ref unit @ ..] if unit.len() < 2 => {
            let (start, end) = (number(start)?, number(end)?);
            match unit.first().map_or(Ok(false), |unit| in_bits(unit))? {
                true => span(start, end, value.len() * 8),
                false => {
                    let bytes = span(start, end, value.len());
                    bytes.start * 8..bytes.end * 8
                }
            }
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    Ok(Reply::count(bits.filter(|&place| bit(value, place)).count()))
}

fn bitpos(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let wanted = match number(request.args[2])? {
        0 => false,
        1 => true,
        _ => return Err(ErrorReply::new("ERR The bit argument must be 1 or 0.")),
    };
    let Some(value) = server.read_as::<Blob>(request, request.args[1])? else {
        return Ok(Reply::Int(if wanted { -1 } else { 0 }));
    };
    let (start, end, unit) = match request.args[3..] {
        [] => (0, None, None),
        [start] => (number(start)?, None, None),
        [start, end] => (number(start)?, Some(end), None),
        [start, end, unit] => (number(start)?, Some(end), Some(unit)),
        _ => return Err(ErrorReply::SYNTAX),
    };
    let scale = if unit.map_or(Ok(false), in_bits)? { 1 } else { 8 };
    let units = value.len() * 8 / scale;
    let last = end.map_or(Ok(-1), number)?;
    let range = clamped(start, last, units);
    let found = (range.start * scale..range.end * scale).find(|&place| bit(value, place) == wanted);
    // Without an end, zeros follow the value.
    let beyond = !wanted && end.is_none() && !range.is_empty();
    Ok(match found {
        Some(place) => Reply::count(place),
        None if beyond => Reply::count(value.len() * 8),
        None => Reply::Int(-1),
    })
}

fn bitop(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (target, sources) = (request.args[2], &request.args[3..]);
    let (negated, combine): (bool, fn(u8, u8) -> u8) = match request.args[1] {
        word if is_word(word, "AND") => (false, |one, other| one & other),
        word if is_word(word, "OR") => (false, |one, other| one | other),
        word if is_word(word, "XOR") => (false, |one, other| one ^ other),
        word if !is_word(word, "NOT") => return Err(ErrorReply::SYNTAX),
        _ if sources.len() > 1 => {
            return Err(ErrorReply::new("ERR BITOP NOT must be called with a single source key."));
        }
        _ => (true, |one, _| one),
    };
    let mut values = Vec::with_capacity(sources.len());
    for key in sources {
        let value = server.read_as::<Blob>(request, key)?;
        values.push(value.cloned().unwrap_or_default());
    }
    let len = values.iter().map(|value| value.len()).max().unwrap_or(0);
    let byte = |place: usize| {
        // Where a value has ended, zeros follow it.
        let bytes = values.iter().map(|value: &Blob| value.get(place).copied().unwrap_or(0));
        let combined = bytes.reduce(combine).unwrap_or(0);
        if negated { !combined } else { combined }
    };
    let result: Blob = (0..len).map(byte).collect();
    server.event = "set";
    match len {
        0 => server.store(request, target, StoredValue::List(Elements::new())),
        _ => server.put(request, target, StoredValue::Str(result), Expiry::Never),
    }
    Ok(Reply::count(len))
}
