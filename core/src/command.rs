//! A Redis command as the bytes of its arguments, packed into one buffer.
//!
//! Invariant: a command has at least a name. It is no enum of known commands: a recipe may send anything,
//! and every world reads the bytes that redis-server would read.

use std::fmt;

/// A lock's `SET … NX PX` and its `EVALSHA` fit without growing.
const USUAL_BYTES: usize = 128;
/// The length in front of each argument takes this many bytes.
const LENGTH_BYTES: usize = 4;

/// A command: its name and its arguments, all of them byte strings.
///
/// It is as small as a `Vec`, because futures hold several commands at a time, and moving a future moves
/// them.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// Length and bytes of each argument, the name being the first.
    packed: Vec<u8>,
}

impl Command {
    /// A command with this name and no arguments yet.
    #[inline]
    pub fn new(name: &str) -> Self {
        Self { packed: Vec::with_capacity(USUAL_BYTES) }.arg(name)
    }

    /// The command with one more argument.
    ///
    /// # Panics
    /// If the argument has 4 GiB or more. Redis takes at most 512 MiB.
    #[must_use]
    #[inline]
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        let arg = arg.as_ref();
        let length = u32::try_from(arg.len()).expect("an argument is smaller than 4 GiB");
        self.packed.extend_from_slice(&length.to_le_bytes());
        self.packed.extend_from_slice(arg);
        self
    }

    /// The command with one more argument, a decimal integer.
    #[must_use]
    #[inline]
    pub fn int(self, value: u64) -> Self {
        self.arg(Decimal::new(value).as_bytes())
    }

    /// How many arguments, the name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.args().count()
    }

    /// Always false: a command has a name.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The argument at this place, the name being at 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&[u8]> {
        self.args().nth(place)
    }

    /// The name, as written by the caller.
    #[inline]
    pub fn name(&self) -> &[u8] {
        self.get(0).unwrap_or_default()
    }

    /// All arguments, the name first.
    #[inline]
    pub fn args(&self) -> Args<'_> {
        Args { rest: &self.packed }
    }
}

/// A decimal integer without allocation.
pub(crate) struct Decimal {
    /// As many digits as `u64::MAX` has.
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    #[inline]
    pub(crate) fn new(value: u64) -> Self {
        let mut decimal = Self { digits: [b'0'; 20], start: 20 };
        let mut rest = value;
        loop {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b"0123456789"[(rest % 10) as usize];
            rest /= 10;
            if rest == 0 {
                return decimal;
            }
        }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

/// The arguments of a command, in order.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (arg, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.rest = rest;
        Some(arg)
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
    fn large_arguments_are_kept_whole() {
        let value = vec![7_u8; 4 * USUAL_BYTES];
        let command = Command::new("SET").arg("k").arg(&value).arg("end");
        assert_eq!(command.get(2), Some(&value[..]));
        assert_eq!((command.get(3), command.len()), (Some(&b"end"[..]), 4));
    }

    #[test]
    fn a_command_is_as_small_as_a_vec() {
        assert!(size_of::<Command>() <= 3 * size_of::<usize>());
    }

    #[test]
    fn debug_is_readable_and_escaped() {
        assert_eq!(format!("{:?}", Command::new("GET").arg(b"a\n\xff")), "GET a\\n\\xff");
    }
}
