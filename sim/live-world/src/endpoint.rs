//! The Redis that a run is made against: embedded, started for the run, or somebody else's.
//!
//! Invariant: a [`Endpoint`] that has been handed out was written to, read from and cleared up with
//! the very login and database that the run's clients will use; and what we started ends with it,
//! closed or dropped. Deliberately absent: faults, which are the proxy's, and several servers, which are a
//! [`Fleet`](super::fleet::Fleet).

mod control;
mod error;
mod info;
mod keys;
mod preflight;
mod reach;
mod refusal;
mod url;
mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::{Reply, ServerError};
use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, IntoConnectionInfo};
use scenarios::result::ServerFacts;
use scenarios::topology::Software;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinSet;

use self::control::{Cause, Control, Failure};
pub use self::error::TargetError;
pub use self::info::CommandStats;
pub use self::keys::{KeySpace, Removal};
pub use self::refusal::Refusal;
use self::url::Login;
pub use self::url::{RedisUrl, UrlError};
use super::embedded::{self, EmbeddedServer};
use super::server::{Password, Server, ServerBinary, ServerSpec};
use super::supervisor::Supervisor;
use fault_proxy::Upstream;
use redis_model::options::Options;

/// How long servers of our own may take to end before they are left to the supervisor.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// Which server to run against.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The Redis model, served on loopback by this process.
    Embedded,
    /// A server of this executable, started for the run.
    Started(ServerBinary),
    /// A server that is there already.
    Url(RedisUrl),
}

/// How to open a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a connection, and every answer on the control connection, may take. Three seconds.
    pub answer_within: Duration,
    /// How long to wait for a server that is loading its data. Ten seconds.
    pub loading_within: Duration,
    /// What the embedded model is. Redis 7.0.
    pub software: Software,
    /// The picklock that supervises a server we start; none: this program's own executable.
    pub supervisor: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            answer_within: Duration::from_secs(3),
            loading_within: Duration::from_secs(10),
            software: Software::default(),
            supervisor: None,
        }
    }
}

/// What a run was made against, for its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// `redis`, `valkey` or `picklock model`.
    pub software: String,
    /// What it told in INFO, such as `7.0.15`; `of unknown version` where it does not tell.
    pub version: String,
    /// How we came by it: `embedded Redis model`, `private server /usr/bin/redis-server, found on
    /// PATH`, or the URL without its password.
    pub how: String,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl From<&ServerInfo> for ServerFacts {
    fn from(info: &ServerInfo) -> Self {
        let ServerInfo { software, version, how, .. } = info.clone();
        Self { software, version, origin: how, ..Self::default() }
    }
}

/// A server that has been tried out. Dropping it ends what was started for it, in the background.
pub struct Endpoint {
    // In the order in which they are dropped: who asks goes before who answers.
    control: Control,
    owned: Owned,
    keys: KeySpace,
    info: ServerInfo,
}

/// What ends with the target.
enum Owned {
    Nothing,
    Embedded(EmbeddedServer),
    Process { server: Box<Mutex<Server>>, supervisor: Supervisor },
}

impl Endpoint {
    /// Starts or finds the server, and tries it out with a key of the run: writes, reads, deletes.
    /// Belongs to the tokio runtime it is called on.
    ///
    /// # Errors
    /// [`TargetError`], which says what to do. What had been started is ended.
    pub async fn open(
        choice: Choice,
        keys: KeySpace,
        settings: &Settings,
    ) -> Result<Self, TargetError> {
        match choice {
            Choice::Embedded => {
                let password = Password::draw();
                let server = embedded::start(Options {
                    profile: settings.software.into(),
                    password: Some(password.reveal().to_owned()),
                    ..Options::default()
                })?;
                let addr = server.addr();
                let how = String::from("embedded Redis model");
                let login = Login::with(Some(&password));
                let owned = Owned::Embedded(server);
                let mut target = Self::try_own(owned, addr, login, how, keys, settings).await?;
                target.info.software = String::from("picklock model");
                target.info.version += settings.software.besides();
                Ok(target)
            }
            Choice::Started(binary) => {
                let supervisor = Supervisor::spawn(settings.supervisor.as_deref())?;
                let password = Some(Password::draw());
                let spec = ServerSpec { password, ..ServerSpec::new(&binary.path) };
                let started = Self::untried(&binary, spec, &supervisor, keys, settings).await;
                let mut target = started?;
                target.prove(settings).await?;
                Ok(target)
            }
            Choice::Url(url) => Self::try_url(&url, keys, settings).await,
        }
    }

    /// Starts a server of this executable, as the spec says. Nothing has been [proved](Self::prove) yet, and a
    /// sentinel, which keeps nothing, never is.
    ///
    /// # Errors
    /// [`TargetError`], which says what to do. What had been started is ended.
    pub(crate) async fn untried(
        binary: &ServerBinary,
        spec: ServerSpec,
        supervisor: &Supervisor,
        keys: KeySpace,
        settings: &Settings,
    ) -> Result<Self, TargetError> {
        let login = Login::with(spec.password.as_ref());
        let server = Server::start(supervisor, spec).await?;
        let (addr, version) = (server.addr(), server.version().to_owned());
        let found = match binary.found_by {
            "PATH" => "found on PATH".to_owned(),
            named => format!("named by {named}"),
        };
        let how = format!("private server {}, {found}", binary.path.display());
        let info = ServerInfo { software: String::from("redis"), version, how, addr };
        let control = Control::new(Upstream::Tcp(addr), login, settings.answer_within);
        let (server, supervisor) = (Box::new(Mutex::new(server)), supervisor.clone());
        Ok(Self { control, owned: Owned::Process { server, supervisor }, keys, info })
    }

    /// Writes, reads and deletes a key of the run.
    ///
    /// # Errors
    /// [`TargetError`], which says what to do.
    pub(crate) async fn prove(&mut self, settings: &Settings) -> Result<(), TargetError> {
        let tried = preflight::preflight(&self.control, &self.keys, settings.loading_within).await;
        let (how, addr) = (self.info.how.clone(), self.info.addr);
        match tried {
            Ok(told) => self.info = report(told, how, addr),
            Err(refusal) => return Err(TargetError::Refused { place: how, refusal }),
        }
        Ok(())
    }

    async fn try_own(
        owned: Owned,
        addr: SocketAddr,
        login: Login,
        how: String,
        keys: KeySpace,
        settings: &Settings,
    ) -> Result<Self, TargetError> {
        let control = Control::new(Upstream::Tcp(addr), login, settings.answer_within);
        match preflight::preflight(&control, &keys, settings.loading_within).await {
            Ok(told) => Ok(Self { control, owned, keys, info: report(told, how, addr) }),
            Err(refusal) => Err(TargetError::Refused { place: how, refusal }),
        }
    }

    async fn try_url(
        url: &RedisUrl,
        keys: KeySpace,
        settings: &Settings,
    ) -> Result<Self, TargetError> {
        let place = url.to_string();
        let within = settings.answer_within;
        let addr = match reach::address(url, within).await {
            Ok(addr) => addr,
            Err(refusal) => return Err(TargetError::Refused { place, refusal }),
        };
        let upstream = match reach::upstream(url, addr) {
            Ok(upstream) => upstream,
            Err(source) => return Err(TargetError::Tls { place, source }),
        };
        let control = Control::new(upstream, url.login.clone(), within);
        match preflight::preflight(&control, &keys, settings.loading_within).await {
            Ok(told) => {
                let info = report(told, place, addr);
                Ok(Self { control, owned: Owned::Nothing, keys, info })
            }
            Err(refusal) => {
                let refusal = reach::explain(refusal, url, addr, within).await;
                Err(TargetError::Refused { place, refusal })
            }
        }
    }

    /// What it is.
    pub fn server(&self) -> &ServerInfo {
        &self.info
    }

    /// The process that was started for the run, to be paused, killed and started again.
    pub async fn process(&self) -> Option<MutexGuard<'_, Server>> {
        match &self.owned {
            Owned::Process { server, .. } => Some(server.lock().await),
            Owned::Nothing | Owned::Embedded(_) => None,
        }
    }

    /// True where nobody else can be using the server, so that its counts are the run's own.
    pub fn is_private(&self) -> bool {
        !matches!(self.owned, Owned::Nothing)
    }

    /// Whether it is within this process.
    pub fn is_embedded(&self) -> bool {
        matches!(self.owned, Owned::Embedded(_))
    }

    /// Where the run's keys lie.
    pub fn keys(&self) -> &KeySpace {
        &self.keys
    }

    /// Where the proxy's links lead.
    pub fn upstream(&self) -> Upstream {
        self.control.upstream().clone()
    }

    /// A client that connects to a link of the proxy at `link`, with this target's login and
    /// database. Nothing is sent yet.
    ///
    /// On every new connection redis-rs sends `AUTH` where there is a password and `SELECT` where
    /// the database is not 0, each once and in one write; with `?protocol=resp3` it sends `HELLO 3`,
    /// with the password in it, in the place of `AUTH`. Nothing else: its `CLIENT SETINFO` is
    /// switched off. A server that does not know user names (before Redis 6) is sent the whole
    /// handshake a second time, without the name.
    pub fn client(&self, link: SocketAddr) -> redis::Client {
        client(link, self.control.login())
    }

    /// Sends a command on the control connection, on which there are no faults.
    ///
    /// # Errors
    /// [`CallError`]; after an error other than *refused* the next call makes a new connection.
    pub async fn command(&self, command: &Command) -> Result<Reply, CallError> {
        self.control.call(command).await.map_err(|failure| self.call_error(failure))
    }

    /// What comes back for each of these commands, sent in one go on a connection of their own; less where
    /// something goes wrong. It is told as it came, without the password.
    pub async fn try_out(&self, commands: &[Command]) -> Vec<Vec<u8>> {
        self.control.try_out(commands).await
    }

    /// How often the server has carried out each command, by lower-case name without subcommand, since
    /// it started or its statistics were reset; none where it refuses INFO.
    ///
    /// It counts what scripts call, beside the EVAL itself, and counts neither a command that it
    /// rejected unread (READONLY, OOM, NOPERM, a wrong number of arguments) nor, yet, this INFO.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn command_stats(&self) -> Result<Option<CommandStats>, CallError> {
        match self.control.call(&Command::new("INFO").arg("commandstats")).await {
            Ok(reply) => {
                let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default());
                Ok(Some(info::command_stats(&text)))
            }
            Err(Failure { sent: true, cause: Cause::Refused { .. } }) => Ok(None),
            Err(failure) => Err(self.call_error(failure)),
        }
    }

    /// How often each command was sent on the control connection so far, by lower-case name: what to
    /// take off the server's counts to compare them with the proxy's.
    pub async fn own_commands(&self) -> BTreeMap<String, u64> {
        self.control.sent().await
    }

    /// Deletes what is left of the run: the known keys, as far as they lie under the run's prefix,
    /// and then whatever a search finds there. Others' keys are not touched.
    ///
    /// # Errors
    /// [`CallError`] where the server does not answer, or lets nothing be deleted.
    pub async fn remove_keys(&self, known: &[Vec<u8>]) -> Result<Removal, CallError> {
        let removed = keys::remove(&self.control, &self.keys, known).await;
        removed.map_err(|failure| self.call_error(failure))
    }

    /// Ends what was started, and waits until nothing of it is left.
    pub async fn close(self) {
        Self::close_all([self]).await;
    }

    /// Ends what was started for all of these, and waits until nothing of it is left. Servers may share a
    /// supervisor, if nobody else has a handle of it.
    pub async fn close_all(targets: impl IntoIterator<Item = Self>) {
        let mut supervisors = Vec::new();
        let mut ending = JoinSet::new();
        for target in targets {
            drop(target.control);
            match target.owned {
                Owned::Nothing => {}
                Owned::Embedded(server) => {
                    // It waits for a thread, which a runtime must not.
                    ending.spawn_blocking(move || drop(server));
                }
                Owned::Process { server, supervisor } => {
                    let mut server = server.into_inner();
                    ending.spawn(async move {
                        // Where this fails the supervisor ends it, or has ended.
                        let _ = server.stop().await;
                    });
                    supervisors.push(supervisor);
                }
            }
        }
        let all = async {
            ending.join_all().await;
            // The last of the handles of each waits for its end.
            while let Some(supervisor) = supervisors.pop() {
                if !supervisors.iter().any(|other| other.is(&supervisor)) {
                    supervisor.shutdown().await;
                }
            }
        };
        let _ = tokio::time::timeout(CLOSE_WITHIN, all).await;
    }

    /// What it means that clients were refused these commands, the first of them in these words.
    pub fn refused(&self, commands: &[String], said: &ServerError) -> TargetError {
        let refusal = Refusal::of_clients(commands, said, self.control.login(), &self.keys);
        TargetError::Refused { place: self.info.how.clone(), refusal }
    }

    fn call_error(&self, failure: Failure) -> CallError {
        failure.into_call_error(self.control.login())
    }
}

/// A client that connects to a link of the proxy at `link` that leads to a server of ours with this
/// password. Nothing is sent yet.
pub(crate) fn own_client(link: SocketAddr, password: &Password) -> redis::Client {
    client(link, &Login::with(Some(password)))
}

fn client(link: SocketAddr, login: &Login) -> redis::Client {
    let addr = ConnectionAddr::Tcp(link.ip().to_string(), link.port());
    let info = addr.into_connection_info().map(|info| {
        info.set_redis_settings(login.settings())
            // Without it the kernel may hold back a request until the last one is acknowledged.
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
    });
    info.and_then(redis::Client::open).expect("an address needs no reading")
}

fn report(told: info::Identity, how: String, addr: SocketAddr) -> ServerInfo {
    ServerInfo { software: told.software.to_owned(), version: told.version, how, addr }
}
