//! What some recipes meet instead: the servers they are made for, and what strikes those.
//!
//! Invariant: a section that a variant has takes the place of the scenario's section of that name,
//! whole; the others stay. A recipe has one variant at most, and one that exists can be run with every
//! recipe it names.

use std::path::Path;

use history::fault::{Staged, Swarm};
use serde::{Deserialize, Serialize};

use super::error::{KeyError, wrong};
use super::{NetworkPart, Scenario, SearchPart};
use crate::span::Span;
use crate::topology::{ServerPart, TopologyPart};

/// What some recipes meet instead: a `[[variant]]` of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Variant {
    /// The recipes it is for.
    pub locks: Vec<String>,
    /// What strikes them instead.
    pub story: String,
    /// In the place of what `[lock]` says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<VariantLock>,
    /// In the place of `[topology]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyPart>,
    /// In the place of `[server]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerPart>,
    /// In the place of `[network]`, its links included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPart>,
    /// In the place of every `[[fault]]`.
    #[serde(default, rename = "fault", skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<Staged>>,
    /// In the place of `[swarm]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swarm: Option<Swarm>,
    /// In the place of `[search]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchPart>,
}

/// What a variant says of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct VariantLock {
    /// The TTL of the key.
    pub ttl: Span,
}

impl Variant {
    /// The sections of the scenario whose place it takes.
    fn sections(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("lock.ttl", self.lock.is_some()),
            ("topology", self.topology.is_some()),
            ("server", self.server.is_some()),
            ("network", self.network.is_some()),
            ("fault", self.faults.is_some()),
            ("swarm", self.swarm.is_some()),
            ("search", self.search.is_some()),
        ];
        all.into_iter().filter(|(_, has)| *has).map(|(section, _)| section)
    }
}

impl Scenario {
    /// What its recipe meets in the place of what others do, if anything.
    pub fn variant(&self) -> Option<&Variant> {
        self.variant_of(&self.lock.recipe).map(|nth| &self.variants[nth])
    }

    fn variant_of(&self, lock: &str) -> Option<usize> {
        self.variants.iter().position(|it| it.locks.iter().any(|name| name == lock))
    }

    /// Lets the variant of its recipe take its place.
    pub(super) fn vary(&mut self) {
        let Some(variant) = self.variant().cloned() else { return };
        let Variant { lock, topology, server, network, faults, swarm, search, .. } = variant;
        self.lock.ttl = lock.map_or(self.lock.ttl, |it| it.ttl);
        self.topology = topology.unwrap_or_else(|| std::mem::take(&mut self.topology));
        self.server = server.unwrap_or_else(|| std::mem::take(&mut self.server));
        self.network = network.unwrap_or_else(|| std::mem::take(&mut self.network));
        self.faults = faults.unwrap_or_else(|| std::mem::take(&mut self.faults));
        self.swarm = swarm.unwrap_or_else(|| std::mem::take(&mut self.swarm));
        self.search = search.or_else(|| self.search.take());
    }

    /// Where the file says what stands at this dotted key of the scenario as its recipe meets it.
    pub(super) fn origin(&self, path: &str) -> String {
        let nth = self.variant_of(&self.lock.recipe);
        match nth
            .filter(|nth| self.variants[*nth].sections().any(|it| super::parse::overlap(path, it)))
        {
            Some(nth) => format!("variant.{nth}.{path}"),
            None => path.to_owned(),
        }
    }

    /// Whether each variant can be run with each recipe it names. The scenario is as its file has it; files
    /// that are named in it lie beside `base`.
    pub(super) fn check_variants(&self, base: &Path) -> Result<(), KeyError> {
        for (nth, variant) in self.variants.iter().enumerate() {
            if variant.locks.is_empty() || variant.sections().next().is_none() {
                let why = "this variant changes nothing".to_owned();
                let help = "name recipes in `locks`, and say what they meet instead: [lock] with a TTL, [topology], [server], \
                            [network], [[fault]], [swarm] or [search]";
                return wrong(format!("variant.{nth}"), why, help);
            }
            for (place, lock) in variant.locks.iter().enumerate() {
                let path = format!("variant.{nth}.locks.{place}");
                if lock == "*" {
                    let why = "a variant is for some recipes, and not for all".to_owned();
                    return wrong(path, why, "change the scenario itself");
                }
                super::parse::known_recipe(&path, lock)?;
                if self.variant_of(lock) != Some(nth) {
                    let why = format!("{lock} has another variant already");
                    return wrong(path, why, "a recipe has one variant at most");
                }
                let mut met = self.clone();
                met.lock.recipe.clone_from(lock);
                met.vary();
                let read = met.network.read_files(&mut met.topology, |_| base);
                read.and_then(|()| met.check_size())
                    .and_then(|()| met.check_servers())
                    .and_then(|()| variant.lock.map_or(Ok(()), |_| met.check_ttl()))
                    .and_then(|()| met.check_search())
                    .map_err(|(path, error)| (met.origin(&path), error))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
