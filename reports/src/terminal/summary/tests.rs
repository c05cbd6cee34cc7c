//! Whole summaries, as people see them.

use super::*;
use crate::support;
use scenarios::result::Invariant;

const PLAIN: Style = Style { colour: false, width: Some(80), verbosity: Verbosity::Normal };

fn result(invariants: Vec<Invariant>) -> RunResult {
    support::result(&support::bonus_pool(), invariants)
}

fn held() -> RunResult {
    result(vec![
        support::held("ownership", Level::Key),
        support::held("mutual-exclusion", Level::Belief),
        support::held("distinct-prizes", Level::Effect),
    ])
}

fn violated() -> RunResult {
    let reason = "no fault met a hold, so nothing was put to the test at this level of the run";
    let mut result = result(vec![
        support::held("ownership", Level::Key),
        support::overlap(),
        support::because("distinct-prizes", Level::Effect, Outcome::Inconclusive, reason),
        support::because("fairness", Level::Progress, Outcome::NotApplicable, "no order claimed"),
    ]);
    result.remarks = vec!["the TTL is shorter than the work".to_owned()];
    result
}

#[test]
fn a_run_that_held() {
    let text = summary(&held(), PLAIN);
    let lines: Vec<&str> = text.lines().collect();
    let headline = "bonus-pool: 100 clients, lock single, world redis (redis 7.0.15, private \
        server), seed 42";
    assert_eq!(lines[..2], [headline, ""]);
    let table = [
        "key                 held",
        "  ownership         held",
        "belief              held",
        "  mutual-exclusion  held",
        "effect              held",
        "  distinct-prizes   held",
        "progress            n/a           nothing was checked",
    ];
    assert_eq!(lines[2..9], table);
    assert!(lines.contains(&"acquisitions: 100 begun, 95 yes, 5 no, 0 unknown"));
    assert!(lines.contains(&"winners: 10"));
    assert!(lines.contains(&"commands for each yes: 2.50"));
    assert!(lines.contains(&"bypassed by later ones: p99 7, max 9"));
    assert!(text.ends_with("\n\nverdict: held\n"));
}

#[test]
fn the_latency_table_is_aligned() {
    let text = summary(&held(), PLAIN);
    let mut table = text.lines().skip_while(|line| !line.starts_with("latency"));
    let header = table.next().unwrap();
    for name in ["count", "p50", "p90", "p99", "max"] {
        assert!(header.contains(name), "{header}");
    }
    let rows: Vec<&str> = table.take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 9);
    assert!(rows.iter().all(|row| row.chars().count() == header.chars().count()), "{text}");
    assert!(rows[1].starts_with("wait for refusal "));
    assert!(rows[8].contains(" 4,051 "));
}

#[test]
fn a_violation_is_told_as_a_story() {
    let text = summary(&violated(), PLAIN);
    let story = "\
belief violated: mutual-exclusion, the first of 2
  clients 3 and 7 both believed that they held the lock, for 41.882 ms
   1.  12.345 ms  client 3  acquired the lock, valid until 512.345 ms
   2.  13.001 ms  the run   paused client 3 for 600 ms, in its hold
   3. 512.400 ms  client 7  acquired the lock: the key had expired
   4. 613.002 ms  client 3  read prize 7, still believing to hold
   5. 613.204 ms  client 7  read prize 7
";
    assert!(text.contains(story), "{text}");
    assert!(text.contains("  mutual-exclusion  violated      2 times\n"));
    assert!(text.contains("  fairness          n/a           no order claimed\n"));
    assert!(text.contains("note: the TTL is shorter than the work\n"));
    assert!(text.ends_with("\nverdict: violated (belief)\n"));
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_violates_two_invariants_is_told_once() {
    let owned = Invariant { name: "ownership".to_owned(), level: Level::Key, ..support::overlap() };
    let text = summary(&result(vec![owned, support::overlap()]), PLAIN);
    let told = "\
key violated: ownership, the first of 2
  clients 3 and 7 both believed that they held the lock, for 41.882 ms
belief violated: mutual-exclusion, the first of 2
  clients 3 and 7 both believed that they held the lock, for 41.882 ms
   1.  12.345 ms  client 3  acquired the lock, valid until 512.345 ms
";
    assert!(text.contains(told), "{text}");
    assert_eq!(text.matches("read prize 7, still believing").count(), 1, "{text}");
}

#[test]
fn an_interrupted_run_says_so() {
    let reason = "the run was interrupted";
    let because = support::because("ownership", Level::Key, Outcome::Inconclusive, reason);
    let result = RunResult { complete: false, ..result(vec![because]) };
    let text = summary(&result, PLAIN);
    assert!(text.contains("\ninterrupted: the run was cut short"), "{text}");
    assert!(text.contains("  ownership  inconclusive  the run was interrupted\n"), "{text}");
    assert!(text.ends_with("\nverdict: inconclusive (key)\n"));
}

#[test]
fn quiet_says_what_did_not_hold_and_verbose_says_more() {
    let quiet = Style { verbosity: Verbosity::Quiet, width: None, ..PLAIN };
    let text = summary(&violated(), quiet);
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("violated: belief mutual-exclusion: clients 3 and 7 both"));
    assert_eq!(summary(&held(), quiet).lines().count(), 2);
    let verbose = summary(&held(), Style { verbosity: Verbosity::Verbose, ..PLAIN });
    assert!(verbose.contains("\nsent: DECR 10, EVALSHA 95, GET 95, SET 4,051\n"), "{verbose}");
    assert!(verbose.contains("mean\n"));
    let can = "\nthe server can: Lua scripts, RESP3; not: DELEX\n";
    assert!(verbose.contains(can) && !summary(&held(), PLAIN).contains("the server can"));
}

#[test]
fn without_colour_there_is_no_escape_byte_and_no_control_character() {
    let mut result = violated();
    for text in [&mut result.scenario, &mut result.lock, &mut result.replay] {
        text.push_str("\u{1b}[2J\r");
    }
    result.remarks.push("\u{9b}31m".to_owned());
    if let Some(witness) = &mut result.invariants[1].witness {
        witness.steps[0].text.push('\u{7}');
        witness.summary.push('\u{1b}');
    }
    for verbosity in [Verbosity::Quiet, Verbosity::Normal, Verbosity::Verbose] {
        let style = Style { verbosity, ..PLAIN };
        let text = summary(&result, style) + &footer(&result, Path::new("a\u{1b}b"), style);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let coloured = summary(&violated(), Style { colour: true, ..PLAIN });
    assert!(coloured.contains("\u{1b}[1;31mviolated\u{1b}[0m"));
    let mut parts = coloured.split('\u{1b}');
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        text.push_str(part.split_once('m').unwrap().1);
    }
    assert_eq!(text, summary(&violated(), PLAIN));
}

#[test]
fn a_narrow_terminal_and_an_empty_result_are_no_trouble() {
    let narrow = Style { width: Some(10), ..PLAIN };
    assert!(summary(&violated(), narrow).contains("nothing was put"));
    let history = history::History::new(support::head());
    let empty = support::result(&history, Vec::new());
    let text = summary(&empty, PLAIN);
    assert!(text.ends_with("\nverdict: n/a\n"), "{text}");
}

#[test]
fn the_footer_says_where_and_how_again() {
    let text = footer(&held(), Path::new("out/pool/1-42"), PLAIN);
    let replay = "picklock --scenario bonus-pool --lock single --world redis --seed 42";
    assert_eq!(text, format!("report: out/pool/1-42/report.html\nreplay: {replay}\n"));
}
