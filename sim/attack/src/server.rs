//! The server of an arena, and the witness that says what its commands do to keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fault_proxy::{Cut, Link, Upstream};
use live_world::endpoint::{Choice, Endpoint, KeySpace, Settings};
use picklock::command::Command;
use picklock::env::CallError;

use crate::clock::pause;
use crate::error::AttackError;
use crate::monitor::Monitor;
use crate::seen::ServerLog;

/// How long the witness may be behind.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(crate) struct WatchedServer {
    pub(crate) endpoint: Endpoint,
    pub(crate) log: ServerLog,
    /// Of a real server.
    monitor: Option<Monitor>,
    markers: AtomicU64,
}

impl WatchedServer {
    pub(crate) async fn open(choice: &Choice, run: &str) -> Result<Self, AttackError> {
        let log = ServerLog::default();
        let (keys, settings) = (KeySpace::of_run(run), Settings::default());
        let endpoint = match choice {
            Choice::Embedded => Endpoint::open_embedded(keys, &settings, Some(log.tap())).await?,
            real => Endpoint::open(real.clone(), keys, &settings).await?,
        };
        let mut server = Self { endpoint, log, monitor: None, markers: AtomicU64::new(0) };
        server.watch()?;
        Ok(server)
    }

    /// Has a real server show its commands.
    fn watch(&mut self) -> Result<(), AttackError> {
        if !self.endpoint.is_embedded()
            && let Upstream::Tcp(addr) = self.endpoint.upstream()
        {
            let monitor = Monitor::start(addr, self.endpoint.password(), &self.log);
            self.monitor = Some(monitor.map_err(|error| AttackError::Monitor(error.to_string()))?);
        }
        Ok(())
    }

    /// What answers, such as `redis 7.0.15`.
    pub(crate) fn name(&self) -> String {
        let info = self.endpoint.server();
        format!("{} {}", info.software, info.version)
    }

    /// The world it is of.
    pub(crate) fn world(&self) -> &'static str {
        if self.endpoint.is_embedded() { "embedded" } else { "redis" }
    }

    pub(crate) async fn command(&self, line: &[&str]) -> Result<(), AttackError> {
        let (name, args) = line.split_first().expect("a command has a name");
        let command = args.iter().fold(Command::new(name), |command, arg| command.arg(arg));
        self.endpoint.command(&command).await.map(drop).map_err(AttackError::Clear)
    }

    /// Ends what was started, and waits until it is gone.
    pub(crate) async fn close(self) {
        drop(self.monitor);
        self.endpoint.close().await;
    }

    /// Returns once the witness has seen all that the server had carried out; whether it has.
    pub(crate) async fn catch_up(&self) -> bool {
        let Some(monitor) = &self.monitor else { return true };
        let number = self.markers.fetch_add(1, Ordering::Relaxed) + 1;
        if self.command(&["ECHO", &Monitor::marker(number)]).await.is_err() {
            return false;
        }
        let looks = CATCH_UP_WITHIN.as_micros() / LOOK_EVERY.as_micros();
        for _ in 0..looks {
            if monitor.has_passed(number) {
                return true;
            }
            pause(LOOK_EVERY).await;
        }
        false
    }

    /// The server dies and comes back without keys or scripts; its clients' connections break.
    pub(crate) async fn restart(&mut self, links: &[Link]) -> Result<(), AttackError> {
        // Nobody gets to it before it is empty, and the witness there.
        links.iter().for_each(|link| link.cut(Cut::Both));
        let ended = self.restart_unseen().await;
        links.iter().for_each(|link| {
            link.reset_connections();
            link.cut(Cut::None);
        });
        ended
    }

    async fn restart_unseen(&mut self) -> Result<(), AttackError> {
        if self.endpoint.is_embedded() {
            // What clients see of it is all there is.
            self.command(&["SCRIPT", "FLUSH"]).await?;
            return self.command(&["FLUSHALL"]).await;
        }
        self.monitor = None;
        let restarted = async {
            let mut process =
                self.endpoint.process().await.ok_or("it was not started by picklock")?;
            process.kill().await.map_err(|error| error.to_string())?;
            process.restart().await.map_err(|error| error.to_string())
        };
        let restarted: Result<(), String> = restarted.await;
        restarted.map_err(|why| AttackError::Clear(CallError::NotSent(why.into())))?;
        self.watch()
    }
}
