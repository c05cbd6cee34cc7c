//! Faults and servers in scenario files, right and wrong.

use history::fault::{By, Chance, Fault, Until, Ways, When, Whom};

use crate::catalog;
use crate::scenario::tests::setting;
use crate::scenario::{Overrides, Scenario, ScenarioError};
use crate::topology::{AppendOnly, Software, Topology};
use picklock::env::Phase;

const REPLICATED: &str =
    "[topology]\nkind = \"replicated\"\nlag = { min = \"1ms\", max = \"5ms\" }\n";
const INDEPENDENT: &str = "[topology]\nkind = \"independent\"\n";

fn parse(more: &str) -> Result<Scenario, ScenarioError> {
    set(more, &[])
}

fn set(more: &str, set: &[(&str, &str)]) -> Result<Scenario, ScenarioError> {
    Scenario::parse("test", "test.toml", &text(more), &setting(set))
}

fn text(more: &str) -> String {
    format!("{}\n{more}", catalog::text("bonus-pool").unwrap())
}

#[test]
fn a_scenario_without_them_has_one_server_and_no_fault() {
    let scenario = parse("").unwrap();
    assert_eq!(scenario.topology(), Topology::Standalone);
    assert_eq!(scenario.server.append_only, AppendOnly::Off);
    assert!(scenario.faults.is_empty());
}

#[test]
fn what_a_file_says_is_what_is_staged() {
    let more = format!(
        "{REPLICATED}[server]\nappend_only = \"everysec\"\n
        [[fault]]\nkind = \"failover\"\nat = {{ phase = \"acquire.applied\", nth = 2 }}\nfor = \"2s\"\n
        [[fault]]\nkind = \"pause\"\non = \"holder\"\nat = {{ time = \"100ms\" }}\n\
        until = {{ phase = \"acquire.applied\" }}\n
        [[fault]]\nkind = \"delay\"\non = \"client 3\"\nat = {{ command = \"DEL\", after = \"7ms\" }}\n\
        for = \"5ms\"\nways = \"back\"\n
        [[fault]]\nkind = \"clock-step\"\non = \"server 1\"\nat = {{ chance = 0.5 }}\nby = \"-5s\"\n"
    );
    let scenario = parse(&more).unwrap();
    assert_eq!(scenario.topology(), Topology::Replicated { replicas: 1 });
    let lag = scenario.topology.lag.as_ref().unwrap();
    assert_eq!((lag.to_string().as_str(), scenario.topology().servers()), ("uniform:1ms..5ms", 2));
    assert_eq!(scenario.server.append_only, AppendOnly::Everysec);
    let [failover, pause, delay, step] = &scenario.faults[..] else { panic!("four") };
    assert_eq!((failover.kind, failover.whom()), (Fault::Failover, Whom::Primary));
    assert_eq!(failover.at.when(), Some(When::Phase(Phase::AcquireApplied, 2)));
    assert_eq!(failover.lasts_ns(), Some(2_000_000_000));
    assert_eq!((pause.whom(), pause.at.when()), (Whom::Holder, Some(When::Time(100_000_000))));
    assert_eq!(pause.until, Some(Until { phase: Phase::AcquireApplied, by: By::Another }));
    assert_eq!((delay.whom(), delay.ways), (Whom::Client(3), Some(Ways::Back)));
    assert_eq!(delay.at.when(), Some(When::Command("DEL", 1)));
    assert_eq!((delay.at.after_ns(), pause.at.after_ns()), (Some(7_000_000), None));
    assert_eq!((step.whom(), step.by_ns()), (Whom::Server(1), -5_000_000_000));
    let json = serde_json::to_value(&scenario).unwrap();
    assert_eq!(Scenario::from_json(json).unwrap(), scenario, "through a manifest and back");
    let again = set(&more, &[("clients", "100")]).unwrap();
    assert_eq!(again, Scenario { clients: 100, ..scenario }, "and through what is set");
}

#[test]
fn an_impossible_fault_in_a_manifest_is_refused_too() {
    let mut json = serde_json::to_value(parse("").unwrap()).unwrap();
    let fault = serde_json::json!({ "kind": "failover", "at": { "time": "1s" }, "for": "1s" });
    json["fault"] = serde_json::Value::Array(vec![fault]);
    assert!(Scenario::from_json(json).unwrap_err().to_string().contains("needs a replica"));
}

#[test]
fn values_of_a_fault_can_be_set() {
    let crash = "[[fault]]\nkind = \"server-crash\"\nat = { time = \"1ms\" }\nfor = \"2s\"\n";
    let scenario = set(crash, &[("fault.0.for", "3s"), ("fault.0.at.time", "7ms")]).unwrap();
    assert_eq!(scenario.faults[0].lasts_ns(), Some(3_000_000_000));
    assert_eq!(scenario.faults[0].at.when(), Some(When::Time(7_000_000)));
    let scenario = set("", &[("topology.kind", "replicated"), ("topology.replicas", "2")]);
    assert_eq!(scenario.unwrap().topology().servers(), 3);
    let scenario = set("", &[("server.append_only", "always")]).unwrap();
    assert_eq!(scenario.server.append_only, AppendOnly::Always);
    let error = set(crash, &[("fault.1.for", "3s")]).unwrap_err();
    assert!(
        error.to_string().contains("the scenario has one `fault`, and it is `fault.0`"),
        "{error}"
    );
    let error = set(crash, &[("fault.0.on", "server 1")]).unwrap_err();
    assert_eq!(error.offset(), None, "the file is not to blame: {error}");
}

#[test]
fn a_model_is_what_the_file_says_or_what_the_recipe_asks_for() {
    let of = |lock: &str, software: Option<&str>| {
        let more = software.map_or(String::new(), |it| format!("[server]\nsoftware = \"{it}\"\n"));
        let overrides = Overrides { lock: Some(lock.to_owned()), ..Overrides::default() };
        let scenario = Scenario::parse("x", "x.toml", &text(&more), &overrides).unwrap();
        assert_eq!(scenario.only_virtual(), None, "a real server is what it is");
        let json = serde_json::to_value(&scenario).unwrap();
        assert_eq!(Scenario::from_json(json).unwrap(), scenario);
        scenario.software()
    };
    assert_eq!(
        (of("single", None), of("native-cas", None)),
        (Software::Redis70, Software::Redis84)
    );
    for lock in ["single", "native-cas"] {
        for (name, software) in [
            ("redis-7.0", Software::Redis70),
            ("redis-8.4", Software::Redis84),
            ("valkey-9", Software::Valkey9),
        ] {
            assert_eq!(of(lock, Some(name)), software, "{lock}");
        }
    }
    let kept = set("", &[("server.append_only", "always")]).unwrap();
    assert!(kept.only_servers().is_some() && kept.only_virtual().is_none());
}

/// The refusal of a file with this in the end, its advice, and the text that its span begins at.
fn refusal(more: &str) -> (String, String, String) {
    let text = text(more);
    let error = parse(more).unwrap_err();
    let at = error.offset().map_or("nowhere", |offset| &text[offset..]);
    (error.to_string(), error.advice().unwrap_or_default().to_owned(), at.to_owned())
}

/// A fault that is right but for what is put in place of `from`.
#[track_caller]
fn wrong(base: &str, from: &str, to: &str, says: &str, advises: &str, place: &str) {
    parse(base).expect("the base is right");
    let more = base.replacen(from, to, 1);
    assert_ne!(more, base, "nothing was replaced");
    let (message, advice, at) = refusal(&more);
    assert!(message.contains(says), "{to}: {message}");
    assert!(advice.contains(advises), "{to}: {advice}");
    assert!(at.starts_with(place), "{to}: the span begins at {at:.30}");
}

#[test]
fn faults_that_cannot_be_had_are_shown_in_their_place() {
    let pause =
        "[[fault]]\nkind = \"pause\"\non = \"client 3\"\nat = { phase = \"hold\" }\nfor = \"1s\"\n";
    let client = |name: &str, says, advises| {
        wrong(pause, "\"client 3\"", name, says, advises, name);
    };
    client("\"client 101\"", "there is no client 101", "holder");
    client("\"client 0\"", "there is no client 0", "holder");
    client("\"server 0\"", "strikes a client", "client 1");
    client("\"primary\"", "strikes a client", "client 1");
    client("\"hodler\"", "names nobody", "");
    wrong(pause, "\"pause\"", "\"puase\"", "puase", "did you mean `pause`?", "\"puase\"");
    wrong(pause, "\"hold\"", "\"hodl\"", "hodl", "did you mean `hold`?", "\"hodl\"");
    wrong(pause, "phase =", "phse =", "phse", "did you mean `phase`?", "phse");
    wrong(pause, "{ phase = \"hold\" }", "{ }", "exactly one", "phase", "{ }");
    let both = "{ phase = \"hold\", time = \"1s\" }";
    wrong(pause, "{ phase = \"hold\" }", both, "exactly one", "phase", both);
    wrong(pause, "\"hold\" }", "\"hold\", nth = 0 }", "nth is 0", "first", "0 }");
    wrong(pause, "phase = \"hold\"", "time = \"1s\", nth = 2", "counts", "remove", "2 }");
    let late = "time = \"1s\", after = \"2s\"";
    wrong(pause, "phase = \"hold\"", late, "counts", "remove", "\"2s\"");
    wrong(pause, "\"hold\" }", "\"hold\", after = \"-2s\" }", "negative", "", "\"-2s\"");
    let anybody = pause.replace("on = \"client 3\"\n", "");
    let late = "\"hold\", after = \"2s\" }";
    wrong(&anybody, "\"hold\" }", late, "whom does it strike", "holder", "\"2s\"");
    wrong(pause, "phase = \"hold\"", "time = \"-1s\"", "negative", "", "\"-1s\"");
    wrong(pause, "phase = \"hold\"", "time = \"soon\"", "not a duration", "", "\"soon\"");
    wrong(pause, "phase = \"hold\"", "chance = 1.5", "from 0 to 1", "0.01", "1.5");
    wrong(pause, "phase = \"hold\"", "command = \"DEL k\"", "no command", "DEL", "\"DEL k\"");
    wrong(pause, "phase = \"hold\"", "command = \"\"", "no name", "DEL", "\"\"");
    let named = |name: &str| format!("chance = 0.5, command = \"{name}\"");
    let of = |name: &str, says| {
        wrong(pause, "phase = \"hold\"", &named(name), says, "DEL", &format!("\"{name}\""));
    };
    of("DEL k", "no command");
    of("", "no name");
    let dels = parse(&pause.replace("phase = \"hold\"", &named("DEL"))).unwrap();
    assert_eq!(dels.faults[0].at.when(), Some(When::Chance(Chance(0.5), Some("DEL"))));
    let nth = format!("{}, nth = 2 }}", named("DEL"));
    wrong(pause, "phase = \"hold\" }", &nth, "counts", "remove", "2 }");
    wrong(pause, "for = \"1s\"", "", "does not say `for`", "until", "[[fault]]");
    let itself = "until = { phase = \"hold\", by = \"itself\" }";
    wrong(pause, "for = \"1s\"", itself, "comes nowhere", "remove `by`", "{ phase = \"hold\", by");
    wrong(pause, "for = \"1s\"", "for = \"0s\"", "no time", "1ns", "\"0s\"");
    wrong(pause, "for = \"1s\"", "for = \"1s\"\nby = \"1s\"", "no use for `by`", "", "\"1s\"\n");
    wrong(pause, "for = \"1s\"", "four = \"1s\"", "four", "did you mean `for`?", "four");
    wrong(pause, "\"pause\"", "\"crash\"", "has no end", "comes_back", "\"1s\"");
    let crash = "[[fault]]\nkind = \"crash\"\nat = { time = \"1s\" }\ncomes_back = \"2s\"\n";
    assert_eq!(parse(crash).unwrap().faults[0].comes_back, Some("2s".parse().unwrap()));
    wrong(crash, "\"2s\"", "\"0s\"", "has not died", "1ns", "\"0s\"");
    wrong(crash, "\"crash\"", "\"flush\"", "no use for `comes_back`", "", "\"2s\"");
    let step = "[[fault]]\nkind = \"clock-step\"\non = \"server 0\"\nat = { time = \"1s\" }\nby = \"1s\"\n";
    wrong(step, "on = \"server 0\"\n", "", "whose clock", "client 1", "[[fault]]");
    wrong(step, "\"server 0\"", "\"any\"", "whose clock", "client 1", "\"any\"");
    wrong(step, "\"server 0\"", "\"server 1\"", "standalone, with server 0", "", "\"server 1\"");
    wrong(step, "by = \"1s\"\n", "", "does not say `by`", "-1s", "[[fault]]");
    wrong(step, "by = \"1s\"", "by = \"0s\"", "by nothing", "-1s", "\"0s\"");
    wrong(step, "by = \"1s\"", "by = \"--1s\"", "negative", "", "\"--1s\"");
    let drift =
        "[[fault]]\nkind = \"drift\"\non = \"client 1\"\nat = { time = \"0s\" }\nppm = -999999\n";
    wrong(drift, "-999999", "-1000000", "ppm is -1000000", "500", "-1000000");
    wrong(drift, "-999999", "0", "ppm is 0", "500", "0");
    wrong(drift, "ppm = -999999\n", "", "does not say `ppm`", "500", "[[fault]]");
}

#[test]
fn servers_that_cannot_be_had_are_shown_in_their_place() {
    let failover = format!(
        "{REPLICATED}[[fault]]\nkind = \"failover\"\non = \"primary\"\nat = {{ time = \"1s\" }}\n\
         for = \"1s\"\nto = \"server 1\"\n"
    );
    let alone = failover.replace(REPLICATED, "");
    let (message, advice, at) = refusal(&alone.replace("to = \"server 1\"\n", ""));
    assert!(message.contains("needs a replica") && advice.contains("replicated"), "{message}");
    assert!(at.starts_with("\"failover\""), "{at}");
    wrong(
        &failover,
        "to = \"server 1\"",
        "to = \"server 2\"",
        "servers 0 to 1",
        "",
        "\"server 2\"",
    );
    wrong(&failover, "to = \"server 1\"", "to = \"any\"", "no server", "server 1", "\"any\"");
    wrong(&failover, "\"primary\"", "\"server 0\"", "of the primary", "remove", "\"server 0\"");
    wrong(&failover, "\"primary\"", "\"holder\"", "is a client", "primary", "\"holder\"");
    wrong(&failover, "for = \"1s\"\n", "", "does not say `for`", "1s", "[[fault]]");
    let split = failover.replace("\"failover\"", "\"split-brain\"");
    assert!(parse(&split).is_ok());
    wrong(&split, "for = \"1s\"\n", "", "does not say `for`", "1s", "[[fault]]");
    wrong(&split, "\"primary\"", "\"server 0\"", "of the primary", "remove", "\"server 0\"");
    let sentinels = "\"replicated\"\nsentinels = 3";
    wrong(&split, "\"replicated\"", sentinels, "sentinels decide", "remove", "\"split-brain\"");
    let until = "until = { phase = \"hold\" }\n";
    wrong(&failover, "for = \"1s\"\n", until, "no use for `until`", "", "{ phase");
    let power = format!(
        "{INDEPENDENT}nodes = 5\n[[fault]]\nkind = \"power-loss\"\non = \"server 4\"\n\
         at = {{ time = \"1s\" }}\nfor = \"1s\"\n"
    );
    wrong(&power, "\"server 4\"", "\"server 5\"", "servers 0 to 4", "", "\"server 5\"");
    wrong(&power, "\"server 4\"", "\"primary\"", "no primary", "server 0", "\"primary\"");
    wrong(&power, "on = \"server 4\"\n", "", "no primary", "server 0", "[[fault]]");
    wrong(&power, "nodes = 5", "nodes = 0", "nodes is 0", "", "0\n");
    wrong(&power, "nodes = 5", "nodes = 64", "nodes is 64", "", "64\n");
    wrong(&power, "nodes = 5", "replicas = 5", "belongs to the kind \"replicated\"", "", "5\n");
    wrong(&power, "nodes = 5", "sentinels = 3", "belongs to the kind \"replicated\"", "", "3\n");
    wrong(&power, "nodes = 5", "nodes = -1", "whole number", "", "-1");
    wrong(REPLICATED, "kind =", "sentinels = 0\nkind =", "sentinels is 0", "", "0\n");
    let cluster = "[topology]\nkind = \"cluster\"\nnodes = 4\n";
    assert_eq!(parse(cluster).unwrap().topology(), Topology::Cluster { nodes: 4 });
    wrong(cluster, "nodes = 4", "replicas = 4", "belongs to the kind \"replicated\"", "", "4\n");
    wrong(&power, "\"independent\"", "\"dependent\"", "dependent", "independent", "\"dependent\"");
    wrong(REPLICATED, "\"1ms\"", "\"6ms\"", "longer than the longest", "", "{ min");
    let swarm = |more: &str| set("", &[("swarm.failovers", more)]);
    assert!(swarm("0").is_ok());
    assert!(swarm("1").unwrap_err().to_string().contains("needs a replica"));
}
