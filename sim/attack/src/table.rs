//! An attack as text: the table of faults and commands, what was found, and the same as Markdown.

use std::fmt::Write as _;

use history::verdict::WitnessStep;
use reports::in_markdown;

use crate::board::VICTIM;
use crate::judgement::{AttackFinding, Severity};
use crate::protocol::cut;
use crate::report::{AttackReport, PlanOutcome, PlanReport};

/// The units in which durations are given.
const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];

/// How many plans a remark names; more are counted.
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

/// A step of a story, in a line.
pub(crate) fn told(step: &WitnessStep) -> String {
    format!("{:>5} ms  {:<8}  {}", step.at_ns / 1_000_000, who(step.client), cut(&step.text))
}

/// Plans that have shown the same, reported once.
pub(crate) struct Incident<'a> {
    pub(crate) told: &'a PlanReport,
    /// The other plans.
    pub(crate) same: Vec<&'a PlanReport>,
}

impl<'a> Incident<'a> {
    /// The incidents with this outcome, in the order of their first plans.
    pub(crate) fn all(report: &'a AttackReport, outcome: PlanOutcome) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let found = |plan: &&PlanReport| plan.outcome == outcome && !plan.findings.is_empty();
        for plan in report.plans.iter().filter(found) {
            match all.iter_mut().find(|it| shows(it.told) == shows(plan)) {
                Some(incident) => incident.same.push(plan),
                None => all.push(Self { told: plan, same: Vec::new() }),
            }
        }
        all
    }

    /// The names of the other plans, with how often they have shown it.
    pub(crate) fn same_in(&self) -> Option<String> {
        let name = |it: &&PlanReport| match it.runs {
            1 => it.plan.clone(),
            runs => format!("{} ({} of {runs} runs)", it.plan, it.shown),
        };
        let names: Vec<String> = self.same.iter().map(name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// The findings of a plan, without the numbers of rivals and the durations.
fn shows(plan: &PlanReport) -> Vec<(&str, String)> {
    plan.findings.iter().map(|it| (&*it.invariant, without_numbers(&it.summary))).collect()
}

fn without_numbers(text: &str) -> String {
    let victim = format!("client {VICTIM}");
    let words = text.split(' ').scan("", |before, word| {
        let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
        let is_victim = format!("{before} {word}") == victim;
        let is_unit = is_number(before) && UNITS.contains(&word.trim_end_matches(','));
        *before = word;
        Some(if is_number(word) && !is_victim || is_unit { "" } else { word })
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The report as text; `replay` is the command that runs one plan again.
pub fn human(report: &AttackReport, replay: impl Fn(&str) -> String) -> String {
    let mut text = format!("{}\n\n{}\n", report.subject(), Grid::of(report).text());
    for severity in [Severity::Bug, Severity::Api, Severity::Assumption] {
        for incident in Incident::all(report, severity.into()) {
            let plan = incident.told;
            let _ = writeln!(text, "{}  {}: {}", severity.title(), plan.plan, plan.does);
            for (place, finding) in plan.findings.iter().enumerate() {
                tell(&mut text, finding, place == 0);
            }
            if plan.runs > 1 {
                let _ = writeln!(text, "  shown in {} of {} runs", plan.shown, plan.runs);
            }
            if let Some(same) = incident.same_in() {
                let _ = writeln!(text, "  the same in {same}");
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
            1..=NAMED_MOST => writeln!(text, "{}: {remark}", plans.join(", ")),
            many => writeln!(text, "in {many} plans: {remark}"),
        };
    }
    text + &report.sentence() + "\n"
}

/// A finding, with its story if it is the plan's first: further ones belong to the same incident.
fn tell(text: &mut String, finding: &AttackFinding, with_story: bool) {
    let AttackFinding { level, summary, story, .. } = finding;
    let _ = writeln!(text, "  {}: {}", level.name(), cut(summary));
    for step in story.iter().filter(|_| with_story) {
        let _ = writeln!(text, "    {}", told(step));
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
    let outcomes = [PlanOutcome::Bug, PlanOutcome::Api, PlanOutcome::Assumption];
    for incident in outcomes.into_iter().flat_map(|it| Incident::all(report, it)) {
        let plan = incident.told;
        let _ = write!(text, "\n**{}** ({}): {}", plan.plan, plan.outcome.word(), plan.does);
        if plan.runs > 1 {
            let _ = write!(text, "; shown in {} of {} runs", plan.shown, plan.runs);
        }
        text += "\n\n";
        for finding in &plan.findings {
            let _ = writeln!(
                text,
                "- {}: {}",
                finding.level.name(),
                in_markdown(&cut(&finding.summary))
            );
        }
        if let Some(first) = plan.findings.first() {
            text += "\n```text\n";
            for step in &first.story {
                let _ = writeln!(text, "{}", told(step));
            }
            text += "```\n";
        }
        if let Some(same) = incident.same_in() {
            let _ = writeln!(text, "\nThe same in {same}.");
        }
    }
    format!("{text}\n{}\n", report.sentence())
}

#[cfg(test)]
mod tests {
    use history::verdict::Level;

    use super::*;
    use crate::plan::{AttackFault, AttackPlan};

    fn plan(fault: AttackFault, outcome: PlanOutcome, summary: &str) -> PlanReport {
        let finding = AttackFinding {
            severity: Severity::Bug,
            invariant: String::from("ownership"),
            level: Level::Key,
            summary: summary.to_owned(),
            story: Vec::new(),
        };
        let plan = AttackPlan { boundary: None, fault, servers: 1 };
        let findings = vec![finding];
        PlanReport { outcome, findings, ..PlanReport::undecided(Some(&plan), String::new()) }
    }

    #[test]
    fn the_same_in_several_plans_is_told_once() {
        let (bug, api) = (PlanOutcome::Bug, PlanOutcome::Api);
        let again = |plan: PlanReport| PlanReport { runs: 5, shown: 4, ..plan };
        let report = AttackReport {
            plans: vec![
                plan(AttackFault::HolderStop, bug, "client 1 harms client 2 for 1.5 ms"),
                plan(AttackFault::HolderKill, bug, "client 2 harms client 1 for 1.5 ms"),
                again(plan(AttackFault::Restart, bug, "client 1 harms client 3 for 20 s")),
                plan(AttackFault::ScriptFlush, api, "client 1 harms client 2 for 1.5 ms"),
            ],
            ..AttackReport::default()
        };
        let told = |outcome| {
            let all = Incident::all(&report, outcome);
            all.iter().map(|it| (it.told.plan.clone(), it.same_in())).collect::<Vec<_>>()
        };
        let same = Some(String::from("hold.restart (4 of 5 runs)"));
        let first = (String::from("hold.stop"), same);
        assert_eq!(told(bug), [first, (String::from("hold.kill"), None)]);
        assert_eq!(told(api), [(String::from("hold.flush-scripts"), None)]);
    }
}
