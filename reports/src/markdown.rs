//! `summary.md`: a run or a sweep as a page.
//!
//! Invariant: a text of the run breaks no row of the table, and nothing in it acts: neither on a terminal nor as HTML.

use crate::format::in_markdown;
use crate::invariant_table::{InvariantTable, Row};
use crate::matrix::barred;

impl InvariantTable {
    /// As a page.
    pub fn markdown(&self) -> String {
        let headline = in_markdown(&self.headline);
        let mut text = format!("# {headline}\n\nVerdict: **{}**\n", self.verdict.name());
        text += "\n| level | invariant | verdict | |\n|---|---|---|---|\n";
        for Row { level, name, found, why, .. } in &self.rows {
            text += &format!("| {level} | {name} | {} | {} |\n", found.name(), barred(why));
        }
        if let Some(diagram) = &self.diagram {
            text += &format!("\n```mermaid\n{diagram}```\n");
        }
        for row in self.rows.iter().filter(|row| !row.story.is_empty()) {
            text += &format!(
                "\n## {} violated: {}\n\n{}\n\n",
                row.level,
                row.name,
                in_markdown(&row.why)
            );
            for line in &row.story {
                text += &format!("1. {}\n", in_markdown(line));
            }
        }
        for remark in &self.remarks {
            text += &format!("\nNote: {}\n", in_markdown(remark));
        }
        text + &format!("\n```\n{}\n```\n", self.replay)
    }
}
