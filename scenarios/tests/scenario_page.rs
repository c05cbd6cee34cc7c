//! Every example in docs/scenarios.md is a scenario, or part of one.

use history::fault::Fault;
use scenarios::scenario::{Overrides, Scenario};
use toml::Table;

const PAGE: &str = include_str!("../../docs/scenarios.md");

#[test]
fn every_example_of_the_page_can_be_run() {
    let blocks = PAGE.split("```toml\n").skip(1);
    let examples: Vec<&str> = blocks.map(|it| it.split("```").next().unwrap_or_default()).collect();
    assert!(examples.len() > 8, "{}", examples.len());
    let complete: Table = examples[0].parse().unwrap();
    for example in examples {
        // What an example says takes the place of what the complete one says.
        let mut scenario = complete.clone();
        scenario.extend(example.parse::<Table>().unwrap());
        let parsed =
            Scenario::parse("page", "page.toml", &scenario.to_string(), &Overrides::default());
        assert!(parsed.is_ok(), "{example}\n{:?}", parsed.err());
    }
}

#[test]
fn every_fault_has_a_row() {
    for fault in Fault::ALL {
        assert!(PAGE.contains(&format!("`{}`", fault.name())), "{}", fault.name());
    }
}
