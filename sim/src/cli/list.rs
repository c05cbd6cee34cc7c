//! `picklock list`: the scenarios and the recipes.
//!
//! Invariant: what is listed can be run.

use comfy_table::{ContentArrangement, Table, presets};
use scenarios::{catalog, recipe};

use super::failure::Failure;
use super::terminal::Terminal;

/// The lists, as printed on stdout.
pub(super) fn text(terminal: &Terminal) -> Result<String, Failure> {
    let scenarios = catalog::all().map_err(Failure::usage)?;
    let mut table = table(terminal, ["scenario", "story"]);
    for scenario in &scenarios {
        table.add_row([scenario.name.as_str(), scenario.title.as_str()]);
    }
    let mut text = format!("{table}\n\n");
    let mut table = self::table(terminal, ["recipe", "how it locks", "known flaw"]);
    for about in recipe::list::ALL {
        table.add_row([about.name, about.how, about.flaw.unwrap_or("none known")]);
    }
    text += &format!(
        "{table}\n\n`picklock show NAME` tells more; `picklock --scenario NAME --lock RECIPE` runs it.\n"
    );
    Ok(text)
}

fn table<const N: usize>(terminal: &Terminal, header: [&str; N]) -> Table {
    let mut table = Table::new();
    let preset = if terminal.is_utf8() {
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
