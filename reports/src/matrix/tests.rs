//! What the files of a matrix say.

use scenarios::matrix::Tally;
use scenarios::verdict::Outcome;

use super::*;

/// Three recipes of one story: one as expected, one not, one that was not run.
fn matrix() -> Matrix {
    let found = |lock: &str, key: Outcome| {
        let scenario = Pair::scenario("gc-pause", lock).unwrap();
        let runs = Level::ALL.map(|level| {
            let mut tally = Tally::default();
            let expected = scenario.expected(lock, level);
            tally.add(3, if level == Level::Key { key } else { expected });
            tally
        });
        Pair::found(&scenario, runs)
    };
    let scenario = Pair::scenario("gc-pause", "queue").unwrap();
    let left = Pair::not_run(&scenario, Some("only <here>".to_owned()));
    let pairs = vec![found("single", Outcome::Held), found("polling", Outcome::Violated), left];
    Matrix::new("virtual", None, pairs, false)
}

#[test]
fn a_ci_sees_what_failed_and_what_was_left_out() {
    let text = junit(&matrix()).unwrap();
    assert!(text.contains("tests=\"3\""), "{text}");
    assert!(text.contains("failures=\"1\""), "{text}");
    assert!(text.contains("skipped") && text.contains("only &lt;here&gt;"), "{text}");
    let surprise = "key is violated, and held is expected: of 1 runs it held in 0, was violated in 1, \
                    first with seed 3, and 0 do not say";
    assert!(text.contains(surprise), "{text}");
}

#[test]
fn a_reader_sees_what_was_expected_where_it_was_not_found() {
    let scenarios = scenarios::catalog::all().unwrap();
    let text = markdown(&matrix(), &scenarios);
    assert!(
        text.contains(
            "World virtual. 12 cells: 7 as expected, 1 not, 0 vacuous, 0 of which nothing is claimed, 4 not run."
        ),
        "{text}"
    );
    assert!(
        text.contains("| `polling` | **violated**, expected held | violated | violated | held |"),
        "{text}"
    );
    assert!(text.contains("| `single` | held | held | violated | held |"), "{text}");
    assert!(
        text.contains("| `queue` | not run | not run | not run | not run | only <here> |"),
        "{text}"
    );
    assert!(text.contains("Source: ") && !text.contains("Searched for"), "{text}");
    let searched = Pair::searched("gc-pause", "single").unwrap();
    let pairs = vec![Pair::found(&searched, Level::ALL.map(|_| Tally::default()))];
    let text = markdown(&Matrix::new("virtual", None, pairs, false), &scenarios);
    assert!(text.contains("Searched for, with nothing staged: clients stand still"), "{text}");
}
