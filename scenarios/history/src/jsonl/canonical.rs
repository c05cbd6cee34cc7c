//! The canonical line: an event exactly as picklock writes it. Most lines of most histories are.
//!
//! Invariant: an event that is returned here is what the strict reader ([`super::flat`]) returns for the line; a test
//! compares the two. Everything else goes to the strict reader: other orders, blanks, escapes, letters beyond ASCII, rare
//! events, and every error. It exists because it takes half of the time.

use picklock::env::Phase;

use super::flat::cursor::DIGITS_SURE;
use crate::event::{Answer, Event, Intent, Touch, Update, What};
use crate::text::{Text, Texts};

/// The event of a line; none where the line is not canonical. Texts that it names are added to these.
pub(crate) fn event(line: &[u8], texts: &mut Texts) -> Option<Event> {
    let mut rest = Rest { bytes: line, texts };
    let at_ns = rest.number(b"{\"at_ns\":")?;
    let client = rest.u32(b",\"client\":")?;
    let acquisition = rest.u32_or_zero(b",\"acquisition\":")?;
    let op = rest.u32_or_zero(b",\"op\":")?;
    rest.literal(b",\"stage\":\"")?;
    let what = match *rest.bytes.first()? {
        b'i' => rest.invoked()?,
        b'o' => rest.answered()?,
        b'f' => rest.failed()?,
        b'n' => rest.noted()?,
        _ => return None,
    };
    rest.literal(b"}")?;
    rest.bytes.is_empty().then_some(Event { at_ns, client, acquisition, op, what })
}

/// An event with its reason.
type WithReason = fn(Text) -> What;

/// The rest of a line, not read yet.
struct Rest<'a> {
    bytes: &'a [u8],
    texts: &'a mut Texts,
}

impl<'a> Rest<'a> {
    fn invoked(&mut self) -> Option<What> {
        self.literal(b"invoke\",\"what\":\"")?;
        if self.literal(b"command\"").is_none() {
            let all = [
                (&b"acquire\""[..], What::Acquire),
                (b"release\"", What::Release),
                (b"take\"", What::Take),
                (b"update\"", What::Update),
            ];
            return self.one_of(all);
        }
        let node = self.u32(b",\"node\":")?.try_into().ok()?;
        let (name, key) = (self.text(b",\"command\":\"")?, self.text(b",\"key\":\"")?);
        let touch = self.touch()?;
        let compares = self.literal(b",\"compares\":true").is_some();
        Some(What::Command { node, name, key, intent: Intent { touch, compares } })
    }

    fn answered(&mut self) -> Option<What> {
        self.literal(b"ok\",\"what\":\"")?;
        if self.literal(b"command\"").is_some() {
            let touch = self.touch()?;
            self.literal(b",\"answer\":\"")?;
            let all =
                [(&b"nil\""[..], Answer::Nil), (b"ok\"", Answer::Ok), (b"list\"", Answer::List)];
            let answer = match self.one_of(all) {
                Some(answer) => answer,
                None if self.literal(b"int\"").is_some() => {
                    Answer::Int(self.signed(b",\"value\":")?)
                }
                None => {
                    self.literal(b"text\"")?;
                    Answer::Text(self.text(b",\"text\":\"")?)
                }
            };
            let found = self.u32_or_zero(b",\"found\":")?;
            return Some(What::Answered { touch, answer, found });
        }
        if self.literal(b"acquire\"").is_some() {
            return Some(What::Acquired);
        }
        if self.literal(b"release\"").is_some() {
            return Some(What::Released(self.text(b",\"text\":\"")?));
        }
        if self.literal(b"take\"").is_some() {
            let (prize, left) = (self.signed(b",\"value\":")?, self.signed(b",\"left\":")?);
            return Some(What::Taken { prize, left });
        }
        self.literal(b"update\"")?;
        let (read, written) = (self.signed(b",\"value\":")?, self.signed(b",\"written\":")?);
        let token = self.optional(b",\"token\":")?;
        Some(What::Updated(Update { read, written, token }))
    }

    fn failed(&mut self) -> Option<What> {
        self.literal(b"fail\",\"what\":\"")?;
        let all: [(&[u8], WithReason); 4] = [
            (b"acquire\"", What::NotAcquired),
            (b"command\"", What::Refused),
            (b"take\"", What::NotTaken),
            (b"update\"", What::NotUpdated),
        ];
        let failed = self.one_of(all)?;
        Some(failed(self.text(b",\"text\":\"")?))
    }

    fn noted(&mut self) -> Option<What> {
        self.literal(b"note\",\"what\":\"")?;
        if self.literal(b"phase\",\"phase\":\"").is_some() {
            let name = std::str::from_utf8(self.string()?).ok()?;
            return Phase::from_name(name).map(What::Phase);
        }
        if self.literal(b"valid-until\"").is_some() {
            return self.number(b",\"until_ns\":").map(What::ValidUntil);
        }
        self.literal(b"fence\"")?;
        self.number(b",\"token\":").map(What::Fence)
    }

    fn touch(&mut self) -> Option<Touch> {
        self.literal(b",\"touch\":\"")?;
        Some(match *self.bytes.first()? {
            b'n' => self.literal(b"nothing\"").map(|()| Touch::None)?,
            b'c' => {
                self.literal(b"create\"")?;
                Touch::Create(self.optional(b",\"ttl_ns\":")?)
            }
            b'o' => {
                self.literal(b"overwrite\"")?;
                Touch::Overwrite(self.optional(b",\"ttl_ns\":")?)
            }
            b'd' => self.literal(b"delete\"").map(|()| Touch::Delete)?,
            b'e' => {
                self.literal(b"extend\"")?;
                Touch::Extend(self.number(b",\"ttl_ns\":")?)
            }
            _ => self.literal(b"unknown\"").map(|()| Touch::Unknown)?,
        })
    }

    /// Skips these bytes, if they come next.
    #[inline(always)]
    fn literal<const N: usize>(&mut self, bytes: &[u8; N]) -> Option<()> {
        self.bytes = self.bytes.strip_prefix(bytes)?;
        Some(())
    }

    /// Skips one of these, and returns what it stands for.
    fn one_of<T, const N: usize>(&mut self, all: [(&[u8], T); N]) -> Option<T> {
        let (bytes, found) = all.into_iter().find(|(bytes, _)| self.bytes.starts_with(bytes))?;
        self.bytes = &self.bytes[bytes.len()..];
        Some(found)
    }

    /// The number behind these bytes.
    fn number<const N: usize>(&mut self, before: &[u8; N]) -> Option<u64> {
        self.literal(before)?;
        let (mut size, mut length) = (0_u64, 0);
        for byte in self.bytes {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            size = size.wrapping_mul(10).wrapping_add(u64::from(digit));
            length += 1;
        }
        let is_plain = length <= DIGITS_SURE && (length == 1 || self.bytes.first()? != &b'0');
        self.bytes = &self.bytes[length..];
        (is_plain && length > 0).then_some(size)
    }

    fn u32<const N: usize>(&mut self, before: &[u8; N]) -> Option<u32> {
        self.number(before)?.try_into().ok()
    }

    /// The same, where both may be left out.
    fn optional<const N: usize>(&mut self, before: &[u8; N]) -> Option<Option<u64>> {
        if self.bytes.starts_with(before) { self.number(before).map(Some) } else { Some(None) }
    }

    /// The same of a number that is left out where it is 0.
    fn u32_or_zero<const N: usize>(&mut self, before: &[u8; N]) -> Option<u32> {
        self.optional(before)?.unwrap_or(0).try_into().ok()
    }

    fn signed<const N: usize>(&mut self, before: &[u8; N]) -> Option<i64> {
        self.literal(before)?;
        let is_negative = self.literal(b"-").is_some();
        let size = self.number(b"")?;
        match is_negative {
            // JSON's minus zero is a fraction.
            true if size == 0 => None,
            true => 0_i64.checked_sub_unsigned(size),
            false => size.try_into().ok(),
        }
    }

    /// A string without escapes, after its opening quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        let length = self.bytes.iter().position(|byte| !is_plain(byte))?;
        let (string, rest) = self.bytes.split_at(length);
        self.bytes = rest.strip_prefix(b"\"")?;
        Some(string)
    }

    fn text<const N: usize>(&mut self, before: &[u8; N]) -> Option<Text> {
        self.literal(before)?;
        let text = self.string()?;
        Some(self.texts.intern_bytes(text))
    }
}

#[cfg(test)]
mod tests;
