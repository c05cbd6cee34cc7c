//! Opens an endpoint: starts or finds its server, and tries it out.
//!
//! Invariant: what has been started is ended if anything fails afterwards. Every error names the server, without its
//! password, and says what to do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use scenarios::result::ServerFacts;
use scenarios::topology::Software;
use tokio::sync::Mutex;

use super::control::ControlConnection;
use super::info::UNKNOWN;
use super::keys::KeySpace;
use super::url::{Login, RedisUrl};
use super::{Endpoint, Owned, Refusal, preflight, reach};
use crate::embedded::{self, StartError, Tap};
use crate::server::{Password, PrivateServer, PrivateServerError, ServerBinary, ServerSpec};
use crate::supervisor::{SuperviseError, Supervisor};
use fault_proxy::{TlsError, Upstream};
use redis_model::options::ModelOptions;

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

/// How to open an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a connection, and every answer on the control connection, may take. Three seconds.
    pub answer_within: Duration,
    /// How long to wait for a server that is loading its data. Ten seconds.
    pub loading_within: Duration,
    /// What the embedded model is. Redis 7.0.
    pub software: Software,
    /// Whether the embedded model runs every script in Lua, also one that could run natively. No.
    pub lua_only: bool,
    /// The picklock that supervises a server we start; none: this program's own executable.
    pub supervisor: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            answer_within: Duration::from_secs(3),
            loading_within: Duration::from_secs(10),
            software: Software::default(),
            lua_only: false,
            supervisor: None,
        }
    }
}

/// Why a run cannot use a server: the environment is unavailable. A mistake in the URL itself is a
/// [`UrlError`](super::UrlError).
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The embedded model cannot be served.
    #[error("cannot start the embedded Redis model: {0}")]
    Embedded(#[from] StartError),
    /// There is no supervisor to start a server.
    #[error("cannot start a private redis-server: {0}")]
    Supervise(#[from] SuperviseError),
    /// The server does not start.
    #[error("cannot start a private redis-server: {0}; {advice}", advice = .0.advice())]
    Start(#[from] PrivateServerError),
    /// The certificates to trust, or the host's name, are invalid.
    #[error("{place}: {source}")]
    Tls {
        /// Which server, without its password.
        place: String,
        /// What is wrong.
        source: TlsError,
    },
    /// The server is not there, or does not let us do what a run does.
    #[error("{place}: {refusal}")]
    Refused {
        /// Which server, without its password.
        place: String,
        /// What is wrong, and what to do.
        refusal: Refusal,
    },
}

impl Endpoint {
    /// Starts or finds the server, and tries it out with a key of the run: writes, reads, deletes.
    /// Belongs to the tokio runtime it is called on.
    ///
    /// # Errors
    /// [`EndpointError`], which says what to do. What had been started is ended.
    pub async fn open(
        choice: Choice,
        keys: KeySpace,
        settings: &Settings,
    ) -> Result<Self, EndpointError> {
        match choice {
            Choice::Embedded => Self::open_embedded(keys, settings, Password::draw(), None).await,
            Choice::Started(binary) => {
                let password = Some(Password::draw());
                let spec = ServerSpec { password, ..ServerSpec::new(&binary.path) };
                Self::start(&binary, spec, keys, settings).await
            }
            Choice::Url(url) => Self::open_url(&url, keys, settings).await,
        }
    }

    /// Starts a server of this executable, as the spec says, and tries it out.
    ///
    /// # Errors
    /// [`EndpointError`], which says what to do. What had been started is ended.
    pub async fn start(
        binary: &ServerBinary,
        spec: ServerSpec,
        keys: KeySpace,
        settings: &Settings,
    ) -> Result<Self, EndpointError> {
        let supervisor = Supervisor::spawn(settings.supervisor.as_deref())?;
        let mut endpoint =
            Self::start_unverified(binary, spec, &supervisor, keys, settings).await?;
        endpoint.verify(settings).await?;
        Ok(endpoint)
    }

    /// Starts a server of this executable, as the spec says. The caller has to [verify](Self::verify) it, unless it is
    /// a sentinel, which keeps no keys.
    pub(crate) async fn start_unverified(
        binary: &ServerBinary,
        spec: ServerSpec,
        supervisor: &Supervisor,
        keys: KeySpace,
        settings: &Settings,
    ) -> Result<Self, EndpointError> {
        let login = Login::with(spec.password.as_ref());
        let server = PrivateServer::start(supervisor, spec).await?;
        let (addr, version) = (server.addr(), server.version().to_owned());
        let found = match binary.found_by {
            "PATH" => "found on PATH".to_owned(),
            named => format!("named by {named}"),
        };
        let origin = format!("private server {}, {found}", binary.path.display());
        let control = ControlConnection::new(Upstream::Tcp(addr), login, settings.answer_within);
        let server = Box::new(Mutex::new(server));
        let owned = Owned::Server { server, supervisor: supervisor.clone() };
        let mut endpoint = Self::new(control, owned, keys, addr, origin);
        endpoint.facts.version = version;
        Ok(endpoint)
    }

    /// Writes, reads and deletes a key of the run.
    pub(crate) async fn verify(&mut self, settings: &Settings) -> Result<(), EndpointError> {
        let tried = self.try_out(settings).await;
        tried
            .map_err(|refusal| EndpointError::Refused { place: self.facts.origin.clone(), refusal })
    }

    /// Starts the embedded server, and tries it out; `tap` is shown every request.
    ///
    /// # Errors
    /// [`EndpointError`], which says what to do. What had been started is ended.
    pub async fn open_embedded(
        keys: KeySpace,
        settings: &Settings,
        password: Password,
        tap: Option<Box<dyn Tap>>,
    ) -> Result<Self, EndpointError> {
        let options = ModelOptions {
            software: settings.software,
            lua_only: settings.lua_only,
            password: Some(password.reveal().to_owned()),
            ..ModelOptions::default()
        };
        let server = embedded::start_at(embedded::LOOPBACK, options, tap)?;
        let addr = server.addr();
        let (login, within) = (Login::with(Some(&password)), settings.answer_within);
        let control = ControlConnection::new(Upstream::Tcp(addr), login, within);
        let origin = String::from("embedded Redis model");
        let mut endpoint = Self::new(control, Owned::Embedded(server), keys, addr, origin);
        endpoint.verify(settings).await?;
        endpoint.facts.software = String::from("picklock model");
        endpoint.facts.version += settings.software.besides();
        Ok(endpoint)
    }

    async fn open_url(
        url: &RedisUrl,
        keys: KeySpace,
        settings: &Settings,
    ) -> Result<Self, EndpointError> {
        let place = url.to_string();
        let within = settings.answer_within;
        let addr = match reach::address(url, within).await {
            Ok(addr) => addr,
            Err(refusal) => return Err(EndpointError::Refused { place, refusal }),
        };
        let upstream = match reach::upstream(url, addr) {
            Ok(upstream) => upstream,
            Err(source) => return Err(EndpointError::Tls { place, source }),
        };
        let control = ControlConnection::new(upstream, url.login.clone(), within);
        let mut endpoint = Self::new(control, Owned::Nothing, keys, addr, place.clone());
        match endpoint.try_out(settings).await {
            Ok(()) => Ok(endpoint),
            Err(refusal) => {
                let refusal = reach::explain(refusal, url, addr, within).await;
                Err(EndpointError::Refused { place, refusal })
            }
        }
    }

    /// One that has not said yet what it is.
    fn new(
        control: ControlConnection,
        owned: Owned,
        keys: KeySpace,
        addr: SocketAddr,
        origin: String,
    ) -> Self {
        let (software, version) = (String::from("redis"), UNKNOWN.to_owned());
        let facts = ServerFacts { software, version, origin, ..ServerFacts::default() };
        Self { control, owned, keys, addr, facts }
    }

    async fn try_out(&mut self, settings: &Settings) -> Result<(), Refusal> {
        let within = settings.loading_within;
        let identity = preflight::preflight(&self.control, &self.keys, within).await?;
        self.facts.software = identity.software.to_owned();
        self.facts.version = identity.version;
        Ok(())
    }
}
