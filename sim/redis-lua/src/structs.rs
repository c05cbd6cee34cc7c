//! The `struct` library: `pack`, `unpack`, `size`.
//!
//! Invariant: formats are those of Roberto Ierusalimschy's `struct` 0.2 as Redis builds it, on a 64-bit
//! machine of low bytes first.

use mlua::{Lua, MultiValue, Table, Value};

use super::args::{LuaArgs, number_of, truncated};
use super::limits::RESULTS;
use crate::error::lua_fail;

/// The library as a table.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("pack", lua.create_function(pack)?)?;
    table.set("unpack", lua.create_function(unpack)?)?;
    table.set("size", lua.create_function(size)?)?;
    Ok(table)
}

/// One letter of a format.
#[derive(Clone, Copy)]
enum PackItem {
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

impl PackItem {
    /// How many bytes it takes, where that does not depend on a text.
    fn width(self) -> Option<usize> {
        match self {
            Self::Integer { width, .. } => Some(width),
            Self::Single => Some(4),
            Self::Double => Some(8),
            Self::Padding => Some(1),
            Self::Chars(count) => Some(count).filter(|&count| count > 0),
            Self::ZeroEnded => None,
        }
    }
}

struct PackFormat<'a> {
    args: &'a LuaArgs<'a>,
    rest: &'a [u8],
    /// Only the size is asked for.
    sizes: bool,
    /// A letter that takes no bytes has been read.
    controlled: bool,
    big: bool,
    /// Items begin at multiples of their width, up to this one.
    align: usize,
}

impl<'a> PackFormat<'a> {
    fn new(args: &'a LuaArgs<'a>, text: &'a [u8]) -> Self {
        Self { args, rest: text, sizes: false, controlled: false, big: false, align: 1 }
    }

    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let text = std::str::from_utf8(&self.rest[..digits]).unwrap_or_default();
        self.rest = &self.rest[digits..];
        let number = text.parse::<i32>().ok().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| lua_fail(self.args.lua, "integral size overflow"))
    }

    fn next(&mut self) -> mlua::Result<Option<PackItem>> {
        while let [letter, rest @ ..] = self.rest {
            self.rest = rest;
            self.controlled |= matches!(letter, b' ' | b'<' | b'>' | b'!');
            let integer = |width, signed| PackItem::Integer { width, signed };
            return Ok(Some(match letter {
                b'b' | b'B' => integer(1, *letter == b'b'),
                b'h' | b'H' => integer(2, *letter == b'h'),
                b'l' | b'L' => integer(8, *letter == b'l'),
                b'T' => integer(8, false),
                b'i' | b'I' => {
                    let width = self.number(4)?;
                    if width > 32 {
                        let text = format!("integral size {width} is larger than limit of {}", 32);
                        return Err(lua_fail(self.args.lua, &text));
                    }
                    integer(width, *letter == b'i')
                }
                b'f' => PackItem::Single,
                b'd' => PackItem::Double,
                b'c' => PackItem::Chars(self.number(1)?),
                b's' => PackItem::ZeroEnded,
                b'x' => PackItem::Padding,
                b' ' => continue,
                b'<' | b'>' => {
                    self.big = *letter == b'>';
                    continue;
                }
                b'!' => {
                    self.align = self.number(8)?;
                    if !self.align.is_power_of_two() {
                        let text = format!("alignment {} is not a power of 2", self.align);
                        return Err(lua_fail(self.args.lua, &text));
                    }
                    continue;
                }
                // What it does not know, `size` passes over.
                other if self.sizes && other.is_ascii_alphanumeric() => continue,
                other => {
                    let text = format!("invalid format option '{}'", char::from(*other));
                    return Err(self.args.bad(0, &text));
                }
            }));
        }
        Ok(None)
    }

    /// How many bytes are left out before an item, so many being there already.
    fn gap(&self, item: PackItem, length: usize) -> usize {
        let width = match item {
            PackItem::Chars(_) | PackItem::ZeroEnded => 0,
            item => item.width().unwrap_or(0),
        };
        match width.min(self.align) {
            0 => 0,
            step => step.wrapping_sub(length & (step - 1)) & (step - 1),
        }
    }
}

/// As C converts on this kind of machine, what does not fit too.
fn integer(number: f64) -> u64 {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    match number {
        number if number < 0.0 || number.is_nan() => truncated(number).cast_unsigned(),
        number if number < LIMIT => number as u64,
        _ => 0,
    }
}

fn push(bytes: &[u8], big: bool, out: &mut Vec<u8>) {
    if big {
        out.extend(bytes.iter().rev());
    } else {
        out.extend_from_slice(bytes);
    }
}

fn pack(lua: &Lua, values: MultiValue) -> mlua::Result<mlua::LuaString> {
    let text = LuaArgs::new(lua, &values).text(0)?;
    let args = LuaArgs { missing: "nil", ..LuaArgs::new(lua, &values) };
    let mut format = PackFormat::new(&args, &text);
    let (mut out, mut at) = (Vec::new(), 1);
    while let Some(item) = format.next()? {
        out.resize(out.len() + format.gap(item, out.len()), 0);
        match item {
            PackItem::Padding => {
                out.push(0);
                continue;
            }
            PackItem::Integer { width, .. } => {
                let mut bytes = integer(args.number(at)?).to_le_bytes().to_vec();
                bytes.resize(width, 0);
                push(&bytes, format.big, &mut out);
            }
            PackItem::Single => {
                #[expect(clippy::cast_possible_truncation, reason = "it is asked for")]
                let value = args.number(at)? as f32;
                push(&value.to_le_bytes(), format.big, &mut out);
            }
            PackItem::Double => push(&args.number(at)?.to_le_bytes(), format.big, &mut out),
            PackItem::Chars(_) | PackItem::ZeroEnded => {
                let text = args.text(at)?;
                let count = match item {
                    PackItem::Chars(count) if count > 0 => count,
                    _ => text.len(),
                };
                // Counted one too far, as there.
                let text = text.get(..count).ok_or_else(|| args.bad(at + 1, "string too short"))?;
                out.extend_from_slice(text);
                if matches!(item, PackItem::ZeroEnded) {
                    out.push(0);
                }
            }
        }
        at += 1;
    }
    lua.create_string(&out)
}

fn unpack(lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let args = LuaArgs::new(lua, &args);
    let text = args.text(0)?;
    let mut format = PackFormat::new(&args, &text);
    let data = args.text(1)?;
    let start = args.integer_or(2, 1)?;
    if start == 0 {
        return Err(args.bad(2, "offset must be 1 or greater"));
    }
    let short = || args.bad(1, "data string too short");
    // What lies before the beginning is far beyond the end.
    let mut at = usize::try_from(start.wrapping_sub(1).cast_unsigned()).unwrap_or(usize::MAX);
    let mut values: Vec<Value> = Vec::new();
    loop {
        let item = format.next()?;
        // There, a letter that takes no bytes asks for as many.
        if format.controlled && at > data.len() {
            return Err(short());
        }
        let Some(item) = item else { break };
        if values.len() >= RESULTS {
            return Err(lua_fail(lua, "stack overflow (too many results)"));
        }
        at = at.wrapping_add(format.gap(item, at));
        let width = match item {
            PackItem::Chars(0) => match values.pop().as_ref().and_then(number_of) {
                Some(count) => usize::try_from(truncated(count)).unwrap_or(usize::MAX),
                None => return Err(lua_fail(lua, "format 'c0' needs a previous size")),
            },
            PackItem::ZeroEnded => {
                let rest = data.get(at..).ok_or_else(short)?;
                match rest.iter().position(|&byte| byte == 0) {
                    Some(count) => count,
                    None => return Err(lua_fail(lua, "unfinished string in data")),
                }
            }
            item => item.width().unwrap_or(0),
        };
        let bytes = at.checked_add(width).and_then(|end| data.get(at..end)).ok_or_else(short)?;
        at += width + usize::from(matches!(item, PackItem::ZeroEnded));
        let ordered = |bytes: &[u8]| -> Vec<u8> {
            if format.big { bytes.iter().rev().copied().collect() } else { bytes.to_vec() }
        };
        values.push(match item {
            PackItem::Padding => continue,
            PackItem::Chars(_) | PackItem::ZeroEnded => Value::String(lua.create_string(bytes)?),
            PackItem::Single => {
                let bytes = <[u8; 4]>::try_from(&ordered(bytes)[..]).unwrap_or_default();
                Value::Number(f64::from(f32::from_le_bytes(bytes)))
            }
            PackItem::Double => {
                let bytes = <[u8; 8]>::try_from(&ordered(bytes)[..]).unwrap_or_default();
                Value::Number(f64::from_le_bytes(bytes))
            }
            PackItem::Integer { width: 0, .. } => Value::Number(0.0),
            PackItem::Integer { width, signed } => {
                let mut bytes = ordered(bytes);
                bytes.resize(8, 0);
                let value = u64::from_le_bytes(<[u8; 8]>::try_from(&bytes[..]).unwrap_or_default());
                let shift = 64 - 8 * u32::try_from(width.min(8)).unwrap_or(8);
                #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
                Value::Number(if signed {
                    ((value << shift).cast_signed() >> shift) as f64
                } else {
                    (value & (u64::MAX >> shift)) as f64
                })
            }
        });
    }
    #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
    values.push(Value::Number(at.wrapping_add(1).cast_signed() as f64));
    Ok(MultiValue::from_iter(values))
}

fn size(lua: &Lua, values: MultiValue) -> mlua::Result<f64> {
    let args = LuaArgs::new(lua, &values);
    let text = args.text(0)?;
    let mut format = PackFormat { sizes: true, ..PackFormat::new(&args, &text) };
    let mut total = 0_usize;
    while let Some(item) = format.next()? {
        total += format.gap(item, total);
        let Some(width) = item.width() else {
            let option = if matches!(item, PackItem::ZeroEnded) { "s" } else { "c0" };
            return Err(args.bad(0, &format!("option '{option}' has no fixed size")));
        };
        total += width;
    }
    #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
    Ok(total as f64)
}
