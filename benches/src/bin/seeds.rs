//! Seeds to a conviction: how long the searched form of each scenario takes to convict a flawed recipe.
//!
//! Prints a page, or writes it to the file that is named: `seeds FILE.md`. Invariant: the page
//! follows from the catalogue and the code alone, whatever machine made it.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use benches::seeds::{Claim, Searches, measure, searchable};
use reports::file;
use scenarios::catalog;
use scenarios::scenario::Scenario;

const SEARCHES: Searches = Searches { count: 101, most: 2_000 };
/// What is aimed at first, and then.
const AIMS: [u64; 2] = [100, 20];

fn main() -> Result<(), Box<dyn Error>> {
    let page = page()?;
    match std::env::args_os().nth(1) {
        Some(file) => file::write(Path::new(&file), &page)?,
        None => print!("{page}"),
    }
    Ok(())
}

fn page() -> Result<String, Box<dyn Error>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let claims = measure(&searchable()?, SEARCHES, threads);
    let Searches { count, most } = SEARCHES;
    let mut text = format!(
        "# Seeds to a conviction\n\nThis page shows how many seeds the searched form of a scenario takes to find each \
         violation that its file claims of a\nflawed recipe. Nothing is staged, and nothing hints at a place: a \
         schedule has some of the faults that stand above the\ntable, or none. Each figure comes from {count} \
         searches with seeds of their own, up to {most} each. This command writes the\npage, the same on \
         every machine:\n\n```\ncargo run --release -p benches --bin seeds seeds.md\n```\n\n"
    );
    let medians: Vec<Option<u64>> = claims.iter().map(|it| it.percentile(50)).collect();
    let within = |aim| medians.iter().filter(|it| it.is_some_and(|it| it <= aim)).count();
    let within = AIMS.map(|aim| format!("{} need at most {aim} seeds", within(aim))).join(", ");
    writeln!(text, "Of {} claims, by the median of their searches, {within}.", claims.len())?;
    for scenario in catalog::all()? {
        let of_it: Vec<&Claim> = claims.iter().filter(|it| it.scenario == scenario.name).collect();
        if !of_it.is_empty() {
            table(&mut text, &scenario, &of_it)?;
        }
    }
    writeln!(text, "\n## Without a searched form\n")?;
    for scenario in catalog::all()? {
        if let Some(why) = &scenario.unsearched {
            writeln!(text, "- `{}`: {why}.", scenario.name)?;
        }
    }
    Ok(text)
}

fn table(text: &mut String, scenario: &Scenario, claims: &[&Claim]) -> std::fmt::Result {
    let swarm = scenario.search.as_ref().map_or(&scenario.swarm, |it| &it.swarm);
    let told = swarm.descriptions();
    writeln!(text, "\n## `{}`\n\n{}.\n", scenario.name, capital(&told.join("; ")))?;
    writeln!(text, "| recipe | level | median | 90th percentile |\n|---|---|---|---|")?;
    for claim in claims {
        let seeds = |percent| {
            claim.percentile(percent).map_or(format!("over {}", SEARCHES.most), |it| it.to_string())
        };
        let (median, most) = (seeds(50), seeds(90));
        writeln!(text, "| `{}` | {} | {median} | {most} |", claim.lock, claim.level.name())?;
    }
    Ok(())
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
