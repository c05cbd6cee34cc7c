//! The password of private servers.
//!
//! Invariant: it is drawn from the system's randomness for one run, is written to a file that only its owner can
//! read and to no command line, and is shown nowhere.

use std::fmt;

/// The password of a run's servers.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// A new one.
    ///
    /// # Panics
    /// Where the system gives no randomness.
    pub fn draw() -> Self {
        let drawn = [(); 2].map(|()| getrandom::u64().expect("the system gives randomness"));
        Self(drawn.map(|it| format!("{it:016x}")).concat())
    }

    /// The password itself, to be sent or written where nobody else can read it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The configuration of a server that requires it, and sends it to its primary.
    pub(crate) fn config(&self) -> String {
        format!("requirepass {0}\nmasterauth {0}\n", self.0)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_and_none_is_shown() {
        let (one, other) = (Password::draw(), Password::draw());
        assert_ne!(one, other);
        assert_eq!(one.reveal().len(), 32);
        assert_eq!(format!("{one:?}"), "***");
    }
}
