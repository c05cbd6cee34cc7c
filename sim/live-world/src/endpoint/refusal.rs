//! Why a server cannot be run against, in words for whoever has to mend it.
//!
//! Invariant: every message says what is wrong and what to do next, and none holds a password, not
//! even one that a server has sent back. Deliberately absent: where the server is, which
//! [`TargetError`](super::TargetError) puts in front.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use picklock::reply::ServerError;
use tokio_rustls::rustls;

use super::control::{Cause, Failure};
use super::keys::KeySpace;
use super::url::Login;
use super::wire::WireError;

/// How much of what a server said is quoted.
const QUOTED_CHARS: usize = 160;

/// Why a server cannot be run against.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name service knows no such host.
    #[error(
        "the host name `{host}` cannot be found ({why}): check its spelling, and that this machine's name service knows it"
    )]
    UnknownHost {
        /// The name.
        host: String,
        /// What the system says.
        why: String,
    },
    /// Nobody accepts connections.
    #[error(
        "nothing accepts connections at {addr} ({why}): start the server, or check host, port, the server's `bind` and any firewall between"
    )]
    Unreachable {
        /// The last address tried.
        addr: SocketAddr,
        /// What the system says.
        why: String,
    },
    /// Connections are accepted, and nothing is said.
    #[error(
        "no answer within {0:?}: the server hangs or is overloaded, or something else listens there; see whether `redis-cli PING` is answered"
    )]
    Silent(Duration),
    /// The certificate is not believed.
    #[error(
        "the server's certificate is not trusted ({0}): give the certificate of its authority as CA file, use the host name that the certificate bears, or allow any certificate"
    )]
    Untrusted(String),
    /// No TLS connection comes about.
    #[error(
        "no TLS connection can be made ({0}): check that the port is the server's `tls-port` and that it wants no client certificate (`tls-auth-clients no`)"
    )]
    Tls(String),
    /// `rediss://` against a server without TLS.
    #[error(
        "the server there speaks plain Redis, without TLS: write redis:// instead of rediss://, or give its `tls-port`"
    )]
    PlainUnderTls,
    /// `redis://` against a server with TLS.
    #[error("what listens there speaks TLS: write rediss:// instead of redis://")]
    TlsUnderPlain,
    /// Something else than Redis.
    #[error("what answers there is no Redis server (it said `{0}`): check host and port")]
    NotRedis(String),
    /// The connection ended before an answer.
    #[error(
        "the connection was ended without an answer ({0}): check that a Redis server listens there, and read its log"
    )]
    Closed(String),
    /// NOAUTH.
    #[error(
        "the server wants a password: give it in the URL, as redis://:password@host or redis://user:password@host"
    )]
    NeedsPassword,
    /// WRONGPASS.
    #[error(
        "the server refuses the password of user `{user}`, or does not know that user ({said}): mend user and password in the URL"
    )]
    WrongPassword {
        /// Who we said we are.
        user: String,
        /// The server's words.
        said: String,
    },
    /// A password, and nobody wants it.
    #[error(
        "the server has no password, but the URL gives one: leave it out of the URL, or check that this is the right server"
    )]
    NoPasswordSet,
    /// NOPERM.
    #[error(
        "user `{user}` may not run {commands} on keys such as {key} ({said}): ask the administrator for `ACL SETUSER {user} {rights} ~{pattern}`"
    )]
    NoPermission {
        /// Who we are there.
        user: String,
        /// Which commands, joined with commas.
        commands: String,
        /// The key they were tried on.
        key: String,
        /// The rights that are missing, as ACL SETUSER takes them.
        rights: String,
        /// The keys they are needed for.
        pattern: String,
        /// The server's words.
        said: String,
    },
    /// The database is beyond what the server has.
    #[error(
        "the server has no database {database} ({said}): give a lower one in the URL, or raise `databases` in its configuration"
    )]
    Database {
        /// Which was asked for.
        database: i64,
        /// The server's words.
        said: String,
    },
    /// LOADING, for longer than one would wait.
    #[error(
        "the server is still loading its data after {0:?}: wait until `redis-cli PING` says PONG and run again"
    )]
    Loading(Duration),
    /// READONLY.
    #[error(
        "the server is a read-only replica ({0}): give the URL of its primary (`redis-cli INFO replication` names it)"
    )]
    ReadOnly(String),
    /// OOM.
    #[error(
        "the server is out of memory and takes no writes ({0}): raise its `maxmemory`, or make room"
    )]
    OutOfMemory(String),
    /// MISCONF.
    #[error(
        "the server takes no writes because it cannot save its data ({0}): mend its disk or `dir`, or set `stop-writes-on-bgsave-error no`"
    )]
    CannotPersist(String),
    /// NOREPLICAS.
    #[error(
        "the server takes no writes while it has too few replicas ({0}): connect them, or set `min-replicas-to-write 0`"
    )]
    TooFewReplicas(String),
    /// MOVED, ASK, CROSSSLOT or CLUSTERDOWN.
    #[error(
        "the server is a node of a Redis Cluster and does not serve this run's keys ({0}): give a server that is not in cluster mode, or mend the cluster (`redis-cli --cluster check`)"
    )]
    Cluster(String),
    /// Not a server of data.
    #[error(
        "what answers there is a Redis Sentinel, which keeps no keys: give the URL of the primary that it watches"
    )]
    Sentinel,
    /// DENIED: protected mode.
    #[error(
        "the server is in protected mode and takes only local connections ({0}): set a password on it, or run picklock on its machine"
    )]
    Protected(String),
    /// A key that was written and not deleted is not there.
    #[error(
        "a key that was just written reads back differently (GET gave {0}): check for a proxy in between, or a `maxmemory-policy` that evicts"
    )]
    Forgetful(String),
    /// Anything else that the server refuses.
    #[error("the server refuses {command} ({said}): mend that on the server, or give another one")]
    Other {
        /// Which command.
        command: String,
        /// The server's words.
        said: String,
    },
}

impl Refusal {
    /// What a failure on the control connection means.
    pub(super) fn of(failure: Failure, login: &Login) -> Self {
        match failure.cause {
            Cause::Silent(within) => Self::Silent(within),
            Cause::Tls(error) => Self::of_tls(&error),
            Cause::Connect(error) | Cause::Wire(WireError::Io(error)) => {
                Self::Closed(error.to_string())
            }
            Cause::Wire(WireError::Closed) => Self::Closed("the other side closed it".into()),
            Cause::Wire(WireError::NotResp(bytes)) => {
                let readable: String =
                    login.redact(&String::from_utf8_lossy(&bytes)).escape_debug().collect();
                Self::NotRedis(readable)
            }
            Cause::Refused { command, error } => Self::of_error(command, &error, login),
        }
    }

    /// What it means that clients were refused these commands, the first of them in these words.
    pub(super) fn of_clients(
        commands: &[String],
        error: &ServerError,
        login: &Login,
        keys: &KeySpace,
    ) -> Self {
        match &*error.code {
            "NOPERM" => {
                let mut rights: Vec<String> =
                    commands.iter().map(|name| format!("+{}", name.to_ascii_lowercase())).collect();
                // Whoever runs a script by its digest must be able to send it first.
                let has = |right: &str| rights.iter().any(|it| it == right);
                if has("+evalsha") && !has("+eval") {
                    rights.push("+eval".to_owned());
                }
                Self::NoPermission {
                    user: user(login),
                    commands: commands.join(", "),
                    key: format!("{}*", keys.prefix()),
                    rights: rights.join(" "),
                    pattern: KeySpace::acl_pattern(),
                    said: quote(error, login),
                }
            }
            // Said of what a script calls, and the code is that of any error.
            "ERR" if error.message.contains("user executing the script") => Self::NoPermission {
                user: user(login),
                commands: "what the lock's scripts call".to_owned(),
                key: format!("{}*", keys.prefix()),
                rights: "+get +set +del +pexpire".to_owned(),
                pattern: KeySpace::acl_pattern(),
                said: quote(error, login),
            },
            _ => Self::of_error(commands.join(", "), error, login),
        }
    }

    /// The TCP connection had been tried before: what now fails to connect is TLS.
    fn of_tls(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(why)) => Self::Untrusted(why.to_string()),
            Some(other) => Self::Tls(other.to_string()),
            None => Self::Tls(error.to_string()),
        }
    }

    fn of_error(command: String, error: &ServerError, login: &Login) -> Self {
        let said = quote(error, login);
        let has = |words: &str| error.message.contains(words);
        match &*error.code {
            "NOAUTH" => Self::NeedsPassword,
            // Whoever waits for it knows how long that has been.
            "LOADING" => Self::Loading(Duration::ZERO),
            "WRONGPASS" => Self::WrongPassword { user: user(login), said },
            "READONLY" => Self::ReadOnly(said),
            "OOM" => Self::OutOfMemory(said),
            "MISCONF" => Self::CannotPersist(said),
            "NOREPLICAS" => Self::TooFewReplicas(said),
            "MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT" | "CLUSTERDOWN" => Self::Cluster(said),
            "DENIED" => Self::Protected(said),
            "ERR" if command == "AUTH" && has("without any password configured") => {
                Self::NoPasswordSet
            }
            "ERR" if command == "AUTH" && has("no password is set") => Self::NoPasswordSet,
            "ERR" if command == "AUTH" && has("invalid password") => {
                Self::WrongPassword { user: user(login), said }
            }
            "ERR" if command == "SELECT" => Self::Database { database: login.database, said },
            _ => Self::Other { command, said },
        }
    }
}

/// Who we are to the server.
pub(super) fn user(login: &Login) -> String {
    login.user.clone().unwrap_or_else(|| "default".to_owned())
}

/// The server's words, short and without the password.
pub(super) fn quote(error: &ServerError, login: &Login) -> String {
    let said = login.redact(error.to_string().trim_end());
    match said.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &said[..end]),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(command: &str, line: &str) -> Refusal {
        let login = Login { password: Some("hunter2".into()), database: 99, ..Login::default() };
        let error = ServerError::from_line(line);
        let cause = Cause::Refused { command: command.into(), error };
        Refusal::of(Failure { sent: true, cause }, &login)
    }

    #[test]
    fn errors_of_servers_old_and_new_are_told_apart() {
        let unset = "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?";
        assert_eq!(refused("AUTH", unset), Refusal::NoPasswordSet);
        let old = "ERR Client sent AUTH, but no password is set";
        assert_eq!(refused("AUTH", old), Refusal::NoPasswordSet);
        assert!(matches!(refused("AUTH", "ERR invalid password"), Refusal::WrongPassword { .. }));
        assert!(matches!(
            refused("SELECT", "ERR DB index is out of range"),
            Refusal::Database { database: 99, .. }
        ));
        for line in ["MOVED 1 10.0.0.1:7000", "CLUSTERDOWN Hash slot not served"] {
            assert_eq!(refused("SET", line), Refusal::Cluster(line.into()));
        }
        let few = "NOREPLICAS Not enough good replicas to write.";
        assert_eq!(refused("SET", few), Refusal::TooFewReplicas(few.into()));
        let denied = refused("PING", "DENIED Redis is running in protected mode because …");
        assert!(matches!(denied, Refusal::Protected(_)));
        let busy = refused("PING", "ERR max number of clients reached");
        assert!(matches!(busy, Refusal::Other { .. }));
    }

    #[test]
    fn a_password_sent_back_is_not_passed_on() {
        let odd = "ERR unknown command 'AUTH', with args beginning with: 'hunter2'";
        let error = refused("AUTH", odd);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        assert!(error.to_string().contains("beginning with: '***'"), "{error}");
        let login = Login { password: Some("hunter2".into()), ..Login::default() };
        let cause = Cause::Wire(WireError::NotResp(b"AUTH hunter2".to_vec()));
        let error = Refusal::of(Failure { sent: false, cause }, &login);
        assert_eq!(error, Refusal::NotRedis("AUTH ***".into()));
    }

    #[test]
    fn quotations_end_somewhere() {
        let long = format!("ERR {}", "ä".repeat(1000));
        assert!(refused("SET", &long).to_string().chars().count() < 300);
    }
}
