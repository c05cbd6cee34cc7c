//! Parses INFO.
//!
//! Invariant: a line that is not understood is skipped, never guessed at; servers add lines with
//! every version.

use std::collections::BTreeMap;

/// What a server says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) software: &'static str,
    pub(super) version: String,
    pub(super) is_sentinel: bool,
}

/// Stands for the version of a server that does not report it.
pub(super) const UNKNOWN: &str = "of unknown version";

/// Reads `INFO server`; an empty text is a server that reports nothing.
pub(super) fn identity(text: &str) -> Identity {
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let (software, version) = match (field("valkey_version"), field("redis_version")) {
        (Some(version), _) => ("valkey", version),
        (None, Some(version)) => ("redis", version),
        (None, None) => ("redis", UNKNOWN),
    };
    let is_sentinel = field("redis_mode") == Some("sentinel");
    Identity { software, version: version.to_owned(), is_sentinel }
}

/// What a server has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// How often each command was carried out, by lower-case name. Subcommands count for their
    /// command, `client|id` for `client`, because that is the name that clients send. Those that log
    /// in are left out: clients send them whenever they connect, and none belongs to a lock.
    pub calls: BTreeMap<String, u64>,
    /// How many logins there were.
    pub logins: u64,
}

/// The commands that log in.
const LOGINS: [&str; 2] = ["auth", "hello"];

/// Reads `INFO commandstats`.
pub(super) fn command_stats(text: &str) -> CommandCounts {
    let mut stats = CommandCounts::default();
    for line in text.lines() {
        let Some((name, fields)) =
            line.strip_prefix("cmdstat_").and_then(|line| line.rsplit_once(':'))
        else {
            continue;
        };
        let field = |name: &str| {
            let digits = fields.split(',').find_map(|field| field.strip_prefix(name));
            digits.and_then(|digits| digits.trim().parse::<u64>().ok())
        };
        let Some(count) = field("calls=") else { continue };
        let command = name.split('|').next().unwrap_or(name).to_ascii_lowercase();
        if LOGINS.contains(&command.as_str()) {
            // Servers before 6.2 do not count failed ones separately.
            stats.logins += count.saturating_sub(field("failed_calls=").unwrap_or(0));
        } else {
            *stats.calls.entry(command).or_default() += count;
        }
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_identified() {
        let redis = identity("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n");
        assert_eq!((redis.software, redis.version.as_str()), ("redis", "7.0.15"));
        assert!(!redis.is_sentinel);
        // Valkey tells the version of Redis that it is compatible with, too.
        let valkey =
            identity("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n");
        assert_eq!((valkey.software, valkey.version.as_str()), ("valkey", "8.0.1"));
        assert!(identity("redis_version:7.0.15\r\nredis_mode:sentinel\r\n").is_sentinel);
        assert_eq!(identity("").version, UNKNOWN);
    }

    #[test]
    fn calls_are_counted_by_the_name_that_is_sent() {
        let text = "# Commandstats\r\n\
                    cmdstat_set:calls=3,usec=9,usec_per_call=3.00,rejected_calls=1,failed_calls=0\r\n\
                    cmdstat_client|id:calls=2,usec=1\r\ncmdstat_client|list:calls=1,usec=1\r\n\
                    cmdstat_auth:calls=5,usec=9,rejected_calls=1,failed_calls=2\r\n\
                    cmdstat_odd\r\ncmdstat_worse:calls=x\r\n";
        let expected = [("client".to_owned(), 3), ("set".to_owned(), 3)];
        let expected = CommandCounts { calls: BTreeMap::from(expected), logins: 3 };
        assert_eq!(command_stats(text), expected);
    }
}
