//! Whether the servers and the faults of a scenario can be had: an impossible fault is refused in its
//! place.
//!
//! Invariant: what passes can be staged by the virtual world, and a key that a fault has no use for is
//! an error and not ignored.

use history::fault::{
    By, ErrorAnswer, Fault, FaultKeys, Staged, Strikes, Swarm, Trigger, Use, When, Whom,
};

use super::Scenario;
use super::error::{KeyError, wrong};
use super::network::unread;
use crate::topology::{Topology, TopologyKind};

/// As many servers as this are a slip of the finger.
const SERVERS_MOST: u32 = 64;
/// A clock that is as far off as this stands still or goes twice as fast.
const PPM_MOST: u32 = 999_999;

pub(super) fn check(scenario: &Scenario) -> Result<(), KeyError> {
    servers(scenario)?;
    check_failovers("swarm", &scenario.swarm, scenario.kind())?;
    let mut staged = scenario.faults.iter().enumerate();
    staged.try_for_each(|(nth, fault)| Check { scenario, fault, nth }.all())
}

/// Whether there is somebody to take over, where this swarm fails over.
pub(super) fn check_failovers(
    path: &str,
    swarm: &Swarm,
    kind: TopologyKind,
) -> Result<(), KeyError> {
    match swarm.failovers {
        0 => Ok(()),
        _ if kind == TopologyKind::Replicated => Ok(()),
        _ => wrong(format!("{path}.failovers"), NO_REPLICA, REPLICATED),
    }
}

const NO_REPLICA: &str = "a failover needs a replica that can take over, and there is none";
const REPLICATED: &str = "add [topology] with kind = \"replicated\"";

fn servers(scenario: &Scenario) -> Result<(), KeyError> {
    let part = &scenario.topology;
    let kind = scenario.kind();
    let strange = [
        ("replicas", part.replicas.is_some(), TopologyKind::Replicated),
        ("lag", part.lag.is_some(), TopologyKind::Replicated),
        ("replica", !part.replica.is_empty(), TopologyKind::Replicated),
        ("sentinels", part.sentinels.is_some(), TopologyKind::Replicated),
        ("nodes", part.nodes.is_some() && kind != TopologyKind::Cluster, TopologyKind::Independent),
    ];
    if let Some((key, _, of)) = strange.into_iter().find(|(_, given, of)| *given && kind != *of) {
        let why =
            format!("{key} belongs to the kind \"{}\", and this is {}", of.name(), kind.name());
        return wrong(format!("topology.{key}"), why, "remove it, or change the kind");
    }
    let counts =
        [("replicas", part.replicas), ("sentinels", part.sentinels), ("nodes", part.nodes)];
    for (key, count) in counts {
        if let Some(count @ (0 | SERVERS_MOST..)) = count {
            let why =
                format!("{key} is {count}: from 1 to {} is what can be had", SERVERS_MOST - 1);
            return wrong(format!("topology.{key}"), why, "write a number in between");
        }
    }
    let servers = scenario.topology().servers();
    for (nth, replica) in part.replica.iter().enumerate() {
        let path = format!("topology.replica.{nth}.server");
        if replica.server == 0 {
            let why = "server 0 is the primary, which follows nobody";
            return wrong(path, why, "name a replica: they are numbered from 1");
        }
        if replica.server >= servers {
            let why =
                format!("there is no server {}: they are 0 to {}", replica.server, servers - 1);
            return wrong(path, why, "name one of those, or have more replicas");
        }
        unread(format!("topology.replica.{nth}.lag"), &replica.lag)?;
    }
    part.lag.as_ref().map_or(Ok(()), |lag| unread("topology.lag".to_owned(), lag))
}

/// One staged fault under examination.
struct Check<'a> {
    scenario: &'a Scenario,
    fault: &'a Staged,
    nth: usize,
}

impl Check<'_> {
    fn all(&self) -> Result<(), KeyError> {
        self.keys()?;
        self.values()?;
        self.trigger(&self.fault.at)?;
        self.whom()
    }

    fn wrong<T>(&self, key: &str, why: String, help: &str) -> Result<T, KeyError> {
        let dot = if key.is_empty() { "" } else { "." };
        wrong(format!("fault.{}{dot}{key}", self.nth), why, help)
    }

    /// What it has, and has not, of what its kind takes.
    fn keys(&self) -> Result<(), KeyError> {
        let Staged { kind, lasts: spans, until: ends, .. } = self.fault;
        let FaultKeys { lasts, until, by, ppm, ways, to, loses_hold, error, comes_back } =
            kind.takes();
        let keys = [
            ("for", lasts, spans.is_some()),
            ("until", until, ends.is_some()),
            ("by", by, self.fault.by.is_some()),
            ("ppm", ppm, self.fault.ppm.is_some()),
            ("ways", ways, self.fault.ways.is_some()),
            ("to", to, self.fault.to.is_some()),
            ("loses_hold", loses_hold, self.fault.loses_hold),
            ("error", error, self.fault.error.is_some()),
            ("comes_back", comes_back, self.fault.comes_back.is_some()),
        ];
        let name = kind.name();
        for (key, takes, has) in keys {
            if takes == Use::No && has {
                let why = match (kind, key) {
                    (Fault::Crash, "for") => {
                        let why = "a crash has no end, so `for` means nothing".to_owned();
                        let help = "write comes_back = \"1s\" for a client that is started again";
                        return self.wrong(key, why, help);
                    }
                    _ => format!("a {name} has no use for `{key}`"),
                };
                return self.wrong(key, why, "remove it");
            }
        }
        let missing = |key: &str, help: &str| {
            self.wrong("", format!("this {name} does not say `{key}`"), help)
        };
        let lacks = |takes, has: bool| takes == Use::Needs && !has;
        match () {
            () if lacks(until, ends.is_some() || spans.is_some()) => {
                missing("for", "add for = \"1s\", or until = { phase = \"acquire.applied\" }")
            }
            () if until == Use::No && lacks(lasts, spans.is_some()) => {
                missing("for", "add for = \"1s\"")
            }
            () if lacks(by, self.fault.by.is_some()) => {
                missing("by", "add by = \"1s\", or by = \"-1s\"")
            }
            () if lacks(error, self.fault.error.is_some()) => {
                let names = ErrorAnswer::ALL.map(ErrorAnswer::name).join(", ");
                missing("error", &format!("add error = \"oom\"; there are {names}"))
            }
            () if lacks(ppm, self.fault.ppm.is_some()) => {
                missing("ppm", "add ppm = 500, or ppm = -500")
            }
            () => Ok(()),
        }
    }

    fn values(&self) -> Result<(), KeyError> {
        let Staged { lasts, until, by, ppm, kind, .. } = self.fault;
        let name = kind.name();
        if *kind == Fault::Pause && until.is_some_and(|until| until.by == By::Itself) {
            let why = "who stands still comes nowhere by itself".to_owned();
            return self.wrong("until", why, "remove `by`, for any other client");
        }
        if lasts.is_some_and(|lasts| lasts.0.is_zero()) {
            let why = format!("a {name} that lasts no time does nothing");
            return self.wrong("for", why, "1ns is the least");
        }
        if self.fault.comes_back.is_some_and(|comes_back| comes_back.0.is_zero()) {
            let why = "a client that is there again at once has not died".to_owned();
            return self.wrong("comes_back", why, "1ns is the least");
        }
        if by.is_some_and(|by| by.0 == 0) {
            let why = "a clock that jumps by nothing does not jump".to_owned();
            return self.wrong("by", why, "write by = \"1s\" for ahead, by = \"-1s\" for back");
        }
        match ppm {
            Some(ppm) if *ppm == 0 || ppm.unsigned_abs() > PPM_MOST => {
                let why = format!("ppm is {ppm}: a clock runs off by 1 to {PPM_MOST}, either way");
                self.wrong("ppm", why, "500 is a bad quartz")
            }
            _ => Ok(()),
        }
    }

    fn trigger(&self, at: &Trigger) -> Result<(), KeyError> {
        let Some(when) = at.when() else {
            let why =
                "`at` says exactly one of phase, command, time and chance, or command and chance"
                    .to_owned();
            return self.wrong("at", why, "such as at = { phase = \"hold\" }");
        };
        if at.nth == Some(0) {
            let why = "nth is 0, and the first time is 1".to_owned();
            return self.wrong("at.nth", why, "remove it for the first time");
        }
        match when {
            When::Time(_) | When::Chance(..) if at.nth.is_some() => {
                let why = "nth counts how often a phase or a command comes".to_owned();
                self.wrong("at.nth", why, "remove it")
            }
            When::Time(_) | When::Chance(..) if at.after.is_some() => {
                let why = "after counts from a phase or a command".to_owned();
                self.wrong("at.after", why, "remove it")
            }
            _ if at.after.is_some()
                && self.fault.whom() == Whom::Any
                && !self.fault.strikes_all() =>
            {
                let why =
                    "by then it is nobody's phase any more, so whom does it strike?".to_owned();
                self.wrong("at.after", why, "add on = \"client 1\", \"holder\" or \"primary\"")
            }
            When::Chance(chance, _) if !chance.is_share() => {
                let why = format!("a chance of {}: it is a share, from 0 to 1", chance.0);
                self.wrong("at.chance", why, "0.01 is once in a hundred commands")
            }
            When::Command(name, _) | When::Chance(_, Some(name))
                if !name.bytes().all(|it| it.is_ascii_alphanumeric()) =>
            {
                let why = format!("{name:?} is no command's name");
                self.wrong("at.command", why, "its first word alone, as in command = \"DEL\"")
            }
            When::Command("", _) | When::Chance(_, Some("")) => {
                let why = "the command has no name".to_owned();
                self.wrong("at.command", why, "such as command = \"DEL\"")
            }
            _ => Ok(()),
        }
    }

    fn whom(&self) -> Result<(), KeyError> {
        let Staged { kind, on, to, loses_hold, .. } = self.fault;
        let (name, clients) = (kind.name(), self.scenario.clients);
        let (whom, struck) = (self.fault.whom(), kind.strikes());
        if *loses_hold && !whom.is_server() {
            let why = format!("no key is lost by a {name} of {whom}: keys are kept by servers");
            return self.wrong("loses_hold", why, "remove it, or write on = \"primary\"");
        }
        if struck == Strikes::Either && matches!(on, None | Some(Whom::Any)) {
            let why = format!("whose clock is it? A {name} strikes a client or a server");
            let key = if on.is_some() { "on" } else { "" };
            return self.wrong(key, why, "add on = \"client 1\", \"holder\" or \"primary\"");
        }
        if matches!(struck, Strikes::Client | Strikes::Message) && whom.is_server() {
            let why = format!("a {name} strikes a client, and {whom} is a server");
            return self.wrong("on", why, "write on = \"holder\", \"any\" or \"client 1\"");
        }
        if struck.is_server() && whom.is_client() {
            let why = format!("a {name} strikes a server, and {whom} is a client");
            return self.wrong("on", why, "write on = \"primary\" or \"server 0\"");
        }
        match whom {
            Whom::Client(which) if which == 0 || which > clients => {
                let why = format!("there is no client {which}: they are 1 to {clients}");
                return self.wrong("on", why, "name one of them, or \"holder\" or \"any\"");
            }
            Whom::Server(which) => self.server("on", which)?,
            Whom::Primary if self.scenario.kind() == TopologyKind::Independent => {
                let key = if on.is_some() { "on" } else { "" };
                return self.no_primary(key);
            }
            _ => {}
        }
        if matches!(kind, Fault::Failover | Fault::Switchover | Fault::SplitBrain) {
            let Topology::Replicated { .. } = self.scenario.topology() else {
                return self.no_replica();
            };
            if whom != Whom::Primary {
                let why = format!("a {name} is of the primary, and not of {whom}");
                return self.wrong("on", why, "remove `on`");
            }
            if *kind != Fault::Failover && self.scenario.topology.sentinels.is_some() {
                let why =
                    "sentinels decide by themselves when the old primary steps down".to_owned();
                return self.wrong(
                    "kind",
                    why,
                    "remove topology.sentinels: picklock promotes the replica",
                );
            }
        }
        match to {
            None => Ok(()),
            Some(Whom::Server(which)) => self.server("to", *which),
            Some(other) => {
                let why = format!("{other} is no server that could take over");
                self.wrong("to", why, "name one, as in to = \"server 1\"")
            }
        }
    }

    /// The same refusal where the recipe has brought the servers, of which the file may know nothing.
    fn of_class(&self, why: &str) -> Option<(String, String)> {
        let (part, lock) = (&self.scenario.topology, &self.scenario.lock.recipe);
        let servers = self.scenario.topology();
        (part.kind.is_none() && servers != Topology::Standalone).then(|| {
            let why = format!("{why}; where a file does not say which there are, {lock} has {servers}");
            let help = format!(
                "say what strikes these in a [[variant]] with locks = [\"{lock}\"], or run it on one with \
                 --set topology.kind=standalone"
            );
            (why, help)
        })
    }

    fn no_primary(&self, key: &str) -> Result<(), KeyError> {
        let why = "independent servers have no primary";
        match self.of_class(why) {
            Some((why, help)) => self.wrong(key, why, &help),
            None => self.wrong(key, why.to_owned(), "name one, as in on = \"server 0\""),
        }
    }

    fn no_replica(&self) -> Result<(), KeyError> {
        match self.of_class(NO_REPLICA) {
            Some((why, help)) => self.wrong("kind", why, &help),
            None => self.wrong("kind", NO_REPLICA.to_owned(), REPLICATED),
        }
    }

    fn server(&self, key: &str, which: u32) -> Result<(), KeyError> {
        let servers = self.scenario.topology().servers();
        if which < servers {
            return Ok(());
        }
        let kind = self.scenario.kind().name();
        let there = match servers {
            1 => "server 0 alone".to_owned(),
            many => format!("servers 0 to {}", many - 1),
        };
        let why = format!("there is no server {which}: the topology is {kind}, with {there}");
        self.wrong(key, why, "name one of those, or change [topology]")
    }
}

#[cfg(test)]
mod tests;
