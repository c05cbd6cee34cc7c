//! What a person sees of a matrix: each scenario, and the recipes that showed the same together; of several
//! servers, those that showed the same in a scenario together.
//!
//! Invariant: every cell is a word; one that was not expected says so on a line of its own, with what
//! was expected and with the runs, and on which server where there are several.

use history::verdict::Level;
use scenarios::matrix::{Cell, Conformance, Matrix, Pair};

use super::Style;
use super::Verbosity;
use super::colour::Emphasis;
use crate::format::plain;
use crate::matrix::{again, is_surprising, joined, servers, surprise, totals, verdict};

/// As wide as the longest word of a cell, and its brackets.
const CELL: usize = 14;
/// Where the names of recipes begin.
const NAMES: usize = 2 + 4 * (CELL + 1);

/// The matrix of each server, and how they stand.
pub fn matrix(matrices: &[Matrix], style: Style) -> String {
    let mut text = String::new();
    if style.verbosity > Verbosity::Quiet {
        let head: String = Level::ALL.map(|level| format!("{:<CELL$} ", level.name())).concat();
        text += &format!("  {}recipes\n", head);
        for scenario in matrices.first().map(Matrix::scenarios).unwrap_or_default() {
            text += &format!("{}\n", style.ink(Emphasis::Bold, &plain(scenario)));
            let rows = |matrix: &Matrix| -> String {
                // Reasons are not shown here.
                let shown = |pair: &Pair| {
                    (pair.cells.iter().map(word).collect::<Vec<_>>(), pair.not_run.clone())
                };
                let groups = joined(&matrix.groups(scenario), shown);
                groups.iter().map(|group| row(group, style)).collect()
            };
            for (on, rows) in servers::alike(matrices, rows) {
                if let Some(on) = on {
                    text += &format!(" {}\n", style.wrap(&plain(&on), 1));
                }
                text += &rows;
            }
        }
        text += "\n(in brackets: nothing is claimed there)\n";
    }
    let is_one = matrices.len() == 1;
    for (matrix, name) in matrices.iter().zip(servers::names(matrices)) {
        let on = if is_one { String::new() } else { format!(" on {}", plain(name)) };
        for (scenario, locks, what) in surprises(matrix) {
            let said = format!("{scenario} with {}: {what}", locks.join(", "));
            let said = style.wrap(&plain(&said), 4);
            text +=
                &format!("{}: {said}\n", style.ink(Emphasis::Red, &format!("not as expected{on}")));
        }
        for (scenario, lock, why) in matrix.run_again() {
            let said = style.wrap(&plain(&again(scenario, lock, why)), 4);
            text +=
                &format!("{}: {said}\n", style.ink(Emphasis::Yellow, &format!("run again{on}")));
        }
        match is_one {
            true => text += &format!("{}\n", totals(matrix.totals)),
            false => {
                let server = plain(matrix.server.as_deref().unwrap_or(name));
                text += &style.wrap(&format!("{server}: {}", totals(matrix.totals)), 4);
                text += "\n";
            }
        }
    }
    let (outcome, verdict) = verdict(matrices);
    let verdict = style.ink(Emphasis::of(outcome), verdict);
    text += &format!("{}: {verdict}\n", style.ink(Emphasis::Bold, "verdict"));
    text
}

/// What was not expected, in each scenario, of which recipes.
fn surprises(matrix: &Matrix) -> Vec<(&str, Vec<&str>, String)> {
    let mut all: Vec<(&str, Vec<&str>, String)> = Vec::new();
    for pair in &matrix.pairs {
        for cell in pair.cells.iter().filter(|it| is_surprising(it)) {
            let what = surprise(cell);
            let same = |it: &&mut (&str, Vec<&str>, String)| it.0 == pair.scenario && it.2 == what;
            match all.iter_mut().find(same) {
                Some((_, locks, _)) => locks.push(&pair.lock),
                None => all.push((&pair.scenario, vec![&pair.lock], what)),
            }
        }
    }
    all
}

fn row(group: &[&Pair], style: Style) -> String {
    let names: Vec<&str> = group.iter().map(|pair| pair.lock.as_str()).collect();
    let first = group[0];
    let cells = match &first.not_run {
        Some(why) => {
            let said = format!("not run: {why}");
            let names = style.wrap(&plain(&names.join(", ")), 4);
            return format!("  {}\n    {names}\n", style.ink(Emphasis::Dim, &plain(&said)));
        }
        None => first.cells.iter().map(|cell| shown(cell, style)).collect::<String>(),
    };
    format!("  {cells}{}\n", style.wrap(&plain(&names.join(", ")), NAMES))
}

fn word(cell: &Cell) -> String {
    match cell.standing {
        Conformance::Unclaimed => format!("({})", cell.found.name()),
        _ => cell.found.name().to_owned(),
    }
}

fn shown(cell: &Cell, style: Style) -> String {
    let word = word(cell);
    let blanks = " ".repeat(CELL + 1 - word.chars().count().min(CELL));
    let ink = if cell.standing == Conformance::Unclaimed {
        Emphasis::Dim
    } else {
        Emphasis::of(cell.found)
    };
    format!("{}{blanks}", style.ink(ink, &word))
}

#[cfg(test)]
mod tests {
    use history::verdict::Outcome;

    use super::*;
    use crate::support::pair;

    #[test]
    fn recipes_that_show_the_same_stand_in_one_line() {
        let pairs = ["single", "polling", "notify", "none"].map(|lock| pair(lock, None));
        let text = matrix(&[Matrix::new("virtual", None, pairs.into(), false)], Style::default());
        assert!(text.contains("gc-pause\n  held           held           violated       held           single, notify\n"), "{text}");
        assert!(
            text.contains("  (n/a)          violated       violated       (n/a)          none\n"),
            "{text}"
        );
        assert!(text.ends_with("verdict: as expected\n"), "{text}");
    }

    #[test]
    fn where_nothing_was_run_or_is_claimed_the_verdict_says_so() {
        let of = |pairs: &[Pair]| {
            matrix(&[Matrix::new("embedded", None, pairs.into(), false)], Style::default())
        };
        let mut not_run = pair("single", None);
        (not_run.not_run, not_run.cells) = (Some("it has no replica".to_owned()), Vec::new());
        let mut unclaimed = pair("polling", None);
        unclaimed.cells.iter_mut().for_each(|it| it.standing = Conformance::Unclaimed);
        for pairs in
            [&[][..], &[not_run.clone()], &[unclaimed.clone()], &[not_run.clone(), unclaimed]]
        {
            let text = of(pairs);
            assert!(text.ends_with("verdict: nothing was tested\n"), "{text}");
        }
        assert!(of(&[not_run.clone(), pair("single", None)]).ends_with("verdict: as expected\n"));
        let different = pair("single", Some(Outcome::Violated));
        assert!(of(&[not_run.clone(), different]).ends_with("verdict: not as expected\n"));
        let mut vacuous = pair("single", None);
        vacuous.cells[0].standing = Conformance::Vacuous;
        assert!(of(&[vacuous]).ends_with("verdict: inconclusive\n"));
        let [one, none] = [pair("single", None), not_run]
            .map(|it| Matrix::new("redis", Some("a server".to_owned()), vec![it], false));
        let text = matrix(&[one, none], Style::default());
        assert!(text.ends_with("verdict: not tested on every server\n"), "{text}");
    }

    #[test]
    fn what_was_not_expected_is_told_even_to_who_wants_little() {
        let pairs = vec![pair("single", Some(Outcome::Violated))];
        let style = Style { verbosity: Verbosity::Quiet, ..Style::default() };
        let text = matrix(&[Matrix::new("virtual", None, pairs, false)], style);
        assert!(
            text.starts_with("not as expected: gc-pause with single: key is violated"),
            "{text}"
        );
        assert!(text.ends_with("verdict: not as expected\n"), "{text}");
        let many = ["single", "polling", "notify"].map(|lock| pair(lock, Some(Outcome::Violated)));
        let text = matrix(&[Matrix::new("virtual", None, many.into(), false)], style);
        assert!(
            text.starts_with("not as expected: gc-pause with single, polling, notify: key"),
            "{text}"
        );
    }

    #[test]
    fn what_was_run_again_is_told_with_the_reason() {
        let mut again = pair("single", None);
        let why = "vacuous: the staged fault `pause` met no hold".to_owned();
        again.run_again = vec![why.clone(), why];
        let pairs = vec![again, pair("polling", None)];
        let style = Style { verbosity: Verbosity::Quiet, ..Style::default() };
        let text = matrix(&[Matrix::new("redis", None, pairs, false)], style);
        let told = "run again: gc-pause with single, after 2 runs that showed nothing (vacuous: the staged \
                    fault `pause` met no hold)\n";
        assert!(text.starts_with(told), "{text}");
        assert!(text.ends_with("verdict: as expected\n"), "{text}");
    }

    #[test]
    fn servers_that_show_the_same_stand_together() {
        let on = |server: &str, key| {
            let pairs = vec![pair("single", key), pair("polling", None)];
            Matrix::new("redis", Some(format!("{server}, at a place")), pairs, false)
        };
        let found = [on("redis 7.0.15", None), on("valkey 9.1.2", Some(Outcome::Violated))];
        let found = [found[0].clone(), found[1].clone(), on("redis 8.2.3", None)];
        let text = matrix(&found, Style::default());
        let some = "gc-pause\n on redis 7.0.15, redis 8.2.3\n  held ";
        assert!(text.contains(some), "{text}");
        assert!(text.contains("\n on valkey 9.1.2\n  violated "), "{text}");
        let what = "not as expected on valkey 9.1.2: gc-pause with single: key is violated";
        assert!(text.contains(what) && text.ends_with("verdict: not as expected\n"), "{text}");
        assert!(text.contains("\nredis 8.2.3, at a place: 8 cells: "), "{text}");
        let text = matrix(&[found[0].clone(), found[2].clone()], Style::default());
        assert!(text.contains("gc-pause\n on all 2 servers\n  held "), "{text}");
        assert!(text.ends_with("verdict: as expected\n"), "{text}");
    }
}
