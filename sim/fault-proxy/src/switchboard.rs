//! Named proxies and the faults on them: what `picklock proxy` runs, and its control API changes.
//!
//! Invariant: a proxy that is named here listens where it is said to, or is switched off; a fault
//! that is named here is in force until it is taken away, and then holds nothing back any more.
//! Deliberately absent: who may ask for it, and how.

mod http;
mod toxic;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use picklock::env::Node;

pub use http::Control;
pub use toxic::{Toxic, ToxicError};

use crate::{
    ClientId, Fault, FaultId, Gate, Link, Log, Plan, Proxy, ProxyError, Record, RuleHandle,
    Upstream,
};

/// The names of proxies, by what stands for them in the log.
pub type Names = Arc<Mutex<BTreeMap<Node, String>>>;

/// Named proxies.
#[derive(Debug)]
pub struct Switchboard {
    proxy: Proxy,
    seed: u64,
    names: Names,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    by_name: BTreeMap<String, Line>,
    made: u16,
}

/// A named proxy.
#[derive(Debug)]
struct Line {
    node: Node,
    link: Link,
    upstream: String,
    enabled: bool,
    faults: Vec<Put>,
}

/// A fault in force.
#[derive(Debug)]
struct Put {
    toxic: Toxic,
    id: FaultId,
    /// How often it has struck, where it is one at commands.
    fired: Option<RuleHandle>,
    gate: Option<Gate>,
}

/// How a proxy stands at present.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Where it listens, or would.
    pub listen: SocketAddr,
    /// Where it leads.
    pub upstream: String,
    /// Whether it listens.
    pub enabled: bool,
    /// The faults on it, in the order they were put there.
    pub toxics: Vec<Toxic>,
}

/// What a proxy is to be.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Where it is to listen.
    pub listen: SocketAddr,
    /// Where it is to lead, as it is shown.
    pub upstream: String,
    /// The same, as it is connected to.
    pub way: Upstream,
    /// Whether it is to listen at once.
    pub enabled: bool,
}

/// Why something cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is none of this name.
    #[error("there is no proxy {0}")]
    NoProxy(String),
    /// There is one of this name.
    #[error("there is a proxy {0} already")]
    ProxyExists(String),
    /// There is none of this name on that proxy.
    #[error("there is no toxic {0}")]
    NoToxic(String),
    /// There is one of this name on that proxy.
    #[error("there is a toxic {0} already")]
    ToxicExists(String),
    /// A name that cannot stand in a path.
    #[error("`{0}` is no name: letters, digits, and any of - _ . : are")]
    BadName(String),
    /// An address to listen on that is none.
    #[error("`{0}` is no address to listen on: write it as in 127.0.0.1:6400, or 6400")]
    BadListen(String),
    /// An address that others can reach, and that the command line has not named.
    #[error("`{0}` can be reached by others: only a proxy of the command line listens there")]
    Beyond(String),
    /// An address of a server with a user or a password. Nothing of it is quoted.
    #[error(
        "the address of a server holds a user or a password, and the proxy logs in nowhere: leave \
         them away, as in 127.0.0.1:6379; clients log in through the proxy"
    )]
    Credentials,
    /// An address of a server that is none.
    #[error("`{0}` is no address of a server: write it as in 127.0.0.1:6379, or redis.local:6379")]
    BadUpstream(String),
    /// More proxies than there are numbers.
    #[error("there have been too many proxies: start anew")]
    TooMany,
    /// The fault cannot be.
    #[error(transparent)]
    Toxic(#[from] ToxicError),
    /// It cannot listen.
    #[error("proxy {name} cannot listen on {addr}: {source}")]
    Listen {
        /// Which one.
        name: String,
        /// Where.
        addr: SocketAddr,
        /// What is wrong.
        source: std::io::Error,
    },
    /// The proxy's thread is gone.
    #[error(transparent)]
    Proxy(ProxyError),
}

impl Switchboard {
    /// Without proxies. Latencies, and who is befallen, are drawn from the seed.
    ///
    /// # Errors
    /// [`ProxyError::Start`] where the system gives no thread.
    pub fn start(log: Log, names: Names, seed: u64) -> Result<Self, ProxyError> {
        let proxy = Proxy::start_with(log)?;
        Ok(Self { proxy, seed, names, lines: Mutex::default() })
    }

    /// What latencies and victims are drawn from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Every proxy, by name.
    pub fn all(&self) -> Vec<Status> {
        let lines = self.lines();
        lines.by_name.iter().map(|(name, line)| line.status(name)).collect()
    }

    /// One proxy.
    ///
    /// # Errors
    /// [`SwitchError::NoProxy`].
    pub fn one(&self, name: &str) -> Result<Status, SwitchError> {
        self.lines().get(name).map(|line| line.status(name))
    }

    /// Makes a proxy.
    ///
    /// # Errors
    /// [`SwitchError`] where the name is taken or none, or the address cannot be listened on.
    pub fn add(&self, wanted: Wanted) -> Result<Status, SwitchError> {
        let Wanted { name, listen, upstream, way, enabled } = wanted;
        if !is_name(&name) {
            return Err(SwitchError::BadName(name));
        }
        let mut lines = self.lines();
        if lines.by_name.contains_key(&name) {
            return Err(SwitchError::ProxyExists(name));
        }
        let node = Node(lines.made);
        lines.made = lines.made.checked_add(1).ok_or(SwitchError::TooMany)?;
        let plan = Plan { seed: self.seed, ..Plan::default() };
        let link = self.proxy.listen_on(listen, ClientId(0), node, way, plan);
        let link = link.map_err(|error| cannot(&name, error))?;
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(node, name.clone());
        if !enabled {
            link.close();
        }
        let line = Line { node, link, upstream, enabled, faults: Vec::new() };
        let status = line.status(&name);
        lines.by_name.insert(name, line);
        Ok(status)
    }

    /// Has a proxy listen elsewhere, lead elsewhere, or not listen. What is `None` stays. Its
    /// connections are reset where anything changes.
    ///
    /// # Errors
    /// [`SwitchError`] where there is no such proxy, or it cannot listen there; then it is off.
    pub fn change(
        &self,
        name: &str,
        listen: Option<SocketAddr>,
        upstream: Option<(String, Upstream)>,
        enabled: Option<bool>,
    ) -> Result<Status, SwitchError> {
        let mut lines = self.lines();
        let line = lines.get_mut(name)?;
        let listen = listen.unwrap_or(line.link.addr());
        let enabled = enabled.unwrap_or(line.enabled);
        let stays = listen == line.link.addr() && enabled == line.enabled;
        if let Some((shown, way)) = upstream.filter(|(shown, _)| *shown != line.upstream) {
            line.link.set_upstream(way);
            line.link.reset_connections();
            line.upstream = shown;
        }
        if !stays {
            line.link.close();
            line.enabled = false;
            if enabled {
                let link = self.proxy.reopen(&line.link, listen);
                line.link = link.map_err(|error| cannot(name, error))?;
            }
            line.enabled = enabled;
        }
        Ok(line.status(name))
    }

    /// Ends a proxy, and what is connected through it.
    ///
    /// # Errors
    /// [`SwitchError::NoProxy`].
    pub fn remove(&self, name: &str) -> Result<(), SwitchError> {
        let mut lines = self.lines();
        let mut line = lines.by_name.remove(name).ok_or_else(|| no_proxy(name))?;
        line.link.close();
        self.clear(&mut line);
        Ok(())
    }

    /// Puts a fault on a proxy.
    ///
    /// # Errors
    /// [`SwitchError`] where there is no such proxy, the name is taken, or the fault cannot be.
    pub fn put(&self, name: &str, toxic: Toxic) -> Result<Toxic, SwitchError> {
        let fault = toxic.fault()?;
        if !is_name(&toxic.name) {
            return Err(SwitchError::BadName(toxic.name));
        }
        let mut lines = self.lines();
        let line = lines.get_mut(name)?;
        if line.faults.iter().any(|put| put.toxic.name == toxic.name) {
            return Err(SwitchError::ToxicExists(toxic.name));
        }
        let put = self.install(line, toxic.clone(), fault);
        line.faults.push(put);
        Ok(toxic)
    }

    /// Puts another fault in the place of one, under the same name.
    ///
    /// # Errors
    /// [`SwitchError`] where there is none of this name, or the new one cannot be.
    pub fn replace(&self, name: &str, toxic: Toxic) -> Result<Toxic, SwitchError> {
        let fault = toxic.fault()?;
        let mut lines = self.lines();
        let line = lines.get_mut(name)?;
        let place = line.place(&toxic.name)?;
        let put = self.install(line, toxic.clone(), fault);
        let former = std::mem::replace(&mut line.faults[place], put);
        self.take_away(line, former);
        Ok(toxic)
    }

    /// Takes a fault away. What it held back goes on its way.
    ///
    /// # Errors
    /// [`SwitchError`] where there is none of this name.
    pub fn take(&self, name: &str, toxic: &str) -> Result<(), SwitchError> {
        let mut lines = self.lines();
        let line = lines.get_mut(name)?;
        let place = line.place(toxic)?;
        let put = line.faults.remove(place);
        self.take_away(line, put);
        Ok(())
    }

    /// Takes every fault away, and has every proxy listen.
    ///
    /// # Errors
    /// [`SwitchError`] where one cannot listen; the others do.
    pub fn reset(&self) -> Result<(), SwitchError> {
        let mut names = Vec::new();
        for (name, line) in &mut self.lines().by_name {
            self.clear(line);
            names.push(name.clone());
        }
        let on = |name: &String| self.change(name, None, None, Some(true)).map(drop);
        let tried: Vec<Result<(), SwitchError>> = names.iter().map(on).collect();
        tried.into_iter().collect()
    }

    /// The newest records of one proxy's log, at most so many, and none up to this number.
    ///
    /// # Errors
    /// [`SwitchError::NoProxy`].
    pub fn records(
        &self,
        name: &str,
        limit: usize,
        behind: u64,
    ) -> Result<Vec<Record>, SwitchError> {
        let node = self.lines().get(name)?.node;
        let is_meant = |record: &Record| record.node == node && record.seq > behind;
        Ok(self.proxy.log().newest(limit, is_meant))
    }

    /// The names of faults in force that have struck nowhere yet.
    pub fn idle(&self) -> BTreeSet<String> {
        let lines = self.lines();
        let all =
            || lines.by_name.values().flat_map(|it| it.faults.iter().map(move |put| (it, put)));
        let named = |has_struck: bool| -> BTreeSet<String> {
            let those = all().filter(|(line, put)| put.has_struck(line) == has_struck);
            those.map(|(_, put)| put.toxic.name.clone()).collect()
        };
        // One that stands on several proxies has struck where it did on one.
        &named(false) - &named(true)
    }

    fn install(&self, line: &Line, toxic: Toxic, fault: Fault) -> Put {
        let gate = fault.gate();
        let (id, fired) = match fault {
            Fault::Wire { sides, effect, toxicity } => {
                (FaultId::Effect(line.link.add_effects(&sides, &effect, toxicity)), None)
            }
            Fault::Command(rule) => {
                let rule = self.proxy.add_rule(rule.node(line.node));
                (FaultId::Rule(rule.id()), Some(rule))
            }
        };
        line.link.note_put(&toxic.name, id);
        Put { toxic, id, fired, gate }
    }

    fn take_away(&self, line: &Line, put: Put) {
        line.link.note_taken(&put.toxic.name, put.id);
        match put.id {
            FaultId::Effect(id) => drop(line.link.remove_effect(id)),
            FaultId::Rule(id) => drop(self.proxy.remove_rule(id)),
        }
        if let Some(gate) = put.gate {
            gate.open();
        }
    }

    fn clear(&self, line: &mut Line) {
        for put in std::mem::take(&mut line.faults) {
            self.take_away(line, put);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn get(&self, name: &str) -> Result<&Line, SwitchError> {
        self.by_name.get(name).ok_or_else(|| no_proxy(name))
    }

    fn get_mut(&mut self, name: &str) -> Result<&mut Line, SwitchError> {
        self.by_name.get_mut(name).ok_or_else(|| no_proxy(name))
    }
}

impl Put {
    fn has_struck(&self, line: &Line) -> bool {
        match (self.id, &self.fired) {
            (FaultId::Effect(id), _) => line.link.counters().befallen.contains(&id),
            (FaultId::Rule(_), rule) => rule.as_ref().is_some_and(|rule| rule.fired() > 0),
        }
    }
}

impl Line {
    fn place(&self, toxic: &str) -> Result<usize, SwitchError> {
        let place = self.faults.iter().position(|put| put.toxic.name == toxic);
        place.ok_or_else(|| SwitchError::NoToxic(toxic.to_owned()))
    }

    fn status(&self, name: &str) -> Status {
        Status {
            name: name.to_owned(),
            listen: self.link.addr(),
            upstream: self.upstream.clone(),
            enabled: self.enabled,
            toxics: self.faults.iter().map(|put| put.toxic.clone()).collect(),
        }
    }
}

fn no_proxy(name: &str) -> SwitchError {
    SwitchError::NoProxy(name.to_owned())
}

fn cannot(name: &str, error: ProxyError) -> SwitchError {
    match error {
        ProxyError::Listen { addr, source, .. } => {
            SwitchError::Listen { name: name.to_owned(), addr, source }
        }
        other => SwitchError::Proxy(other),
    }
}

/// Whether this can stand in the path of a URL, and on a command line.
fn is_name(name: &str) -> bool {
    let is_one = |it: char| it.is_alphanumeric() || "-_.:".contains(it);
    !name.is_empty() && name.len() <= 200 && name.chars().all(is_one)
}

/// An address to listen on. Without a host it is this machine's own, which nobody else reaches.
///
/// # Errors
/// [`SwitchError::BadListen`].
pub fn listen_address(text: &str) -> Result<SocketAddr, SwitchError> {
    let bad = || SwitchError::BadListen(text.to_owned());
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let port: u16 = port.parse().map_err(|_| bad())?;
    let ip: IpAddr = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => host.parse().map_err(|_| bad())?,
    };
    Ok((ip, port).into())
}

/// Refuses the address of a server that holds a password: it would be shown to whoever looks.
///
/// # Errors
/// [`SwitchError::Credentials`].
pub fn without_credentials(text: &str) -> Result<(), SwitchError> {
    if text.contains('@') { Err(SwitchError::Credentials) } else { Ok(()) }
}

/// The way to a server. A name is looked up now.
///
/// # Errors
/// [`SwitchError::BadUpstream`] where it is no address, or nobody knows the name, and
/// [`SwitchError::Credentials`].
pub fn upstream_way(text: &str) -> Result<Upstream, SwitchError> {
    without_credentials(text)?;
    let bad = || SwitchError::BadUpstream(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?;
    if host.is_empty() {
        return Err(bad());
    }
    let mut found: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|_| bad())?.collect();
    // Servers that have not been told otherwise listen on IPv4.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().map(|addr| Upstream::Tcp(*addr)).ok_or_else(bad)
}

#[cfg(test)]
mod tests;
