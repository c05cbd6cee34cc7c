//! `picklock show`: the story of a scenario, or what there is to say of a recipe.
//!
//! Invariant: everything shown stands in the scenario's file or in the recipe's own.

use std::fmt::Write;

use scenarios::catalog;
use scenarios::nearest::nearest;
use scenarios::recipe::{self, About};
use scenarios::scenario::Scenario;

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
    text += "\nexpected:\n";
    for it in &scenario.expect {
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
    let _ = writeln!(text, "\nrun it: picklock --scenario {} [--lock RECIPE]", scenario.name);
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
