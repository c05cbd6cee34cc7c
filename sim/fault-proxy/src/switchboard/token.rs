//! The token of the control API: a client that has it may switch faults.
//!
//! Invariant: it is shown nowhere, and a comparison takes the same time whatever was sent.

use std::fmt;

use subtle::ConstantTimeEq;
use thiserror::Error;

/// A shorter one can be guessed.
const CHARACTERS_LEAST: usize = 16;
/// A longer one fits in no request.
const CHARACTERS_MOST: usize = 1024;
/// How a request says that it has one.
const SCHEME: &str = "Bearer ";

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct ControlToken(String);

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// It is so short that it could be guessed.
    #[error("it has {0} characters, and a token has {CHARACTERS_LEAST} at least")]
    Short(usize),
    /// It is longer than a request can hold.
    #[error("it is longer than {CHARACTERS_MOST} characters")]
    Long,
    /// It has a blank, or a character that no header can hold.
    #[error("it has characters other than letters, digits and marks of ASCII")]
    Characters,
}

impl ControlToken {
    /// The token in this text, without blanks around it.
    ///
    /// # Errors
    /// [`TokenError`], which does not show it.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let token = text.trim_ascii();
        match token.len() {
            _ if !token.bytes().all(|byte| byte.is_ascii_graphic()) => Err(TokenError::Characters),
            short if short < CHARACTERS_LEAST => Err(TokenError::Short(short)),
            long if long > CHARACTERS_MOST => Err(TokenError::Long),
            _ => Ok(Self(token.to_owned())),
        }
    }

    /// Whether this header `Authorization` has the token.
    pub(super) fn is_in(&self, header: &[u8]) -> bool {
        let (scheme, sent) = header.split_at_checked(SCHEME.len()).unwrap_or((&[], &[]));
        // Its length is no secret.
        scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && sent.ct_eq(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for ControlToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn a_token_is_long_enough_and_fits_in_a_header() {
        for (text, says) in [
            (TOKEN.to_owned(), None),
            (format!("  {TOKEN}\n"), None),
            (TOKEN[1..].to_owned(), Some(TokenError::Short(15))),
            (String::new(), Some(TokenError::Short(0))),
            ("x".repeat(1024), None),
            ("x".repeat(1025), Some(TokenError::Long)),
            (format!("{TOKEN} {TOKEN}"), Some(TokenError::Characters)),
            (format!("{TOKEN}\n{TOKEN}"), Some(TokenError::Characters)),
            (format!("{TOKEN}é"), Some(TokenError::Characters)),
        ] {
            assert_eq!(ControlToken::new(&text).err(), says, "{text:?}");
        }
        let token = ControlToken::new(TOKEN).unwrap();
        assert!(!format!("{token:?}").contains(TOKEN));
    }

    #[test]
    fn only_the_whole_token_behind_its_scheme_is_one() {
        let token = ControlToken::new(TOKEN).unwrap();
        for (header, is_it) in [
            (format!("Bearer {TOKEN}"), true),
            (format!("bearer {TOKEN}"), true),
            (format!("Basic {TOKEN}"), false),
            (format!("Bearer  {TOKEN}"), false),
            (format!("Bearer {TOKEN}0"), false),
            (format!("Bearer {}", &TOKEN[1..]), false),
            (format!("Bearer {}", TOKEN.to_uppercase()), false),
            (TOKEN.to_owned(), false),
            ("Bearer ".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(token.is_in(header.as_bytes()), is_it, "{header:?}");
        }
    }
}
