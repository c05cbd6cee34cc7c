//! An attack as text: the table of faults and commands, what was found, and the same as Markdown.

use std::fmt::Write as _;

use crate::judgement::{AttackFinding, Severity};
use crate::report::{AttackReport, PlanReport};

/// So many plans are named where something else was seen.
const NAMED_MOST: usize = 4;

/// A row for each fault, and a column for each place at which it can strike.
pub(crate) struct Grid<'a> {
    pub(crate) places: Vec<String>,
    pub(crate) rows: Vec<(&'a str, Vec<Option<&'a PlanReport>>)>,
}

impl<'a> Grid<'a> {
    pub(crate) fn of(report: &'a AttackReport) -> Self {
        let mut places: Vec<String> = Vec::new();
        let mut faults: Vec<&str> = Vec::new();
        for plan in &report.plans {
            let place = plan.place();
            if !places.contains(&place) {
                places.push(place);
            }
            if !faults.contains(&plan.fault.as_str()) {
                faults.push(&plan.fault);
            }
        }
        let cell = |fault: &str, place: &String| {
            report.plans.iter().find(|it| it.fault == fault && it.place() == *place)
        };
        let row = |fault: &'a str| (fault, places.iter().map(|it| cell(fault, it)).collect());
        let rows = faults.into_iter().map(row).collect();
        Self { places, rows }
    }

    fn text(&self) -> String {
        let left = self.rows.iter().map(|(fault, _)| fault.len()).max().unwrap_or(0);
        let mut text = format!("  {:left$}", "");
        for place in &self.places {
            let _ = write!(text, "  {place:>8}");
        }
        for (fault, cells) in &self.rows {
            let _ = write!(text, "\n  {fault:left$}");
            for (place, cell) in self.places.iter().zip(cells) {
                let width = place.len().max(8);
                let _ = write!(text, "  {:>width$}", word(*cell));
            }
        }
        text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

fn word(cell: Option<&PlanReport>) -> &'static str {
    cell.map_or("", |plan| plan.outcome.word())
}

/// Who did something in a story.
pub(crate) fn who(client: u32) -> String {
    match client {
        0 => String::from("picklock"),
        client => format!("client {client}"),
    }
}

/// The report as text; `replay` is the command that runs one plan again.
pub fn human(report: &AttackReport, replay: impl Fn(&str) -> String) -> String {
    let mut text = format!("{}\n\n{}\n", report.subject(), Grid::of(report).text());
    for severity in [Severity::Bug, Severity::Api, Severity::Assumption] {
        let of_it = |plan: &&PlanReport| plan.outcome == severity.into();
        for plan in report.plans.iter().filter(of_it) {
            let _ = writeln!(text, "{}  {}: {}", severity.title(), plan.plan, plan.does);
            for (place, finding) in plan.findings.iter().enumerate() {
                tell(&mut text, finding, place == 0);
            }
            if plan.runs > 1 {
                let _ = writeln!(text, "  shown in {} of {} runs", plan.shown, plan.runs);
            }
            let _ = writeln!(text, "  again: {}\n", replay(&plan.plan));
        }
    }
    for plan in &report.plans {
        if let Some(why) = &plan.why {
            let _ = writeln!(text, "{:<4}{}: {why}", plan.outcome.word(), plan.plan);
        }
    }
    for (remark, plans) in report.remarks() {
        let _ = match plans.len() {
            1..=NAMED_MOST => writeln!(text, "{remark} in {}", plans.join(", ")),
            many => writeln!(text, "{remark} in {many} plans"),
        };
    }
    text + &report.sentence() + "\n"
}

/// A finding, and its story if it is the first: others of the same plan are the same incident seen from elsewhere.
fn tell(text: &mut String, finding: &AttackFinding, with_story: bool) {
    let AttackFinding { level, summary, story, .. } = finding;
    let _ = writeln!(text, "  {}: {summary}", level.name());
    for step in story.iter().filter(|_| with_story) {
        let (at_ms, who) = (step.at_ns / 1_000_000, who(step.client));
        let _ = writeln!(text, "    {at_ms:>5} ms  {who:<8}  {}", step.text);
    }
}

/// The report as Markdown, for a pull request or a page.
pub fn markdown(report: &AttackReport) -> String {
    let grid = Grid::of(report);
    let mut text = format!("| fault | {} |\n|", grid.places.join(" | "));
    text += &" --- |".repeat(grid.places.len() + 1);
    text.push('\n');
    for (fault, cells) in &grid.rows {
        let words: Vec<&str> = cells.iter().map(|cell| word(*cell)).collect();
        let _ = writeln!(text, "| {fault} | {} |", words.join(" | "));
    }
    for plan in report.plans.iter().filter(|plan| !plan.findings.is_empty()) {
        let _ = write!(text, "\n**{}** ({}): {}", plan.plan, plan.outcome.word(), plan.does);
        if plan.runs > 1 {
            let _ = write!(text, "; shown in {} of {} runs", plan.shown, plan.runs);
        }
        text += "\n\n";
        for finding in &plan.findings {
            let _ = writeln!(text, "- {}: {}", finding.level.name(), finding.summary);
        }
        if let Some(first) = plan.findings.first() {
            text += "\n```text\n";
            for step in &first.story {
                let (at_ms, who) = (step.at_ns / 1_000_000, who(step.client));
                let _ = writeln!(text, "{at_ms:>5} ms  {who:<8}  {}", step.text);
            }
            text += "```\n";
        }
    }
    format!("{text}\n{}\n", report.sentence())
}
