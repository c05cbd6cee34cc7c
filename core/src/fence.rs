//! Fencing tokens: numbers that rise from hold to hold, by which a resource refuses late writes.
//!
//! Invariant: a resource that has accepted a token accepts no lower one. The count is as durable as its
//! server: after a failover or a power loss it may fall back with other lost writes, and a resource then
//! refuses legitimate holders until it has risen again. That refuses too much, and never lets a stale write
//! through.

use std::fmt;
use std::sync::LazyLock;

use crate::script::{Meaning, Script};

/// The fencing token of a hold: higher than that of every hold before it, as long as the server loses no
/// write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The token of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number. That of a server is at most [`i64::MAX`], so it fits into a signed column of a database.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A write had a lower token than one accepted before: its hold had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fencing token {shown} is below {highest}")]
pub struct Stale {
    /// The token of the write.
    pub shown: Fence,
    /// The highest accepted so far.
    pub highest: Fence,
}

/// The resource's side of fencing: it keeps the highest token. One hold may write many times, so an
/// equal token passes. Guard it by the mutex or the transaction that guards the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceGate {
    highest: Option<Fence>,
}

impl FenceGate {
    /// A gate that has accepted this token before, for a resource loaded from storage.
    pub const fn after(highest: Fence) -> Self {
        Self { highest: Some(highest) }
    }

    /// The highest token so far.
    pub const fn highest(&self) -> Option<Fence> {
        self.highest
    }

    /// Accepts a read or a write with this token, and remembers the token.
    ///
    /// # Errors
    /// [`Stale`] where a higher token was accepted before; nothing is changed.
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

/// A [`FenceGate`] for a value in Redis, as a script: sets `KEYS[1]` to `ARGV[2]` and `KEYS[2]`, the highest token, to
/// the token `ARGV[1]`, unless the highest token is above it. Answers 1, or minus the highest token where the
/// write was refused. Tokens are exact up to 2^53, as Lua's numbers are doubles.
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
