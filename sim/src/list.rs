//! `picklock list`: the scenarios and the recipes.
//!
//! Invariant: everything listed can be run.

use comfy_table::{ContentArrangement, Table, presets};
use scenarios::recipe::About;
use scenarios::scenario::Scenario;
use scenarios::{catalog, recipe};
use serde_json::{Value, json};

use super::args::{ListArgs, OutputFormat};
use super::exit::Exit;
use super::failure::Failure;
use super::output;
use super::terminal::Terminal;

const SCHEMA: &str = "picklock/list/1";

pub(super) fn main(args: &ListArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check(&args.format)?;
    let scenarios = catalog::all().map_err(Failure::usage)?;
    output::write(&args.format, |format| match format {
        OutputFormat::Json => output::json_text(&json(&scenarios)),
        _ => Ok(text(&scenarios, terminal)),
    })?;
    Ok(Exit::Held)
}

fn json(scenarios: &[Scenario]) -> Value {
    let scenarios: Vec<Value> = scenarios
        .iter()
        .map(|it| {
            let searchable = it.unsearchable().is_none();
            json!({ "name": it.name, "title": it.title, "source": it.source, "searched": searchable })
        })
        .collect();
    let recipes = recipe::ALL.map(|about| {
        let About { name, how, from, flaw, assumes, .. } = about;
        json!({ "name": name, "how": how, "from": from, "flaw": flaw, "assumes": assumes })
    });
    json!({ "schema": SCHEMA, "scenarios": scenarios, "recipes": recipes })
}

fn text(scenarios: &[Scenario], terminal: &Terminal) -> String {
    let mut table = table(terminal, ["scenario", "story"]);
    for scenario in scenarios {
        table.add_row([scenario.name.as_str(), scenario.title.as_str()]);
    }
    let mut text = format!("{table}\n\n");
    let mut table = self::table(terminal, ["recipe", "how it locks", "known flaw"]);
    for about in recipe::ALL {
        table.add_row([about.name, about.how, about.flaw.unwrap_or("none known")]);
    }
    text += &format!(
        "{table}\n\n`picklock show NAME` describes one.\n`picklock --scenario NAME --lock RECIPE` runs it.\n"
    );
    text
}

fn table<const N: usize>(terminal: &Terminal, header: [&str; N]) -> Table {
    let mut table = Table::new();
    let preset = if terminal.is_utf8 {
        presets::UTF8_HORIZONTAL_ONLY
    } else {
        presets::ASCII_HORIZONTAL_ONLY
    };
    table
        .load_style(preset)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(terminal.width()).unwrap_or(u16::MAX))
        .set_header(header);
    table
}
