//! The live worlds as a [`World`]: real sockets, and behind them the embedded model or a redis-server.

use std::path::PathBuf;

use harness::world::{Run, RunError, RunRequest, World};
use history::Journal;
use scenarios::scenario::Scenario;
use scenarios::trial::{Naming, Trial};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::capability;
use super::deployment::Deployment;
use super::endpoint::{Choice, KeySpace, RedisUrl, Settings};
use super::env::LiveEnv;
use super::run;

/// A live world. Each run opens its servers and ends them.
#[derive(Clone)]
pub struct LiveWorld {
    choice: Choice,
    supervisor: Option<PathBuf>,
    runtime: Handle,
    interrupted: watch::Receiver<bool>,
    lua_only: bool,
}

impl LiveWorld {
    /// One with this server, on this runtime, until `interrupted` turns true.
    pub fn new(choice: Choice, runtime: Handle, interrupted: watch::Receiver<bool>) -> Self {
        Self { choice, supervisor: None, runtime, interrupted, lua_only: false }
    }

    /// The same, with this executable as the supervisor of its servers instead of the running one.
    pub fn supervised_by(self, picklock: PathBuf) -> Self {
        Self { supervisor: Some(picklock), ..self }
    }

    /// The same; with `lua_only`, the embedded model runs every script in Lua, also one that could run natively.
    #[must_use]
    pub fn lua_only(self, lua_only: bool) -> Self {
        Self { lua_only, ..self }
    }

    async fn open(&self, scenario: &Scenario, seed: u64) -> Result<Deployment, RunError> {
        #[expect(clippy::disallowed_methods, reason = "no other run's keys may have this name")]
        let unique = getrandom::u64().map_err(|error| RunError::Unavailable(error.into()))?;
        let keys = KeySpace::of_run(&format!("{}-{seed}-{unique:016x}", scenario.name));
        let supervisor = self.supervisor.clone();
        let (software, lua_only) = (scenario.software(), self.lua_only);
        let settings = Settings { software, lua_only, supervisor, ..Settings::default() };
        let opening = Deployment::open(self.choice.clone(), keys, &settings, scenario);
        let mut interrupted = self.interrupted.clone();
        tokio::select! {
            biased;
            Ok(_) = interrupted.wait_for(|interrupted| *interrupted) => Err(RunError::Interrupted),
            deployment = opening => deployment.map_err(|error| RunError::Unavailable(error.into())),
        }
    }

    async fn on(&self, deployment: &Deployment, request: &RunRequest) -> Result<Run, RunError> {
        let mut server = deployment.server();
        if request.reported {
            server.capabilities = capability::facts(&capability::of(deployment.first()).await);
        }
        let run = run::run(deployment, request, self.name(), self.interrupted.clone()).await?;
        let logs = if request.reported { deployment.logs().await } else { Vec::new() };
        Ok(Run { server, logs, is_private: deployment.first().is_private(), ..run })
    }
}

/// Refuses scenarios that need several servers, or that must not be run on a server that others use.
fn refuse_theirs(url: &RedisUrl, scenario: &Scenario) -> Result<(), RunError> {
    let topology = scenario.topology();
    if topology.servers() > 1 {
        let why = format!("{url} is one server, but the scenario needs {topology}");
        let help = "leave out --redis, and picklock starts them";
        return Err(RunError::Impossible { why, help });
    }
    match scenario.faults.iter().find(|it| it.whom().is_server()) {
        Some(fault) => {
            let why = format!("{} would affect everyone who uses this server", fault.kind.name());
            let help = "leave out --redis, and picklock starts a server of its own";
            Err(RunError::Impossible { why, help })
        }
        None => Ok(()),
    }
}

impl World for LiveWorld {
    fn name(&self) -> &'static str {
        match self.choice {
            Choice::Embedded => "embedded",
            Choice::Started(_) | Choice::Url(_) => "redis",
        }
    }

    fn check(&self, scenario: &Scenario) -> Result<(), RunError> {
        let name = &scenario.name;
        if let Some(what) = scenario.only_virtual() {
            let why = format!("the scenario {name} {what}; only the virtual world can");
            return Err(RunError::Impossible { why, help: "add --world virtual" });
        }
        let embedded = matches!(self.choice, Choice::Embedded);
        if let Some(what) = scenario.only_servers().filter(|_| embedded) {
            let why = format!("the scenario {name} {what}; the embedded world cannot");
            let help = "install a redis-server and use --world redis, or add --world virtual";
            return Err(RunError::Impossible { why, help });
        }
        if let Choice::Url(url) = &self.choice {
            refuse_theirs(url, scenario)?;
        }
        let naming = Naming { world: self.name(), seed: 0, prefix: "", exact: false };
        Trial::<LiveEnv>::new(scenario, naming, Journal::new)?;
        Ok(())
    }

    fn run(&mut self, request: &RunRequest) -> Result<Run, RunError> {
        self.check(&request.scenario)?;
        self.runtime.block_on(async {
            let deployment = self.open(&request.scenario, request.seed).await?;
            let run = self.on(&deployment, request).await;
            deployment.close().await;
            run
        })
    }
}
