//! Scenario files and overrides, right and wrong.

use std::time::Duration;

use super::*;
use crate::catalog;

fn pool() -> &'static str {
    catalog::text("bonus-pool").unwrap()
}

/// These keys are set on the command line.
pub(super) fn setting(set: &[(&str, &str)]) -> Overrides {
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Overrides { set, ..Overrides::default() }
}

fn parse(text: &str, overrides: &Overrides) -> Result<Scenario, ScenarioError> {
    Scenario::parse("test", "test.toml", text, overrides)
}

/// The error of the pool's file with one text replaced, and the text that its span begins at.
fn refusal(from: &str, to: &str) -> (String, Option<String>, String) {
    let text = pool().replacen(from, to, 1);
    assert_ne!(text, pool(), "nothing was replaced");
    let error = parse(&text, &Overrides::default()).unwrap_err();
    let at = error.offset().map_or("", |offset| &text[offset..]);
    (error.to_string(), error.advice().map(str::to_owned), at.to_owned())
}

#[test]
fn the_file_says_what_is_run() {
    let scenario = parse(pool(), &Overrides::default()).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.clients), ("test", 100));
    assert_eq!(scenario.lock.ttl.0, Duration::from_secs(1));
    assert!(scenario.remarks().is_empty());
    assert_eq!(scenario.commands_within.map(commands_milli), None);
    for (asked, milli) in [("2.1", 2_100), ("0", 0), ("1000000000", 1_000_000_000_000)] {
        let asked = parse(pool(), &setting(&[("commands_within", asked)])).unwrap();
        assert_eq!(asked.commands_within.map(commands_milli), Some(milli));
    }
    assert_eq!(scenario.expectation("single").unwrap().effect, Outcome::Held);
    assert_eq!(scenario.expectation("none").unwrap().effect, Outcome::Violated);
}

#[test]
fn a_misspelt_key_is_shown_with_the_nearest_name() {
    let (message, help, at) = refusal("retries = 5", "retrys = 5");
    assert!(message.contains("retrys"), "{message}");
    assert_eq!(help.as_deref(), Some("did you mean `retries`?"));
    assert!(at.starts_with("retrys"), "{at}");
    let (message, help, at) = refusal("[workload.bonus_pool]", "[workload.bonus_pol]");
    assert!(message.contains("bonus_pol"), "{message}");
    assert_eq!(help.as_deref(), Some("did you mean `bonus_pool`?"));
    assert!(at.starts_with("bonus_pol"), "{at}");
}

#[test]
fn a_value_of_another_kind_is_refused_in_words_of_the_file() {
    let refused =
        |key: &str, value: &str| parse(pool(), &setting(&[(key, value)])).unwrap_err().to_string();
    let said = refused("workload", "5");
    assert!(said.ends_with("expected a name or a table"), "{said}");
    for value in ["99999999999999999999", "-99999999999999999999"] {
        let said = refused("workload.bonus_pool.prizes", value);
        assert!(said.ends_with(": no number is beyond 9223372036854775807"), "{said}");
    }
    let (said, ..) = refusal("delay = { chance = 0.02, max = \"50ms\" }", "delay = \"0ms\"");
    assert!(said.ends_with("expected a table"), "{said}");
}

#[test]
fn a_name_that_no_directory_can_have_is_refused() {
    let named = |bytes: usize| {
        let text = format!("name = \"{}\"\n{}", "x".repeat(bytes), pool());
        parse(&text, &Overrides::default())
    };
    assert_eq!(named(200).unwrap().name.len(), 200);
    let error = named(201).unwrap_err();
    assert!(error.to_string().contains("200 is the most"), "{error}");
    assert_eq!(error.offset(), Some("name = ".len()));
}

#[test]
fn who_drops_says_what() {
    let dropping = |drop: &str| {
        let text = catalog::text("long-job").unwrap();
        parse(text, &setting(&[("workload.register.drop", drop)])).map(|it| it.workload)
    };
    for (drop, says) in [
        ("{ every = 0, guard = true }", "1 drops each acquisition"),
        ("{ every = 2 }", "it drops nothing"),
        ("{ every = 2, guard = false }", "it drops nothing"),
        ("{ guards = true }", "unknown field"),
    ] {
        let error = dropping(drop).unwrap_err().to_string();
        assert!(error.contains(says), "{drop}: {error}");
    }
    let WorkloadPart::Register(register) = dropping("{ after = '1ms' }").unwrap() else { panic!() };
    let each = register.drop.unwrap();
    assert!((0..4).all(|round| each.strikes(round)));
    let second = DropPart { every: 2, ..each };
    assert_eq!([0, 1, 2, 3].map(|round| second.strikes(round)), [true, false, true, false]);
}

#[test]
fn a_misspelt_recipe_is_shown_with_the_nearest_name() {
    let (message, help, at) = refusal("recipe = \"single\"", "recipe = \"singel\"");
    assert!(message.contains("\"singel\""), "{message}");
    assert_eq!(help.as_deref(), Some("did you mean `single`?"));
    assert!(at.starts_with("\"singel\""), "{at}");
}

#[test]
fn values_that_cannot_be_run_are_shown_in_their_place() {
    for (from, to, says, place) in [
        ("clients = 100", "clients = 0", "at least one client", "0"),
        ("clients = 100", "clients = 100001", "the most", "100001"),
        ("clients = 100", "clients = -1", "whole number", "-1"),
        ("clients = 100", "clients = 9\ncommands_within = -0.1", "from 0 to 1000000000", "-0.1"),
        ("clients = 100", "clients = 9\ncommands_within = 1000000001", "from 0", "1000000001"),
        ("clients = 100", "clients = 9\ncommands_within = nan", "from 0", "nan"),
        ("ttl = \"1s\"", "ttl = \"0s\"", "protects nothing", "\"0s\""),
        ("ttl = \"1s\"", "ttl = \"-1s\"", "negative", "\"-1s\""),
        ("ttl = \"1s\"", "ttl = \"99999999999999999999s\"", "too long", "\"9999"),
        ("ttl = \"1s\"", "ttl = \"1500us\"", "whole milliseconds", "\"1500us\""),
        ("ttl = \"1s\"", "ttl = 1000", "duration", "1000"),
        ("ttl = \"1s\"", "ttl = \"1s\"\ngive_up = \"0s\"", "waits for nothing", "\"0s\""),
        (
            "min = \"200us\", max = \"2ms\"",
            "min = \"501ms\", max = \"2s\"",
            "no request is answered within 1s 2ms",
            "\"1s\"",
        ),
        ("min = \"200us\"", "min = \"3ms\"", "longer than the longest", "{ min"),
        ("prizes = 10", "prizes = 0", "nothing to fight over", "0"),
        ("title = ", "title ", "", "\"A hundred"),
        ("locks = [\"none\"]", "locks = [\"*\", \"nonne\"]", "nonne", "\"nonne\""),
        ("[lock]", "lock = 5\n[lok]", "expected a table", "5"),
    ] {
        let (message, _, at) = refusal(from, to);
        assert!(message.contains(says), "{to}: {message}");
        assert!(at.starts_with(place), "{to}: the span begins at {at:.20}");
    }
}

#[test]
fn overrides_are_checked_like_the_file_and_blamed_on_the_command_line() {
    let zero = Overrides { clients: Some(0), ..Overrides::default() };
    let error = parse(pool(), &zero).unwrap_err();
    assert_eq!(error.offset(), None, "the file is not to blame");
    let lock = Overrides { lock: Some("polling".to_owned()), ..Overrides::default() };
    assert_eq!(parse(pool(), &lock).unwrap().lock.recipe, "polling");
    let unknown = Overrides { lock: Some("paxos".to_owned()), ..Overrides::default() };
    assert!(parse(pool(), &unknown).unwrap_err().advice().unwrap().contains("single-watchdog"));
}

#[test]
fn any_key_can_be_set() {
    let set = |path: &str, value: &str| parse(pool(), &setting(&[(path, value)]));
    let scenario = set("workload.bonus_pool.prizes", "3").unwrap();
    assert_eq!(scenario.workload, {
        let hold = Span(Duration::from_millis(2));
        WorkloadPart::BonusPool(BonusPoolPart { prizes: 3, hold })
    });
    assert_eq!(set("lock.ttl", "250ms").unwrap().lock.ttl.0, Duration::from_millis(250));
    assert_eq!(set("lock.ttl", "\"250ms\"").unwrap().lock.ttl.0, Duration::from_millis(250));
    let error = set("lock.tll", "1s").unwrap_err();
    assert!(error.to_string().starts_with("--set lock.tll=1s: "), "{error}");
    assert_eq!(error.advice(), Some("did you mean `ttl`?"));
    assert_eq!(set("lok.ttl", "1s").unwrap_err().advice(), Some("did you mean `lock`?"));
    assert!(set("lock.ttl", "0s").unwrap_err().offset().is_none());
}

#[test]
fn work_longer_than_the_ttl_is_remarked_on() {
    let hold = Some(Span(Duration::from_millis(1001)));
    let scenario = parse(pool(), &Overrides { hold, ..Overrides::default() }).unwrap();
    assert_eq!(scenario.remarks().len(), 1);
    let hold = Some(Span(Duration::from_secs(1)));
    let scenario = parse(pool(), &Overrides { hold, ..Overrides::default() }).unwrap();
    assert!(scenario.remarks().is_empty(), "both sides of the boundary");
}

#[test]
fn the_registers_work_is_set_and_its_rounds_are_counted() {
    let register = |more: &str, overrides: &Overrides| {
        let before = pool().split("[workload.bonus_pool]").next().unwrap();
        parse(&format!("{before}[workload.register]\nhold = \"5ms\"\n{more}"), overrides)
    };
    let plain = Overrides::default();
    let scenario = register("", &plain).unwrap();
    assert_eq!((scenario.hold().to_string().as_str(), scenario.acquisitions()), ("5ms", 100));
    assert_eq!(scenario.resource(), Some(Node(1)), "behind the lock's own");
    assert_eq!(parse(pool(), &plain).unwrap().resource(), None);
    let hold = Some(Span(Duration::from_millis(9)));
    let longer = register("rounds = 3", &Overrides { hold, ..Overrides::default() }).unwrap();
    assert_eq!((longer.hold().to_string().as_str(), longer.acquisitions()), ("9ms", 300));
    let replicated = register("[topology]\nkind = \"replicated\"\nreplicas = 4", &plain).unwrap();
    assert_eq!(replicated.resource(), Some(Node(1)), "replicas are no nodes of clients");
    let five = register("[topology]\nkind = \"independent\"", &plain).unwrap();
    assert_eq!(five.resource(), Some(Node(5)));
    let none = register("rounds = 0", &plain).unwrap_err();
    assert!(none.to_string().contains("nobody would ever ask"), "{none}");
    assert!(none.offset().is_some());
    assert!(register("prizes = 3", &plain).unwrap_err().to_string().contains("prizes"));
}

#[test]
fn what_is_missing_is_named() {
    let (message, help, _) = refusal("retries = 5", "");
    assert!(message.contains("missing field `retries`"), "{message}");
    assert_eq!(help.as_deref(), Some("add `retries` there"));
    let without = pool().split("[workload.bonus_pool]").next().unwrap().to_owned() + "[workload]";
    let error = parse(&without, &Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("exactly one workload"), "{error}");
}

#[test]
fn a_line_that_nobody_has_written_is_not_printed() {
    let line = format!("x = {}", "[".repeat(10_000));
    let error = parse(&format!("# here\n{line}"), &Overrides::default()).unwrap_err();
    assert!(error.to_string().starts_with("test.toml:2:"), "{error}");
    assert_eq!(error.offset(), None);
}

#[test]
fn a_part_that_was_set_is_not_blamed_on_the_file() {
    let set = |path: &str, value: &str| parse(pool(), &setting(&[(path, value)])).unwrap_err();
    assert_eq!(set("network.latency.max", "1us").offset(), None);
    assert_eq!(set("network", "{ latency = { min = \"2ms\", max = \"1ms\" } }").offset(), None);
    let error = set("lock.ttl.x", "1");
    assert!(error.to_string().contains("`ttl` is no table"), "{error}");
    assert_eq!(error.advice(), None);
    assert!(set("nowhere.x", "1").to_string().contains("`lock`"), "the tables are named");
}

#[test]
fn a_fault_is_over_when_it_ends_by_itself() {
    let over_by = |at: &str| {
        let text = format!("{}\n[[fault]]\nkind = \"pause\"\non = \"client 1\"\n{at}", pool());
        parse(&text, &Overrides::default()).unwrap().faults[0].over_by().as_secs()
    };
    assert_eq!(over_by("at = { phase = \"wait\", after = \"1s\" }\nfor = \"2s\""), 3);
    assert_eq!(over_by("at = { time = \"4s\" }\nfor = \"2s\""), 6);
    assert_eq!(over_by("at = { phase = \"wait\" }\nuntil = { phase = \"released\" }"), 0);
}

#[test]
fn a_scenario_that_is_too_large_is_refused_with_the_most_that_can_be_had() {
    let text = catalog::text("gc-pause").unwrap();
    let set = |set: &[(&str, &str)]| parse(text, &setting(set));
    for (key, most, clients) in [
        ("workload.register.tasks", 100_000, "1"),
        ("workload.register.beside", 99_999, "1"),
        ("workload.register.steps", 100_000, "1"),
        ("workload.register.rounds", 100_000, "1"),
        ("search.rounds", 100_000, "1"),
        ("swarm.partitions", 1_000, "2"),
        ("swarm.power_losses", 1_000, "2"),
        ("swarm.server_crashes", 1_000, "2"),
        ("swarm.server_stalls", 1_000, "2"),
        ("search.swarm.partitions", 1_000, "2"),
    ] {
        let of = |count: u32| {
            let count = count.to_string();
            let rounds = ("workload.register.rounds", "1");
            set(&[rounds, ("clients", clients), ("fault", "[]"), (key, &count)])
        };
        assert!(of(most).is_ok(), "{key}: {:?}", of(most));
        let error = of(most + 1).unwrap_err().to_string();
        assert!(error.contains("is the most"), "{key}: {error}");
        let error = of(u32::MAX).unwrap_err().to_string();
        assert!(error.contains("is the most"), "{key}: {error}");
    }
    for (one, other, says) in [
        (("clients", "1001"), ("workload.register.tasks", "100"), "100100 tasks of all clients"),
        (("clients", "11"), ("workload.register.rounds", "100000"), "1100000 updates"),
        (("clients", "100000"), ("workload.register.steps", "100000"), "10000000000 updates"),
    ] {
        let rounds = ("workload.register.rounds", "1");
        let error = set(&[rounds, ("fault", "[]"), one, other]).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("is the most"), "{error}");
    }
    let comes_back = set(&[("swarm.comes_back", "999us")]).unwrap_err().to_string();
    assert!(comes_back.contains("1ms is the least"), "{comes_back}");
    assert!(set(&[("swarm.comes_back", "1ms")]).is_ok());
}

#[test]
fn the_lag_of_the_primary_is_refused() {
    let replica = |server: u32| {
        let topology = format!(
            "{{ kind = \"replicated\", replicas = 1, replica = [{{ server = {server}, lag = \"1s\" }}] }}"
        );
        parse(pool(), &setting(&[("topology", topology.as_str())]))
    };
    assert!(replica(1).is_ok());
    let error = replica(0).unwrap_err().to_string();
    assert!(error.contains("server 0 is the primary"), "{error}");
    assert!(replica(2).unwrap_err().to_string().contains("there is no server 2"));
}
