//! Named proxies and their faults: what `picklock proxy` runs, and its control API changes.
//!
//! Invariant: a proxy listens where its status says, or is disabled; a fault is in force until it is removed, and then
//! releases what it held.

mod address;
mod error;
mod http;
mod token;
mod toxic;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use picklock::env::Node;

pub use address::{listen_address, resolve_upstream, without_credentials};
pub use error::SwitchError;
pub use http::ControlApi;
pub use token::{ControlToken, TokenError};
pub use toxic::{Toxic, ToxicError};

use crate::{
    Addresses, ClientId, FaultId, Gate, Link, Plan, Proxy, ProxyError, ProxyEvent, ProxyFault,
    ProxyLog, Record, RuleHandle, Upstream,
};

/// The names of proxies, by their node in the log.
pub type Names = Arc<Mutex<BTreeMap<Node, String>>>;

/// Named proxies.
#[derive(Debug)]
pub struct Switchboard {
    proxy: Proxy,
    seed: u64,
    names: Names,
    /// Where clients reach each server, if replies are rewritten.
    addresses: Option<Arc<Addresses>>,
    proxies: Mutex<ProxyTable>,
}

#[derive(Debug, Default)]
struct ProxyTable {
    by_name: BTreeMap<String, ProxyEntry>,
    made: u16,
}

#[derive(Debug)]
struct ProxyEntry {
    node: Node,
    link: Link,
    upstream: String,
    /// The server's address, where it is known.
    server: Option<SocketAddr>,
    enabled: bool,
    faults: Vec<InstalledToxic>,
}

#[derive(Debug)]
struct InstalledToxic {
    toxic: Toxic,
    id: FaultId,
    /// Of a rule: how often it has struck.
    fired: Option<RuleHandle>,
    gate: Option<Gate>,
}

/// The state of a proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyStatus {
    /// Its name.
    pub name: String,
    /// Where it listens, or would if enabled.
    pub listen: SocketAddr,
    /// The server it forwards to.
    pub upstream: String,
    /// Whether it listens.
    pub enabled: bool,
    /// Its faults, in the order of their addition.
    pub toxics: Vec<Toxic>,
}

/// A proxy to create.
#[derive(Clone, Debug)]
pub struct ProxySpec {
    /// Its name.
    pub name: String,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The server, as shown.
    pub upstream: String,
    /// The server, as connected to.
    pub way: Upstream,
    /// Whether it listens at once.
    pub enabled: bool,
}

impl Switchboard {
    /// No proxies yet. Latencies and struck connections are drawn from the seed.
    ///
    /// # Errors
    /// [`ProxyError::Start`] where the system gives no thread.
    pub fn start(log: ProxyLog, names: Names, seed: u64) -> Result<Self, ProxyError> {
        let proxy = Proxy::start_with(log)?;
        Ok(Self { proxy, seed, names, addresses: None, proxies: Mutex::default() })
    }

    /// The same, but a reply that names a server names the proxy that leads to it instead.
    #[must_use]
    pub fn rewriting(self) -> Self {
        Self { addresses: Some(Arc::default()), ..self }
    }

    /// Servers that replies have named and to which no proxy leads, as far as the log still has them.
    pub fn left_addresses(&self) -> BTreeSet<String> {
        let records = self.proxy.log().records();
        let left = records.into_iter().filter_map(|record| match record.event {
            ProxyEvent::LeftAddress(place) => Some(place),
            _ => None,
        });
        left.collect()
    }

    /// Has replies name this proxy for its server.
    fn announce(&self, entry: &ProxyEntry) {
        if let (Some(addresses), Some(server)) = (&self.addresses, entry.server) {
            addresses.insert(server, entry.link.addr());
        }
    }

    /// Has replies name the server itself.
    fn conceal(&self, entry: &ProxyEntry) {
        if let (Some(addresses), Some(server)) = (&self.addresses, entry.server)
            && addresses.link_to(server) == Some(entry.link.addr())
        {
            addresses.remove(server);
        }
    }

    /// Every proxy, by name.
    pub fn all(&self) -> Vec<ProxyStatus> {
        let proxies = self.proxies();
        proxies.by_name.iter().map(|(name, entry)| entry.status(name)).collect()
    }

    /// One proxy.
    ///
    /// # Errors
    /// [`SwitchError::NoProxy`].
    pub fn one(&self, name: &str) -> Result<ProxyStatus, SwitchError> {
        self.proxies().get(name).map(|entry| entry.status(name))
    }

    /// Adds a proxy.
    ///
    /// # Errors
    /// [`SwitchError`] if the name is taken or invalid, or the address cannot be listened on.
    pub fn add(&self, wanted: ProxySpec) -> Result<ProxyStatus, SwitchError> {
        let ProxySpec { name, listen, upstream, way, enabled } = wanted;
        if !is_name(&name) {
            return Err(SwitchError::BadName(name));
        }
        let mut proxies = self.proxies();
        if proxies.by_name.contains_key(&name) {
            return Err(SwitchError::ProxyExists(name));
        }
        let node = Node(proxies.made);
        proxies.made = proxies.made.checked_add(1).ok_or(SwitchError::TooMany)?;
        let plan = Plan { seed: self.seed, addresses: self.addresses.clone(), ..Plan::default() };
        let server = address_of(&way);
        if leads_to_itself(listen, server) {
            return Err(SwitchError::ToItself(name));
        }
        let link = self.proxy.listen_on(listen, ClientId(0), node, way, plan);
        let link = link.map_err(|error| SwitchError::of_proxy(&name, error))?;
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(node, name.clone());
        if !enabled {
            link.close();
        }
        let entry = ProxyEntry { node, link, upstream, server, enabled, faults: Vec::new() };
        self.announce(&entry);
        let status = entry.status(&name);
        proxies.by_name.insert(name, entry);
        Ok(status)
    }

    /// Changes the address, the server, or whether the proxy listens; `None` keeps it. Any change resets its
    /// connections.
    ///
    /// # Errors
    /// [`SwitchError`] if there is no such proxy, or it cannot listen there; then it is disabled.
    pub fn change(
        &self,
        name: &str,
        listen: Option<SocketAddr>,
        upstream: Option<(String, Upstream)>,
        enabled: Option<bool>,
    ) -> Result<ProxyStatus, SwitchError> {
        let mut proxies = self.proxies();
        let entry = proxies.get_mut(name)?;
        let listen = listen.unwrap_or(entry.link.addr());
        let enabled = enabled.unwrap_or(entry.enabled);
        let server = upstream.as_ref().map_or(entry.server, |(_, way)| address_of(way));
        if leads_to_itself(listen, server) {
            return Err(SwitchError::ToItself(name.to_owned()));
        }
        self.conceal(entry);
        let stays = listen == entry.link.addr() && enabled == entry.enabled;
        if let Some((shown, way)) = upstream.filter(|(shown, _)| *shown != entry.upstream) {
            entry.server = address_of(&way);
            entry.link.set_upstream(way);
            entry.link.reset_connections();
            entry.upstream = shown;
        }
        if !stays {
            entry.link.close();
            entry.enabled = false;
            if enabled {
                let link = self.proxy.reopen(&entry.link, listen);
                entry.link = link.map_err(|error| SwitchError::of_proxy(name, error))?;
            }
            entry.enabled = enabled;
        }
        self.announce(entry);
        Ok(entry.status(name))
    }

    /// Removes a proxy and its connections.
    ///
    /// # Errors
    /// [`SwitchError::NoProxy`].
    pub fn remove(&self, name: &str) -> Result<(), SwitchError> {
        let mut proxies = self.proxies();
        let mut entry = proxies.by_name.remove(name).ok_or_else(|| no_proxy(name))?;
        self.conceal(&entry);
        entry.link.close();
        self.clear(&mut entry);
        Ok(())
    }

    /// Adds a fault to a proxy.
    ///
    /// # Errors
    /// [`SwitchError`] if there is no such proxy, the name is taken, or the fault is impossible.
    pub fn put(&self, name: &str, toxic: Toxic) -> Result<Toxic, SwitchError> {
        let fault = toxic.fault()?;
        if !is_name(&toxic.name) {
            return Err(SwitchError::BadName(toxic.name));
        }
        let mut proxies = self.proxies();
        let entry = proxies.get_mut(name)?;
        if entry.faults.iter().any(|put| put.toxic.name == toxic.name) {
            return Err(SwitchError::ToxicExists(toxic.name));
        }
        let put = self.install(entry, toxic.clone(), fault);
        entry.faults.push(put);
        Ok(toxic)
    }

    /// Replaces a fault by another of the same name.
    ///
    /// # Errors
    /// [`SwitchError`] if there is none of this name, or the new one is impossible.
    pub fn replace(&self, name: &str, toxic: Toxic) -> Result<Toxic, SwitchError> {
        let fault = toxic.fault()?;
        let mut proxies = self.proxies();
        let entry = proxies.get_mut(name)?;
        let place = entry.place(&toxic.name)?;
        let put = self.install(entry, toxic.clone(), fault);
        let former = std::mem::replace(&mut entry.faults[place], put);
        self.take_away(entry, former);
        Ok(toxic)
    }

    /// Removes a fault and releases what it held.
    ///
    /// # Errors
    /// [`SwitchError`] where there is none of this name.
    pub fn take(&self, name: &str, toxic: &str) -> Result<(), SwitchError> {
        let mut proxies = self.proxies();
        let entry = proxies.get_mut(name)?;
        let place = entry.place(toxic)?;
        let put = entry.faults.remove(place);
        self.take_away(entry, put);
        Ok(())
    }

    /// Removes every fault and enables every proxy.
    ///
    /// # Errors
    /// [`SwitchError`] where one cannot listen; the others do.
    pub fn reset(&self) -> Result<(), SwitchError> {
        let mut names = Vec::new();
        for (name, entry) in &mut self.proxies().by_name {
            self.clear(entry);
            names.push(name.clone());
        }
        let on = |name: &String| self.change(name, None, None, Some(true)).map(drop);
        let tried: Vec<Result<(), SwitchError>> = names.iter().map(on).collect();
        tried.into_iter().collect()
    }

    /// The newest records of one proxy, at most `limit`, with numbers greater than `behind`.
    ///
    /// # Errors
    /// [`SwitchError::NoProxy`].
    pub fn records(
        &self,
        name: &str,
        limit: usize,
        behind: u64,
    ) -> Result<Vec<Record>, SwitchError> {
        let node = self.proxies().get(name)?.node;
        let is_meant = |record: &Record| record.node == node && record.seq > behind;
        Ok(self.proxy.log().newest(limit, is_meant))
    }

    /// The names of faults that have not struck yet.
    pub fn idle(&self) -> BTreeSet<String> {
        let proxies = self.proxies();
        let all =
            || proxies.by_name.values().flat_map(|it| it.faults.iter().map(move |put| (it, put)));
        let named = |has_struck: bool| -> BTreeSet<String> {
            let those = all().filter(|(entry, put)| put.has_struck(entry) == has_struck);
            those.map(|(_, put)| put.toxic.name.clone()).collect()
        };
        // A fault on several proxies has struck if it did on one of them.
        &named(false) - &named(true)
    }

    fn install(&self, entry: &ProxyEntry, toxic: Toxic, fault: ProxyFault) -> InstalledToxic {
        let gate = fault.gate();
        let (id, fired) = match fault {
            ProxyFault::Wire { sides, effect, toxicity } => {
                (FaultId::Effect(entry.link.add_effects(&sides, &effect, toxicity)), None)
            }
            ProxyFault::Command(rule) => {
                let rule = self.proxy.rules().add(rule.node(entry.node));
                (FaultId::Rule(rule.id), Some(rule))
            }
        };
        entry.link.note_put(&toxic.name, id);
        InstalledToxic { toxic, id, fired, gate }
    }

    fn take_away(&self, entry: &ProxyEntry, put: InstalledToxic) {
        entry.link.note_taken(&put.toxic.name, put.id);
        match put.id {
            FaultId::Effect(id) => drop(entry.link.remove_effect(id)),
            FaultId::Rule(id) => drop(self.proxy.rules().remove(id)),
        }
        if let Some(gate) = put.gate {
            gate.open();
        }
    }

    fn clear(&self, entry: &mut ProxyEntry) {
        for put in std::mem::take(&mut entry.faults) {
            self.take_away(entry, put);
        }
    }

    fn proxies(&self) -> MutexGuard<'_, ProxyTable> {
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address of a server that is reached without TLS.
fn address_of(way: &Upstream) -> Option<SocketAddr> {
    match way {
        Upstream::Tcp(addr) => Some(*addr),
        Upstream::Tls { .. } => None,
    }
}

/// Whether a connection to this address would be forwarded to the address itself, without end.
fn leads_to_itself(listen: SocketAddr, server: Option<SocketAddr>) -> bool {
    let Some(server) = server else { return false };
    let (here, there) = (listen.ip(), server.ip());
    server.port() == listen.port()
        && (here == there || here.is_unspecified() && there.is_loopback())
}

impl ProxyTable {
    fn get(&self, name: &str) -> Result<&ProxyEntry, SwitchError> {
        self.by_name.get(name).ok_or_else(|| no_proxy(name))
    }

    fn get_mut(&mut self, name: &str) -> Result<&mut ProxyEntry, SwitchError> {
        self.by_name.get_mut(name).ok_or_else(|| no_proxy(name))
    }
}

impl InstalledToxic {
    fn has_struck(&self, entry: &ProxyEntry) -> bool {
        match (self.id, &self.fired) {
            (FaultId::Effect(id), _) => entry.link.counters().struck.contains(&id),
            (FaultId::Rule(_), rule) => rule.as_ref().is_some_and(|rule| rule.fired() > 0),
        }
    }
}

impl ProxyEntry {
    fn place(&self, toxic: &str) -> Result<usize, SwitchError> {
        let place = self.faults.iter().position(|put| put.toxic.name == toxic);
        place.ok_or_else(|| SwitchError::NoToxic(toxic.to_owned()))
    }

    fn status(&self, name: &str) -> ProxyStatus {
        ProxyStatus {
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

/// Whether the name fits into a URL path and a command line.
fn is_name(name: &str) -> bool {
    let is_one = |it: char| it.is_alphanumeric() || "-_.:".contains(it);
    !name.is_empty() && name.len() <= 200 && name.chars().all(is_one)
}

#[cfg(test)]
mod tests;
