//! What docs/proxy.md says can be written, can be.

use fault_proxy::ParsedFault;
use fault_proxy::switchboard::Toxic;
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/proxy.md");

/// The text between this mark and the next quote of its kind, wherever it stands.
fn between<'a>(text: &'a str, open: &str, close: char) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|part| part.split(close).next()).collect()
}

/// The lines of a chapter.
fn chapter(title: &str) -> &'static str {
    let rest = PAGE.split_once(&format!("\n## {title}\n")).expect(title).1;
    rest.split("\n## ").next().unwrap_or_default()
}

#[test]
fn every_fault_of_the_page_can_be_read() {
    let given = between(PAGE, "--fault '", '\'');
    assert!(!given.is_empty());
    let rows = chapter("Fault texts").lines();
    let rows: Vec<&str> =
        rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for text in given.into_iter().chain(rows) {
        text.parse::<ParsedFault>().unwrap_or_else(|why| panic!("{text}: {why}"));
    }
    // Options, each behind a fault that can have it.
    for option in ["direction=requests", "direction=replies", "direction=both", "toxicity=0.3"] {
        assert!(chapter("Fault texts").contains(option), "{option}");
        format!("latency=5ms {option}").parse::<ParsedFault>().unwrap();
    }
}

#[test]
fn every_toxic_of_the_page_can_be_put_on_a_proxy() {
    let lines = chapter("Over HTTP").lines().filter(|line| line.starts_with("{\"type\""));
    let sent = between(chapter("Over HTTP"), "curl -d '", '\'');
    let all: Vec<&str> = lines.chain(sent).collect();
    assert!(all.len() > 8, "{all:?}");
    for text in all {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let toxic = Toxic::from_json(&value).unwrap_or_else(|why| panic!("{text}: {why}"));
        toxic.fault().unwrap_or_else(|why| panic!("{text}: {why}"));
    }
}
