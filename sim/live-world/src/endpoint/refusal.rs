//! Why a run cannot use a server, for the user who has to fix it.
//!
//! Invariant: every message says what is wrong and what to do next, and none contains a password, not
//! even one that a server has sent back. [`EndpointError`](super::EndpointError) puts the server in front.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use picklock::reply::ServerError;
use tokio_rustls::rustls;

use super::control::{CallFailure, Cause};
use super::keys::KeySpace;
use super::url::Login;
use crate::wire::WireError;

/// How much of what a server said is quoted.
const QUOTED_CHARS: usize = 160;

/// Why a run cannot use a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The host name cannot be resolved.
    #[error(
        "the host name `{host}` cannot be resolved ({why}): check its spelling and this machine's name service"
    )]
    UnknownHost {
        /// The name.
        host: String,
        /// What the system says.
        why: String,
    },
    /// Nothing accepts connections.
    #[error(
        "nothing accepts connections at {addr} ({why}): start the server, or check host, port, the server's `bind` and any firewall"
    )]
    Unreachable {
        /// The last address tried.
        addr: SocketAddr,
        /// What the system says.
        why: String,
    },
    /// Connections are accepted, and nothing is answered.
    #[error(
        "no answer within {0:?}: the server hangs or is overloaded, or something else listens there; check with `redis-cli PING`"
    )]
    Silent(Duration),
    /// The certificate is not trusted.
    #[error(
        "the server's certificate is not trusted ({0}): give its CA certificate with --tls-ca, use the host name in the certificate, or allow any certificate with --tls-insecure"
    )]
    Untrusted(String),
    /// The server's certificate is one for issuing others, as `openssl req -x509` makes it.
    #[error(
        "the server's certificate is that of a CA, which may only issue others: give the server one that this CA has \
         issued (`basicConstraints = CA:FALSE`), or add --tls-insecure"
    )]
    IsCa,
    /// The TLS handshake fails.
    #[error(
        "the TLS handshake failed ({0}): check that the port is the server's `tls-port` and that it requires no client certificate (`tls-auth-clients no`)"
    )]
    Tls(String),
    /// `rediss://` against a server without TLS.
    #[error(
        "the server does not speak TLS on this port: write redis:// instead of rediss://, or give its `tls-port`"
    )]
    PlainUnderTls,
    /// `redis://` against a server with TLS.
    #[error("the server speaks TLS on this port: write rediss:// instead of redis://")]
    TlsUnderPlain,
    /// Something else than Redis.
    #[error("this is not a Redis server (it answered `{0}`): check host and port")]
    NotRedis(String),
    /// The connection ended before an answer.
    #[error(
        "the connection was closed without an answer ({0}): check that a Redis server listens there, and read its log"
    )]
    Closed(String),
    /// NOAUTH.
    #[error(
        "the server requires a password: give it in the URL, as redis://:password@host or redis://user:password@host"
    )]
    NeedsPassword,
    /// WRONGPASS.
    #[error(
        "the server refuses the password of user `{user}`, or does not know that user ({said}): correct user and password in the URL"
    )]
    WrongPassword {
        /// The user that was given.
        user: String,
        /// The server's words.
        said: String,
    },
    /// A password where none is required.
    #[error(
        "the server has no password, but the URL gives one: leave it out of the URL, or check that this is the right server"
    )]
    NoPasswordSet,
    /// NOPERM.
    #[error(
        "user `{user}` may not run {commands} on keys such as {key} ({said}): ask the administrator for `ACL SETUSER {user} {rights}`"
    )]
    NoPermission {
        /// The user on the server.
        user: String,
        /// Which commands, joined with commas.
        commands: String,
        /// The key they were tried on.
        key: String,
        /// The rights that are missing, as ACL SETUSER takes them.
        rights: String,
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
    /// LOADING, for longer than picklock waits.
    #[error(
        "the server is still loading its data after {0:?}: wait until `redis-cli PING` answers PONG and run again"
    )]
    Loading(Duration),
    /// READONLY.
    #[error(
        "the server is a read-only replica ({0}): give the URL of its primary (`redis-cli INFO replication` names it)"
    )]
    ReadOnly(String),
    /// OOM.
    #[error(
        "the server is out of memory and accepts no writes ({0}): raise its `maxmemory`, or delete keys"
    )]
    OutOfMemory(String),
    /// MISCONF.
    #[error(
        "the server accepts no writes because it cannot save its data ({0}): fix its disk or `dir`, or set `stop-writes-on-bgsave-error no`"
    )]
    CannotPersist(String),
    /// NOREPLICAS.
    #[error(
        "the server accepts no writes while it has too few replicas ({0}): connect them, or set `min-replicas-to-write 0`"
    )]
    TooFewReplicas(String),
    /// MOVED, ASK, CROSSSLOT or CLUSTERDOWN.
    #[error(
        "the server is a node of a Redis Cluster and does not serve this run's keys ({0}): give a server that is not in cluster mode, or repair the cluster (`redis-cli --cluster fix`)"
    )]
    Cluster(String),
    /// Not a server of data.
    #[error(
        "this is a Redis Sentinel, which keeps no keys: give the URL of the primary that it monitors"
    )]
    Sentinel,
    /// DENIED: protected mode.
    #[error(
        "the server is in protected mode and accepts only local connections ({0}): set a password on it, or run picklock on its machine"
    )]
    Protected(String),
    /// A key that was just written has another value, or none.
    #[error(
        "a key that was just written reads back differently (GET returned {0}): check for a proxy in between, or a `maxmemory-policy` that evicts keys"
    )]
    Forgetful(String),
    /// Anything else that the server refuses.
    #[error("the server refuses {command} ({said}): fix that on the server, or give another one")]
    Other {
        /// Which command.
        command: String,
        /// The server's words.
        said: String,
    },
}

impl Refusal {
    /// What a failure on the control connection means.
    pub(super) fn of(failure: CallFailure, login: &Login) -> Self {
        match failure.cause {
            Cause::Silent(within) => Self::Silent(within),
            Cause::Tls(error) => Self::of_tls(&error),
            Cause::Connect(error) | Cause::RespWire(WireError::Io(error)) => {
                Self::Closed(error.to_string())
            }
            Cause::RespWire(WireError::Closed) => Self::Closed("the other side closed it".into()),
            Cause::RespWire(WireError::NotResp(bytes)) => {
                let readable: String =
                    login.redact(&String::from_utf8_lossy(&bytes)).escape_debug().collect();
                Self::NotRedis(readable)
            }
            Cause::Refused { command, error } => Self::of_error(command, &error, login),
        }
    }

    /// The reason if the server refused these commands of clients, the first of them with this answer.
    pub(super) fn of_clients(
        commands: &[String],
        error: &ServerError,
        login: &Login,
        keys: &KeySpace,
    ) -> Self {
        let key = format!("{}*", keys.prefix());
        match &*error.code {
            "NOPERM" => Self::no_permission(commands, key, error, login),
            // About what a script calls; older servers give it the code of any error.
            "ERR" if error.message.contains("user executing the script") => Self::NoPermission {
                user: user(login),
                commands: "the commands of the lock's scripts".to_owned(),
                key,
                rights: format!("+get +set +del +pexpire ~{}", KeySpace::acl_pattern()),
                said: quote(error, login),
            },
            _ => Self::of_error(commands.join(", "), error, login),
        }
    }

    /// The user may not run these commands on this key.
    pub(super) fn no_permission(
        commands: &[String],
        key: String,
        error: &ServerError,
        login: &Login,
    ) -> Self {
        let mut rights: Vec<String> =
            commands.iter().map(|name| format!("+{}", name.to_ascii_lowercase())).collect();
        // A script is sent with EVAL before it is run by its digest.
        let has = |right: &str| rights.iter().any(|it| it == right);
        if has("+evalsha") && !has("+eval") {
            rights.push("+eval".to_owned());
        }
        // The error says whether a key or a channel may not be used.
        let sort = if error.message.contains("channel") { '&' } else { '~' };
        rights.push(format!("{sort}{}", KeySpace::acl_pattern()));
        Self::NoPermission {
            user: user(login),
            commands: commands.join(", "),
            key,
            rights: rights.join(" "),
            said: quote(error, login),
        }
    }

    /// The TCP connection had succeeded before: what fails now is TLS.
    fn of_tls(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(why)) => {
                let why = why.to_string();
                if why.contains("CaUsedAsEndEntity") { Self::IsCa } else { Self::Untrusted(why) }
            }
            Some(other) => Self::Tls(other.to_string()),
            None => Self::Tls(error.to_string()),
        }
    }

    fn of_error(command: String, error: &ServerError, login: &Login) -> Self {
        let said = quote(error, login);
        let has = |words: &str| error.message.contains(words);
        match &*error.code {
            "NOAUTH" => Self::NeedsPassword,
            // The preflight, which waits for it, fills in how long.
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

/// The user that we log in as.
fn user(login: &Login) -> String {
    login.user.clone().unwrap_or_else(|| "default".to_owned())
}

/// The server's words, short and without the password.
fn quote(error: &ServerError, login: &Login) -> String {
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
        Refusal::of(CallFailure { sent: true, cause }, &login)
    }

    #[test]
    fn errors_of_servers_old_and_new_are_recognized() {
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
    fn the_advice_is_about_what_may_not_be_used() {
        let advice = |said: &str| {
            let error = ServerError::from_line(said);
            let key = "picklock:{run}:*".to_owned();
            let commands = ["SUBSCRIBE".to_owned()];
            Refusal::no_permission(&commands, key, &error, &Login::default()).to_string()
        };
        let keys =
            "NOPERM this user has no permissions to access one of the keys used as arguments";
        assert!(advice(keys).ends_with("`ACL SETUSER default +subscribe ~picklock:*`"));
        let channels = keys.replace("keys", "channels");
        assert!(advice(&channels).ends_with("`ACL SETUSER default +subscribe &picklock:*`"));
    }

    #[test]
    fn a_password_sent_back_is_not_passed_on() {
        let odd = "ERR unknown command 'AUTH', with args beginning with: 'hunter2'";
        let error = refused("AUTH", odd);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        assert!(error.to_string().contains("beginning with: '***'"), "{error}");
        let login = Login { password: Some("hunter2".into()), ..Login::default() };
        let cause = Cause::RespWire(WireError::NotResp(b"AUTH hunter2".to_vec()));
        let error = Refusal::of(CallFailure { sent: false, cause }, &login);
        assert_eq!(error, Refusal::NotRedis("AUTH ***".into()));
    }

    #[test]
    fn quotations_are_bounded() {
        let long = format!("ERR {}", "ä".repeat(1000));
        assert!(refused("SET", &long).to_string().chars().count() < 300);
    }
}
