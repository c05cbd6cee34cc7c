//! The scenarios that come with picklock.
//!
//! Invariant: every file of `catalog/` is listed, by name: `build.rs` writes the list.

use history::nearest::nearest;

use crate::scenario::{Overrides, Scenario, ScenarioError};

include!(concat!(env!("OUT_DIR"), "/catalog.rs"));

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
                    crate::recipe::about(lock).unwrap();
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
