//! A run in a live world: hundreds of clients with connections of their own, one start, one history.
//!
//! Invariant: a run that was interrupted, or whose server went away, still gives its history up to
//! then, says that it is not complete, and leaves no key behind that it could delete. Deliberately
//! absent: which server it is, and what is made of the history.

mod crew;
mod errands;
mod refused;
mod starved;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use harness::world::{CutShort, Gauge, Run};
use picklock::env::CallError;
use scenarios::fault::{Fault, Staged};
use scenarios::history::Journal;
use scenarios::recipe::BuildError;
use scenarios::scenario::Scenario;
use scenarios::trial::{Naming, Trial};
use tokio::sync::watch;
use tokio::task::JoinError;

use self::crew::Crew;
use self::refused::Refused;
use super::embedded::{self, StartError};
use super::endpoint::{CommandStats, TargetError};
use super::env::LiveEnv;
use super::fleet::{Fleet, FollowError, WatchError};
use super::limits::{Files, LimitError, Links};
use super::server::Password;
use fault_proxy::{Detail, Proxy, ProxyError};
use redis_model::options::Options;

/// How much longer than the TTL background tasks may take to end.
const IDLE_BEYOND_TTL: Duration = Duration::from_secs(5);
/// The same after an interruption, for nobody waits for ever.
const IDLE_INTERRUPTED: Duration = Duration::from_secs(2);
/// How long what a scenario stages may keep clients from their end, beyond ten TTLs, before all is put
/// right.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait until the server has dealt with what was still on its way to it.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// What latency, jitter and tokens are drawn from.
    pub seed: u64,
    /// The world's name.
    pub world: &'a str,
}

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// The recipe cannot work with these parameters.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The machine does not allow so many connections.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// There is no server for the protected resource.
    #[error("the scenario's resource has no server: {0}")]
    Resource(#[from] StartError),
    /// A fault would befall others than the run's own clients.
    #[error(
        "{0} would befall everybody who uses the server, and it is not ours; leave --redis away, and \
             picklock starts one"
    )]
    NotOurs(&'static str),
    /// Somebody interrupted it before there was anything to report.
    #[error("interrupted before the run began")]
    Interrupted,
    /// A replica does not follow its primary.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// Nobody watches the primary.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// There is no proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// A client cannot connect.
    #[error(
        "client {client} cannot connect to the server: {source}; is it out of connections \
             (CONFIG GET maxclients), or gone?"
    )]
    Connect {
        /// Which.
        client: u32,
        /// What is wrong.
        source: CallError,
    },
    /// The server does not let the resource be prepared.
    #[error("the scenario's resource cannot be prepared: {0}")]
    SetUp(CallError),
    /// The server lets clients connect, but not do what this lock or workload needs.
    #[error(transparent)]
    Refused(Box<TargetError>),
    /// A client's task has ended in a panic: a bug of picklock's.
    #[error("a client has panicked: {0}")]
    Panicked(JoinError),
}

/// Runs a scenario against a target until its end, or until `interrupted` turns true.
///
/// # Errors
/// [`NotRun`] where it did not even begin, or could not have gone well. What was written to the
/// server is removed.
pub async fn run(
    fleet: &Fleet,
    order: Order<'_>,
    gauge: &Gauge,
    interrupted: watch::Receiver<bool>,
) -> Result<Run, NotRun> {
    let Order { scenario, seed, world } = order;
    let of_server = scenario.faults.iter().find(|it| it.whom().is_server());
    if let Some(fault) = of_server.filter(|_| !fleet.is_private()) {
        return Err(NotRun::NotOurs(fault.kind.name()));
    }
    let naming = Naming { world, seed, prefix: fleet.keys().prefix(), exact: false };
    let trial = Arc::new(Trial::<LiveEnv>::new(scenario, naming)?);
    let sentinels = scenario.topology.sentinels.unwrap_or(0);
    let ways = match sentinels {
        0 if !fleet.is_cluster() => fleet.nodes().count() as u64,
        // To every server, whoever is primary, and to every sentinel.
        _ => u64::from(scenario.topology().servers()) + u64::from(sentinels),
    };
    let files = Files::promise(links(fleet, scenario, ways)).await?;
    // The model stands in for whatever the resource would be: it is not what is put to the test.
    let password = Password::draw();
    let own = || Options { password: Some(password.reveal().to_owned()), ..Options::default() };
    let resource = scenario.resource().map(|_| embedded::start(own())).transpose()?;
    let proxy = Proxy::bounded(Detail::Faults, files.room())?;
    let apart = resource.as_ref().map(|it| (it.addr(), &password));
    let gather = async {
        fleet.follow(&proxy, scenario, seed).await?;
        fleet.watch(sentinels).await?;
        Ok::<_, NotRun>(())
    };
    let mut ended = interrupted.clone();
    tokio::select! {
        biased;
        Ok(_) = ended.wait_for(|interrupted| *interrupted) => return Err(NotRun::Interrupted),
        gathered = gather => gathered?,
    }
    let (crew, mut errands) = Crew::hire(fleet, apart, &proxy, &order, trial.journal())?;
    let cues: Arc<[Staged]> = scenario.faults.clone().into();
    let (remarks, strangers) = (Vec::new(), 0);
    let crew = &crew;
    let mut stage =
        Stage { fleet, order, trial: &trial, crew, cues, interrupted, remarks, strangers };
    let played = tokio::select! {
        biased;
        played = stage.play(gauge) => played,
        never = errands::run(fleet, crew.nemesis(), &mut errands) => match never {},
    };
    stage.clear_away(played.as_ref().is_ok_and(|(cut_short, _)| cut_short.is_none())).await;
    // It waits for a thread, which a runtime must not.
    let _ = tokio::task::spawn_blocking(move || drop(resource)).await;
    let (mut cut_short, server_commands) = played?;
    let journal: &Journal = trial.journal();
    let history = journal.history();
    // What befalls a server of our own is part of the scenario.
    let refused = if fleet.is_private() { None } else { Refused::of(&history) };
    if let Some(refused) = refused {
        let error = fleet.refused(&refused.commands, &refused.said);
        if refused.is_denied() {
            return Err(NotRun::Refused(Box::new(error)));
        }
        let times = refused.times;
        cut_short.get_or_insert(CutShort::ServerRefused(format!("{times} times: {error}")));
    }
    let starved = starved::times(&history) + proxy.starved();
    if starved > 0 {
        cut_short.get_or_insert(CutShort::OutOfFiles(starved));
    }
    let mut remarks = stage.crew.nemesis().remarks();
    remarks.append(&mut stage.remarks);
    let disturbed = (stage.strangers > 0).then(|| disturbed(stage.strangers));
    Ok(Run { history, cut_short, disturbed, server_commands, remarks, ..Run::default() })
}

/// The links of everybody, with so many to the servers of the lock each: the run itself is one client more.
fn links(fleet: &Fleet, scenario: &Scenario, ways: u64) -> Links {
    let everybody = u64::from(scenario.clients) + 1;
    // What listens does so on the lock's own servers; the resource's are counted alike.
    let each = if scenario.about_lock().listens() { 2 } else { 1 };
    let (apart, within) = if fleet.is_embedded() { (0, ways) } else { (ways, 0) };
    let within = within + u64::from(scenario.resource().is_some());
    let faults = !scenario.faults.is_empty();
    // And the links by which replicas follow.
    let apart = apart * everybody + u64::from(scenario.topology().servers());
    Links { apart, within: within * everybody, each, faults }
}

/// A run on its way.
struct Stage<'a> {
    fleet: &'a Fleet,
    order: Order<'a>,
    trial: &'a Arc<Trial<LiveEnv>>,
    crew: &'a Crew,
    cues: Arc<[Staged]>,
    interrupted: watch::Receiver<bool>,
    remarks: Vec<String>,
    /// Logins at servers of ours that were not ours.
    strangers: u64,
}

/// What was counted at servers of ours.
#[derive(Clone, Debug)]
struct Counts {
    commands: BTreeMap<String, u64>,
    /// Logins that succeeded.
    logins: u64,
    /// Connections of ours, each of which logs in once at most.
    connections: u64,
}

type Played = (Option<CutShort>, Option<BTreeMap<String, u64>>);

impl Stage<'_> {
    async fn play(&mut self, gauge: &Gauge) -> Result<Played, NotRun> {
        let Some(connected) = self.or_interrupted(self.crew.connect()).await else {
            return Ok((Some(CutShort::Interrupted), None));
        };
        connected?;
        let before = self.counts().await;
        let run = self.crew.run_itself().clone();
        let Some(ready) = self.or_interrupted(self.trial.set_up(run.clone())).await else {
            return Ok((Some(CutShort::Interrupted), None));
        };
        ready.map_err(NotRun::SetUp)?;
        let Some(under_sail) = self.or_interrupted(self.set_sail()).await else {
            return Ok((Some(CutShort::Interrupted), None));
        };
        under_sail?;
        let patience = self.trial.ttl().saturating_mul(10).saturating_add(PATIENCE);
        let played = self.crew.play(self.trial, &self.cues, patience, gauge);
        let Some(played) = self.or_interrupted(played).await else {
            return Ok((Some(CutShort::Interrupted), None));
        };
        played.map_err(NotRun::Panicked)?;
        if self.or_interrupted(self.settle()).await.is_none() {
            return Ok((Some(CutShort::Interrupted), None));
        }
        // Connections from before a server ended are broken, which the first to use them finds out.
        let _ = self.or_interrupted(self.crew.reconnect()).await;
        let cut_short = match self.or_interrupted(self.trial.look_back(run)).await {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(CutShort::ServerGone(error.to_string())),
            None => Some(CutShort::Interrupted),
        };
        let after = self.counts().await;
        self.strangers = strangers(before.as_ref(), after.as_ref());
        Ok((cut_short, since(before, after)))
    }

    /// From now on replicas are late, and what there is so far is on the disks.
    async fn set_sail(&self) -> Result<(), NotRun> {
        let scenario = self.order.scenario;
        self.fleet.lag();
        let loses_power = scenario.faults.iter().any(|it| it.kind == Fault::PowerLoss);
        if loses_power && !self.fleet.begin_second().await {
            let slow = "the disk was slow: what the servers had been told before the run may not have been on it, and \
                        what they were told in it may have been there early";
            self.crew.nemesis().remark(slow.to_owned());
        }
        Ok(())
    }

    /// Waits until no client has anything left to do in the background.
    async fn settle(&self) {
        let ttl = self.trial.ttl();
        // What stays busy will be seen in the history: its operations have no end.
        let _ = self.crew.idle(ttl.saturating_add(IDLE_BEYOND_TTL)).await;
    }

    async fn or_interrupted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut interrupted = self.interrupted.clone();
        tokio::select! {
            biased;
            Ok(_) = interrupted.wait_for(|interrupted| *interrupted) => None,
            done = work => Some(done),
        }
    }

    /// What the servers have counted, where their counts are ours.
    async fn counts(&self) -> Option<Counts> {
        if !self.fleet.is_private() {
            return None;
        }
        let CommandStats { calls, logins } = self.fleet.command_stats().await.ok().flatten()?;
        // Counted behind the servers, so that none of ours is missing.
        let connections = self.crew.connections() + self.fleet.connections().await;
        Some(Counts { commands: calls, logins, connections })
    }

    async fn clear_away(&mut self, complete: bool) {
        if !complete {
            self.crew.stop().await;
            // Releases of the clients that were stopped: without them, keys would come after us.
            let _ = self.crew.idle(IDLE_INTERRUPTED).await;
        }
        // A SET that is still on its way would make a key behind the one that is deleted.
        self.crew.drain(DRAIN_WITHIN).await;
        let keys = self.trial.keys();
        let mut removed = self.fleet.remove_keys(&keys).await;
        if matches!(removed, Err(CallError::Indeterminate(_))) {
            // The connection was broken; there is a new one now, and nothing is deleted twice.
            removed = self.fleet.remove_keys(&keys).await;
        }
        if let Err(error) = removed {
            let prefix = self.fleet.keys().prefix();
            let left =
                format!("keys under {prefix} may be left on the server ({error}); they expire");
            self.remarks.push(left);
        }
    }
}

/// What was counted in between, by upper-case name as the history has it.
fn since(before: Option<Counts>, after: Option<Counts>) -> Option<BTreeMap<String, u64>> {
    let (before, after) = (before?.commands, after?.commands);
    let count = |(name, count): (String, u64)| {
        let added = count - before.get(&name).copied().unwrap_or_default().min(count);
        (added > 0).then(|| (name.to_ascii_uppercase(), added))
    };
    Some(after.into_iter().filter_map(count).collect())
}

/// How many more have logged in meanwhile than we have made connections.
fn strangers(before: Option<&Counts>, after: Option<&Counts>) -> u64 {
    let (Some(before), Some(after)) = (before, after) else { return 0 };
    let logins = after.logins.saturating_sub(before.logins);
    // Whoever had connected before may log in only now.
    logins.saturating_sub(after.connections.saturating_sub(before.connections))
}

fn disturbed(strangers: u64) -> String {
    format!(
        "somebody else has logged in {strangers} times to the servers that were started for this run, \
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
        let counts =
            |all: &[(&str, u64)]| Some(Counts { commands: named(all), logins: 0, connections: 0 });
        let (before, after) =
            (counts(&[("set", 2), ("info", 1)]), counts(&[("set", 5), ("info", 1), ("get", 1)]));
        assert_eq!(since(before.clone(), after), Some(named(&[("GET", 1), ("SET", 3)])));
        assert_eq!(since(before, None), None);
    }

    #[test]
    fn a_login_beyond_our_connections_is_a_strangers() {
        let counts =
            |logins, connections| Counts { commands: BTreeMap::new(), logins, connections };
        let of = |before: Counts, after: Counts| strangers(Some(&before), Some(&after));
        assert_eq!(of(counts(5, 5), counts(9, 9)), 0);
        assert_eq!(of(counts(5, 5), counts(10, 9)), 1);
        // A connection whose login was lost.
        assert_eq!(of(counts(5, 5), counts(8, 9)), 0);
        assert_eq!(
            strangers(None, Some(&counts(8, 9))),
            0,
            "a server that has begun to count anew"
        );
    }
}
