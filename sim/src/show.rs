//! `picklock show`: describes a scenario or a recipe.
//!
//! Invariant: everything shown comes from the scenario's file or from the recipe.

use std::fmt::Write;

use history::fault::{By, Staged, When};
use history::nearest::nearest;
use scenarios::catalog;
use scenarios::recipe::{self, About};
use scenarios::scenario::{Expectation, Overrides, Scenario};
use scenarios::topology::{AppendOnly, TopologyKind};

use super::failure::{Failure, did_you_mean};

/// The description, for stdout; of a scenario with a recipe, if one is given.
pub(super) fn text(name: &str, lock: Option<&str>, toml: bool) -> Result<String, Failure> {
    let is_scenario = catalog::ALL.iter().any(|(known, _)| *known == name);
    if is_scenario {
        return match (lock, toml) {
            (None, true) => Ok(catalog::text(name).unwrap_or_default().to_owned()),
            (_, false) => Ok(of_scenario(&scenario(name, lock)?, lock)),
            (Some(_), true) => scenario(name, lock)?.to_toml().map_err(Failure::usage),
        };
    }
    if let Ok(about) = recipe::about(name) {
        if lock.is_some() || toml {
            let help = format!("`picklock show {name}` describes it");
            return Err(Failure::usage_text(format!("{name} is a recipe, not a scenario"), help));
        }
        return Ok(of_recipe(about));
    }
    let recipes = recipe::ALL.into_iter().map(|about| about.name);
    let names = catalog::ALL.into_iter().map(|(name, _)| name).chain(recipes);
    let help = did_you_mean(nearest(name, names), "`picklock list` shows the names");
    Err(Failure::usage_text(format!("no scenario or recipe is called {name:?}"), help))
}

/// A scenario of the catalogue, with this recipe.
fn scenario(name: &str, lock: Option<&str>) -> Result<Scenario, Failure> {
    let overrides = Overrides { lock: lock.map(str::to_owned), ..Overrides::default() };
    let text = catalog::text(name).unwrap_or_default();
    Scenario::parse(name, &format!("{name}.toml"), text, &overrides).map_err(Failure::usage)
}

fn of_scenario(scenario: &Scenario, asked: Option<&str>) -> String {
    let lock = &scenario.lock;
    let mut text = format!("{}: {}\n\n{}\n", scenario.name, scenario.title, scenario.story.trim());
    if let Some(variant) = scenario.variant().filter(|_| asked.is_some()) {
        let _ = writeln!(text, "\nWith {}:\n{}", lock.recipe, variant.story.trim());
    }
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<12}{value}");
    };
    line("source", scenario.source.clone());
    for (number, title) in catalog::articles(&scenario.source) {
        line("", format!("article {number}: {title}"));
    }
    line("tests", scenario.properties.join(", "));
    line("clients", scenario.clients.to_string());
    line("lock", format!("{}, TTL {}", lock.recipe, lock.ttl));
    let (retries, pause, jitter) = (lock.retries, lock.pause, lock.jitter);
    line("tries", format!("1 + {retries} retries, {pause} apart plus up to {jitter} of jitter"));
    let rounds = match scenario.workload.rounds() {
        1 => String::new(),
        rounds => format!(", {rounds} times per client"),
    };
    line("work", format!("{} under the lock{rounds}", scenario.hold()));
    line("latency", format!("{} each way", scenario.network.latency));
    for link in &scenario.network.link {
        line("", format!("{} each way for {link}", link.latency));
    }
    line("servers", servers(scenario));
    for fault in &scenario.faults {
        line("fault", staged(fault));
    }
    if scenario.swarm.searched {
        line("faults", "random per seed, within [swarm]".to_owned());
    }
    let others = scenario.variants.iter().filter(|_| asked.is_none());
    for variant in others {
        let story = variant.story.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "\nwith {}:\n  {story}", variant.locks.join(", "));
        let _ = writeln!(
            text,
            "  (details: picklock show {} --lock {})",
            scenario.name, variant.locks[0]
        );
    }
    text += "\nexpected:\n";
    text += &match asked.and_then(|lock| Some((lock, scenario.expectation(lock)?))) {
        Some((lock, of_asked)) => expected(std::slice::from_ref(of_asked), Some(lock)),
        None => expected(&scenario.expect, asked),
    };
    text += &searched(scenario, asked);
    let world = match scenario.only_virtual() {
        Some(_) => " --world virtual --seeds 0..1000",
        None => "",
    };
    let (name, lock) = (&scenario.name, asked.unwrap_or("RECIPE"));
    let lock = if asked.is_some() { format!("--lock {lock}") } else { format!("[--lock {lock}]") };
    let _ = writeln!(text, "\nrun it: picklock --scenario {name}{world} {lock}");
    if scenario.search.is_some() {
        let many = "--world virtual --searched --seeds 0..1000";
        let _ = writeln!(text, "search: picklock --scenario {name} {many} {lock}");
    }
    text
}

/// The expected verdicts and the reasons; of one recipe, if given.
fn expected(expect: &[Expectation], asked: Option<&str>) -> String {
    let mut text = String::new();
    for it in expect {
        let locks = match asked {
            Some(lock) => lock.to_owned(),
            None if it.locks.iter().any(|lock| lock == "*") => {
                "every lock not named below".to_owned()
            }
            None => it.locks.join(", "),
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

/// What the searched form has instead of staged faults, and what it expects; of one recipe, if given.
fn searched(scenario: &Scenario, asked: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(why) = &scenario.unsearched {
        let _ = writeln!(text, "\nno searched form: {why}");
    }
    let Some(search) = &scenario.search else { return text };
    text += "\nthe searched form stages no faults; instead:\n";
    let mut lines = search.swarm.descriptions();
    if lines.is_empty() {
        lines.push("no faults: only latencies vary".to_owned());
    }
    lines.extend(search.clients.map(|it| format!("{it} clients contend")));
    lines.extend(search.hold.map(|it| format!("work takes {it} under the lock")));
    lines.extend(search.rounds.map(|it| format!("each client acquires {it} times")));
    lines.extend(search.think.map(|it| format!("it pauses for {it} in between")));
    lines.extend(
        search.available_within.map(|it| format!("a free lock must be available within {it}")),
    );
    for it in lines {
        let _ = writeln!(text, "  {it}");
    }
    let differing = match asked {
        Some(lock) => {
            let of_asked = search.expect.iter().rev().find(|it| it.names(lock));
            of_asked.map_or(String::new(), |it| expected(std::slice::from_ref(it), asked))
        }
        None => expected(&search.expect, None),
    };
    if !differing.is_empty() {
        text += "\nexpected, where it differs from above:\n";
        text += &differing;
    }
    text
}

fn servers(scenario: &Scenario) -> String {
    let mut text = scenario.topology().to_string();
    if scenario.kind() == TopologyKind::Replicated {
        let _ = write!(text, ", {} behind", scenario.topology.lag(1));
        let others = (2..scenario.topology().servers())
            .map(|server| (server, scenario.topology.lag(server)));
        for (server, lag) in others.filter(|(_, lag)| *lag != scenario.topology.lag(1)) {
            let _ = write!(text, ", server {server} {lag}");
        }
    }
    text + match scenario.server.append_only {
        AppendOnly::Off => "",
        AppendOnly::Always => "; append-only file synced before every reply",
        AppendOnly::Everysec => "; append-only file synced every second",
        AppendOnly::Unsynced => "; append-only file never synced",
    }
}

/// A staged fault: what, on whom, when, and for how long.
fn staged(fault: &Staged) -> String {
    let nth = |nth: u32| {
        let nth = if nth == 1 { String::new() } else { format!(", time {nth}") };
        nth + &fault.at.after.map_or(String::new(), |after| format!(", {after} later"))
    };
    let mut text = format!("{} of {}", fault.kind.name(), fault.whom());
    let _ = match fault.at.when() {
        Some(When::Phase(phase, at)) => write!(text, ", at {}{}", phase.name(), nth(at)),
        Some(When::Command(name, at)) => write!(text, ", at its {name}{}", nth(at)),
        Some(When::Time(_)) | None => match fault.at.time {
            Some(after) => write!(text, ", {after} after the start"),
            None => Ok(()),
        },
        Some(When::Chance(chance, name)) => {
            write!(text, ", at {} % of all {}", chance.0 * 100.0, name.unwrap_or("commands"))
        }
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
    for (number, title) in catalog::articles(about.from) {
        line("", &format!("article {number}: {title}"));
    }
    line("validity", about.validity.name());
    line("known flaw", about.flaw.unwrap_or("none known"));
    for assumption in about.assumes {
        line("assumes", assumption);
    }
    text
}
