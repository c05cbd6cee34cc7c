//! What a person sees at the end of a sweep: outcomes by invariant, what the faults met, the pace,
//! and the seeds that failed with the line that replays each.
//!
//! Invariant: everything but the pace follows from the sweep, so it reads the same on any machine.

use history::verdict::Level;
use scenarios::sweep::{InvariantCounts, Sweep, VacuousSchedules};

use super::colour::Emphasis;
use super::summary::verdict_line;
use super::{Style, Verbosity, table};
use crate::format::{count, counted, duration, plain};

/// What was swept, and how fast.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Swept {
    /// What was run, in a line.
    pub headline: String,
    /// Wall-clock time, in nanoseconds; 0 where several machines have shared the work.
    pub wall_ns: u64,
    /// Processor time of all threads, in nanoseconds.
    pub cpu_ns: u64,
    /// What deserves attention.
    pub remarks: Vec<String>,
}

/// The summary of a sweep. `replay` gives the line that runs one seed again.
pub fn sweep(swept: &Swept, found: &Sweep, replay: impl Fn(u64) -> String, style: Style) -> String {
    let verdict = verdict_line(found.verdict(), |level| found.level(level), style);
    let headline = format!("{}\n", plain(&swept.headline));
    let digest = found.digest.map(|it| format!("digest of all histories: {it}\n"));
    let digest = digest.unwrap_or_default();
    if style.verbosity == Verbosity::Quiet {
        return headline + &digest + &failing(found, replay, style) + &verdict;
    }
    let mut blocks = vec![headline, outcomes(found, style)];
    blocks.push(vacuous(found));
    if !found.coverage.is_empty() {
        blocks.push(coverage(found));
    }
    blocks.push(pace(swept, found));
    blocks.push(digest);
    blocks.push(failing(found, replay, style));
    for remark in &swept.remarks {
        let said = style.wrap(&plain(remark), 6);
        blocks.push(format!("{}: {said}\n", style.ink(Emphasis::Yellow, "note")));
    }
    blocks.push(verdict);
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

fn outcomes(found: &Sweep, style: Style) -> String {
    let header = ["schedules", "", "held", "violated", "inconclusive", "vacuous", "n/a"];
    let row = |level: Level, it: &InvariantCounts| {
        let InvariantCounts { held, violated, inconclusive, vacuous, not_applicable, .. } = it;
        let counts = [held, violated, inconclusive, vacuous, not_applicable];
        let mut row = vec![level.name().to_owned(), plain(&it.name).into_owned()];
        row.extend(counts.map(|it| count(*it)));
        row
    };
    let rows = Level::ALL.into_iter().flat_map(|level| {
        let of_level = found.invariants.iter().filter(move |it| it.level == level);
        of_level.map(move |it| row(level, it))
    });
    let levels = Level::ALL
        .map(|level| format!("{} {}", level.name(), style.verdict(found.level(level), 0)));
    format!("{}\n\n{}", levels.join(", "), table(&header, rows, |place| place >= 2))
}

/// What was not put to the test, and where.
fn vacuous(found: &Sweep) -> String {
    let told = found.vacuous.iter().map(|(what, VacuousSchedules { schedules, seed })| {
        let many = counted(*schedules, "schedule");
        format!("{many} showed nothing: {} (the first is seed {seed})\n", plain(what))
    });
    told.collect()
}

fn coverage(found: &Sweep) -> String {
    let header = ["fault", "strikes", "in a hold", "schedules", "schedules, in a hold"];
    let rows = found.coverage.iter().map(|(fault, it)| {
        let mut row = vec![fault.name().to_owned()];
        row.extend([it.strikes, it.in_hold, it.schedules, it.schedules_in_hold].map(count));
        row
    });
    let table = table(&header, rows, |place| place >= 1);
    let share = found.met_hold * 100 / found.schedules.max(1);
    let met = count(found.met_hold);
    format!("{}\na fault met a hold in {met} schedules ({share} %)\n", table.trim_end())
}

fn pace(swept: &Swept, found: &Sweep) -> String {
    let per = |number: u64, ns: u64| {
        let per = u128::from(number) * 1_000_000_000 / u128::from(ns.max(1));
        count(u64::try_from(per).unwrap_or(u64::MAX))
    };
    let schedules = found.schedules.max(1);
    // What several machines have done has no time of its own.
    let wall = match swept.wall_ns {
        0 => String::new(),
        wall_ns => format!(" in {}: {} a second", duration(wall_ns), per(found.schedules, wall_ns)),
    };
    format!(
        "{} schedules{wall}, {} a second of processor time\n\
         {} virtual seconds a second of processor time; {} events and {} operations a schedule\n",
        count(found.schedules),
        per(found.schedules, swept.cpu_ns),
        per(found.virtual_ns / 1_000_000_000, swept.cpu_ns),
        count(found.events / schedules),
        count(found.operations / schedules),
    )
}

fn failing(found: &Sweep, replay: impl Fn(u64) -> String, style: Style) -> String {
    if found.failing.is_empty() {
        return String::new();
    }
    let head = format!(
        "{} of {} schedules violated something; the lowest seeds:",
        count(found.violations),
        count(found.schedules)
    );
    let mut text = format!("{}\n", style.ink(Emphasis::Bold, &head));
    for (seed, violated) in &found.failing {
        let names = plain(&violated.join(", ")).into_owned();
        text.push_str(&format!(
            "  seed {seed}: {}\n    {}\n",
            style.wrap(&names, 4),
            plain(&replay(*seed))
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use history::fault::Fault;
    use scenarios::sweep::{Coverage, Digest};

    use super::*;

    #[test]
    fn a_sweep_is_told_with_its_failing_seeds_and_what_it_covered() {
        let counts = |name: &str, level, held, violated| InvariantCounts {
            name: name.to_owned(),
            level,
            held,
            violated,
            inconclusive: 0,
            vacuous: 3,
            not_applicable: 0,
            first_violated: None,
        };
        let pause = Coverage { strikes: 12_345, in_hold: 67, schedules: 89, schedules_in_hold: 5 };
        let found = Sweep {
            interrupted: false,
            schedules: 2_000,
            virtual_ns: 4_000_000_000_000,
            events: 6_000_000,
            operations: 1_000_000,
            invariants: vec![
                counts("ownership", Level::Key, 2_000, 0),
                counts("mutual-exclusion", Level::Belief, 1_998, 2),
            ],
            coverage: BTreeMap::from([(Fault::Pause, pause)]),
            met_hold: 1_500,
            vacuous: BTreeMap::from([
                ("nobody came".to_owned(), VacuousSchedules { schedules: 1, seed: 8 }),
                ("nobody went".to_owned(), VacuousSchedules { schedules: 2_000, seed: 9 }),
            ]),
            violations: 2,
            failing: BTreeMap::from([(17, vec!["mutual-exclusion".to_owned()])]),
            digest: Some(Digest([1, 2])),
            ..Sweep::default()
        };
        let swept = Swept {
            headline: "pool: seeds 0..2000".to_owned(),
            wall_ns: 2_000_000_000,
            cpu_ns: 4_000_000_000,
            remarks: vec!["mind the gap".to_owned()],
        };
        let text = sweep(&swept, &found, |seed| format!("run --seed {seed}"), Style::default());
        for line in [
            "pool: seeds 0..2000\n",
            "key held, belief violated, effect n/a, progress n/a\n",
            "1,000 a second, 500 a second of processor time",
            "1,000 virtual seconds a second of processor time; 3,000 events and 500 operations",
            "  seed 17: mutual-exclusion\n    run --seed 17\n",
            "2 of 2,000 schedules violated something",
            "note: mind the gap\n",
            "\n1 schedule showed nothing: nobody came (the first is seed 8)\n\
             2,000 schedules showed nothing: nobody went (the first is seed 9)\n",
            "a fault met a hold in 1,500 schedules (75 %)\n",
            "digest of all histories: 00000000000000010000000000000002\n",
        ] {
            assert!(text.contains(line), "{line:?} in\n{text}");
        }
        assert!(text.ends_with("verdict: violated (belief)\n"), "{text}");
        let quiet = Style { verbosity: Verbosity::Quiet, ..Style::default() };
        let short = sweep(&swept, &found, |seed| format!("run --seed {seed}"), quiet);
        let lines: Vec<&str> = short.lines().collect();
        assert_eq!(
            lines,
            [
                "pool: seeds 0..2000",
                "digest of all histories: 00000000000000010000000000000002",
                "2 of 2,000 schedules violated something; the lowest seeds:",
                "  seed 17: mutual-exclusion",
                "    run --seed 17",
                "verdict: violated (belief)"
            ]
        );
        let row = text.lines().find(|line| line.starts_with("pause")).unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["pause", "12,345", "67", "89", "5"]
        );
    }
}
