//! The scenarios that come with picklock.
//!
//! Invariant: every file of `catalog/` stands in this list; a test looks.

use crate::nearest::nearest;
use crate::scenario::{Overrides, Scenario, ScenarioError};

/// Name and text of every scenario, in the order in which they are shown.
pub static ALL: [(&str, &str); 30] = [
    ("bonus-pool", include_str!("../catalog/bonus-pool.toml")),
    ("check-then-create", include_str!("../catalog/check-then-create.toml")),
    ("clock-skew", include_str!("../catalog/clock-skew.toml")),
    ("clock-step", include_str!("../catalog/clock-step.toml")),
    ("clock-step-allowed", include_str!("../catalog/clock-step-allowed.toml")),
    ("crash-between", include_str!("../catalog/crash-between.toml")),
    ("crash-holder", include_str!("../catalog/crash-holder.toml")),
    ("expiry-race", include_str!("../catalog/expiry-race.toml")),
    ("failover", include_str!("../catalog/failover.toml")),
    ("failover-laggard", include_str!("../catalog/failover-laggard.toml")),
    ("gc-pause", include_str!("../catalog/gc-pause.toml")),
    ("getset-late-del", include_str!("../catalog/getset-late-del.toml")),
    ("getset-race", include_str!("../catalog/getset-race.toml")),
    ("ghost-renewal", include_str!("../catalog/ghost-renewal.toml")),
    ("growing-ttl", include_str!("../catalog/growing-ttl.toml")),
    ("holder-cut-off", include_str!("../catalog/holder-cut-off.toml")),
    ("late-messages", include_str!("../catalog/late-messages.toml")),
    ("long-job", include_str!("../catalog/long-job.toml")),
    ("lost-reply", include_str!("../catalog/lost-reply.toml")),
    ("missed-wakeup", include_str!("../catalog/missed-wakeup.toml")),
    ("node-down", include_str!("../catalog/node-down.toml")),
    ("polling-load", include_str!("../catalog/polling-load.toml")),
    ("power-loss", include_str!("../catalog/power-loss.toml")),
    ("power-loss-synced", include_str!("../catalog/power-loss-synced.toml")),
    ("power-loss-waited", include_str!("../catalog/power-loss-waited.toml")),
    ("renew-steals", include_str!("../catalog/renew-steals.toml")),
    ("same-client", include_str!("../catalog/same-client.toml")),
    ("script-flush", include_str!("../catalog/script-flush.toml")),
    ("slow-network", include_str!("../catalog/slow-network.toml")),
    ("stale-write", include_str!("../catalog/stale-write.toml")),
];

/// Why there is no such scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no scenario is called {name:?}")]
pub struct UnknownScenario {
    /// What was asked for.
    pub name: String,
    /// The name it comes nearest to.
    pub nearest: Option<&'static str>,
}

/// The text of the scenario of this name.
///
/// # Errors
/// [`UnknownScenario`], with the nearest name.
pub fn text(name: &str) -> Result<&'static str, UnknownScenario> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| UnknownScenario {
        name: name.to_owned(),
        nearest: nearest(name, ALL.map(|(known, _)| known)),
    })
}

/// Every scenario as its file has it.
///
/// # Errors
/// None, as long as the catalogue's files are right, which a test sees to.
pub fn all() -> Result<Vec<Scenario>, ScenarioError> {
    let parse =
        |(name, text)| Scenario::parse(name, &format!("{name}.toml"), text, &Overrides::default());
    ALL.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_catalogue_is_listed_and_right() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/catalog");
        let mut files: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut listed: Vec<String> = ALL.iter().map(|(name, _)| format!("{name}.toml")).collect();
        listed.sort();
        assert_eq!(files, listed);
        for scenario in all().unwrap() {
            for expectation in &scenario.expect {
                for lock in expectation.locks.iter().filter(|lock| *lock != "*") {
                    crate::recipe::list::about(lock).unwrap();
                }
            }
        }
    }

    #[test]
    fn an_unknown_name_is_met_with_the_nearest() {
        assert_eq!(text("bonus-pol").unwrap_err().nearest, Some("bonus-pool"));
        assert_eq!(text("solitaire").unwrap_err().nearest, None);
    }
}
