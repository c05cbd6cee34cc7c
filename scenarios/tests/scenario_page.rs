//! Every example in docs/scenarios.md is a scenario, or part of one.

use history::fault::{Fault, FaultKeys, Use};
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
fn every_fault_has_a_row_with_what_it_takes() {
    for fault in Fault::ALL {
        let name = format!("`{}`", fault.name());
        let is_its = |row: &&str| {
            row.starts_with("| `") && row.split('|').nth(1).is_some_and(|it| it.contains(&name))
        };
        let row = PAGE.lines().find(is_its);
        let row = row.unwrap_or_else(|| panic!("docs/scenarios.md has no row for {name}"));
        let FaultKeys { lasts, until, by, ppm, ways, to, loses_hold, error, comes_back } =
            fault.takes();
        for (key, takes) in [
            ("for", lasts),
            ("until", until),
            ("by", by),
            ("ppm", ppm),
            ("ways", ways),
            ("to", to),
            ("loses_hold", loses_hold),
            ("error", error),
            ("comes_back", comes_back),
        ] {
            let says = [format!("`{key}`"), format!("`{key} = ")].iter().any(|it| row.contains(it));
            assert_eq!(says, takes != Use::No, "docs/scenarios.md, the row of {name}: `{key}`");
        }
    }
}
