//! The owner token: the value of the lock's key, by which a lock knows its own.
//!
//! Invariant: one token names one *acquisition*, never a client, so a late command of an earlier
//! acquisition cannot touch a later one of the same client. It is not a fencing token: it has no order.

use std::fmt;

use crate::env::Env;

/// How long a token is, in bytes.
pub(crate) const LEN: usize = 32;

/// 128 random bits, written as 32 hexadecimal digits.
///
/// A client that knows it can release the lock, so neither `Debug` nor any log shows it whole.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnerToken([u8; LEN]);

impl OwnerToken {
    /// Draws a new token.
    pub fn draw<E: Env>(env: &E) -> Self {
        let mut text = [0; LEN];
        let (high, low) = text.split_at_mut(LEN / 2);
        write_hex(high, env.random());
        write_hex(low, env.random());
        Self(text)
    }

    /// The digits, as they stand in Redis.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for OwnerToken {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerToken({}…)", self.0[..4].escape_ascii())
    }
}

/// The digits of each byte.
static HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut all = [[0; 2]; 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = [digits[byte >> 4], digits[byte & 0xf]];
        byte += 1;
    }
    all
};

fn write_hex(digits: &mut [u8], bits: u64) {
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bits.to_be_bytes()) {
        pair.copy_from_slice(&HEX[usize::from(byte)]);
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;
    use crate::testing::World;

    #[test]
    fn a_token_is_all_the_random_bits_it_was_given() {
        let world = World::new();
        world.script_random([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        let token = OwnerToken::draw(&world.env());
        assert_eq!(token.as_bytes(), b"0123456789abcdeffedcba9876543210");
    }

    #[test]
    fn debug_keeps_the_secret() {
        let world = World::new();
        world.script_random([0x0123_4567_89ab_cdef, 7]);
        let shown = format!("{:?}", OwnerToken::draw(&world.env()));
        assert_eq!(shown, "OwnerToken(0123…)");
    }

    #[test]
    fn two_draws_differ() {
        let env = World::new().env();
        assert_ne!(OwnerToken::draw(&env), OwnerToken::draw(&env));
    }
}
