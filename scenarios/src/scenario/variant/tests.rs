//! What recipes meet instead, right and wrong.

use history::fault::{Fault, Whom};

use crate::catalog;
use crate::distribution::Distribution;
use crate::scenario::tests::setting;
use crate::scenario::{Overrides, Scenario, ScenarioError};
use crate::topology::{AppendOnly, Topology};

const FIVE: Topology = Topology::Independent { nodes: 5 };

/// A fault that a quorum recipe cannot meet, and what it meets instead.
const VARIED: &str = r#"
[server]
append_only = "always"

[[fault]]
kind = "server-crash"
on = "primary"
at = { time = "1s" }
for = "1s"

[[variant]]
locks = ["redlock"]
story = "One of five."

[[variant.fault]]
kind = "power-loss"
on = "server 4"
at = { time = "2s" }
for = "3s"
"#;

fn text(more: &str) -> String {
    format!("{}\n{more}", catalog::text("bonus-pool").unwrap())
}

fn with(lock: &str, more: &str, set: &[(&str, &str)]) -> Result<Scenario, ScenarioError> {
    let lock = Some(lock.to_owned());
    Scenario::parse("x", "x.toml", &text(more), &Overrides { lock, ..setting(set) })
}

#[test]
fn a_recipe_has_the_servers_it_is_made_for_where_nothing_else_is_said() {
    let topology = |lock: &str, more: &str| with(lock, more, &[]).unwrap().topology();
    assert_eq!(topology("single", ""), Topology::Standalone);
    assert_eq!(topology("redlock", ""), FIVE);
    assert_eq!(topology("single-wait", ""), Topology::Replicated { replicas: 1 });
    let said = "[topology]\nkind = \"standalone\"\n";
    for lock in ["single", "redlock", "single-wait"] {
        assert_eq!(topology(lock, said), Topology::Standalone, "{lock}");
        let set = with(lock, "", &[("topology.kind", "replicated")]).unwrap();
        assert_eq!(set.topology(), Topology::Replicated { replicas: 1 }, "{lock}");
    }
    assert_eq!(topology("redlock", "[topology]\nnodes = 3\n"), Topology::Independent { nodes: 3 });
    let error = with("single", "[topology]\nnodes = 3\n", &[]).unwrap_err();
    assert!(error.to_string().contains("belongs to the kind \"independent\""), "{error}");
}

#[test]
fn a_replica_that_only_the_recipe_asks_for_is_a_little_behind() {
    let lag = |more: &str, server| {
        with("single-wait", more, &[]).unwrap().topology.lag(server).to_string()
    };
    assert_eq!(lag("", 1), "constant:1ms");
    let replicated = "[topology]\nkind = \"replicated\"\n";
    assert_eq!(lag(replicated, 1), Distribution::default().to_string());
    assert_eq!(lag("[topology]\nlag = \"7ms\"\n", 1), "constant:7ms");
    let own = format!("{replicated}lag = \"7ms\"\nreplica = [{{ server = 1, lag = \"9ms\" }}]\n");
    assert_eq!([lag(&own, 0), lag(&own, 1)], ["constant:7ms", "constant:9ms"]);
}

#[test]
fn a_section_of_a_variant_takes_the_place_of_the_scenarios_own() {
    let single = with("single", VARIED, &[]).unwrap();
    assert!(single.variant().is_none());
    assert_eq!(
        (single.faults[0].kind, single.faults[0].whom()),
        (Fault::ServerCrash, Whom::Primary)
    );
    let redlock = with("redlock", VARIED, &[]).unwrap();
    assert_eq!(redlock.variant().unwrap().story, "One of five.");
    let [fault] = &redlock.faults[..] else { panic!("all of them are replaced") };
    assert_eq!((fault.kind, fault.whom()), (Fault::PowerLoss, Whom::Server(4)));
    assert_eq!(redlock.topology(), FIVE);
    assert_eq!(redlock.server.append_only, AppendOnly::Always, "what it does not say stays");
    let bare = VARIED.replace("[[variant.fault]]", "[[variant.fault]]\n# no\n");
    assert_eq!(with("redlock", &bare, &[]).unwrap().faults, redlock.faults);
    let none = VARIED.split("[[variant.fault]]").next().unwrap().to_owned() + "fault = []\n";
    assert!(with("redlock", &none, &[]).unwrap().faults.is_empty(), "nothing strikes it");
}

#[test]
fn a_variant_may_have_a_ttl_of_its_own() {
    let varied =
        VARIED.replace("[[variant.fault]]", "lock = { ttl = \"9s\" }\n\n[[variant.fault]]");
    let ttl =
        |lock: &str, set: &[(&str, &str)]| with(lock, &varied, set).unwrap().lock.ttl.to_string();
    assert_ne!(ttl("single", &[]), "9s");
    assert_eq!(ttl("redlock", &[]), "9s");
    assert_eq!(ttl("redlock", &[("lock.ttl", "7s")]), "7s", "the user has the last word");
    assert_eq!(ttl("redlock", &[("lock.retries", "1")]), "9s");
    for lock in ["single", "redlock"] {
        let more = varied.replace("\"9s\"", "\"0s\"");
        let error = with(lock, &more, &[]).unwrap_err();
        assert!(error.to_string().contains("the TTL is 0"), "{error}");
        assert!(
            text(&more)[error.offset().unwrap()..].starts_with("\"0s\""),
            "{lock}: its place is named"
        );
    }
    let error = with("single", &varied.replace("ttl = \"9s\"", "retries = 1"), &[]).unwrap_err();
    assert!(error.to_string().contains("retries"), "{error}");
}

#[test]
fn what_is_set_is_set_of_what_the_recipe_meets() {
    let set = [("lock.recipe", "redlock"), ("fault.0.for", "9s")];
    for set in [&set[..], &[set[1], set[0]]] {
        let scenario = Scenario::parse("x", "x.toml", &text(VARIED), &setting(set)).unwrap();
        assert_eq!(scenario.faults[0].whom(), Whom::Server(4));
        assert_eq!(scenario.faults[0].lasts_ns(), Some(9_000_000_000));
    }
    let one = [("topology.kind", "standalone"), ("fault.0.on", "server 0")];
    assert_eq!(with("redlock", VARIED, &one).unwrap().topology(), Topology::Standalone);
    let error = with("redlock", VARIED, &[("fault.0.on", "server 5")]).unwrap_err();
    assert_eq!(error.offset(), None, "the file is not to blame: {error}");
}

#[test]
fn every_scenario_is_the_same_again_from_a_manifest_and_as_toml() {
    for (name, text) in catalog::ALL {
        for about in crate::recipe::ALL {
            let lock = Some(about.name.to_owned());
            let overrides = Overrides { lock, ..Overrides::default() };
            let scenario = Scenario::parse(name, "x.toml", text, &overrides).unwrap();
            let json = serde_json::to_value(&scenario).unwrap();
            assert_eq!(Scenario::from_json(json).unwrap(), scenario, "{name} {}", about.name);
            let toml = scenario.to_toml().unwrap();
            let again = Scenario::parse(name, "x.toml", &toml, &Overrides::default());
            let mut alone = Scenario { variants: Vec::new(), ..scenario };
            alone.limits.retain(|of, _| *of == alone.lock.recipe);
            assert_eq!(again.unwrap(), alone, "{name} {}", about.name);
        }
    }
}

/// The refusal of the file with one text replaced, met with this recipe, and the text that its span begins
/// at.
#[track_caller]
fn refused(lock: &str, from: &str, to: &str, says: &str, advises: &str, place: &str) {
    let more = VARIED.replacen(from, to, 1);
    assert_ne!(more, VARIED, "nothing was replaced");
    let error = with(lock, &more, &[]).unwrap_err();
    let text = text(&more);
    let at = error.offset().map_or("nowhere", |offset| &text[offset..]);
    assert!(error.to_string().contains(says), "{to}: {error}");
    let advice = error.advice().unwrap_or_default();
    assert!(advice.contains(advises), "{to}: {advice}");
    assert!(at.starts_with(place), "{to}: the span begins at {at:.40}");
}

#[test]
fn a_variant_that_cannot_be_met_is_refused_in_its_place_whichever_recipe_runs() {
    for lock in ["single", "single-wait"] {
        let wrong = |from, to, says, advises, place| refused(lock, from, to, says, advises, place);
        wrong("\"server 4\"", "\"primary\"", "no primary", "[[variant]]", "\"primary\"");
        wrong("\"server 4\"", "\"server 5\"", "servers 0 to 4", "", "\"server 5\"");
        wrong("[\"redlock\"]", "[\"redlok\"]", "redlok", "did you mean `redlock`?", "\"redlok\"");
        wrong("[\"redlock\"]", "[\"redlock\", \"*\"]", "not for all", "itself", "\"*\"");
        wrong("[\"redlock\"]", "[]", "changes nothing", "locks", "[[variant]]");
        wrong("\"redlock\"]", "\"redlock\", \"redlok\"]", "redlok", "", "\"redlok\"");
        let single = "[\"redlock\", \"single\"]";
        wrong("[\"redlock\"]", single, "standalone, with server 0", "", "\"server 4\"");
        wrong("[[variant.fault]]", "[variant.workload]", "workload", "", "workload");
    }
    refused("redlock", "\"server 4\"", "\"primary\"", "no primary", "[[variant]]", "\"primary\"");
    refused("redlock", "\"server 4\"", "\"server 5\"", "servers 0 to 4", "", "\"server 5\"");
}

#[test]
fn a_recipe_has_one_variant_and_that_changes_something() {
    let twice = "[[variant]]\nlocks = [\"queue\", \"redlock\"]\nstory = \"s\"\nserver = {}\n";
    let error = with("single", &format!("{VARIED}{twice}"), &[]).unwrap_err();
    assert!(error.to_string().contains("redlock has another variant"), "{error}");
    let last = error.offset().unwrap();
    assert!(text(&format!("{VARIED}{twice}"))[last..].starts_with("\"redlock\"]\nstory = \"s\""));
    let idle = "[[variant]]\nlocks = [\"queue\"]\nstory = \"s\"\n";
    let error = with("single", &format!("{VARIED}{idle}"), &[]).unwrap_err();
    assert!(error.to_string().contains("changes nothing"), "{error}");
}

#[test]
fn a_fault_that_the_recipes_servers_cannot_have_asks_for_a_variant() {
    let bare = VARIED.split("[[variant]]").next().unwrap();
    assert!(with("single", bare, &[]).is_ok());
    let error = with("redlock", bare, &[]).unwrap_err();
    assert!(error.to_string().contains("redlock has 5 independent servers"), "{error}");
    assert!(error.advice().unwrap().contains("[[variant]]"));
    assert!(text(bare)[error.offset().unwrap()..].starts_with("\"primary\""));
    assert!(with("redlock", bare, &[("topology.kind", "standalone")]).is_ok());
}
