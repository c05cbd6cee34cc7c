//! A tuning in the terminal: what it counts with, every setting of the lock that was asked for, and the
//! advice.
//!
//! Invariant: the advice comes last, where a reader looks first.

use ttl_model::tuning::{Confirmation, Delay, IfTaken, Point, Protection, TargetStatus, Tuning};

use super::{confirmed, share};
use crate::format::{count, plain};
use crate::terminal::{Style, Verbosity, table as lined_up};
use ttl_model::format::time;

/// A source that is longer does not stand in the table.
const LONG: usize = 32;

/// The whole.
pub fn text(tuning: &Tuning, style: Style) -> String {
    let mut blocks = Vec::new();
    if style.verbosity > Verbosity::Quiet {
        blocks.push(inputs(tuning, style));
        for keeping in Protection::ALL {
            let shown = keeping == tuning.keeping || style.verbosity == Verbosity::Verbose;
            if shown && tuning.points.iter().any(|it| it.keeping == keeping) {
                blocks.push(table(keeping, tuning, style));
            }
        }
        let all = count(tuning.simulated);
        blocks.push(format!("{all} holds simulated, seed {}\n", tuning.seed));
    }
    if let Some(why) = &tuning.cut_short {
        blocks.push(format!("incomplete: {}\n", style.wrap(why, 2)));
    }
    if let Some(confirmation) = &tuning.confirmation {
        blocks.push(confirmed(confirmation, style));
    }
    let advice = &tuning.advice;
    let mut said = format!("{}\n", advice.says);
    for reason in &advice.because {
        said += &format!("  - {}\n", style.wrap(reason, 4));
    }
    if !advice.objective.is_empty() {
        said += &format!("  chosen: {}\n", style.wrap(&advice.objective, 4));
    }
    blocks.push(said);
    blocks.push(format!("answer: {}\n", answer(advice.answer)));
    blocks.join("\n")
}

/// What it counts with. A source that is longer than a word or two stands below, for a table as wide as a title
/// with its address cannot be read.
fn inputs(tuning: &Tuning, style: Style) -> String {
    let mut notes = String::new();
    let mut rows = Vec::new();
    let mut number = 0;
    for it in &tuning.inputs {
        let mut source = plain(&it.source).into_owned();
        if source.chars().count() > LONG {
            number += 1;
            let mark = format!("[{number}]");
            notes += &format!("{mark} {}\n", style.wrap(&source, mark.len() + 1));
            source = mark;
        }
        rows.push(vec![it.name.clone(), plain(&it.value).into_owned(), source]);
    }
    lined_up(&["input", "value", "source"], rows, |_| false) + &notes
}

/// The answer in a word or two.
pub(super) fn answer(answer: TargetStatus) -> &'static str {
    match answer {
        TargetStatus::Met => "met",
        TargetStatus::Unknown => "cannot say",
        TargetStatus::TooSlow => "cannot be met at once",
        TargetStatus::TooManyOverlaps => "cannot be met",
    }
}

/// What the columns of a lock are called.
pub(super) fn header(keeping: Protection, if_taken: IfTaken) -> [&'static str; 8] {
    let wrong = if keeping.is_tracked() { "lost before done" } else { "outlives its lease" };
    let wait = match if_taken {
        IfTaken::Wait => "wait (p99)",
        IfTaken::Skip => "runs missed (p99)",
    };
    [
        "TTL",
        "renewed every",
        wrong,
        "overlap",
        "takeover (p99)",
        wait,
        "renewals/s",
        "targets missed",
    ]
}

/// Whether this is the point that is advised, or the nearest.
pub(super) fn is_chosen(tuning: &Tuning, point: &Point) -> bool {
    let chosen = tuning.advice.point.and_then(|place| tuning.points.get(place));
    chosen.is_some_and(|it| std::ptr::eq(it, point))
}

/// A point as the cells of a row.
pub(super) fn row(point: &Point) -> [String; 8] {
    let delay = |it: Delay| format!("{} ({})", time(it.mean), time(it.p99_high));
    // What is only just beyond its target would look like it.
    let missed = point.misses.iter().find_map(|it| it.strip_prefix("takeover: "));
    let takeover = match missed {
        Some(found) => format!("{} ({found})", time(point.takeover.mean)),
        None => delay(point.takeover),
    };
    let names: Vec<&str> = point.misses.iter().filter_map(|it| it.split(':').next()).collect();
    let (ttl, renew) = (time(point.ttl), point.renew.map_or("-".to_owned(), time));
    if point.unfinished {
        let none = || "-".to_owned();
        let misses = "unfinished".to_owned();
        return [ttl, renew, none(), none(), none(), none(), none(), misses];
    }
    [
        ttl,
        renew,
        share(&point.wrong),
        share(&point.effect),
        takeover,
        match point.skips {
            None => delay(point.wait),
            Some(skips) => format!("{:.2} ({})", skips.missed, skips.missed_p99),
        },
        match point.renew {
            None => "-".to_owned(),
            Some(_) if point.renewals_per_second_high < 0.001 => "< 0.001".to_owned(),
            Some(_) => format!("{:.3}", point.renewals_per_second),
        },
        if names.is_empty() { "none".to_owned() } else { names.join(", ") },
    ]
}

/// What a kind of lock does, in a few words.
pub(super) fn about(keeping: Protection) -> &'static str {
    match keeping {
        Protection::None => "a lock that keeps no validity",
        Protection::Tracked => "a lock that keeps its validity",
        Protection::Fenced => {
            "a lock that keeps its validity, and a resource that checks its fencing token"
        }
    }
}

/// How often two believe at once that they have the lock.
pub(super) fn belief(keeping: Protection) -> &'static str {
    match keeping {
        Protection::None => {
            "An overlap is two at once who believe that they have the lock, and both write."
        }
        Protection::Tracked => {
            "Two never believe at once that they have the lock, for its holder looks; an overlap is a write that was \
             under way when the lease ended."
        }
        Protection::Fenced => {
            "Two never believe at once that they have the lock, and what one of them still writes too late is refused."
        }
    }
}

/// What a server has shown of the model.
fn confirmed(confirmation: &Confirmation, style: Style) -> String {
    let rows = confirmation.tried.iter().map(|it| confirmed::row(it).to_vec());
    let mut text = format!("tried on {}\n", plain(&confirmation.server));
    text += &lined_up(&confirmed::HEADER, rows, |place| place == 2);
    for note in confirmed::notes(confirmation) {
        text += &format!("  {}\n", style.wrap(&note, 2));
    }
    text
}

fn table(keeping: Protection, tuning: &Tuning, style: Style) -> String {
    let points = tuning.points.iter().filter(|it| it.keeping == keeping);
    let rows = points.map(|it| {
        let mut cells = row(it).to_vec();
        cells.extend(is_chosen(tuning, it).then(|| match it.meets() {
            true => "<- take this".to_owned(),
            false => "<- the closest".to_owned(),
        }));
        cells
    });
    let (about, name) = (about(keeping), keeping.name());
    let table = lined_up(&header(keeping, tuning.if_taken), rows, |place| (4..=6).contains(&place));
    format!("{about} ({name})\n{table}  {}\n", style.wrap(belief(keeping), 2))
}

#[cfg(test)]
mod tests {
    use ttl_model::tuning::Skips;

    use super::*;
    use crate::tuning::testing::{point, tuning};

    fn said(verbosity: Verbosity, width: usize) -> String {
        let points = vec![point(2_000, None, 0.5, 9.0), point(5_000, None, 0.5, 0.5)];
        text(&tuning(points, 1), Style { verbosity, width: Some(width), ..Style::default() })
    }

    #[test]
    fn the_advised_row_is_marked_and_no_other() {
        let said = said(Verbosity::Normal, 100);
        let marked: Vec<&str> = said.lines().filter(|it| it.contains("<-")).collect();
        assert!(marked.len() == 1 && marked[0].starts_with("5 s "), "{marked:?}");
        assert!(marked[0].ends_with("  <- take this"), "{marked:?}");
        let missed = text(&tuning(vec![point(2_000, None, 0.5, 9.0)], 0), Style::default());
        assert!(missed.contains("lost holds      <- the closest"), "{missed}");
    }

    #[test]
    fn a_long_source_stands_below_the_table_and_a_short_one_in_it() {
        let said = said(Verbosity::Normal, 50);
        let line = |start: &str| said.lines().find(|it| it.starts_with(start)).unwrap();
        assert!(line("pauses").ends_with("[1]") && line("work under").ends_with("given"), "{said}");
        assert!(
            said.contains("\n[1] A Long Title of a Source,\n    https://example.org/pauses: rate"),
            "{said}"
        );
    }

    #[test]
    fn what_was_interrupted_shows_no_figures_of_what_was_not_looked_at() {
        let mut points = vec![point(2_000, None, 0.5, 0.5), point(5_000, None, 0.5, 0.5)];
        points[1].unfinished = true;
        let mut tuning = tuning(points, 0);
        tuning.cut_short = Some("interrupted when 1 of 2 settings had been simulated".to_owned());
        let said = text(&tuning, Style::default());
        let row = said.lines().find(|it| it.starts_with("5 s")).expect("a row");
        assert!(row.ends_with("-  unfinished") && !row.contains("a day"), "{row}");
        assert!(said.contains("incomplete: interrupted when 1 of 2"), "{said}");
        assert!(said.contains("chosen: by lot"), "{said}");
    }

    #[test]
    fn a_takeover_that_is_only_just_too_slow_does_not_look_like_the_target() {
        let mut slow = point(10_000, None, 0.5, 0.5);
        slow.misses =
            vec!["overlaps: up to 9 a day".to_owned(), "takeover: just over 10 s".to_owned()];
        assert_eq!(row(&slow)[4], "10 s (just over 10 s)");
        assert_eq!(row(&point(10_000, None, 0.5, 0.5))[4], "10 s (10 s)");
    }

    #[test]
    fn who_skips_does_not_wait_but_misses_runs() {
        let mut points = vec![point(2_000, None, 0.5, 0.5)];
        points[0].skips = Some(Skips { share: 0.5, missed: 0.25, missed_p99: 2 });
        let mut tuning = tuning(points, 0);
        tuning.if_taken = IfTaken::Skip;
        let said = text(&tuning, Style::default());
        assert!(said.contains("runs missed (p99)") && said.contains("0.25 (2)"), "{said}");
        assert!(!said.contains("wait (p99)"), "{said}");
    }
}
