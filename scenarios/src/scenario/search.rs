//! The searched form of a scenario: which faults may strike and how hard, and nothing of where.
//!
//! Invariant: a searched form stages nothing and names no victim; what `[search]` does not change is as
//! in the scripted form.

use history::fault::Swarm;
use serde::{Deserialize, Serialize};

use super::error::{KeyError, wrong};
use super::faults::check_failovers;
use super::parse::{check_chances, check_expectations, overlap};
use super::size::{check_clients, check_rounds, check_strikes};
use super::{Expectation, Scenario, WorkloadPart};
use crate::span::Span;

/// What is another in the searched form of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct SearchPart {
    /// How many clients contend, where it is another number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// For how long nobody may get a lock that is wanted and free, where that is another span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_within: Option<Span>,
    /// How long a client works under the lock, where that is another span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
    /// How many acquisitions each client of a register makes, where it is another number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// How long it pauses in between, where that is another span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Span>,
    /// What may strike anybody, at most.
    pub swarm: Swarm,
    /// What is expected where it is not the same as in the scripted form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expectation>,
}

/// What a searched form leaves out, or has from `[search]` alone.
const LEFT_OUT: [&str; 3] = ["fault", "swarm", "expect"];

impl Scenario {
    /// Why it has no searched form, if it has none.
    pub fn unsearchable(&self) -> Option<String> {
        let why = match &self.unsearched {
            Some(why) => why,
            None if self.search.is_none() && !self.swarm.searched => "its file has no [search]",
            None => return None,
        };
        Some(format!("{} has no searched form: {why}", self.name))
    }

    /// Its searched form; the keys that were touched are as they are.
    pub(super) fn into_searched(mut self, touched: &[&str]) -> Result<Self, KeyError> {
        if let Some(why) = self.unsearchable() {
            let help = match self.unsearched {
                Some(_) => "name a scenario that has one, or omit --searched",
                None => "say which faults may strike: [search.swarm] with the keys of [swarm]",
            };
            return wrong("unsearched", why, help);
        }
        // One whose story is searched for as it is.
        let Some(search) = self.search.take() else { return Ok(self) };
        let in_vain = touched.iter().find(|path| LEFT_OUT.iter().any(|key| overlap(path, key)));
        if let Some(path) = in_vain {
            let why = format!("--set {path}: the searched form has nothing of it");
            return wrong(
                *path,
                why,
                "what it has instead stands in search.swarm and search.expect",
            );
        }
        let is_touched = |path: &str| touched.iter().any(|it| overlap(it, path));
        if let Some(clients) = search.clients.filter(|_| !is_touched("clients")) {
            self.clients = clients;
        }
        if !is_touched("available_within") {
            self.available_within = search.available_within.or(self.available_within);
        }
        if let Some(hold) = search.hold.filter(|_| !is_touched("workload")) {
            self.workload.set_hold(hold);
        }
        if let WorkloadPart::Register(register) = &mut self.workload {
            if let Some(rounds) = search.rounds.filter(|_| !is_touched("workload.register.rounds"))
            {
                register.rounds = rounds;
            }
            if let Some(think) = search.think.filter(|_| !is_touched("workload.register.think")) {
                register.think = think;
            }
        }
        self.faults.clear();
        self.limits.clear();
        self.swarm = Swarm { searched: true, ..search.swarm };
        // The last that names a lock decides.
        self.expect.extend(search.expect);
        Ok(self)
    }

    /// What is wrong with what the file says of its searched form, and by which key.
    pub(super) fn check_search(&self) -> Result<(), KeyError> {
        let searched = self.swarm.searched || self.search.is_some();
        if self.unsearched.is_some() && searched {
            let why = "it says why it has no searched form, and has one";
            return wrong("unsearched", why, "remove one of the two");
        }
        let Some(search) = &self.search else { return Ok(()) };
        if self.swarm.searched {
            let why = "[swarm] is searched = true, so this form is the searched one";
            return wrong("search", why, "remove [search]");
        }
        if search.swarm.searched {
            let why = "whatever stands in [search] is searched for";
            return wrong("search.swarm.searched", why, "remove it");
        }
        search.clients.map_or(Ok(()), |clients| check_clients("search.clients", clients))?;
        if search.rounds == Some(0) {
            let why = "rounds is 0: nobody would ever ask for the lock";
            return wrong("search.rounds", why, "remove it for as many as in the story");
        }
        search.rounds.map_or(Ok(()), |rounds| check_rounds("search.rounds", rounds))?;
        let of_register = [("rounds", search.rounds.is_some()), ("think", search.think.is_some())];
        match of_register.into_iter().find(|(_, given)| *given) {
            Some((key, _)) if !matches!(self.workload, WorkloadPart::Register(_)) => {
                let why = format!("{key} belongs to [workload.register], and this has another");
                return wrong(format!("search.{key}"), why, "remove it");
            }
            _ => {}
        }
        check_expectations("search.expect", &search.expect)?;
        check_chances("search.swarm", &search.swarm)?;
        check_strikes("search.swarm", &search.swarm)?;
        check_failovers("search.swarm", &search.swarm, self.kind())
    }
}

#[cfg(test)]
mod tests;
