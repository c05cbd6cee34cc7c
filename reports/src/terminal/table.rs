//! Tables without borders.
//!
//! Invariant: numbers stand right-aligned under their heading.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// The table, ending with a line break; `is_number` says it of a column by its place.
pub(crate) fn table(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    is_number: impl Fn(usize) -> bool,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(rows);
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding(if place == 0 { (0, 1) } else { (1, 1) });
        if is_number(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{}\n", lines.join("\n"))
}
