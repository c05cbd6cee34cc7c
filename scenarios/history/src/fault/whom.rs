//! Whom a fault strikes, as a scenario says it: `"holder"`, `"client 3"`, `"primary"`.
//!
//! Invariant: what is printed reads back as the same.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Whom a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Whom {
    /// Whichever client, or server, it happens to be.
    Any,
    /// The client that holds the lock: from the answer with yes until it has released.
    Holder,
    /// This client, from 1.
    Client(u32),
    /// The server that clients are led to at that moment.
    Primary,
    /// This server, from 0.
    Server(u32),
}

impl Whom {
    /// Whether it can only be a client.
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Holder | Self::Client(_))
    }

    /// Whether it can only be a server.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Primary | Self::Server(_))
    }
}

impl FromStr for Whom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let found = match text {
            "any" => Some(Self::Any),
            "holder" => Some(Self::Holder),
            "primary" => Some(Self::Primary),
            _ => match text.split_once(' ') {
                Some(("client", which)) => number(which).map(Self::Client),
                Some(("server", which)) => number(which).map(Self::Server),
                _ => None,
            },
        };
        found.ok_or_else(|| {
            format!(
                "{text:?} names nobody: write \"any\", \"holder\", \"client 3\", \"primary\" or \
                 \"server 0\""
            )
        })
    }
}

impl TryFrom<String> for Whom {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Whom> for String {
    fn from(whom: Whom) -> Self {
        whom.to_string()
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Holder => f.write_str("holder"),
            Self::Client(which) => write!(f, "client {which}"),
            Self::Primary => f.write_str("primary"),
            Self::Server(which) => write!(f, "server {which}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back_and_other_words_name_nobody() {
        for text in ["any", "holder", "client 3", "primary", "server 0"] {
            assert_eq!(text.parse::<Whom>().unwrap().to_string(), text);
        }
        for text in ["", "client", "client x", "client -1", "holders", "node 1"] {
            assert!(text.parse::<Whom>().unwrap_err().contains("names nobody"), "{text}");
        }
    }
}
