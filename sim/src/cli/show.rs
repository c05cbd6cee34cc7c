//! `picklock show`: the story of a scenario, or what there is to say of a recipe.
//!
//! Invariant: everything shown stands in the scenario's file or in the recipe's own.

use std::fmt::Write;

use scenarios::catalog;
use scenarios::fault::{By, Staged, When};
use scenarios::nearest::nearest;
use scenarios::recipe::{self, About};
use scenarios::scenario::{Expectation, Scenario};

use super::failure::Failure;

/// What there is to say, as printed on stdout.
pub(super) fn text(name: &str) -> Result<String, Failure> {
    if let Ok(about) = recipe::list::about(name) {
        return Ok(of_recipe(about));
    }
    let scenarios = catalog::all().map_err(Failure::usage)?;
    if let Some(scenario) = scenarios.iter().find(|it| it.name == name) {
        return Ok(of_scenario(scenario));
    }
    let recipes = recipe::list::ALL.into_iter().map(|about| about.name);
    let names = scenarios.iter().map(|it| it.name.as_str()).chain(recipes);
    let help = match nearest(name, names) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "`picklock list` shows the names".to_owned(),
    };
    Err(Failure::usage_text(format!("no scenario or recipe is called {name:?}"), help))
}

fn of_scenario(scenario: &Scenario) -> String {
    let lock = &scenario.lock;
    let mut text = format!("{}: {}\n\n{}\n", scenario.name, scenario.title, scenario.story.trim());
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<12}{value}");
    };
    line("source", scenario.source.clone());
    line("tests", scenario.properties.join(", "));
    line("clients", scenario.clients.to_string());
    line("lock", format!("{}, TTL {}", lock.recipe, lock.ttl));
    let (retries, pause, jitter) = (lock.retries, lock.pause, lock.jitter);
    line("tries", format!("1 and {retries} more, {pause} and up to {jitter} apart"));
    let rounds = match scenario.workload.rounds() {
        1 => String::new(),
        rounds => format!(", {rounds} times for each client"),
    };
    line("work", format!("{} under the lock{rounds}", scenario.hold()));
    line("latency", format!("{} each way", scenario.network.latency));
    for link in &scenario.network.link {
        line("", format!("{} each way for {link}", link.latency));
    }
    for fault in &scenario.faults {
        line("fault", staged(fault));
    }
    if scenario.swarm.searched {
        line("faults", "drawn by each seed, within the bounds of [swarm]".to_owned());
    }
    text += "\nexpected:\n";
    text += &expected(&scenario.expect);
    text += &searched(scenario);
    let world = match scenario.only_virtual() {
        Some(_) if scenario.swarm.searched => " --world virtual --seeds 0..1000",
        Some(_) => " --world virtual",
        None => "",
    };
    let _ =
        writeln!(text, "\nrun it: picklock --scenario {}{world} [--lock RECIPE]", scenario.name);
    if scenario.search.is_some() {
        let _ = writeln!(
            text,
            "search: picklock --scenario {} --world virtual --searched --seeds 0..1000 [--lock RECIPE]",
            scenario.name
        );
    }
    text
}

/// What is expected of whom, and why.
fn expected(expect: &[Expectation]) -> String {
    let mut text = String::new();
    for it in expect {
        let locks = if it.locks.iter().any(|lock| lock == "*") {
            "every other lock".to_owned()
        } else {
            it.locks.join(", ")
        };
        let levels = [
            ("key", it.key),
            ("belief", it.belief),
            ("effect", it.effect),
            ("progress", it.progress),
        ];
        let levels =
            levels.map(|(level, outcome)| format!("{level} {}", outcome.name())).join(", ");
        let _ = writeln!(text, "  {locks}: {levels}\n    ({})", it.why);
    }
    text
}

/// What the searched form has instead of what is staged.
fn searched(scenario: &Scenario) -> String {
    let mut text = String::new();
    if let Some(why) = &scenario.unsearched {
        let _ = writeln!(text, "\nthere is no searched form: {why}");
    }
    let Some(search) = &scenario.search else { return text };
    text += "\nin the searched form nothing is staged, and instead:\n";
    let mut told = search.swarm.told();
    if told.is_empty() {
        told.push("nothing befalls anybody: latencies differ, and that is all".to_owned());
    }
    told.extend(search.clients.map(|it| format!("{it} clients contend")));
    told.extend(search.hold.map(|it| format!("work takes {it} under the lock")));
    told.extend(search.rounds.map(|it| format!("each client acquires {it} times")));
    told.extend(search.think.map(|it| format!("it pauses for {it} in between")));
    told.extend(search.available_within.map(|it| format!("a free lock is to be had within {it}")));
    for it in told {
        let _ = writeln!(text, "  {it}");
    }
    if !search.expect.is_empty() {
        text += "\nexpected otherwise than above:\n";
        text += &expected(&search.expect);
    }
    text
}

/// A fault in words: what, on whom, when, and for how long.
fn staged(fault: &Staged) -> String {
    let nth = |nth: u32| if nth == 1 { String::new() } else { format!(", time {nth}") };
    let mut text = format!("{} of {}", fault.kind.name(), fault.whom());
    let _ = match fault.at.when() {
        Some(When::Phase(phase, at)) => write!(text, ", at {}{}", phase.name(), nth(at)),
        Some(When::Command(name, at)) => write!(text, ", at its {name}{}", nth(at)),
        Some(When::Time(_)) | None => match fault.at.time {
            Some(after) => write!(text, ", {after} after the start"),
            None => Ok(()),
        },
        Some(When::Chance(chance)) => write!(text, ", at {} % of all commands", chance.0 * 100.0),
    };
    if let Some(by) = fault.by {
        let _ = write!(text, ", by {by}");
    }
    if let Some(ppm) = fault.ppm {
        let _ = write!(text, ", by {ppm} ppm");
    }
    if let Some(span) = fault.lasts {
        let _ = write!(text, ", for {span}");
    }
    if let Some(until) = fault.until {
        let who = match until.by {
            By::Another => "another client",
            By::Any => "a client",
            By::Itself => "itself",
        };
        let _ = write!(text, ", until {who} comes to {}", until.phase.name());
    }
    text
}

fn of_recipe(about: &About) -> String {
    let mut text = format!("{}: {}\n\n", about.name, about.how);
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<12}{value}");
    };
    line("from", about.from);
    line("validity", about.validity.name());
    line("known flaw", about.flaw.unwrap_or("none known"));
    for assumption in about.assumes {
        line("assumes", assumption);
    }
    text
}
