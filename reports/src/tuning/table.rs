//! A tuning in the terminal: what it counts with, every setting of the lock that was asked for, and the advice.
//!
//! Invariant: the advice comes last, where a reader looks first.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use scenarios::tuning::{Answer, Confirmation, Keeping, Point, Tuning};

use super::{confirmed, share, time};
use crate::format::{count, plain};
use crate::terminal::{Style, Verbosity};

/// The whole.
pub fn text(tuning: &Tuning, style: Style) -> String {
    let mut blocks = Vec::new();
    if style.verbosity > Verbosity::Quiet {
        let inputs = tuning.inputs.iter().map(|it| {
            vec![it.name.clone(), plain(&it.value).into_owned(), plain(&it.source).into_owned()]
        });
        blocks.push(lines(&["counts with", "", "from"], inputs.collect(), 3));
        for keeping in Keeping::ALL {
            let shown = keeping == tuning.keeping || style.verbosity == Verbosity::Verbose;
            let points = || tuning.points.iter().filter(|it| it.keeping == keeping);
            if shown && points().next().is_some() {
                blocks.push(table(keeping, points()));
            }
        }
        let all = count(tuning.simulated);
        blocks.push(format!("{all} holds simulated, seed {}\n", tuning.seed));
    }
    if let Some(confirmation) = &tuning.confirmation {
        blocks.push(confirmed(confirmation, style));
    }
    let advice = &tuning.advice;
    let mut said = format!("{}\n", advice.says);
    for reason in &advice.because {
        said += &format!("  - {}\n", style.wrap(reason, 4));
    }
    blocks.push(said);
    blocks.push(format!("answer: {}\n", answer(advice.answer)));
    blocks.join("\n")
}

/// The answer in a word or two.
pub(super) fn answer(answer: Answer) -> &'static str {
    match answer {
        Answer::Met => "met",
        Answer::Unknown => "cannot say",
        Answer::TooSlow => "cannot be met at once",
        Answer::TooManyOverlaps => "cannot be met",
    }
}

/// What the columns of a lock are called.
pub(super) fn header(keeping: Keeping) -> [&'static str; 7] {
    let wrong = if keeping.is_tracked() { "lost before done" } else { "outlives its lease" };
    ["TTL", "renewed every", wrong, "overlap", "takeover p99", "renewals/s", "misses"]
}

/// A point as the cells of a row.
pub(super) fn row(point: &Point) -> [String; 7] {
    let names: Vec<&str> = point.misses.iter().filter_map(|it| it.split(':').next()).collect();
    [
        time(point.ttl),
        point.renew.map_or("-".to_owned(), time),
        share(&point.wrong),
        share(&point.effect),
        time(point.takeover.p99),
        match point.renew {
            None => "-".to_owned(),
            Some(_) if point.renewals_per_second < 0.001 => "< 0.001".to_owned(),
            Some(_) => format!("{:.3}", point.renewals_per_second),
        },
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") },
    ]
}

/// What a kind of lock does, in a few words.
pub(super) fn about(keeping: Keeping) -> &'static str {
    match keeping {
        Keeping::None => "a lock that keeps no validity",
        Keeping::Tracked => "a lock that keeps its validity",
        Keeping::Fenced => {
            "a lock that keeps its validity, and a resource that checks its fencing token"
        }
    }
}

/// What a server has shown of the model.
fn confirmed(confirmation: &Confirmation, style: Style) -> String {
    let rows = confirmation.tried.iter().map(|it| confirmed::row(it).to_vec()).collect();
    let mut text = format!("tried on {}\n", plain(&confirmation.server));
    text += &lines(&confirmed::HEADER, rows, 3);
    for note in confirmed::notes(confirmation) {
        text += &format!("  {}\n", style.wrap(&note, 2));
    }
    text
}

fn table<'a>(keeping: Keeping, points: impl Iterator<Item = &'a Point>) -> String {
    let rows = points.map(|it| row(it).to_vec()).collect();
    format!("{} ({})\n{}", about(keeping), keeping.name(), lines(&header(keeping), rows, 2))
}

fn lines(header: &[&str], rows: Vec<Vec<String>>, words: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(rows);
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding(if place == 0 { (0, 1) } else { (1, 1) });
        if (4..6).contains(&place) && words < 3 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{}\n", lines.join("\n"))
}
