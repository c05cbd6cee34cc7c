//! Pages hold what they should, escaped.

use std::collections::BTreeSet;

use super::*;
use crate::chart::{LatencyChart, LatencyOverTime};
use crate::latency::Latencies;
use crate::support;
use history::verdict::{Level, Outcome};
use history::{Head, History};

fn result() -> RunResult {
    let reason = "no fault met a hold";
    let invariants = vec![
        support::held("ownership", Level::Key),
        support::overlap(),
        support::because("distinct-prizes", Level::Effect, Outcome::Inconclusive, reason),
    ];
    support::result(&support::bonus_pool(), invariants)
}

/// The latency charts of a history.
fn pictures(history: &History) -> RunPictures {
    let (latencies, head) = (Latencies::of(history), &history.head);
    let charts = [LatencyChart::wide(&latencies, head), LatencyChart::narrow(&latencies, head)];
    let over_time = LatencyOverTime::both(history);
    RunPictures {
        incident: None,
        percentiles: Picture::new(&charts[0], &charts[1]).ok(),
        over_time: Picture::new(&over_time[0], &over_time[1]).ok(),
    }
}

#[test]
fn the_page_says_everything() {
    let files = ["result.json", "report.html", "server.log"].map(str::to_owned);
    let page = page(&result(), &RunPictures::default(), &files);
    for part in [
        "<html lang=\"en\">",
        "<title>bonus-pool: violated — picklock</title>",
        "<span class=\"badge violated\">violated</span>",
        "<span class=\"badge na\">n/a</span>",
        "<dt>Commands for each yes</dt><dd>2.50</dd>",
        "<dt>Bypassed by later ones</dt><dd>p99 7, max 9</dd>",
        "nothing was checked",
        "no fault met a hold",
        "the first of 2",
        "<td class=\"time\">613.204 ms</td>",
        "<td class=\"who\">the run</td>",
        "95 yes, 5 no, 0 unknown",
        "<th scope=\"row\">EVALSHA</th><td class=\"number\">95</td><td class=\"number\">95</td>",
        "<dd>7.0.15</dd>",
        "<dt>It can</dt><dd>Lua scripts, RESP3; not: DELEX</dd>",
        "<a href=\"./server.log\">",
        "--world redis --seed 42</pre>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("report.html"));
}

#[test]
fn every_text_is_escaped() {
    let bad = "<script>alert('x')</script>\"&\u{1b}";
    let mut result = result();
    for text in [
        &mut result.scenario,
        &mut result.lock,
        &mut result.world,
        &mut result.validity,
        &mut result.replay,
        &mut result.server.software,
        &mut result.server.version,
        &mut result.server.origin,
        &mut result.invariants[0].name,
        &mut result.stats.latencies[0].operation,
    ] {
        *text = bad.to_owned();
    }
    result.remarks.push(bad.to_owned());
    result.stats.commands.insert(bad.to_owned(), 1);
    result.invariants[2].reason = Some(bad.to_owned());
    let witness = result.invariants[1].witness.as_mut().unwrap();
    witness.summary = bad.to_owned();
    witness.steps[0].text = bad.to_owned();
    let history = History::new(Head { scenario: bad.to_owned(), ..Head::default() });
    let files = [bad.to_owned(), "javascript:x".to_owned()];
    let page = page(&result, &pictures(&history), &files);
    assert!(!page.contains("<script") && !page.contains('\u{1b}'));
    assert!(page.contains("href=\"./javascript%3Ax\""));
}

#[test]
fn nothing_is_fetched() {
    let page = page(&result(), &pictures(&support::bonus_pool()), &[]);
    for word in ["<script", "<link", "@import", "url(", " src=", "<iframe", "<object"] {
        assert!(!page.contains(word), "{word}");
    }
    // The one address is the name of SVG's vocabulary, which nobody opens.
    assert_eq!(page.matches("http:").count(), 4);
    assert_eq!(page.matches("<svg").count(), 4, "two for a wide page and two for a narrow one");
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; "));
}

#[test]
fn every_picture_can_be_enlarged_by_itself() {
    let page = page(&result(), &pictures(&support::bonus_pool()), &[]);
    let values = |name: &str| {
        let begin = format!(" {name}=\"");
        let parts = page.split(&begin).skip(1).filter_map(|it| it.split('"').next());
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let (ids, labels) = (values("id"), values("for"));
    assert_eq!(ids, labels);
    assert_eq!(ids.len(), 3 * 4, "three sizes of four drawings: {ids:?}");
    assert_eq!(BTreeSet::from_iter(&ids).len(), ids.len(), "{ids:?}");
}

#[test]
fn an_interrupted_and_an_empty_run_have_a_page() {
    let history = history::History::new(support::head());
    let empty = RunResult { complete: false, ..support::result(&history, Vec::new()) };
    let page = page(&empty, &RunPictures::default(), &[]);
    assert!(page.contains("Interrupted: ") && page.contains("cut short"));
    assert!(!page.contains("What went wrong") && !page.contains("Remarks"));
}
