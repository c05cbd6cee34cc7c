//! Fencing tokens: numbers that rise from hold to hold, by which a resource refuses late writes.
//!
//! Invariant: a resource that has accepted a token accepts no lower one. Deliberately absent: any
//! promise beyond the server that counts. After a failover or a power loss the count may fall back
//! with what else was forgotten, and a resource then refuses honest holders until it has risen again:
//! that is a refusal too many, never a stale write.

use std::fmt;
use std::sync::LazyLock;

use crate::script::{Meaning, Script};

/// The fencing token of a hold: higher than that of every hold before it, as long as the server
/// forgets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The token of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A write came with a token below one that was accepted before it: its hold had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fencing token {shown} is below {highest}")]
pub struct Stale {
    /// The token that the write came with.
    pub shown: Fence,
    /// The highest accepted so far.
    pub highest: Fence,
}

/// The resource's side of fencing: it keeps the highest token. One hold may write many times, so an
/// equal token passes. Keep it under the same lock, or in the same transaction, as the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceGate {
    highest: Option<Fence>,
}

impl FenceGate {
    /// A gate that has let this token through before, as a resource that was stored would know.
    pub const fn after(highest: Fence) -> Self {
        Self { highest: Some(highest) }
    }

    /// The highest token so far.
    pub const fn highest(&self) -> Option<Fence> {
        self.highest
    }

    /// Lets a read or a write through, and raises the mark.
    ///
    /// # Errors
    /// [`Stale`], and nothing is changed.
    pub fn pass(&mut self, shown: Fence) -> Result<(), Stale> {
        match self.highest {
            Some(highest) if shown < highest => Err(Stale { shown, highest }),
            _ => {
                self.highest = Some(shown);
                Ok(())
            }
        }
    }
}

/// The same for a value in Redis: sets `KEYS[1]` to `ARGV[2]` unless the mark at `KEYS[2]` is above
/// the token `ARGV[1]`, and raises the mark. It answers 1, or the mark as a negative number where the
/// write was refused. Tokens stay exact up to 2^53.
pub static WRITE_FENCED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local mark = tonumber(redis.call('GET', KEYS[2]) or '0')\n\
         local shown = tonumber(ARGV[1])\n\
         if shown < mark then return -mark end\n\
         redis.call('SET', KEYS[2], ARGV[1])\n\
         redis.call('SET', KEYS[1], ARGV[2])\n\
         return 1\n",
        Meaning::Other,
    )
});

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_sides_of_the_mark() {
        let mut gate = FenceGate::default();
        assert_eq!(gate.pass(Fence::new(5)), Ok(()));
        assert_eq!(gate.pass(Fence::new(5)), Ok(()), "one hold may write twice");
        let stale = Stale { shown: Fence::new(4), highest: Fence::new(5) };
        assert_eq!(gate.pass(Fence::new(4)), Err(stale));
        assert_eq!(gate.pass(Fence::new(6)), Ok(()));
        assert_eq!(gate, FenceGate::after(Fence::new(6)));
        assert_eq!(stale.to_string(), "fencing token 4 is below 5");
    }

    proptest! {
        #[test]
        fn what_passes_never_falls(shown in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut gate = FenceGate::default();
            let mut passed = Vec::new();
            for number in shown {
                let before = passed.iter().max().copied();
                let passes = gate.pass(Fence::new(number)).is_ok();
                prop_assert_eq!(passes, before.is_none_or(|before| number >= before));
                passed.extend(passes.then_some(number));
            }
            prop_assert!(passed.is_sorted());
        }
    }
}
