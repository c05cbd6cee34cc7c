//! A server of an arena, the faults that strike it, and the witness that says what its commands do to keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fault_proxy::{Cut, Link, Upstream};
use live_world::endpoint::{Choice, Endpoint, KeySpace, Settings};
use live_world::server::{Password, ServerBinary, ServerSpec};
use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::Reply;

use crate::clock::pause;
use crate::error::AttackError;
use crate::lock_key::LockKey;
use crate::monitor::Monitor;
use crate::plan::{AttackFault, HOUR_NS};
use crate::seen::ServerLog;

/// How long the witness may be behind.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long a replica may take to follow.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);
/// The file that SAVE writes.
const SNAPSHOT: &str = "dump.rdb";

pub(crate) struct WatchedServer {
    pub(crate) endpoint: Endpoint,
    pub(crate) log: ServerLog,
    run: String,
    /// Of a real server: its executable, and the password of every server of this arena.
    binary: Option<(ServerBinary, Password)>,
    monitor: Option<Monitor>,
    /// A replica that has followed for a while.
    standby: Option<Endpoint>,
    markers: AtomicU64,
    /// Whether its wall clock was struck, and not set right since.
    is_clock_ahead: bool,
}

impl WatchedServer {
    pub(crate) async fn open(
        choice: &Choice,
        password: &Password,
        run: &str,
    ) -> Result<Self, AttackError> {
        let log = ServerLog::default();
        let (binary, endpoint) = match choice {
            Choice::Started(binary) => {
                let binary = (binary.clone(), password.clone());
                let endpoint = start(&binary, run).await?;
                (Some(binary), endpoint)
            }
            _ => {
                let (keys, settings) = (KeySpace::of_run(run), Settings::default());
                let tap = Some(log.tap());
                let password = password.clone();
                (None, Endpoint::open_embedded(keys, &settings, password, tap).await?)
            }
        };
        let monitor = match endpoint.upstream() {
            Upstream::Tcp(addr) if binary.is_some() => {
                let monitor = Monitor::start(addr, endpoint.password(), &log);
                Some(monitor.map_err(|error| AttackError::Monitor(error.to_string()))?)
            }
            _ => None,
        };
        let (run, standby, markers) = (run.to_owned(), None, AtomicU64::new(0));
        let is_clock_ahead = false;
        Ok(Self { endpoint, log, run, binary, monitor, standby, markers, is_clock_ahead })
    }

    /// Software and version of the server, such as `redis 7.0.15`.
    pub(crate) fn name(&self) -> String {
        let info = self.endpoint.server();
        format!("{} {}", info.software, info.version)
    }

    /// The world that it belongs to.
    pub(crate) fn world(&self) -> &'static str {
        if self.endpoint.is_embedded() { "embedded" } else { "redis" }
    }

    pub(crate) async fn command(&self, line: &[&str]) -> Result<(), AttackError> {
        ask(&self.endpoint, line).await.map(drop).map_err(AttackError::Clear)
    }

    /// Ends what was started, and waits until it is gone.
    pub(crate) async fn close(self) {
        drop(self.monitor);
        for endpoint in self.standby.into_iter().chain([self.endpoint]) {
            endpoint.close().await;
        }
    }

    /// Waits until the witness has seen all commands that the server has carried out; false if that fails.
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

    /// Prepares what this fault needs, before anybody takes the lock. [`strike`](Self::strike) says if that failed.
    pub(crate) async fn get_ready(&mut self, fault: AttackFault) -> Result<(), AttackError> {
        if let (AttackFault::Failover, Some(binary)) = (fault, &self.binary) {
            let replica = start(binary, &self.run).await?;
            follow_once(&replica, &self.endpoint).await.map_err(AttackError::Clear)?;
            self.standby = Some(replica);
        }
        Ok(())
    }

    /// Strikes this server; true if the fault met anything. An error says why it cannot be staged.
    pub(crate) async fn strike(
        &mut self,
        fault: AttackFault,
        lock_key: &LockKey,
        links: &[Link],
    ) -> Result<bool, String> {
        match fault {
            AttackFault::ScriptFlush => {
                let flushed = self.command(&["SCRIPT", "FLUSH"]).await;
                return flushed.map(|()| true).map_err(|error| error.to_string());
            }
            AttackFault::Evict => {
                let gone = self.endpoint.command(&lock_key.command("DEL")).await;
                return gone.map(|it| it == Reply::Int(1)).map_err(|error| error.to_string());
            }
            _ => {}
        }
        // No client reaches the server meanwhile, so the witness misses no command.
        links.iter().for_each(|link| link.cut(Cut::Both));
        self.catch_up().await;
        let struck = match fault {
            AttackFault::ServerClock => self.step_clock().await,
            AttackFault::Failover => self.fail_over(links).await,
            fault => self.restart(fault == AttackFault::Restart).await,
        };
        for link in links {
            // A clock that jumps breaks no connection.
            if fault != AttackFault::ServerClock {
                link.reset_connections();
            }
            link.cut(Cut::None);
        }
        struck.map(|()| true)
    }

    /// Sets its clock right again, if it was struck: a clock that is behind would spoil all later plans.
    pub(crate) async fn set_clock_right(&mut self) {
        if std::mem::take(&mut self.is_clock_ahead) {
            let _ = self.endpoint.step_wall(-HOUR_NS).await;
        }
    }

    async fn step_clock(&mut self) -> Result<(), String> {
        // The clock may have jumped even if the server does not report that in time.
        self.is_clock_ahead = true;
        match self.endpoint.step_wall(HOUR_NS).await {
            Some(true) => Ok(()),
            _ => Err(String::from("the server's clock cannot be changed here")),
        }
    }

    /// The server dies and comes back, with its keys or without.
    async fn restart(&mut self, with_keys: bool) -> Result<(), String> {
        if self.binary.is_none() {
            // The embedded server cannot die: it only does what clients would see of that.
            let lost: &[&[&str]] = if with_keys { &[] } else { &[&["FLUSHALL"]] };
            for line in [&["SCRIPT", "FLUSH"][..]].iter().chain(lost) {
                self.command(line).await.map_err(|error| error.to_string())?;
            }
            return Ok(());
        }
        if with_keys {
            self.command(&["SAVE"]).await.map_err(|error| error.to_string())?;
        }
        {
            let process = self.endpoint.process().await;
            let mut process = process.ok_or("picklock has not started this server")?;
            process.kill().await.map_err(|error| error.to_string())?;
            process.restart().await.map_err(|error| error.to_string())?;
            // A later crash without a snapshot must not find this one.
            let _ = std::fs::remove_file(process.dir().join(SNAPSHOT));
        }
        self.watch_again(!with_keys).await
    }

    /// The primary dies, and its replica takes its place.
    async fn fail_over(&mut self, links: &[Link]) -> Result<(), String> {
        let replica =
            self.standby.take().ok_or("the embedded server has no replica: use --world redis")?;
        let upstream = replica.upstream();
        std::mem::replace(&mut self.endpoint, replica).close().await;
        links.iter().for_each(|link| link.set_upstream(upstream.clone()));
        // The replica has no keys, but the functions that its primary had: of the witness only the keys are lost.
        self.watch_again(false).await?;
        self.command(&["FLUSHALL"]).await.map_err(|error| error.to_string())
    }

    async fn watch_again(&mut self, empty: bool) -> Result<(), String> {
        if let (Some(monitor), Upstream::Tcp(addr)) = (&mut self.monitor, self.endpoint.upstream())
        {
            let followed = monitor.follow_on(addr, self.endpoint.password(), empty);
            followed.map_err(|error| error.to_string())?;
        }
        // The control connection is broken, but that shows only when it is used.
        let _ = self.command(&["PING"]).await;
        // The server has forgotten its scripts; this tells the witness.
        self.command(&["SCRIPT", "FLUSH"]).await.map_err(|error| error.to_string())
    }
}

async fn start(
    (binary, password): &(ServerBinary, Password),
    run: &str,
) -> Result<Endpoint, AttackError> {
    // By default a primary waits for more replicas before it sends its data.
    let args = ["--repl-diskless-sync-delay", "0"].map(str::to_owned).to_vec();
    let password = Some(password.clone());
    let spec = ServerSpec { args, password, paged: true, ..ServerSpec::new(&binary.path) };
    Ok(Endpoint::start(binary, spec, KeySpace::of_run(run), &Settings::default()).await?)
}

/// Copies the primary's data to a replica once. Later writes do not reach it, as if they were still on their way.
async fn follow_once(replica: &Endpoint, primary: &Endpoint) -> Result<(), CallError> {
    let port = primary.addr().port().to_string();
    ask(replica, &["REPLICAOF", "127.0.0.1", &port]).await?;
    let looks = FOLLOWS_WITHIN.as_micros() / LOOK_EVERY.as_micros();
    for _ in 0..looks {
        let info = ask(replica, &["INFO", "replication"]).await?;
        let info = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
        if info.contains("master_link_status:up") {
            return ask(replica, &["REPLICAOF", "NO", "ONE"]).await.map(drop);
        }
        pause(LOOK_EVERY).await;
    }
    Err(CallError::NotSent("the replica does not follow its primary".into()))
}

async fn ask(endpoint: &Endpoint, line: &[&str]) -> Result<Reply, CallError> {
    let (name, args) = line.split_first().expect("a command has a name");
    endpoint.command(&args.iter().fold(Command::new(name), |command, arg| command.arg(arg))).await
}
