//! A Redis command as the bytes of its arguments, packed into one buffer.
//!
//! Invariant: a command has at least a name. It is deliberately not an enum of known commands: a
//! recipe may send anything, and every world reads the same bytes that redis-server would read.

use std::fmt;

use smallvec::SmallVec;

/// A command of usual size (a lock's `SET … NX PX`, an `EVALSHA`) fits without allocation.
const INLINE_BYTES: usize = 128;
const INLINE_ARGS: usize = 8;

/// A command: its name and its arguments, all of them byte strings.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    bytes: SmallVec<[u8; INLINE_BYTES]>,
    /// Where each argument ends in `bytes`; the name is the first argument.
    ends: SmallVec<[u32; INLINE_ARGS]>,
}

impl Command {
    /// A command with this name and no arguments yet.
    #[inline]
    pub fn new(name: &str) -> Self {
        let empty = Self { bytes: SmallVec::new(), ends: SmallVec::new() };
        empty.arg(name)
    }

    /// The command with one more argument. Arguments over 4 GiB in total are beyond what Redis takes.
    #[must_use]
    #[inline]
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.bytes.extend_from_slice(arg.as_ref());
        let end = u32::try_from(self.bytes.len()).expect("a command is smaller than 4 GiB");
        self.ends.push(end);
        self
    }

    /// The command with one more argument, a decimal integer.
    #[must_use]
    #[inline]
    pub fn int(self, value: u64) -> Self {
        let mut digits = [0_u8; 20];
        let mut start = digits.len();
        let mut rest = value;
        loop {
            start -= 1;
            digits[start] = b"0123456789"[(rest % 10) as usize];
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.arg(&digits[start..])
    }

    /// How many arguments, the name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never: a command has a name.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The argument at this place, the name being at 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&[u8]> {
        let end = *self.ends.get(place)? as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[start..end])
    }

    /// The name, as written by the caller.
    #[inline]
    pub fn name(&self) -> &[u8] {
        self.get(0).unwrap_or_default()
    }

    /// All arguments, the name first.
    #[inline]
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|place| self.get(place).unwrap_or_default())
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.args().map(|arg| arg.escape_ascii().to_string()).collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back_as_they_went_in() {
        let command = Command::new("SET").arg("k").arg("").arg("PX").int(0).int(u64::MAX);
        let args: Vec<&[u8]> = command.args().collect();
        assert_eq!(args, [&b"SET"[..], b"k", b"", b"PX", b"0", b"18446744073709551615"]);
        assert_eq!(command.get(6), None);
    }

    #[test]
    fn large_arguments_spill_to_the_heap() {
        let value = vec![7_u8; 4 * INLINE_BYTES];
        let command = Command::new("SET").arg("k").arg(&value);
        assert_eq!(command.get(2), Some(&value[..]));
    }

    #[test]
    fn debug_is_readable_and_escaped() {
        assert_eq!(format!("{:?}", Command::new("GET").arg(b"a\n\xff")), "GET a\\n\\xff");
    }
}
