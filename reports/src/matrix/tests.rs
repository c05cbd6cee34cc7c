//! What the files of a matrix say.

use history::verdict::Outcome;
use scenarios::matrix::VerdictCounts;

use super::*;
use crate::support::pair;

/// Three recipes of one story: one as expected, one not, one that was not run.
fn matrix() -> Matrix {
    let found = |lock, key| pair(lock, Some(key)).lasting(1_500_000_000);
    let scenario = Pair::scenario("gc-pause", "queue").unwrap();
    let left = Pair::not_run(&scenario, Some("only <here>".to_owned()));
    let pairs = vec![found("single", Outcome::Held), found("polling", Outcome::Violated), left];
    Matrix::new("virtual", None, pairs, false)
}

fn again(pair: &Pair) -> String {
    format!("again {} & {}", pair.scenario, pair.lock)
}

#[test]
fn a_ci_sees_what_failed_and_what_was_left_out() {
    let text = junit(&[matrix()], again).unwrap();
    assert!(text.contains("tests=\"3\""), "{text}");
    assert!(text.contains("failures=\"1\""), "{text}");
    assert!(text.contains("skipped") && text.contains("only &lt;here&gt;"), "{text}");
    let surprise = "key is violated, and held is expected: of 1 runs it held in 0, was violated in 1, \
                    first with seed 3, and 0 do not say";
    assert!(text.contains(surprise), "{text}");
    assert!(text.contains("replay: again gc-pause &amp; polling</failure>"), "{text}");
    assert_eq!(text.matches("replay: ").count(), 1, "{text}");
    for (of, time) in
        [("testcase name=\"single\"", "1.500"), ("testsuite ", "3.000"), ("testsuites ", "3.000")]
    {
        let element = text.split(&format!("<{of}")).nth(1).and_then(|it| it.split('>').next());
        assert!(element.unwrap().contains(&format!("time=\"{time}\"")), "{of}: {text}");
    }
}

#[test]
fn what_is_violated_in_some_runs_alone_is_told_from_what_is_expected() {
    let mut runs = VerdictCounts::of_run(3, Outcome::Violated);
    runs.add(4, Outcome::Held);
    let polling = recipe::about("polling").unwrap();
    let cell = Cell::of(Level::Key, Outcome::Violated, runs, polling, false);
    let said = surprise(&cell);
    let expected = "key is violated, and violated in every run is expected: of 2 runs it held in 1";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn a_reader_sees_what_was_expected_where_it_was_not_found() {
    let scenarios = scenarios::catalog::all().unwrap();
    let text = markdown(&[matrix()], &scenarios);
    assert!(
        text.contains(
            "World virtual. 12 cells: 7 as expected, 1 not, 0 vacuous, 0 without a claim, 4 not run."
        ),
        "{text}"
    );
    assert!(
        text.contains("| `polling` | **violated**, expected held | violated | violated | held |"),
        "{text}"
    );
    assert!(text.contains("| `single` | held | held | violated | held |"), "{text}");
    assert!(
        text.contains("| `queue` | not run | not run | not run | not run | only &lt;here> |"),
        "{text}"
    );
    assert!(text.contains("Source: ") && !text.contains("Searched for"), "{text}");
    let searched = Pair::searched("gc-pause", "single").unwrap();
    let pairs = vec![Pair::found(&searched, Level::ALL.map(|_| VerdictCounts::default()))];
    let text = markdown(&[Matrix::new("virtual", None, pairs, false)], &scenarios);
    assert!(text.contains("Searched for, with nothing staged: clients stand still"), "{text}");
}

#[test]
fn what_was_run_again_is_told_in_both() {
    let mut found = matrix();
    assert!(!markdown(&[found.clone()], &[]).contains("Run again"));
    found.pairs[0].run_again = vec!["vacuous: nobody ever got the lock".to_owned()];
    let told = "after 1 run that showed nothing (vacuous: nobody ever got the lock)";
    let text = junit(&[found.clone()], again).unwrap();
    assert!(text.contains(&format!("run again: gc-pause with single, {told}")), "{text}");
    let text = markdown(&[found], &[]);
    assert!(text.contains(&format!("\n- `gc-pause`: the run with `single`, {told}\n")), "{text}");
}

/// The same on two servers, and something else on a third.
fn on_servers() -> Vec<Matrix> {
    let on = |server: &str| Matrix { server: Some(format!("{server}, at a place")), ..matrix() };
    let mut other = on("valkey 9.1.2");
    other.pairs[1] = other.pairs[2].clone();
    let other = Matrix::new("virtual", other.server, other.pairs, false);
    vec![on("redis 7.0.15"), other, on("redis 8.2.3")]
}

#[test]
fn a_ci_sees_which_server_each_suite_is_of() {
    let text = junit(&on_servers(), again).unwrap();
    for server in ["redis 7.0.15", "valkey 9.1.2", "redis 8.2.3"] {
        assert!(text.contains(&format!("<testsuite name=\"gc-pause on {server}\"")), "{text}");
    }
    assert!(text.contains("classname=\"picklock.virtual.valkey_9_1_2.gc-pause\""), "{text}");
    assert!(!junit(&[matrix()], again).unwrap().contains(" on "));
}

#[test]
fn a_reader_sees_which_servers_showed_what() {
    let text = markdown(&on_servers(), &[]);
    assert!(text.contains("World virtual. 36 cells: 18 as expected, 2 not, "), "{text}");
    assert!(text.contains("\n| valkey 9.1.2 | 12 cells: 4 as expected, "), "{text}");
    assert!(text.contains(" | at a place |\n"), "{text}");
    assert!(text.contains("\n*on redis 7.0.15, redis 8.2.3:*\n\n| recipes |"), "{text}");
    assert!(text.contains("\n*on valkey 9.1.2:*\n\n| recipes |"), "{text}");
    let one = markdown(&on_servers()[..1], &[]);
    assert!(one.contains("World virtual (redis 7.0.15, at a place). ") && !one.contains("*on "));
}
