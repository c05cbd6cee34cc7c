//! The URL of a Redis that somebody else runs.
//!
//! Invariant: no password is ever shown, neither by `Display` or `Debug` nor in an error. Nothing is quoted of a URL
//! that could not be parsed, because what looks like a host in it may be a password.

use std::fmt;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::server::Password;
use fault_proxy::Trust;

/// What is wrong with a URL: a usage error, not a matter of the environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is not a URL, or a part of it is invalid.
    #[error(
        "the Redis URL is invalid ({0}): write redis://user:password@host:port/database; \
         in a password write % as %25, / as %2F, : as %3A, @ as %40, # as %23 and ? as %3F"
    )]
    Malformed(&'static str),
    /// A unix socket.
    #[error(
        "a unix socket cannot be used, because the fault proxy works on TCP: let the server listen on \
         TCP too (`port 6379` in its configuration) and give redis://127.0.0.1:6379"
    )]
    UnixSocket,
    /// Nothing, as from a replay line whose variable is not set.
    #[error(
        "the Redis URL is empty; in a replay line $PICKLOCK_REDIS stands for it: set this variable first"
    )]
    Empty,
    /// Some other scheme, or none.
    #[error("the Redis URL must begin with redis://, or with rediss:// for TLS")]
    Scheme,
    /// A user without a password.
    #[error(
        "the Redis URL has a user but no password: write redis://user:password@host, \
         or redis://:password@host for the default user"
    )]
    UserOnly,
    /// The database cannot exist.
    #[error("database {0} in the Redis URL does not exist: databases are numbered from 0")]
    Database(i64),
    /// A CA file or `--tls-insecure` beside a URL without TLS.
    #[error(
        "a CA file, or trusting any certificate, needs a rediss:// URL: redis:// is not encrypted"
    )]
    TrustWithoutTls,
}

/// A server's address, and how to log in. `Display` leaves the password out.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(super) host: String,
    pub(super) port: u16,
    /// Which certificates are trusted; none: no TLS.
    pub(super) trust: Option<Trust>,
    pub(super) login: Login,
}

/// How to log in to a server.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
    /// The protocol of the clients; the control connection always speaks RESP2.
    pub(super) protocol: ProtocolVersion,
}

impl RedisUrl {
    /// Reads `redis://`, or `rediss://` for TLS with certificates checked by `trust`; `valkey://` and
    /// `valkeys://` mean the same. User, password and database may follow, and `?protocol=resp3`
    /// lets the clients speak RESP3. `#insecure` behind `rediss://` trusts anyone, as in redis-rs.
    /// Nothing is looked up yet.
    ///
    /// # Errors
    /// [`UrlError`], which quotes nothing of the URL but a number.
    pub fn parse(text: &str, trust: Trust) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").unwrap_or((text, ""));
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            "unix" | "redis+unix" | "valkey+unix" => return Err(UrlError::UnixSocket),
            _ if text.starts_with("unix:") || text.starts_with('/') => {
                return Err(UrlError::UnixSocket);
            }
            _ if text.is_empty() => return Err(UrlError::Empty),
            _ => return Err(UrlError::Scheme),
        };
        // redis-rs is built without TLS, because TLS ends in the proxy, and so it refuses rediss://.
        let url = redis::parse_redis_url(&format!("redis://{rest}"))
            .ok_or(UrlError::Malformed("host or port makes no sense"))?;
        if url.query_pairs().any(|(name, _)| name != "protocol") {
            return Err(UrlError::Malformed("the only option after ? is protocol=resp2 or resp3"));
        }
        let trust = match (tls, url.fragment()) {
            (true, None) => Some(trust),
            (true, Some("insecure")) => Some(Trust::Anyone),
            (false, None) if trust == Trust::System => None,
            (false, None) => return Err(UrlError::TrustWithoutTls),
            (_, Some(_)) => {
                return Err(UrlError::Malformed("only rediss:// may end in #insecure"));
            }
        };
        let user_only = !url.username().is_empty() && url.password().is_none();
        // The error of redis-rs may quote the URL.
        let unusable = UrlError::Malformed("invalid host, database or protocol");
        let info = url.into_connection_info().map_err(|_| unusable.clone())?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err(unusable) };
        if host.is_empty() || *port == 0 {
            return Err(unusable);
        }
        if user_only {
            return Err(UrlError::UserOnly);
        }
        let settings = info.redis_settings();
        if settings.db() < 0 {
            return Err(UrlError::Database(settings.db()));
        }
        let login = Login {
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            database: settings.db(),
            protocol: settings.protocol(),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: *port, trust, login })
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.trust.is_some() { "rediss://" } else { "redis://" })?;
        if self.login.password.is_some() {
            write!(f, "{}:***@", self.login.user.as_deref().unwrap_or_default())?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)?;
        } else {
            write!(f, "{}:{}", self.host, self.port)?;
        }
        if self.login.database == 0 { Ok(()) } else { write!(f, "/{}", self.login.database) }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

impl Login {
    /// The login of the default user at a server of ours.
    pub(super) fn with(password: Option<&Password>) -> Self {
        let password = password.map(|it| it.reveal().to_owned());
        Self { password, ..Self::default() }
    }

    /// The settings of a redis-rs client. It names no library to the server, so that AUTH and
    /// SELECT (or HELLO) are all that its handshake sends.
    pub(super) fn settings(&self) -> RedisConnectionInfo {
        let mut settings = RedisConnectionInfo::default()
            .set_skip_set_lib_name()
            .set_protocol(self.protocol)
            .set_db(self.database);
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        settings
    }

    /// What a server said, without the password if it sent that back.
    pub(super) fn redact(&self, said: &str) -> String {
        match self.password.as_deref() {
            Some(password) if !password.is_empty() => {
                // This sentence is kept whole: everybody knows it, so a word missing in it would reveal the password.
                let parts = said.split(WRONG_PASSWORD).map(|part| masked(part, password));
                parts.collect::<Vec<_>>().join(WRONG_PASSWORD)
            }
            _ => said.to_owned(),
        }
    }
}

/// What Redis answers to any wrong password.
const WRONG_PASSWORD: &str = "invalid username-password pair or user is disabled.";
/// Shorter passwords may occur within words that have nothing to do with them.
const WITHIN_WORDS_CHARS: usize = 8;

/// The text without the password. A short password is masked only where it is a word by itself.
fn masked(said: &str, password: &str) -> String {
    let is_long = password.chars().count() >= WITHIN_WORDS_CHARS;
    let continues = |inner: Option<char>, outer: Option<char>| {
        let is_of_word = |it: Option<char>| it.is_some_and(char::is_alphanumeric);
        is_of_word(inner) && is_of_word(outer)
    };
    let (mut text, mut rest, mut before) = (String::new(), said, None);
    while let Some(at) = rest.find(password) {
        let (ahead, found) = rest.split_at(at);
        let behind = &found[password.len()..];
        let is_within = continues(password.chars().next(), ahead.chars().next_back().or(before))
            || continues(password.chars().next_back(), behind.chars().next());
        // If it is within a word, only its first character is skipped, because another match may begin in it.
        let first = password.chars().next().map_or(0, char::len_utf8);
        let (kept, next) = if is_within && !is_long {
            (&found[..first], &found[first..])
        } else {
            ("***", behind)
        };
        text += ahead;
        text += kept;
        before = kept.chars().next_back();
        rest = next;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RedisUrl, UrlError> {
        RedisUrl::parse(text, Trust::System)
    }

    #[test]
    fn every_part_is_read_and_the_password_is_not_shown() {
        let url = parse("redis://ann:p%40ss%2Fw@redis.example:7001/2?protocol=resp3").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("redis.example", 7001));
        assert_eq!(url.login.user.as_deref(), Some("ann"));
        assert_eq!(url.login.password.as_deref(), Some("p@ss/w"));
        assert_eq!((url.login.database, url.trust.clone()), (2, None));
        assert_eq!(url.login.protocol, ProtocolVersion::RESP3);
        assert_eq!(url.to_string(), "redis://ann:***@redis.example:7001/2");
        assert_eq!(format!("{url:?}"), "RedisUrl(redis://ann:***@redis.example:7001/2)");
        assert_eq!(parse("redis://:pw@h").unwrap().to_string(), "redis://:***@h:6379");
    }

    #[test]
    fn hosts_are_names_and_addresses_of_both_kinds() {
        for (text, host, shown) in [
            ("redis://localhost", "localhost", "redis://localhost:6379"),
            ("redis://127.0.0.1:1/0", "127.0.0.1", "redis://127.0.0.1:1"),
            ("redis://[::1]:7000/3", "::1", "redis://[::1]:7000/3"),
            ("valkey://h/", "h", "redis://h:6379"),
            ("REDISS://h:6380", "h", "rediss://h:6380"),
        ] {
            let url = parse(text).unwrap();
            assert_eq!((url.host.as_str(), url.to_string().as_str()), (host, shown));
        }
    }

    #[test]
    fn trust_belongs_to_tls() {
        let ca = Trust::SystemAnd("ca.pem".into());
        assert_eq!(RedisUrl::parse("rediss://h", ca.clone()).unwrap().trust, Some(ca.clone()));
        assert_eq!(parse("rediss://h").unwrap().trust, Some(Trust::System));
        assert_eq!(parse("rediss://h/#insecure").unwrap().trust, Some(Trust::Anyone));
        assert_eq!(RedisUrl::parse("redis://h", ca), Err(UrlError::TrustWithoutTls));
        assert_eq!(RedisUrl::parse("redis://h", Trust::Anyone), Err(UrlError::TrustWithoutTls));
    }

    #[test]
    fn what_is_no_tcp_url_is_refused_with_what_to_write() {
        for text in ["unix:///run/redis.sock", "redis+unix:///r.sock", "unix:/r.sock", "/r.sock"] {
            assert_eq!(parse(text), Err(UrlError::UnixSocket), "{text}");
        }
        for text in ["localhost:6379", "http://localhost", "redis:localhost", "redis"] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains("redis://"), "{text}: {error}");
        }
        assert_eq!(parse(""), Err(UrlError::Empty));
        assert_eq!(parse("redis://user@host"), Err(UrlError::UserOnly));
        assert_eq!(parse("redis://host/-1"), Err(UrlError::Database(-1)));
        assert!(parse("redis://host/0").is_ok());
    }

    #[test]
    fn nothing_is_quoted_of_a_url_that_cannot_be_parsed() {
        for text in [
            "redis://:hunter2/x@host:6379/0",
            "redis://:hunter2#x@host:6379/0",
            "redis://user:6/hunter2@host",
            "redis://user:6?hunter2@host",
            "redis://user:6#hunter2@host",
            "redis://:hunter2@",
            "redis://:hunter2@host:0",
            "redis://:hunter2@host:99999",
            "redis://:hunter2@host/one",
            "redis://:hunter2@host?protocol=4",
            "redis://:hunter2@host?db=1",
            "redis://:hunter2@0.0.0.0",
            "rediss://:hunter2@host/#careless",
            "redis://:hunter2@host/#insecure",
            "redis://hunter2@host",
            "hunter2",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_is_masked_where_it_stands_by_itself() {
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        for (password, said, shown) in [
            ("e", wrong, wrong),
            ("password", wrong, wrong),
            ("user", wrong, wrong),
            (
                "e",
                "unknown command 'AUTH', with args: 'e' 'me'",
                "unknown command 'AUTH', with args: '***' 'me'",
            ),
            ("e", "AUTH e", "AUTH ***"),
            ("aa", "aaa aa, aa", "aaa ***, ***"),
            ("@e", "x@e @e", "x*** ***"),
            ("ää", "äää ää", "äää ***"),
            ("hunter2hunter2", "xhunter2hunter2x", "x***x"),
            (
                "pair",
                "WRONGPASS invalid username-password pair or user is disabled. pair",
                &format!("{wrong} ***"),
            ),
        ] {
            let login = Login { password: Some(password.to_owned()), ..Login::default() };
            assert_eq!(login.redact(said), shown, "{password}");
        }
    }

    #[test]
    fn clients_send_the_login_and_nothing_else() {
        let settings = parse("redis://ann:pw@h/2").unwrap().login.settings();
        assert_eq!((settings.username(), settings.password()), (Some("ann"), Some("pw")));
        assert_eq!((settings.db(), settings.protocol()), (2, ProtocolVersion::RESP2));
        assert!(settings.skip_set_lib_name());
    }
}
