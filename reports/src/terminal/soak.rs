//! What a person sees at the end of a sitting of a soak.

use history::verdict::Outcome;

use super::summary::verdict_line;
use super::table;
use super::{Style, Verbosity};
use crate::format::{count, counted, long_duration};
use crate::soak::{SoakReport, megabytes};

/// The summary: what struck, how much was run, in which time and memory, and the verdict.
pub fn soak(report: &SoakReport<'_>, style: Style) -> String {
    let found = report.found;
    let convicted = found.conviction.as_ref().map(|it| it.level);
    let level = |level| if convicted == Some(level) { Outcome::Violated } else { Outcome::Held };
    let verdict = verdict_line(report.verdict(), level, style);
    let verdict = match report.is_interrupted() {
        true => format!("interrupted: the rest would have run other schedules\n{verdict}"),
        false => verdict,
    };
    if style.verbosity == Verbosity::Quiet {
        return verdict;
    }
    let mut text = String::new();
    if !found.whole.coverage.is_empty() {
        let rows =
            found.whole.coverage.iter().map(|(fault, it)| {
                vec![fault.name().to_owned(), count(it.strikes), count(it.in_hold)]
            });
        text += &table(&["fault", "strikes", "in a hold"], rows, |place| place >= 1);
        text.push('\n');
    }
    let (all, missing) = (found.pairs.len() as u64, found.missing() as u64);
    text += &format!(
        "{} schedules, {} a second; {} of {} run\n\
         {} strikes in holds\n\
         memory: {} at most\n\
         lasted {} of {}, in {}; seeds are drawn from {}\n",
        count(found.whole.schedules),
        count(report.pace()),
        count(all - missing),
        counted(all, "pair"),
        count(found.strikes_in_holds()),
        megabytes(report.highest_bytes()),
        long_duration(report.lasted_ns()),
        long_duration(report.asked_ns),
        counted(report.sittings.len() as u64, "sitting"),
        found.base,
    );
    text + &verdict
}
