//! The `struct` library: `pack`, `unpack`, `size`.
//!
//! Invariant: formats are those of Roberto Ierusalimschy's `struct` 0.2 as Redis builds it, on a 64-bit
//! machine of low bytes first. Deliberately absent: alignment (`!` above 1 with letters that need it).

use mlua::{Lua, MultiValue, Table, Value};

use super::api::lua_fail;
use super::convert::integer_of;

/// The library as a table.
pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("pack", lua.create_function(pack)?)?;
    table.set("unpack", lua.create_function(unpack)?)?;
    table.set("size", lua.create_function(size)?)?;
    Ok(table)
}

/// One letter of a format.
#[derive(Clone, Copy)]
enum Item {
    Integer {
        width: usize,
        signed: bool,
    },
    Single,
    Double,
    /// `c0` takes its length from the value before.
    Chars(usize),
    ZeroEnded,
    Padding,
}

struct Format<'a> {
    function: &'static str,
    rest: &'a [u8],
    big: bool,
}

impl Format<'_> {
    fn number(&mut self, default: usize) -> usize {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return default;
        }
        let text = std::str::from_utf8(&self.rest[..digits]).unwrap_or_default();
        self.rest = &self.rest[digits..];
        text.parse().unwrap_or(usize::MAX)
    }

    fn next(&mut self, lua: &Lua) -> mlua::Result<Option<Item>> {
        while let [letter, rest @ ..] = self.rest {
            self.rest = rest;
            let integer = |width, signed| Item::Integer { width, signed };
            return Ok(Some(match letter {
                b'b' | b'B' => integer(1, *letter == b'b'),
                b'h' | b'H' => integer(2, *letter == b'h'),
                b'l' | b'L' => integer(8, *letter == b'l'),
                b'T' => integer(8, false),
                b'i' | b'I' => {
                    let signed = *letter == b'i';
                    let width = self.number(4);
                    if width > 32 || width == 0 {
                        let text = format!("integral size {width} is larger than limit of {}", 32);
                        return Err(lua_fail(lua, &text));
                    }
                    integer(width, signed)
                }
                b'f' => Item::Single,
                b'd' | b'n' => Item::Double,
                b'c' => Item::Chars(self.number(1)),
                b's' => Item::ZeroEnded,
                b'x' => Item::Padding,
                b' ' => continue,
                b'<' => {
                    self.big = false;
                    continue;
                }
                b'>' => {
                    self.big = true;
                    continue;
                }
                b'!' => {
                    self.number(8);
                    continue;
                }
                other => {
                    let text = format!("invalid format option '{}'", char::from(*other));
                    return Err(bad_argument(lua, 1, self.function, &text));
                }
            }));
        }
        Ok(None)
    }
}

fn bad_argument(lua: &Lua, at: usize, function: &str, why: &str) -> mlua::Error {
    lua_fail(lua, &format!("bad argument #{at} to '{function}' ({why})"))
}

fn format_of(lua: &Lua, args: &MultiValue, function: &str) -> mlua::Result<Vec<u8>> {
    match args.front() {
        Some(Value::String(text)) => Ok(text.as_bytes().to_vec()),
        other => {
            let got = other.map_or("no value", |value| value.type_name());
            Err(bad_argument(lua, 1, function, &format!("string expected, got {got}")))
        }
    }
}

fn number(lua: &Lua, args: &MultiValue, at: usize, function: &str) -> mlua::Result<f64> {
    #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
    match args.get(at) {
        Some(Value::Integer(value)) => Ok(*value as f64),
        Some(Value::Number(value)) => Ok(*value),
        Some(text @ Value::String(_)) if integer_of(text).is_some() => {
            Ok(integer_of(text).unwrap_or_default() as f64)
        }
        other => {
            let got = other.map_or("nil", |value| value.type_name());
            Err(bad_argument(lua, at + 1, function, &format!("number expected, got {got}")))
        }
    }
}

fn push(bytes: &[u8], big: bool, out: &mut Vec<u8>) {
    if big {
        out.extend(bytes.iter().rev());
    } else {
        out.extend_from_slice(bytes);
    }
}

fn pack(lua: &Lua, args: MultiValue) -> mlua::Result<mlua::LuaString> {
    let format = format_of(lua, &args, "pack")?;
    let mut format = Format { function: "pack", rest: &format, big: false };
    let (mut out, mut at) = (Vec::new(), 1);
    while let Some(item) = format.next(lua)? {
        match item {
            Item::Padding => {
                out.push(0);
                continue;
            }
            Item::Integer { width, .. } => {
                let value = number(lua, &args, at, "pack")?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as C")]
                let value = if value < 0.0 { (value as i64).cast_unsigned() } else { value as u64 };
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(width, 0);
                push(&bytes, format.big, &mut out);
            }
            Item::Single => {
                #[expect(clippy::cast_possible_truncation, reason = "it is asked for")]
                let value = number(lua, &args, at, "pack")? as f32;
                push(&value.to_le_bytes(), format.big, &mut out);
            }
            Item::Double => {
                let value = number(lua, &args, at, "pack")?;
                push(&value.to_le_bytes(), format.big, &mut out);
            }
            Item::Chars(_) | Item::ZeroEnded => {
                let text = match args.get(at) {
                    Some(Value::String(text)) => text.as_bytes().to_vec(),
                    other => {
                        let got = other.map_or("nil", |value| value.type_name());
                        let why = format!("string expected, got {got}");
                        return Err(bad_argument(lua, at + 1, "pack", &why));
                    }
                };
                let count = match item {
                    Item::Chars(count) if count > 0 => count,
                    _ => text.len(),
                };
                let Some(text) = text.get(..count) else {
                    // Counted one too far, as there.
                    return Err(bad_argument(lua, at + 2, "pack", "string too short"));
                };
                out.extend_from_slice(text);
                if matches!(item, Item::ZeroEnded) {
                    out.push(0);
                }
            }
        }
        at += 1;
    }
    lua.create_string(&out)
}

fn unpack(lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let format = format_of(lua, &args, "unpack")?;
    let mut format = Format { function: "unpack", rest: &format, big: false };
    let Some(Value::String(data)) = args.get(1) else {
        let got = args.get(1).map_or("no value", |value| value.type_name());
        return Err(bad_argument(lua, 2, "unpack", &format!("string expected, got {got}")));
    };
    let data = data.as_bytes();
    let start = args.get(2).and_then(integer_of).unwrap_or(1);
    let Some(mut at) = start.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else {
        return Err(bad_argument(lua, 3, "unpack", "offset must be 1 or greater"));
    };
    let short = || bad_argument(lua, 2, "unpack", "data string too short");
    let mut values: Vec<Value> = Vec::new();
    while let Some(item) = format.next(lua)? {
        let width = match item {
            Item::Integer { width, .. } => width,
            Item::Single => 4,
            Item::Double => 8,
            Item::Padding => 1,
            Item::Chars(0) => match values.pop().as_ref().and_then(integer_of) {
                Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
                None => return Err(lua_fail(lua, "format 'c0' needs a previous size")),
            },
            Item::Chars(count) => count,
            Item::ZeroEnded => {
                let rest = data.get(at..).ok_or_else(short)?;
                match rest.iter().position(|&byte| byte == 0) {
                    Some(count) => count,
                    None => return Err(lua_fail(lua, "unfinished string in data")),
                }
            }
        };
        let bytes = at.checked_add(width).and_then(|end| data.get(at..end)).ok_or_else(short)?;
        at += width + usize::from(matches!(item, Item::ZeroEnded));
        let ordered = |bytes: &[u8]| -> Vec<u8> {
            if format.big { bytes.iter().rev().copied().collect() } else { bytes.to_vec() }
        };
        #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
        values.push(match item {
            Item::Padding => continue,
            Item::Chars(_) | Item::ZeroEnded => Value::String(lua.create_string(bytes)?),
            Item::Single => {
                let bytes = <[u8; 4]>::try_from(&ordered(bytes)[..]).unwrap_or_default();
                Value::Number(f64::from(f32::from_le_bytes(bytes)))
            }
            Item::Double => {
                let bytes = <[u8; 8]>::try_from(&ordered(bytes)[..]).unwrap_or_default();
                Value::Number(f64::from_le_bytes(bytes))
            }
            Item::Integer { width, signed } => {
                let mut bytes = ordered(bytes);
                bytes.resize(8, 0);
                let value = u64::from_le_bytes(<[u8; 8]>::try_from(&bytes[..]).unwrap_or_default());
                let shift = 64 - 8 * u32::try_from(width.min(8)).unwrap_or(8);
                let value = (value << shift).cast_signed() >> shift;
                let mask = u64::MAX >> shift;
                Value::Number(if signed {
                    value as f64
                } else {
                    (value.cast_unsigned() & mask) as f64
                })
            }
        });
    }
    values.push(Value::Number(f64::from(u32::try_from(at + 1).unwrap_or(u32::MAX))));
    Ok(MultiValue::from_iter(values))
}

fn size(lua: &Lua, args: MultiValue) -> mlua::Result<i64> {
    let format = format_of(lua, &args, "size")?;
    let mut format = Format { function: "size", rest: &format, big: false };
    let mut total = 0;
    while let Some(item) = format.next(lua)? {
        total += match item {
            Item::Integer { width, .. } => width,
            Item::Single => 4,
            Item::Double => 8,
            Item::Padding => 1,
            Item::Chars(count) if count > 0 => count,
            Item::Chars(_) | Item::ZeroEnded => {
                let option = if matches!(item, Item::ZeroEnded) { "s" } else { "c0" };
                let why = format!("option '{option}' has no fixed size");
                return Err(bad_argument(lua, 1, "size", &why));
            }
        };
    }
    Ok(i64::try_from(total).unwrap_or(i64::MAX))
}
