//! The matrix as a page: a heat table of scenarios and recipes, whose cells lead to what was found there.
//!
//! Invariant: what was found is drawn, and what was not expected is set off from it; a cell of which nothing is claimed never
//! looks like a success. Every colour is repeated by a shape.

use std::collections::BTreeMap;

use history::verdict::Outcome;
use maud::{Markup, html};
use scenarios::matrix::{Cell, Conformance, Matrix, Pair, Totals};
use scenarios::recipe;
use scenarios::scenario::Scenario;

use super::document::document;
use super::verdicts::{FailingRun, badge, class};
use crate::format::{count, plain};
use crate::matrix::{again, is_surprising, servers, surprise, totals, verdict};

/// A matrix on its page.
#[derive(Clone, Debug)]
pub struct MatrixSection<'a> {
    /// What was found.
    pub matrix: &'a Matrix,
    /// A run of each pair that violates something, by scenario and recipe.
    pub failing: &'a BTreeMap<(String, String), FailingRun>,
}

/// The page. `scenarios` are the scenarios, for their stories; `replay` gives the line that runs a pair again.
pub fn matrix_page(
    sections: &[MatrixSection<'_>],
    scenarios: &[Scenario],
    replay: impl Fn(&Pair) -> String,
) -> String {
    let all: Vec<Matrix> = sections.iter().map(|it| it.matrix.clone()).collect();
    let sum = Totals::sum(&all);
    let (outcome, says) = verdict(&all);
    let titles: BTreeMap<&str, &Scenario> =
        scenarios.iter().map(|it| (it.name.as_str(), it)).collect();
    let body = html! {
        header {
            h1 { "Every recipe in every scenario " span.badge.(class(outcome)) { (says) } }
            p.lead { (totals(sum)) }
        }
        main {
            @for (place, (it, server)) in sections.iter().zip(servers::names(&all)).enumerate() {
                section id=(format!("m{place}")) {
                    h2 { "World " (plain(&it.matrix.world)) @if it.matrix.server.is_some() { ", " (plain(server)) } }
                    @if it.matrix.interrupted { p { strong { "Interrupted: " } "not every pair has been run." } }
                    (surprises(place, it.matrix))
                    (legend())
                    (heat(place, it.matrix, &titles))
                }
                (articles(place, it, &titles, &replay))
                (run_again(it.matrix))
            }
        }
    };
    document(&format!("Every recipe in every scenario: {says} — picklock"), &body)
}

/// What was not found as expected, first of all.
fn surprises(place: usize, matrix: &Matrix) -> Markup {
    let surprising =
        matrix.pairs.iter().enumerate().filter(|(_, it)| it.cells.iter().any(is_surprising));
    let surprising: Vec<_> = surprising.collect();
    html! {
        @if !surprising.is_empty() {
            h3 { "Not as expected" }
            ul {
                @for (number, pair) in surprising {
                    @for cell in pair.cells.iter().filter(|it| is_surprising(it)) {
                        li {
                            a href=(format!("#{}", id(place, number))) { (plain(&pair.scenario)) " with " (plain(&pair.lock)) }
                            ": " (surprise(cell))
                        }
                    }
                }
            }
        }
    }
}

fn legend() -> Markup {
    let looks = [
        ("held", "held"),
        ("violated", "violated"),
        ("unclaimed", "violated, and nothing is claimed"),
        ("unknown", "inconclusive"),
        ("open", "nothing is claimed"),
    ];
    html! {
        p.faint {
            "Of each pair: key and belief above, effect and progress below. "
            span.looks {
                @for (look, name) in looks { span { i.dot.(look) {} " " (name) } }
                span { i.dot.held.other {} " not as expected" }
            }
            "A recipe in italics has a known flaw. Click on a pair for what was found."
        }
    }
}

/// The table: a row for each scenario, a column for each recipe.
fn heat(place: usize, matrix: &Matrix, titles: &BTreeMap<&str, &Scenario>) -> Markup {
    let mut locks: Vec<&str> = Vec::new();
    for pair in &matrix.pairs {
        if !locks.contains(&pair.lock.as_str()) {
            locks.push(&pair.lock);
        }
    }
    let title = |name: &str| titles.get(name).map(|it| plain(&it.title).into_owned());
    let flaw = |lock: &str| recipe::about(lock).ok().and_then(|it| it.flaw);
    html! {
        div.scroll.matrix tabindex="0" role="region" aria-label="Scenarios and recipes" {
            table {
                thead {
                    tr {
                        td {}
                        @for lock in &locks {
                            th.lock.flawed[flaw(lock).is_some()] scope="col" title=(flaw(lock).unwrap_or("no known flaw")) { span { (plain(lock)) } }
                        }
                    }
                }
                tbody {
                    @for name in matrix.scenarios() {
                        tr {
                            th scope="row" title=[title(name)] { (plain(name)) }
                            @for lock in &locks {
                                td {
                                    @let found = matrix.pairs.iter().enumerate().find(|(_, it)| it.scenario == name && it.lock == *lock);
                                    @if let Some((number, pair)) = found { (cell(&target(place, matrix, number), pair)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The name of the article of this pair.
fn id(place: usize, number: usize) -> String {
    format!("m{place}-p{number}")
}

/// The article to which the cell of this pair leads: pairs that show the same, and violate nothing, share one.
fn target(place: usize, matrix: &Matrix, number: usize) -> String {
    let pair = &matrix.pairs[number];
    let groups = matrix.groups(&pair.scenario);
    let alike = groups.into_iter().find(|group| group.iter().any(|it| it.lock == pair.lock));
    let first = match alike {
        Some(group) if !violates(pair) => matrix.pairs.iter().position(|it| it == group[0]),
        _ => None,
    };
    id(place, first.unwrap_or(number))
}

fn violates(pair: &Pair) -> bool {
    pair.cells.iter().any(|it| it.found == Outcome::Violated)
}

fn cell(target: &str, pair: &Pair) -> Markup {
    let said = |it: &Cell| {
        let unclaimed = if look(it) == "unclaimed" { " (nothing is claimed)" } else { "" };
        format!("{} {}{unclaimed}", it.level.name(), it.found.name())
    };
    let said = match &pair.not_run {
        Some(_) => "not run".to_owned(),
        None => pair.cells.iter().map(said).collect::<Vec<_>>().join(", "),
    };
    let label = format!("{} with {}: {said}", pair.scenario, pair.lock);
    html! {
        a.cell href=(format!("#{target}")) title=(plain(&label)) aria-label=(plain(&label)) {
            @for it in &pair.cells { i.dot.(look(it)).other[is_surprising(it)] {} }
        }
    }
}

/// How what was found looks.
fn look(cell: &Cell) -> &'static str {
    match (cell.standing, cell.found) {
        (Conformance::Unclaimed, Outcome::Violated) => "unclaimed",
        (_, Outcome::Violated) => "violated",
        (Conformance::Unclaimed, _) | (_, Outcome::NotApplicable) => "open",
        (_, Outcome::Held) => "held",
        (_, Outcome::Inconclusive) => "unknown",
    }
}

/// What was found of each pair; shown for the cell that was chosen.
fn articles(
    place: usize,
    it: &MatrixSection<'_>,
    titles: &BTreeMap<&str, &Scenario>,
    replay: &impl Fn(&Pair) -> String,
) -> Markup {
    let matrix = it.matrix;
    let number = |pair: &Pair| matrix.pairs.iter().position(|it| it == pair).unwrap_or_default();
    html! {
        @for scenario in matrix.scenarios() {
            @for group in matrix.groups(scenario) {
                @if violates(group[0]) {
                    @for pair in &group { (article(place, number(pair), &[pair], it, titles, replay)) }
                } @else {
                    (article(place, number(group[0]), &group, it, titles, replay))
                }
            }
        }
    }
}

fn article(
    place: usize,
    number: usize,
    pairs: &[&Pair],
    section: &MatrixSection<'_>,
    titles: &BTreeMap<&str, &Scenario>,
    replay: &impl Fn(&Pair) -> String,
) -> Markup {
    let id = id(place, number);
    let pair = pairs[0];
    let locks: Vec<&str> = pairs.iter().map(|it| it.lock.as_str()).collect();
    let failing = section.failing.get(&(pair.scenario.clone(), pair.lock.clone()));
    html! {
        section.pair id=(id) {
            p { a href=(format!("#m{place}")) { "back to the table" } }
            h2 { (plain(&pair.scenario)) " with " (plain(&locks.join(", "))) }
            @if let Some(scenario) = titles.get(pair.scenario.as_str()) { p { (plain(&scenario.title)) } }
            @if let Some(why) = &pair.not_run { p { "Not run: " (plain(why)) } }
            @if !pair.cells.is_empty() { (levels(pair, pairs.len() == 1)) }
            @if !pair.why.is_empty() { p.faint { "Why this is expected: " (plain(&pair.why)) } }
            @match failing {
                Some(run) => (run.markup(&id)),
                None if pair.not_run.is_none() => pre { (plain(&replay(pair))) },
                None => (html! {}),
            }
        }
    }
}

/// Each level: what was found, what was expected, and in how many runs; of one pair also the seed that violates it.
fn levels(pair: &Pair, is_one: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="What was found" {
            table.latencies {
                thead {
                    tr {
                        @for name in ["Level", "Found", "Expected"] { th scope="col" { (name) } }
                        @if is_one {
                            @for name in ["Runs", "Held", "Violated", "First seed"] { th.number scope="col" { (name) } }
                        }
                    }
                }
                tbody {
                    @for it in &pair.cells {
                        tr {
                            th scope="row" { (it.level.name()) }
                            td data-name="Found" { (badge(it.found)) }
                            td data-name="Expected" {
                                @if it.standing == Conformance::Unclaimed { span.faint { "nothing is claimed" } }
                                @else { (badge(it.expected)) }
                            }
                            @if is_one {
                                @for (name, number) in [("Runs", it.runs.total()), ("Held", it.runs.held), ("Violated", it.runs.violated)] {
                                    td.number data-name=(name) { (count(number)) }
                                }
                                td.number data-name="First seed" { @if let Some(seed) = it.runs.first_violated { (seed) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn run_again(matrix: &Matrix) -> Markup {
    let repeated = matrix.run_again();
    html! {
        @if !repeated.is_empty() {
            section {
                h2 { "Run again" }
                ul { @for (scenario, lock, why) in repeated { li { (plain(&again(scenario, lock, why))) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support;

    #[test]
    fn cells_lead_to_what_was_found_and_violated_ones_to_their_story() {
        let pairs = vec![
            support::pair("single", None),
            support::pair("del-release", None),
            support::pair("queue", Some(Outcome::Violated)),
        ];
        let matrix = Matrix::new("virtual", None, pairs, false);
        let history = support::bonus_pool();
        let result = support::result(&history, vec![support::overlap()]);
        let run = FailingRun {
            picture: crate::write::incident(&history, &result),
            result,
            replay: "picklock matrix --seeds 3..4".to_owned(),
        };
        let key = ("gc-pause".to_owned(), "del-release".to_owned());
        let section = MatrixSection { matrix: &matrix, failing: &BTreeMap::from([(key, run)]) };
        let page = matrix_page(&[section], &[], |pair| format!("picklock --lock {}", pair.lock));
        let hrefs = page.split("href=\"#").skip(1).filter_map(|it| it.split('"').next());
        let ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|it| it.split('"').next()).collect();
        for href in hrefs {
            assert_eq!(ids.iter().filter(|it| **it == href).count(), 1, "{href}");
        }
        let of = |id: &str| {
            let begin = page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("{id}"));
            let end = page[begin..].find("</section>").unwrap();
            &page[begin..begin + end]
        };
        let violated = of("m0-p1");
        assert!(violated.contains("<pre>picklock matrix --seeds 3..4</pre>"), "{violated}");
        assert!(violated.contains("<svg") && violated.contains("read prize 7"), "{violated}");
        assert!(of("m0-p2").contains("<pre>picklock --lock queue</pre>"));
        assert!(page.contains("queue</a>: key is violated, and held is expected"), "{page}");
        assert!(page.contains("<i class=\"dot violated other\">"), "{page}");
        assert!(page.contains("not as expected</span></h1>"));
    }

    #[test]
    fn a_violation_where_nothing_is_claimed_does_not_look_like_one_that_is_claimed() {
        let mut pair = support::pair("queue", Some(Outcome::Violated));
        let place = pair.cells.iter().position(|it| it.found == Outcome::Violated).unwrap();
        pair.cells[place].standing = Conformance::Unclaimed;
        let looks = cell("m0-p0", &pair).into_string();
        assert!(looks.contains("<i class=\"dot unclaimed\">"), "{looks}");
        assert!(looks.contains("violated (nothing is claimed)"), "{looks}");
        let claimed = cell("m0-p0", &support::pair("queue", Some(Outcome::Violated))).into_string();
        assert!(claimed.contains("<i class=\"dot violated other\">"), "{claimed}");
        assert!(legend().into_string().contains("dot unclaimed"));
    }
}
