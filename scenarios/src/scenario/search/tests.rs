//! Searched forms, right and wrong.

use std::time::Duration;

use history::verdict::{Level, Outcome};

use super::super::Overrides;
use super::*;
use crate::catalog;
use crate::scenario::ScenarioError;
use crate::scenario::tests::setting;

/// The file of a story that is staged, without a searched form.
fn file() -> String {
    let text = catalog::text("crash-holder").unwrap();
    let (before, rest) = text.split_once("[search]").unwrap_or((text, ""));
    let at = rest.find("[[expect]]").unwrap_or(0);
    format!("{before}{}", &rest[at..])
}

fn parse(text: &str, overrides: &Overrides) -> Result<Scenario, ScenarioError> {
    Scenario::parse("test", "test.toml", text, overrides)
}

fn searched(set: &[(&str, &str)]) -> Overrides {
    Overrides { searched: true, ..setting(set) }
}

const SEARCH: &str = "
[search]
clients = 7
rounds = 3
think = \"5ms\"
swarm = { order = true, crash = 0.01 }

[[search.expect]]
locks = [\"no-ttl\"]
key = \"n/a\"
belief = \"held\"
effect = \"held\"
progress = \"violated\"
why = \"for a test\"
";

#[test]
fn the_searched_form_stages_nothing_and_changes_what_it_names() {
    let text = file() + SEARCH;
    let staged = parse(&text, &Overrides::default()).unwrap();
    assert_eq!((staged.clients, staged.workload.rounds()), (4, 1));
    assert!(!staged.faults.is_empty() && !staged.swarm.searched);
    assert_eq!(staged.expected("no-ttl", Level::Key), Outcome::Held);

    let found = parse(&text, &searched(&[])).unwrap();
    assert_eq!((found.clients, found.workload.rounds()), (7, 3));
    let WorkloadPart::Register(register) = &found.workload else { panic!("another workload") };
    assert_eq!(register.think, Span(Duration::from_millis(5)));
    assert!(found.faults.is_empty() && found.swarm.searched && found.swarm.order);
    assert_eq!(found.swarm.crash.per_64k(), 656);
    assert_eq!(found.expected("no-ttl", Level::Key), Outcome::NotApplicable, "the last decides");
    assert_eq!(found.expected("single", Level::Key), Outcome::Held, "the others are as they were");
    // As it ran it is one that is searched for, and runs again as such.
    assert_eq!(found.search, None);
    let again = Scenario::from_json(serde_json::to_value(&found).unwrap()).unwrap();
    assert_eq!(again, found);
}

#[test]
fn what_the_command_line_says_wins() {
    let text = file() + SEARCH;
    let set = [("clients", "2"), ("workload.register.rounds", "9"), ("search.swarm.crash", "0.5")];
    let found = parse(&text, &searched(&set)).unwrap();
    assert_eq!((found.clients, found.workload.rounds()), (2, 9));
    assert_eq!(found.swarm.crash.per_64k(), 32_768);
    let more = Overrides { clients: Some(5), ..searched(&[]) };
    assert_eq!(parse(&text, &more).unwrap().clients, 5);
    for (path, value) in [("swarm.crash", "0.5"), ("expect.0.why", "else")] {
        let error = parse(&text, &searched(&[(path, value)])).unwrap_err();
        assert!(error.to_string().contains("the searched form has nothing of it"), "{error}");
        assert_eq!(error.offset(), None, "the file is not to blame");
    }
}

#[test]
fn a_form_that_is_not_there_is_refused_with_the_reason() {
    let error = parse(&file(), &searched(&[])).unwrap_err();
    assert_eq!(error.to_string(), "test has no searched form: its file has no [search]");
    assert!(error.advice().unwrap().contains("[search.swarm]"));
    let text = format!("unsearched = \"it needs no fault\"\n{}", file());
    assert!(parse(&text, &Overrides::default()).unwrap().unsearchable().is_some());
    let error = parse(&text, &searched(&[])).unwrap_err();
    assert_eq!(error.to_string(), "test has no searched form: it needs no fault");
    assert_eq!(error.advice(), Some("name a scenario that has one, or omit --searched"));
    let at = error.offset().unwrap();
    assert!(text[at..].starts_with("\"it needs"));
}

#[test]
fn what_is_searched_for_as_it_is_has_no_other_form() {
    let text = catalog::text("late-messages").unwrap();
    let one = parse(text, &Overrides::default()).unwrap();
    assert_eq!(one.unsearchable(), None);
    assert_eq!(parse(text, &searched(&[])).unwrap(), one);
}

#[test]
fn what_cannot_be_is_shown_in_its_place_whether_it_is_asked_for_or_not() {
    for (search, says, place) in [
        ("[search]\nclients = 0", "at least one client", "0"),
        ("[search]\nclients = 100001", "the most", "100001"),
        ("[search]\nrounds = 0", "nobody would ever ask", "0"),
        ("[search]\nround = 2", "unknown field", "round"),
        ("[search.swarm]\ncrash = 1.5", "from 0 to 1", "1.5"),
        ("[search.swarm]\ncrush = 0.5", "unknown field", "crush"),
        ("[search.swarm]\nsearched = true", "is searched for", "true"),
        ("[search.swarm]\nfailovers = 1", "needs a replica", "1"),
    ] {
        let text = format!("{}\n{search}\n", file());
        for overrides in [Overrides::default(), searched(&[])] {
            let error = parse(&text, &overrides).unwrap_err();
            assert!(error.to_string().contains(says), "{search}: {error}");
            let at = error.offset().map_or("", |at| &text[at..]);
            assert!(at.starts_with(place), "{search}: the span begins at {at:.20}");
        }
    }
    let unknown = (file() + SEARCH)
        .replace("locks = [\"no-ttl\"]\nkey = \"n/a\"", "locks = [\"x\"]\nkey = \"n/a\"");
    let error = parse(&unknown, &searched(&[])).unwrap_err();
    assert!(unknown[error.offset().unwrap()..].starts_with("\"x\""), "{error}");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let refused = |text: &str, says: &str| {
        let error = parse(text, &Overrides::default()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    };
    refused(&format!("unsearched = \"why\"\n{}{SEARCH}", file()), "and has one");
    refused(
        &format!("{}\n[swarm]\nsearched = true\n{SEARCH}", file()),
        "this form is the searched",
    );
    let pool = catalog::text("bonus-pool").unwrap();
    let (before, _) = pool.split_once("[search]").unwrap_or((pool, ""));
    refused(&format!("{before}\n[search]\nrounds = 2\n"), "belongs to [workload.register]");
    refused(&format!("{before}\n[search]\nthink = \"1s\"\n"), "belongs to [workload.register]");
}
