//! Opens an endpoint: starts or finds its server, and tries it out.
//!
//! Invariant: what has been started is ended if anything fails afterwards.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use scenarios::topology::Software;
use tokio::sync::Mutex;

use super::control::ControlConnection;
use super::info::UNKNOWN;
use super::keys::KeySpace;
use super::url::{Login, RedisUrl};
use super::{Endpoint, EndpointError, Owned, Refusal, ServerInfo, preflight, reach};
use crate::embedded::{self, Tap};
use crate::server::{Password, PrivateServer, ServerBinary, ServerSpec};
use crate::supervisor::Supervisor;
use fault_proxy::Upstream;
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
            Choice::Embedded => Self::open_embedded(keys, settings, None).await,
            Choice::Started(binary) => {
                let supervisor = Supervisor::spawn(settings.supervisor.as_deref())?;
                let password = Some(Password::draw());
                let spec = ServerSpec { password, ..ServerSpec::new(&binary.path) };
                let mut endpoint =
                    Self::start_unverified(&binary, spec, &supervisor, keys, settings).await?;
                endpoint.verify(settings).await?;
                Ok(endpoint)
            }
            Choice::Url(url) => Self::open_url(&url, keys, settings).await,
        }
    }

    /// Starts a server of this executable, as the spec says. It is to be [verified](Self::verify), unless it is a
    /// sentinel, which keeps no keys.
    ///
    /// # Errors
    /// [`EndpointError`], which says what to do. What had been started is ended.
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
        let how = format!("private server {}, {found}", binary.path.display());
        let info = ServerInfo { software: String::from("redis"), version, how, addr };
        let control = ControlConnection::new(Upstream::Tcp(addr), login, settings.answer_within);
        let server = Box::new(Mutex::new(server));
        let owned = Owned::Server { server, supervisor: supervisor.clone() };
        Ok(Self { control, owned, keys, info })
    }

    /// Writes, reads and deletes a key of the run.
    ///
    /// # Errors
    /// [`EndpointError`], which says what to do.
    pub(crate) async fn verify(&mut self, settings: &Settings) -> Result<(), EndpointError> {
        let tried = self.try_out(settings).await;
        tried.map_err(|refusal| EndpointError::Refused { place: self.info.how.clone(), refusal })
    }

    /// Starts the embedded server, and tries it out; `tap` is shown every request.
    ///
    /// # Errors
    /// [`EndpointError`], which says what to do. What had been started is ended.
    pub async fn open_embedded(
        keys: KeySpace,
        settings: &Settings,
        tap: Option<Box<dyn Tap>>,
    ) -> Result<Self, EndpointError> {
        let password = Password::draw();
        let options = ModelOptions {
            profile: settings.software.into(),
            password: Some(password.reveal().to_owned()),
            ..ModelOptions::default()
        };
        let server = embedded::start_tapped(options, tap)?;
        let addr = server.addr();
        let (login, within) = (Login::with(Some(&password)), settings.answer_within);
        let control = ControlConnection::new(Upstream::Tcp(addr), login, within);
        let info = ServerInfo::of_unknown(String::from("embedded Redis model"), addr);
        let mut endpoint = Self { control, owned: Owned::Embedded(server), keys, info };
        endpoint.verify(settings).await?;
        endpoint.info.software = String::from("picklock model");
        endpoint.info.version += settings.software.besides();
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
        let info = ServerInfo::of_unknown(place.clone(), addr);
        let mut endpoint = Self { control, owned: Owned::Nothing, keys, info };
        match endpoint.try_out(settings).await {
            Ok(()) => Ok(endpoint),
            Err(refusal) => {
                let refusal = reach::explain(refusal, url, addr, within).await;
                Err(EndpointError::Refused { place, refusal })
            }
        }
    }

    async fn try_out(&mut self, settings: &Settings) -> Result<(), Refusal> {
        let within = settings.loading_within;
        let identity = preflight::preflight(&self.control, &self.keys, within).await?;
        (self.info.software, self.info.version) = (identity.software.to_owned(), identity.version);
        Ok(())
    }
}

impl ServerInfo {
    fn of_unknown(how: String, addr: SocketAddr) -> Self {
        Self { software: String::from("redis"), version: UNKNOWN.to_owned(), how, addr }
    }
}
