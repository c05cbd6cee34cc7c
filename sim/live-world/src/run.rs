//! A run in a live world: hundreds of clients with connections of their own, one start, one history.
//!
//! Invariant: a run that was interrupted, or whose server went away, still gives its history up to then, says that it
//! is not complete, and leaves no key behind that it could delete.

mod clients;
mod lateness;
mod patience;
mod refused;

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use harness::world::{CutShort, Run, RunError, RunRequest};
use history::Journal;
use history::fault::Fault;
use history::verdict::Witness;
use picklock::env::CallError;
use scenarios::scenario::Scenario;
use scenarios::trial::{Naming, Trial};
use tokio::sync::watch;

use self::clients::{RunClients, Starved};
use self::lateness::Lateness;
use self::patience::Patience;
use self::refused::Refused;
use super::deployment::{Deployment, DeploymentError};
use super::embedded;
use super::endpoint::CommandCounts;
use super::env::LiveEnv;
use super::limits::{Files, Links};
use super::server::Password;
use fault_proxy::{Detail, Proxy};
use redis_model::options::ModelOptions;

/// How much longer than the TTL background tasks may take to end.
const IDLE_BEYOND_TTL: Duration = Duration::from_secs(5);
/// The same after an interruption: the user waits for it.
const IDLE_INTERRUPTED: Duration = Duration::from_secs(2);
/// How long to wait until the server has carried out what was still on its way to it.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// A lock cannot be judged if its server was replaced and the history does not say so.
const UNAWAITED: &str = "the sentinels have elected a primary that no fault asked for, as they do where a server does not \
                         answer them in time; run it again when this machine is less busy";

/// Why a run did not get through all its phases.
enum Unfinished {
    CutShort(CutShort),
    NotRun(RunError),
}

impl From<CutShort> for Unfinished {
    fn from(why: CutShort) -> Self {
        Self::CutShort(why)
    }
}

impl From<RunError> for Unfinished {
    fn from(error: RunError) -> Self {
        Self::NotRun(error)
    }
}

/// There is no run, because of the server or this machine.
fn unavailable(why: impl Into<Box<dyn Error + Send + Sync>>) -> RunError {
    RunError::Unavailable(why.into())
}

/// Runs a scenario on these servers to its end, or until `interrupted` turns true; `world` is its world's name.
///
/// # Errors
/// [`RunError`] where it did not even begin, or could not have gone well. What was written to the
/// server is removed.
pub(super) async fn run(
    deployment: &Deployment,
    request: &RunRequest,
    world: &str,
    interrupted: watch::Receiver<bool>,
) -> Result<Run, RunError> {
    let scenario = &*request.scenario;
    let naming = Naming {
        world,
        seed: request.seed,
        prefix: deployment.first().keys().prefix(),
        exact: false,
    };
    let trial = Arc::new(Trial::<LiveEnv>::new(scenario, naming, Journal::new)?);
    let files = Files::reserve(links(deployment, scenario)).await.map_err(unavailable)?;
    // The model serves the resource, because the resource is not what is tested.
    let password = Password::draw();
    let own =
        || ModelOptions { password: Some(password.reveal().to_owned()), ..ModelOptions::default() };
    let resource = scenario.resource().map(|_| embedded::start(own())).transpose();
    let resource = resource.map_err(|error| {
        unavailable(format!("cannot start a server for the scenario's resource: {error}"))
    })?;
    let proxy = Proxy::bounded(Detail::Faults, files.room()).map_err(unavailable)?;
    let ready = async {
        deployment.start_replication(&proxy, scenario, request.seed).await?;
        deployment.start_sentinels(scenario.topology.sentinels.unwrap_or(0)).await?;
        Ok::<_, DeploymentError>(())
    };
    let ready = unless(&interrupted, ready).await.ok_or(RunError::Interrupted)?;
    ready.map_err(unavailable)?;

    let at = resource.as_ref().map(|it| (it.addr(), &password));
    let (clients, mut requests) =
        RunClients::open(deployment, at, &proxy, request, trial.journal()).map_err(unavailable)?;
    let mut run = LiveRun {
        deployment,
        request,
        trial,
        clients: &clients,
        interrupted,
        server_commands: None,
        foreign_logins: 0,
        remarks: Vec::new(),
        stuck: None,
        late_ns: None,
    };
    let work = async {
        let ended = run.phases().await;
        deployment.note_unawaited_election().await;
        run.clean_up(ended.is_ok()).await;
        ended
    };
    // Also while it cleans up: after an interruption the heal wakes stalled servers, which the keys are deleted from.
    let ended = tokio::select! {
        biased;
        ended = work => ended,
        never = clients.nemesis.carry_out_all(deployment, &mut requests) => match never {},
    };
    // Dropping it blocks on a thread, which a task must not.
    let _ = tokio::task::spawn_blocking(move || drop(resource)).await;
    match ended {
        Ok(()) => run.conclude(None, &proxy),
        Err(Unfinished::CutShort(why)) => run.conclude(Some(why), &proxy),
        Err(Unfinished::NotRun(error)) => Err(error),
    }
}

/// The output of this work; none once the run is interrupted.
async fn unless<T>(
    interrupted: &watch::Receiver<bool>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut interrupted = interrupted.clone();
    tokio::select! {
        biased;
        Ok(_) = interrupted.wait_for(|interrupted| *interrupted) => None,
        done = work => Some(done),
    }
}

/// The links of a run: each client's, the run's own, and those by which replicas follow.
fn links(deployment: &Deployment, scenario: &Scenario) -> Links {
    let topology = scenario.topology();
    let sentinels = scenario.topology.sentinels.unwrap_or(0);
    let to_locks = if sentinels > 0 || deployment.is_cluster() {
        // To every server, whichever is primary, and to every sentinel.
        topology.servers() + sentinels
    } else {
        topology.nodes()
    };
    let everybody = u64::from(scenario.clients) + 1;
    let to_locks = everybody * u64::from(to_locks);
    let to_resource = everybody * u64::from(scenario.resource().is_some());
    let replication = u64::from(topology.servers());
    let (external, in_process) =
        if deployment.first().is_embedded() { (0, to_locks) } else { (to_locks, 0) };
    // Only the lock's own servers are listened to; the resource's links are counted alike.
    let each = if scenario.about_lock().listens() { 2 } else { 1 };
    let faults = !scenario.faults.is_empty();
    Links { external: external + replication, in_process: in_process + to_resource, each, faults }
}

/// A run in progress.
struct LiveRun<'a> {
    deployment: &'a Deployment,
    request: &'a RunRequest,
    trial: Arc<Trial<LiveEnv>>,
    clients: &'a RunClients,
    interrupted: watch::Receiver<bool>,
    server_commands: Option<BTreeMap<String, u64>>,
    /// Logins on private servers that were not ours.
    foreign_logins: u64,
    remarks: Vec<String>,
    /// The clients that did not end, if any.
    stuck: Option<Witness>,
    /// How late the run itself was at most while clients were at work.
    late_ns: Option<u64>,
}

/// The witness that nobody gets the lock any more.
fn stuck(Starved { clients, within }: Starved) -> Witness {
    let summary = format!(
        "{} clients were still at work, and nobody had got the lock for {} s, though everything had been put right: they \
         were stopped",
        clients.len(),
        within.as_secs()
    );
    Witness { summary, clients, occurrences: 1, ..Witness::default() }
}

/// What private servers have counted.
#[derive(Clone, Debug)]
struct ServerCounts {
    commands: CommandCounts,
    /// Connections of ours, each of which logs in once at most.
    connections: u64,
}

impl LiveRun<'_> {
    async fn phases(&mut self) -> Result<(), Unfinished> {
        self.unless_interrupted(self.clients.connect()).await??;
        let before = self.counts().await;
        let run = self.clients.run.clone();
        let set_up = self.unless_interrupted(self.trial.set_up(run.clone())).await?;
        set_up.map_err(|error| {
            unavailable(format!("cannot prepare the scenario's resource: {error}"))
        })?;
        self.unless_interrupted(self.start_lag()).await?;

        let scenario = &self.request.scenario;
        let within = self.trial.journal().look(|it| it.head.must_be_available_within());
        let patience = Patience::new(scenario, self.trial.ttl(), within);
        let lateness = Lateness::measure();
        let worked = self.clients.work(&self.trial, self.request, patience);
        let starved = self.unless_interrupted(worked).await?.map_err(clients::panicked)?;
        self.late_ns = Some(lateness.most_ns());
        let mut background = IDLE_BEYOND_TTL;
        match starved {
            // A task may look after a key for its TTL. If clients were stopped, that time has passed already.
            None => background = background.saturating_add(self.trial.ttl()),
            Some(starved) => {
                // A private server does not answer because of the scenario.
                let first = self.deployment.first();
                let answers = if first.is_private() { Ok(()) } else { first.ping().await };
                self.clients.stop().await;
                answers.map_err(|error| CutShort::ServerGone(error.to_string()))?;
                self.stuck = Some(stuck(starved));
            }
        }
        // A task that stays busy shows in the history: its operations have no end.
        self.unless_interrupted(self.clients.idle(background)).await?;

        // Connections from before a server ended are broken, but that shows only when they are used.
        let _ = self.unless_interrupted(self.clients.reconnect()).await;
        let looked = self.unless_interrupted(self.trial.look_back(run)).await;
        // Counted even if looking back failed: the clients are done.
        let after = self.counts().await;
        self.foreign_logins = foreign_logins(before.as_ref(), after.as_ref());
        self.server_commands = since(before, after);
        looked?.map_err(|error| Unfinished::CutShort(CutShort::ServerGone(error.to_string())))
    }

    async fn unless_interrupted<T>(&self, work: impl Future<Output = T>) -> Result<T, Unfinished> {
        let done = unless(&self.interrupted, work).await;
        done.ok_or(Unfinished::CutShort(CutShort::Interrupted))
    }

    /// From now on replicas lag, and what was written so far is on the disks.
    async fn start_lag(&self) {
        self.deployment.start_lag();
        let faults = &self.request.scenario.faults;
        let loses_power = faults.iter().any(|it| it.kind == Fault::PowerLoss);
        if loses_power && !self.deployment.wait_for_second().await {
            let slow = "the disk was slow: writes from before the run may not have been synced when it began, and writes \
                        of the run may have been synced early";
            self.clients.nemesis.remark(slow.to_owned());
        }
    }

    /// What the servers have counted, if nobody else should be using them.
    async fn counts(&self) -> Option<ServerCounts> {
        if !self.deployment.first().is_private() {
            return None;
        }
        let commands = self.deployment.command_stats().await.ok().flatten()?;
        // Counted after the servers' own counts, so that none of ours is missing.
        let connections = self.clients.connections() + self.deployment.connections().await;
        Some(ServerCounts { commands, connections })
    }

    async fn clean_up(&mut self, complete: bool) {
        if !complete {
            self.clients.stop().await;
            // Clients that were stopped still release; otherwise their keys would outlive the run.
            self.clients.idle(IDLE_INTERRUPTED).await;
        }
        // A SET that is still on its way would set a key again after it is deleted.
        self.clients.drain(DRAIN_WITHIN).await;
        let keys = self.trial.keys();
        let mut removed = self.deployment.remove_keys(&keys).await;
        if matches!(removed, Err(CallError::Indeterminate(_))) {
            // The connection was broken; there is a new one now, and deleting twice does no harm.
            removed = self.deployment.remove_keys(&keys).await;
        }
        let prefix = self.deployment.first().keys().prefix();
        match removed {
            Ok(true) => {}
            Ok(false) => self.remarks.push(format!(
                "the keys of this run were deleted, but the whole server could not be searched for others under {prefix}"
            )),
            // A private server that cannot be asked is ended with all its keys.
            Err(_) if self.deployment.first().is_private() => {}
            Err(error) => self.remarks.push(format!(
                "keys under {prefix} may be left on the server ({error}); those with a TTL expire by themselves, and the \
                 others stay until you delete them"
            )),
        }
    }

    /// The result of the run, whether it was cut short or not.
    fn conclude(self, mut cut_short: Option<CutShort>, proxy: &Proxy) -> Result<Run, RunError> {
        let mut history = self.trial.journal().history();
        history.head.late_ns = self.late_ns;
        // If a private server refuses something, the scenario is the cause.
        let is_private = self.deployment.first().is_private();
        if let Some(refused) = (!is_private).then(|| Refused::of(&history)).flatten() {
            let error = self.deployment.first().refused(&refused.commands, &refused.said);
            if refused.is_denied() {
                return Err(unavailable(error));
            }
            let times = refused.times;
            cut_short.get_or_insert(CutShort::ServerRefused(format!("{times} times: {error}")));
        }
        let out_of_files = refused::out_of_files(&history) + proxy.starved();
        if out_of_files > 0 {
            cut_short.get_or_insert(CutShort::OutOfFiles(out_of_files));
        }
        let mut remarks = self.clients.nemesis.remarks();
        remarks.extend(self.remarks);
        let foreign = (self.foreign_logins > 0).then(|| disturbed(self.foreign_logins));
        let elected = self.deployment.had_unawaited_election().then(|| UNAWAITED.to_owned());
        let disturbed = foreign.or(elected);
        // Clients that wait for a server that is gone are not stuck.
        let gone = matches!(cut_short, Some(CutShort::ServerGone(_)));
        let stuck = self.stuck.filter(|_| !gone);
        let server_commands = self.server_commands;
        Ok(Run { history, cut_short, disturbed, server_commands, remarks, stuck, ..Run::default() })
    }
}

/// What was counted in between, by upper-case name as the history has it.
fn since(
    before: Option<ServerCounts>,
    after: Option<ServerCounts>,
) -> Option<BTreeMap<String, u64>> {
    let (before, after) = (before?.commands.calls, after?.commands.calls);
    let count = |(name, count): (String, u64)| {
        let added = count - before.get(&name).copied().unwrap_or_default().min(count);
        (added > 0).then(|| (name.to_ascii_uppercase(), added))
    };
    Some(after.into_iter().filter_map(count).collect())
}

/// How many more logins there were meanwhile than we have made connections.
fn foreign_logins(before: Option<&ServerCounts>, after: Option<&ServerCounts>) -> u64 {
    let (Some(before), Some(after)) = (before, after) else { return 0 };
    let logins = after.commands.logins.saturating_sub(before.commands.logins);
    // A client that had connected before may log in only now.
    logins.saturating_sub(after.connections.saturating_sub(before.connections))
}

fn disturbed(logins: u64) -> String {
    format!(
        "somebody else has logged in {logins} times to the servers that were started for this run, \
         and may have caused what was seen; run it again where nobody else can read {}",
        std::env::temp_dir().display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_what_came_in_between() {
        let named = |all: &[(&str, u64)]| -> BTreeMap<String, u64> {
            all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let counts = |all: &[(&str, u64)]| {
            let commands = CommandCounts { calls: named(all), logins: 0 };
            Some(ServerCounts { commands, connections: 0 })
        };
        let (before, after) =
            (counts(&[("set", 2), ("info", 1)]), counts(&[("set", 5), ("info", 1), ("get", 1)]));
        assert_eq!(since(before.clone(), after), Some(named(&[("GET", 1), ("SET", 3)])));
        assert_eq!(since(before, None), None);
    }

    #[test]
    fn a_login_beyond_our_connections_is_foreign() {
        let counts = |logins, connections| {
            let commands = CommandCounts { calls: BTreeMap::new(), logins };
            ServerCounts { commands, connections }
        };
        let of = |before, after| foreign_logins(Some(&before), Some(&after));
        assert_eq!(of(counts(5, 5), counts(9, 9)), 0);
        assert_eq!(of(counts(5, 5), counts(10, 9)), 1);
        // A connection whose login was lost.
        assert_eq!(of(counts(5, 5), counts(8, 9)), 0);
        assert_eq!(
            foreign_logins(None, Some(&counts(8, 9))),
            0,
            "a server whose counts began anew"
        );
    }
}
