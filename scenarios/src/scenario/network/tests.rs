//! Networks in scenario files, right and wrong.

use super::*;
use crate::catalog;
use crate::distribution::Bucket;
use crate::scenario::tests::setting;
use crate::scenario::{Overrides, Scenario};

const LATENCY: &str = "latency = { min = \"200us\", max = \"2ms\" }";

/// The pool's scenario with another network.
fn text(network: &str) -> String {
    let text = catalog::text("bonus-pool").unwrap();
    assert!(text.contains(LATENCY));
    text.replacen(LATENCY, network, 1)
}

fn parse(network: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("test", "test.toml", &text(network), &Overrides::default())
}

fn latency(text: &str) -> Distribution {
    text.parse().unwrap()
}

/// What is said of this network, and what stands where the finger points.
fn refusal(network: &str) -> (String, String) {
    let error = parse(network).unwrap_err();
    let text = text(network);
    (error.to_string(), error.offset().map_or("", |at| &text[at..]).to_owned())
}

#[test]
fn every_form_can_be_written() {
    for (network, expected) in [
        (LATENCY, "uniform:200us..2ms"),
        ("latency = \"1ms\"", "constant:1ms"),
        ("latency = { constant = \"1ms\" }", "constant:1ms"),
        ("latency = \"lognormal:1ms,p99=9ms\"", "lognormal:1ms,p99=9ms"),
        (
            "latency = { median = \"1ms\", p99 = \"9ms\", cap = \"20ms\" }",
            "lognormal:1ms,p99=9ms,cap=20ms",
        ),
    ] {
        let scenario = parse(network).unwrap();
        assert_eq!(scenario.network.latency, latency(expected), "{network}");
        let json = serde_json::to_value(&scenario).unwrap();
        assert_eq!(Scenario::from_json(json).unwrap(), scenario, "{network}");
    }
    let scenario = parse("latency = { histogram = [[\"2ms\", 1], [\"1ms\", 900]] }").unwrap();
    let Distribution::Histogram(histogram) = &scenario.network.latency else { panic!() };
    assert_eq!(histogram.count(), 901);
    let json = serde_json::to_value(&scenario).unwrap();
    assert_eq!(Scenario::from_json(json).unwrap(), scenario);
}

#[test]
fn a_scenario_without_links_looks_as_ever_in_its_manifest() {
    let json = serde_json::to_value(parse(LATENCY).unwrap()).unwrap();
    let expected = serde_json::json!({ "latency": { "min": "200us", "max": "2ms" } });
    assert_eq!(json["network"], expected);
}

#[test]
fn the_last_entry_that_names_a_link_decides() {
    let links = r#"
        latency = "1ms"
        [[network.link]]
        clients = "2..5"
        latency = "2ms"
        [[network.link]]
        client = 3
        server = 0
        latency = "3ms"
        [[network.link]]
        clients = "9..=10"
        latency = "9ms""#;
    let scenario = parse(links).unwrap();
    for (client, expected) in [
        (0, "1ms"),
        (1, "1ms"),
        (2, "2ms"),
        (3, "3ms"),
        (4, "2ms"),
        (5, "1ms"),
        (8, "1ms"),
        (9, "9ms"),
        (10, "9ms"),
        (11, "1ms"),
    ] {
        assert_eq!(*scenario.network.latency(client, 0), latency(expected), "client {client}");
    }
    assert_eq!(*scenario.network.latency(3, 1), latency("2ms"), "another server");
    let json = serde_json::to_value(&scenario).unwrap();
    assert_eq!(Scenario::from_json(json).unwrap(), scenario);
    let all = parse("[[network.link]]\nlatency = \"2ms\"").unwrap();
    assert_eq!(*all.network.latency(7, 0), latency("2ms"));
    assert_eq!(*all.network.latency(0, 0), Distribution::default(), "the run itself");
}

#[test]
fn what_cannot_be_is_shown_in_its_place() {
    let link = |link: &str| format!("{LATENCY}\n[[network.link]]\nlatency = \"1ms\"\n{link}");
    for (network, says, place) in [
        (
            "latency = { min = \"2ms\", max = \"1ms\" }".to_owned(),
            "longer than the longest",
            "{ min",
        ),
        (
            "latency = { median = \"2ms\", p99 = \"1ms\" }".to_owned(),
            "the p99 (1ms) is below the median (2ms)",
            "{ median",
        ),
        ("latency = { median = \"2ms\", p99 = nan }".to_owned(), "duration", "nan"),
        ("latency = { median = \"-2ms\", p99 = \"2ms\" }".to_owned(), "negative", "\"-2ms\""),
        (
            "latency = { median = \"2ms\", max = \"2ms\" }".to_owned(),
            "a uniform distribution has no `median`",
            "{ median",
        ),
        ("latency = { median = \"2ms\" }".to_owned(), "missing field `p99`", "{ median"),
        ("latency = { medium = \"2ms\" }".to_owned(), "unknown field `medium`", "medium"),
        ("latency = {}".to_owned(), "empty table", "{}"),
        ("latency = 5".to_owned(), "expected a distribution", "5"),
        ("latency = \"lognormal:2ms\"".to_owned(), "missing field `p99`", "\"lognormal"),
        ("latency = { histogram = [] }".to_owned(), "empty", "{ histogram"),
        (
            "latency = { histogram = [[\"1ms\", 0]] }".to_owned(),
            "no value has a count",
            "{ histogram",
        ),
        ("latency = { histogram = [[\"1ms\", -1]] }".to_owned(), "-1", "-1"),
        ("latency = { tag = \"GET\" }".to_owned(), "missing field `file`", "{ tag"),
        ("latency = { file = \"nowhere.hlog\" }".to_owned(), "cannot read nowhere.hlog", "{ file"),
        (link("client = 101"), "there is no client 101: the last one is 100", "101"),
        (link("client = 0"), "there is no client 0", "0"),
        (link("clients = \"1..102\""), "there is no client 101", "\"1..102\""),
        (link("clients = \"5..5\""), "ends before it begins", "\"5..5\""),
        (link("clients = \"five\""), "names no clients", "\"five\""),
        (link("client = 1\nclients = \"2..5\""), "both `client` and `clients`", "1"),
        (link("server = 1"), "there is no server 1: the last one is 0", "1"),
        (link("sever = 0"), "unknown field `sever`", "sever"),
        ("[[network.link]]\nclient = 1".to_owned(), "missing field `latency`", "[[network.link]]"),
    ] {
        let (message, at) = refusal(&network);
        assert!(message.contains(says), "{network}: {message}");
        assert!(at.starts_with(place), "{network}: the span begins at {at:.20}");
    }
    assert_eq!(
        parse("latency = { medium = \"2ms\" }").unwrap_err().advice(),
        Some("did you mean `median`?")
    );
}

#[test]
fn both_ends_of_a_range_are_checked() {
    let clients = |text: &str| text.parse::<Clients>();
    assert_eq!(clients("1..10"), Ok(Clients { first: 1, last: 9 }));
    assert_eq!(clients("1..=10"), Ok(Clients { first: 1, last: 10 }));
    assert_eq!(clients("3..=3"), Ok(Clients { first: 3, last: 3 }));
    assert!(matches!(clients("3..3"), Err(ClientsError::Empty(_))));
    assert!(matches!(clients("0..0"), Err(ClientsError::Empty(_))));
    assert!(matches!(clients("4..=3"), Err(ClientsError::Empty(_))));
    for text in ["", "..", "1..", "..3", "1-3", "-1..3", "1..=", "1...3"] {
        assert!(matches!(clients(text), Err(ClientsError::Other(_))), "{text}");
    }
}

/// A directory with a measured file in it, beside which a scenario's file would lie.
fn measured() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("rtt.csv"), "value_us,count\n500,3\n1500,1\n").unwrap();
    let file = directory.path().join("test.toml").to_str().unwrap().to_owned();
    (directory, file)
}

#[test]
fn a_file_is_read_once_and_a_replay_needs_none() {
    let (directory, file) = measured();
    let network = "latency = { file = \"rtt.csv\" }\n[[network.link]]\nclient = 1\nlatency = \"file:rtt.csv\"";
    let scenario = Scenario::parse("test", &file, &text(network), &Overrides::default()).unwrap();
    let Distribution::Histogram(histogram) = &scenario.network.latency else { panic!() };
    let bucket = |us, count| Bucket { value: format!("{us}us").parse().unwrap(), count };
    assert_eq!(histogram.buckets(), [bucket(500, 3), bucket(1500, 1)]);
    assert_eq!(scenario.network.latency(1, 0), scenario.network.latency(2, 0));
    drop(directory);
    let mut json = serde_json::to_value(&scenario).unwrap();
    assert_eq!(Scenario::from_json(json.clone()).unwrap(), scenario);
    // A manifest that was cut short does not make anybody read files.
    json["network"]["latency"].as_object_mut().unwrap().remove("histogram");
    let error = Scenario::from_json(json).unwrap_err();
    assert!(error.to_string().contains("\"rtt.csv\" is not there"), "{error}");
}

#[test]
fn a_file_named_on_the_command_line_is_looked_for_where_its_user_is() {
    let (directory, file) = measured();
    let parse = |value: &str| {
        Scenario::parse("test", &file, &text(LATENCY), &setting(&[("network.latency", value)]))
    };
    let error = parse("file:rtt.csv").unwrap_err();
    assert!(error.to_string().starts_with("cannot read rtt.csv"), "{error}");
    assert_eq!(error.offset(), None);
    let whole = directory.path().join("rtt.csv");
    assert!(parse(&format!("file:{}", whole.display())).is_ok());
    assert_eq!(
        parse("lognormal:1ms,p99=2ms").unwrap().network.latency,
        latency("lognormal:1ms,p99=2ms")
    );
}

#[test]
fn a_corrupt_file_is_shown_with_its_line() {
    let (directory, file) = measured();
    let refusal = |content: &str| {
        std::fs::write(directory.path().join("rtt.csv"), content).unwrap();
        let text = text("latency = { file = \"rtt.csv\" }");
        let error = Scenario::parse("test", &file, &text, &Overrides::default()).unwrap_err();
        assert!(text[error.offset().unwrap()..].starts_with("{ file"), "{error}");
        error.to_string()
    };
    let of_line = refusal("value_us,count\n500,3\nNaN,1\n");
    assert!(
        of_line.starts_with("line 3 of ") && of_line.ends_with("\"NaN\" is no duration"),
        "{of_line}"
    );
    assert!(refusal("").contains("the histogram is empty"));
    assert!(refusal("value_us,count\n500,0\n").contains("no value has a count above 0"));
    assert!(refusal("#[Histogram log format version 1.3]\n").contains("the histogram is empty"));
    assert!(refusal("\"StartTimestamp\"\n0.0,1.0,2.0,HISTFAAAAA\n").contains("line 2 of "));
}
