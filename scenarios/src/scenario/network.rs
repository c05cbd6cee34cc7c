//! The network of a scenario: how long messages travel, on every link or on some.
//!
//! Invariant: a link's latency is that of the last entry that names it, else the network's own; in a
//! scenario that exists every entry names clients and servers that there are, and what was measured has
//! been read.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

use super::ScenarioError;
use super::error::{KeyError, wrong};
use crate::distribution::{Distribution, FileError};
use crate::topology::TopologyPart;

/// The network between clients and servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct NetworkPart {
    /// One-way latency, drawn for every message.
    #[serde(default)]
    pub latency: Distribution,
    /// What differs on some links; the last entry that names a link decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkPart>,
}

/// What differs on some links. A link is one client's way to one server, and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct LinkPart {
    /// Whose link; they are numbered from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<u32>,
    /// Or whose links: `1..10` without the 10, `1..=10` with it. All clients' where neither is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Clients>,
    /// To which server; they are numbered from 0. To all of them where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<u32>,
    /// One-way latency, drawn for every message.
    pub latency: Distribution,
}

/// Clients with successive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clients {
    /// The first.
    pub first: u32,
    /// The last, included.
    pub last: u32,
}

/// Why a text names no clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientsError {
    /// It is something else.
    #[error("{0:?} names no clients: write `1..10`, without the last, or `1..=10`, with it")]
    Other(String),
    /// It ends before it begins.
    #[error("{0:?} names no clients: it ends before it begins")]
    Empty(String),
}

impl NetworkPart {
    /// The one-way latency between a client and a server. Client 0 is the run itself.
    pub fn latency(&self, client: u32, server: u32) -> &Distribution {
        self.entry(client, server).map_or(&self.latency, |entry| &self.link[entry].latency)
    }

    /// The place of the entry that decides about a link; none where the network's own latency does.
    pub fn entry(&self, client: u32, server: u32) -> Option<usize> {
        self.link.iter().rposition(|link| link.names(client, server))
    }

    /// Reads the files of what was measured, the lags of replicas among it. Each counts from the directory
    /// that `base` knows for the entry's key.
    pub(super) fn read_files<'a>(
        &mut self,
        topology: &mut TopologyPart,
        base: impl Fn(&str) -> &'a Path,
    ) -> Result<(), KeyError> {
        let links = (0..).zip(&mut self.link);
        let links = links.map(|(nth, link): (usize, _)| {
            (format!("network.link.{nth}.latency"), &mut link.latency)
        });
        let all = std::iter::once(("network.latency".to_owned(), &mut self.latency)).chain(links);
        let lag = topology.lag.as_mut().map(|lag| ("topology.lag".to_owned(), lag));
        let replicas = (0..).zip(&mut topology.replica).map(|(nth, replica): (usize, _)| {
            (format!("topology.replica.{nth}.lag"), &mut replica.lag)
        });
        let all = all.chain(lag).chain(replicas);
        for (path, latency) in all {
            latency.read(base(&path)).map_err(|error| (path, of_file(&error)))?;
        }
        Ok(())
    }

    /// What cannot be run with so many clients and servers, and by which key.
    pub(super) fn check(&self, clients: u32, servers: u32) -> Result<(), KeyError> {
        unread("network.latency".to_owned(), &self.latency)?;
        for (nth, link) in self.link.iter().enumerate() {
            let path = |key: &str| format!("network.link.{nth}.{key}");
            if link.client.is_some() && link.clients.is_some() {
                let why = "both `client` and `clients` are said of one link".to_owned();
                return wrong(path("client"), why, "leave one of them out");
            }
            let named = link.client.map(|client| ("client", [client, client]));
            let named = named.or(link.clients.map(|it| ("clients", [it.first, it.last])));
            if let Some((key, ends)) = named
                && let Some(unknown) = ends.into_iter().find(|it| *it == 0 || *it > clients)
            {
                let help = "clients are numbered from 1; leave `client` out to mean all of them";
                let why = format!("there is no client {unknown}: the last one is {clients}");
                return wrong(path(key), why, help);
            }
            if let Some(unknown) = link.server.filter(|server| *server >= servers) {
                let last = servers.saturating_sub(1);
                let help = "servers are numbered from 0; leave `server` out to mean all of them";
                let why = format!("there is no server {unknown}: the last one is {last}");
                return wrong(path("server"), why, help);
            }
            unread(path("latency"), &link.latency)?;
        }
        Ok(())
    }
}

impl LinkPart {
    /// Whether it is about this client's way to this server. The run itself, client 0, has no say.
    fn names(&self, client: u32, server: u32) -> bool {
        let one = self.client.is_none_or(|it| it == client);
        let range = self.clients.is_none_or(|it| (it.first..=it.last).contains(&client));
        client > 0 && one && range && self.server.is_none_or(|it| it == server)
    }
}

pub(super) fn unread(path: String, latency: &Distribution) -> Result<(), KeyError> {
    let Some(measured) = latency.unread() else { return Ok(()) };
    let why = format!("what was measured in {:?} is not there", measured.file);
    let help = "a manifest holds it as `histogram`; without it, run the scenario's own file";
    wrong(path, why, help)
}

fn of_file(error: &FileError) -> ScenarioError {
    let help = match error {
        FileError::Io { .. } => {
            "a relative path counts from the scenario's file, and one given \
                                 with --set from where picklock is started"
        }
        FileError::WhichTag { .. } | FileError::NoSuchTag { .. } => {
            "write { file = \"…\", tag = \"…\" }"
        }
        _ => "give an HdrHistogram log, or CSV whose lines are a value and how often it came",
    };
    ScenarioError::new(error.to_string()).help(Some(help.to_owned()))
}

impl FromStr for Clients {
    type Err = ClientsError;

    fn from_str(text: &str) -> Result<Self, ClientsError> {
        let other = || ClientsError::Other(text.to_owned());
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| other());
        let (first, end) = text.split_once("..").ok_or_else(other)?;
        let first = number(first)?;
        let last = match end.strip_prefix('=') {
            Some(last) => Some(number(last)?),
            None => number(end)?.checked_sub(1),
        };
        let last = last.filter(|last| *last >= first);
        let last = last.ok_or_else(|| ClientsError::Empty(text.to_owned()))?;
        Ok(Self { first, last })
    }
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.first, self.last)
    }
}

impl fmt::Display for LinkPart {
    /// Which links, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.client, self.clients) {
            (Some(client), _) => write!(f, "client {client}")?,
            (None, Some(clients)) => write!(f, "clients {} to {}", clients.first, clients.last)?,
            (None, None) => f.write_str("all clients")?,
        }
        self.server.map_or(Ok(()), |server| write!(f, ", server {server}"))
    }
}

impl Serialize for Clients {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Clients {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
