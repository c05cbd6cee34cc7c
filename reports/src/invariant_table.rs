//! The invariants of a run, or of a sweep, as rows: what `junit.xml` and `summary.md` show.
//!
//! Invariant: a violation comes with its story or the seed that shows it. Figures of latency are shown by
//! `report.html` and the charts.

use std::time::Duration;

use history::verdict::{Level, Outcome, Witness};
use scenarios::matrix::expected::RunConformance;
use scenarios::result::{Invariant, RunResult};
use scenarios::sweep::{InvariantCounts, Sweep};

use crate::format::{count, told};

/// The invariants of a run or a sweep.
#[derive(Clone, Debug)]
pub struct InvariantTable {
    /// What was run, in a line.
    pub(crate) headline: String,
    /// The same as a class of tests: parts with dots between.
    pub(crate) class: String,
    pub(crate) verdict: Outcome,
    pub(crate) rows: Vec<Row>,
    pub(crate) remarks: Vec<String>,
    pub(crate) replay: String,
    /// How long it lasted by the clock of its world.
    pub(crate) lasted: Duration,
    /// What went wrong, as Mermaid text; none if nothing did, or nobody drew it.
    pub(crate) diagram: Option<String>,
    /// What it is judged by, where that is what was expected of it.
    pub(crate) expected: Option<RunConformance>,
}

/// An invariant.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) level: &'static str,
    pub(crate) name: String,
    pub(crate) found: Outcome,
    /// Why, or how often; nothing where there is nothing to say.
    pub(crate) why: String,
    /// What shows a violation, line by line.
    pub(crate) story: Vec<String>,
    /// The command line that shows it again.
    pub(crate) replay: String,
}

impl InvariantTable {
    /// A run.
    pub fn run(result: &RunResult) -> Self {
        let RunResult { scenario, lock, world, seed, .. } = result;
        let ran = format!("{scenario}, lock {lock}, world {world}, seed {seed}");
        let rows = by_level(&result.invariants, |it| it.level);
        Self {
            headline: ran,
            class: format!("picklock.{world}.{scenario}.{lock}"),
            verdict: result.verdict,
            rows: rows.into_iter().map(|it| Row::of_run(it, &result.replay)).collect(),
            remarks: result.remarks.clone(),
            replay: result.replay.clone(),
            lasted: Duration::from_nanos(result.stats.duration_ns),
            diagram: None,
            expected: None,
        }
    }

    /// The same, judged by what was expected of it.
    #[must_use]
    pub fn beside(self, expected: Option<RunConformance>) -> Self {
        Self { expected, ..self }
    }

    /// A sweep. `first` is the run of the seed that its report shows, and `headline` says what was swept.
    /// `replay` gives the line that runs one seed again, or all of them.
    pub fn sweep(
        sweep: &Sweep,
        first: &RunResult,
        headline: &str,
        remarks: &[String],
        replay: impl Fn(Option<u64>) -> String,
    ) -> Self {
        let run = Self::run(first);
        let of_level = |counts: &InvariantCounts| {
            let shown = run.rows.iter().find(|it| it.name == counts.name);
            Row::of_sweep(counts, sweep.outcome(counts), shown, replay(counts.first_violated))
        };
        Self {
            headline: headline.to_owned(),
            verdict: sweep.verdict(),
            rows: by_level(&sweep.invariants, |it| it.level).into_iter().map(of_level).collect(),
            remarks: remarks.to_vec(),
            replay: replay(None),
            lasted: Duration::from_nanos(sweep.virtual_ns),
            ..run
        }
    }
}

/// These in the order of their levels, and within a level as they came.
fn by_level<T>(all: &[T], level: impl Fn(&T) -> Level) -> Vec<&T> {
    let mut all: Vec<&T> = all.iter().collect();
    all.sort_by_key(|it| level(it));
    all
}

impl Row {
    fn of_run(invariant: &Invariant, replay: &str) -> Self {
        let Invariant { name, level, verdict, reason, witness, .. } = invariant;
        let (why, story) = match witness {
            Some(witness) => (witness.summary.clone(), story(witness)),
            None => (reason.clone().unwrap_or_default(), Vec::new()),
        };
        let replay = replay.to_owned();
        Self { level: level.name(), name: name.clone(), found: *verdict, why, story, replay }
    }

    /// `shown` is what the run shows that the sweep reports.
    fn of_sweep(
        counts: &InvariantCounts,
        found: Outcome,
        shown: Option<&Self>,
        replay: String,
    ) -> Self {
        let InvariantCounts { name, level, held, violated, inconclusive, vacuous, .. } = counts;
        let mut why = format!(
            "held in {} schedules, violated in {}, {} do not say, {} vacuous",
            count(*held),
            count(*violated),
            count(*inconclusive),
            count(*vacuous)
        );
        let shown = shown.filter(|it| found == Outcome::Violated && !it.story.is_empty());
        if let Some(shown) = shown {
            why += &format!(": {}", shown.why);
        }
        let story = shown.map(|it| it.story.clone()).unwrap_or_default();
        Self { level: level.name(), name: name.clone(), found, why, story, replay }
    }
}

/// A violation, line by line.
fn story(witness: &Witness) -> Vec<String> {
    told(witness.short_story()).map(|(when, who, what)| format!("{when} {who}: {what}")).collect()
}

#[cfg(test)]
mod tests {
    use scenarios::matrix::{Pair, expected};
    use scenarios::sweep::Facts;

    use super::*;
    use crate::support;

    fn table() -> InvariantTable {
        let history = support::bonus_pool();
        InvariantTable::run(&support::result(&history, vec![support::overlap()]))
    }

    #[test]
    fn a_violation_fails_with_its_story() {
        let junit = table().junit().unwrap();
        assert!(junit.contains("<failure message="), "{junit}");
        assert!(junit.contains("type=\"violated\""), "{junit}");
        assert!(junit.contains(&format!("\nreplay: {}", table().replay)), "{junit}");
        let time = format!("time=\"{:.3}\"", table().lasted.as_secs_f64());
        let cases = table().rows.len();
        assert!(junit.matches(&time).count() == cases + 2 && cases > 0, "{time}: {junit}");
        let page = table().markdown();
        assert!(page.contains("Verdict: **violated**"), "{page}");
        assert!(page.contains("\n1. "), "{page}");
    }

    #[test]
    fn nothing_in_markdown_is_html() {
        let mut table = table();
        table.headline = "<script>&".to_owned();
        table.rows[0].why = "<b> | c".to_owned();
        let page = table.markdown();
        assert!(page.starts_with("# &lt;script>&amp;\n"), "{page}");
        assert!(page.contains("&lt;b> \\| c"), "{page}");
    }

    #[test]
    fn rows_stand_in_the_order_of_their_levels() {
        let history = support::bonus_pool();
        let mut result = support::result(&history, vec![support::overlap()]);
        let one = result.invariants[0].clone();
        let of = |level| Invariant { level, ..one.clone() };
        result.invariants =
            [Level::Progress, Level::Key, Level::Effect, Level::Belief].map(of).into();
        let levels = InvariantTable::run(&result).rows.into_iter().map(|it| it.level);
        assert!(levels.eq(Level::ALL.map(Level::name)));
    }

    #[test]
    fn what_was_expected_fails_nobody() {
        let pair = Pair::scenario("gc-pause", "del-release").unwrap();
        let judged = |belief| {
            let found = |level| match level {
                Level::Belief => belief,
                level => pair.expected("del-release", level),
            };
            let junit = table().beside(expected::compare(&pair, false, found)).junit().unwrap();
            (junit.matches("<failure").count(), junit)
        };
        let (failures, junit) = judged(Outcome::Violated);
        assert_eq!(failures, 0, "{junit}");
        assert!(junit.contains("<system-out>violated, as expected: "), "{junit}");
        assert!(junit.contains("<testcase name=\"as expected\""), "{junit}");
        let (failures, junit) = judged(Outcome::Held);
        assert_eq!(failures, 2, "what was found, and how it stands to what was expected: {junit}");
        assert!(junit.contains("belief is held, and violated is expected"), "{junit}");
    }

    #[test]
    fn a_sweep_names_the_seed_of_each_violation_and_is_no_success_where_it_was_interrupted() {
        let history = support::bonus_pool();
        let first = support::result(&history, vec![support::overlap()]);
        let mut sweep = Sweep::default();
        for seed in [5, 6] {
            sweep.add(seed, &history, Facts { virtual_ns: 2_000_000_000, ..Facts::default() }, 1);
        }
        let counts = &mut sweep.invariants[0];
        (counts.violated, counts.first_violated) = (1, Some(6));
        sweep.interrupted = true;
        let again = |seed: Option<u64>| format!("again {seed:?}");
        let table = InvariantTable::sweep(&sweep, &first, "a sweep", &[], again);
        let junit = table.junit().unwrap();
        assert!(junit.contains("replay: again Some(6)</failure>"), "{junit}");
        assert!(junit.contains("replay: again None</error>"), "{junit}");
        assert!(junit.contains("time=\"4.000\""), "{junit}");
        assert!(table.rows.iter().all(|row| row.found != Outcome::Held), "{junit}");
    }

    #[test]
    fn what_does_not_say_is_no_success() {
        let row = |found| Row {
            level: "key",
            name: "ownership".to_owned(),
            found,
            why: "a | b".to_owned(),
            story: Vec::new(),
            replay: "run it again".to_owned(),
        };
        let found = [Outcome::Held, Outcome::Inconclusive, Outcome::NotApplicable];
        let table = InvariantTable { rows: found.map(row).to_vec(), ..table() };
        let junit = table.junit().unwrap();
        assert!(junit.contains("tests=\"3\""), "{junit}");
        assert!(junit.contains("errors=\"1\""), "{junit}");
        assert!(junit.contains("<error message=\"a | b\" type=\"inconclusive\""), "{junit}");
        assert_eq!(junit.matches("replay: run it again<").count(), 1, "{junit}");
        assert!(junit.contains("<skipped message=\"a | b\""), "{junit}");
        assert!(table.markdown().contains("| key | ownership | n/a | a \\| b |"));
    }
}
