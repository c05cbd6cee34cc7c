//! Which settings are tried, and what they are compared with.

use super::*;

const S: Duration = Duration::from_secs(1);

fn law(text: &str) -> Law {
    Law::new(&text.parse().expect("a distribution"))
}

fn conditions(hold: &str, pauses_per_s: f64, pause: &str) -> Conditions {
    Conditions {
        hold: law(hold),
        round_trip: law("500us"),
        pause: Some((pauses_per_s / 1e9, law(pause))),
        drift_ppm: 0,
        write_ns: 0,
    }
}

fn tried(
    conditions: &Conditions,
    grid: &[(Duration, Option<Duration>)],
) -> Vec<Result<Experiment, Box<Confirmed>>> {
    experiments(conditions, grid, 20 * S, 1)
}

#[test]
fn what_goes_wrong_often_enough_is_tried_as_it_is() {
    let often = conditions("lognormal:1s,p99=10s", 0.2, "lognormal:1s,p99=10s");
    let grid = [(2 * S, None), (60 * S, None), (3 * S, Some(S)), (600 * S, Some(200 * S))];
    let found = tried(&often, &grid);
    let [Ok(without), Ok(with)] = &found[..] else { panic!("{found:?}") };
    assert!(without.in_grid && with.in_grid);
    assert_eq!((without.ttl, without.renew), (2 * S, None));
    assert_eq!((with.ttl, with.renew), (3 * S, Some(S)));
    assert_eq!(without.setting.ttl, SCALED_TTL);
    let third = with.setting.renew.expect("it is renewed");
    assert!(third.abs_diff(SCALED_TTL / 3) < Duration::from_micros(1), "{third:?}");
    let mean_ns = often.mean_hold_ns() - 500e3;
    let played_ns = without.conditions.mean_hold_ns() - 500e3;
    assert!((played_ns / mean_ns / 0.25 - 1.0).abs() < 1e-3, "a quarter, and the round trip stays");
}

#[test]
fn what_goes_wrong_too_seldom_is_tried_at_a_shorter_ttl_or_not_at_all() {
    let seldom = conditions("lognormal:5ms,p99=80ms", 1e-3, "lognormal:100us,p99=1ms");
    let found = tried(&seldom, &[(5 * S, None), (10 * S, None), (5 * S, Some(2 * S))]);
    let [Ok(shorter), Err(none)] = &found[..] else { panic!("{found:?}") };
    assert!(!shorter.in_grid && shorter.ttl < Duration::from_millis(80), "{:?}", shorter.ttl);
    assert!(shorter.stretch > 1.0, "its lease lasts for longer here");
    assert_eq!((none.ttl, none.renew), (Span(5 * S), Some(Span(2 * S))));
    assert!(matches!(&none.found, ConfirmationOutcome::Unseen(why) if why.contains("seldom")));
}

#[test]
fn a_model_that_says_another_share_does_not_agree() {
    let experiment =
        Experiment::new(&conditions("1s", 0.1, "1s"), (S, None), true).expect("it can be run");
    let ms = |ms: u64| ms * 1_000_000;
    // Work of 100 ms or of a second, half and half, under a lease of half a second.
    let played = |wrong: u64| Measurements {
        lost: wrong,
        outlived: wrong,
        round_trips: vec![ms(1); 1_000],
        works: (0..1_000).map(|nth| if nth % 2 == 0 { ms(100) } else { ms(1_000) }).collect(),
        pauses: Vec::new(),
    };
    let seen = |wrong: u64| experiment.compare(&played(wrong), 0, 1).expect("a setting");
    assert!(seen(500).agrees());
    assert!((seen(500).lost.model - 0.5).abs() < 0.01);
    assert!(!seen(400).agrees() && !seen(600).agrees());
    assert_eq!(seen(400).holds, 1_000);
}
