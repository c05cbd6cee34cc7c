//! What is drawn, against what was asked for; and what is written, against what was meant.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::span::SpanError;

fn of(text: &str) -> Distribution {
    text.parse().unwrap()
}

fn span(ns: u64) -> Span {
    Span(Duration::from_nanos(ns))
}

/// Choices as a generator of good quality would draw them.
fn choices(count: u64) -> impl Iterator<Item = u32> {
    (0..count).map(|n| {
        let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) >> 32).unwrap()
    })
}

/// The duration below which so many in a thousand of 100,000 draws lie.
fn quantile_ns(sampler: &Sampler, per_mille: usize) -> u64 {
    let mut drawn: Vec<u64> = choices(100_000).map(|choice| sampler.at(choice)).collect();
    drawn.sort_unstable();
    drawn[per_mille * 100]
}

fn is_near(found: u64, expected: u64, percent: u64) -> bool {
    found.abs_diff(expected) * 100 <= expected * percent
}

#[test]
fn draws_have_the_quantiles_that_were_asked_for() {
    let tailed = of("lognormal:5ms,p99=80ms").sampler();
    // Between them the logarithm is normal: 5 ms × 16^(1.2816 / 2.3263) at the ninth tenth.
    for (per_mille, expected_ns) in
        [(500, 5_000_000), (990, 80_000_000), (900, 23_026_000), (100, 1_085_700)]
    {
        let found_ns = quantile_ns(&tailed, per_mille);
        assert!(is_near(found_ns, expected_ns, 6), "{per_mille}: {found_ns}");
    }
    let even = of("uniform:1ms..3ms").sampler();
    for (per_mille, expected_ns) in [(250, 1_500_000), (500, 2_000_000), (990, 2_980_000)] {
        let found_ns = quantile_ns(&even, per_mille);
        assert!(is_near(found_ns, expected_ns, 1), "{per_mille}: {found_ns}");
    }
    let buckets = [(1, 900), (10, 90), (100, 10)];
    let buckets = buckets.map(|(ms, count)| Bucket { value: span(ms * 1_000_000), count });
    let counted = Distribution::Histogram(Histogram::new(buckets).unwrap()).sampler();
    for (per_mille, expected_ms) in [(0, 1), (890, 1), (910, 10), (985, 10), (995, 100)] {
        assert_eq!(quantile_ns(&counted, per_mille), expected_ms * 1_000_000, "{per_mille}");
    }
}

/// The share of a standard normal variable above this point, by Simpson's rule.
fn share_above(point: f64) -> f64 {
    let (steps, width) = (4_000, 12.0);
    let step = width / f64::from(steps);
    let density = |n: i32| (-(point + f64::from(n) * step).powi(2) / 2.0).exp();
    let inner: f64 = (1..steps).map(|n| density(n) * if n % 2 == 0 { 2.0 } else { 4.0 }).sum();
    (density(0) + inner + density(steps)) * step / 3.0 / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "compared to a thousandth")]
fn the_table_agrees_with_the_exact_distribution_far_into_both_tails() {
    let (median, p99) = (5e9_f64, 80e9_f64);
    let sampler = of("lognormal:5s,p99=80s").sampler();
    let sigma = (p99 / median).ln() / 2.326_347_874_040_841;
    let mut checked = 0;
    for distance in (0..31).flat_map(|bit| [1_u32 << bit, (1 << bit) + (1 << bit) / 3]) {
        let share = (f64::from(distance) + 0.5) / 4_294_967_296.0;
        let point = |choice: u32| (sampler.at(choice) as f64 / median).ln() / sigma;
        for found in [share_above(-point(distance)), share_above(point(!distance))] {
            assert!((found / share - 1.0).abs() < 1e-3, "{distance}: {found:e} and not {share:e}");
            checked += 1;
        }
    }
    assert_eq!(checked, 124);
}

/// Fixed numbers: a machine that draws anything else would not replay what others have found.
#[test]
fn the_same_choices_give_the_same_nanoseconds_everywhere() {
    let digest = |text: &str| {
        let sampler = of(text).sampler();
        choices(100_000).fold(0_u64, |sum, choice| sum.rotate_left(5) ^ sampler.at(choice))
    };
    assert_eq!(digest("uniform:200us..2ms"), 0xf414_1f2d_55b3_20f4);
    assert_eq!(digest("lognormal:5ms,p99=80ms,floor=1ms,cap=1s"), 0x8d1c_772c_6dc3_3105);
}

#[test]
fn bounds_hold_and_are_reached() {
    let ends = |text: &str| {
        let sampler = of(text).sampler();
        (sampler.at(0), sampler.at(u32::MAX))
    };
    assert_eq!(ends("uniform:10ns..13ns"), (10, 13));
    // 2³² steps in a year are 7 ms each.
    let (first_ns, last_ns) = ends("uniform:0s..1y");
    assert_eq!((first_ns, last_ns >> 23), (0, 31_557_600_000_000_000 >> 23));
    assert_eq!(ends("constant:7us"), (7_000, 7_000));
    let (ms, year_ns) = (1_000_000_u64, 31_557_600_000_000_000);
    assert_eq!(ends("lognormal:5ms,p99=80ms,floor=1ms,cap=1s"), (ms, 1_000 * ms));
    assert_eq!(ends("lognormal:1ns,p99=1y").1, year_ns, "a year is the most without a cap");
    assert_eq!(ends("lognormal:5ms,p99=5ms"), (5 * ms, 5 * ms));
    let sampler = of("lognormal:5ms,p99=80ms").sampler();
    assert!((5 * ms).abs_diff(sampler.at(1 << 31)) <= 1, "the median is exact");
    assert!((80 * ms).abs_diff(sampler.at(4_252_017_623)) < 1_000, "and so is the p99");
}

#[test]
fn only_what_never_varies_needs_no_choice() {
    for (text, always) in [
        ("3ms", Some(3_000_000)),
        ("uniform:3ms..3ms", Some(3_000_000)),
        ("lognormal:3ms,p99=3ms", Some(3_000_000)),
        ("uniform:3ms..4ms", None),
        ("lognormal:3ms,p99=4ms", None),
    ] {
        assert_eq!(of(text).sampler().always(), always, "{text}");
    }
    assert_eq!(Distribution::default().sampler().always(), Some(0));
    let only = Histogram::new([Bucket { value: span(9), count: 4 }]).unwrap();
    assert_eq!(Distribution::Histogram(only).sampler().always(), Some(9));
}

#[test]
fn a_text_that_is_no_distribution_is_told_why() {
    let of_span = |text: &str, why| DistributionError::Span(text.to_owned(), why);
    let (ms, form) = (|ms: u64| span(ms * 1_000_000), "lognormal");
    for (text, error) in [
        ("uniform:2ms..1ms", DistributionError::Reversed(ms(2), ms(1))),
        ("lognormal:5ms,p99=4ms", DistributionError::P99BelowMedian(ms(4), ms(5))),
        ("lognormal:0s,p99=4ms", DistributionError::MedianZero),
        ("lognormal:5ms,p99=9ms,floor=6ms", DistributionError::FloorAboveMedian(ms(6), ms(5))),
        ("lognormal:5ms,p99=9ms,cap=8ms", DistributionError::CapBelowP99(ms(8), ms(9))),
        ("lognormal:5ms", DistributionError::Missing { form, part: "p99" }),
        ("lognormal:5ms,p98=9ms", DistributionError::Foreign { form, part: "p98".to_owned() }),
        ("lognormal:5ms,p99=9ms,p99=9ms", DistributionError::Twice("p99".to_owned())),
        ("lognormal:NaN,p99=9ms", of_span("NaN", SpanError::Other)),
        ("lognormal:-5ms,p99=9ms", of_span("-5ms", SpanError::Negative)),
        ("uniform:-1ms..1ms", of_span("-1ms", SpanError::Negative)),
        ("uniform:1..2ms", of_span("1", SpanError::Unit)),
        ("uniform:1ms", DistributionError::Missing { form: "uniform", part: "max" }),
        ("constant:", of_span("", SpanError::Other)),
        ("-1ms", of_span("-1ms", SpanError::Negative)),
        ("normal:5ms", DistributionError::Unknown("normal:5ms".to_owned())),
        ("soon", DistributionError::Unknown("soon".to_owned())),
        ("", of_span("", SpanError::Other)),
        ("file:", DistributionError::Missing { form: "file", part: "file" }),
        ("file:a,unit=h", DistributionError::Unit("h".to_owned())),
        ("file:a,tag=x,tag=y", DistributionError::Twice("tag".to_owned())),
    ] {
        assert_eq!(text.parse::<Distribution>(), Err(error), "{text}");
    }
}

#[test]
fn a_files_name_may_hold_commas() {
    let Distribution::Histogram(histogram) = of("file:a,b=c.csv,unit=us,tag=GET") else { panic!() };
    let measured = histogram.measured().unwrap();
    assert_eq!((&*measured.file, measured.tag.as_deref()), ("a,b=c.csv", Some("GET")));
    assert_eq!(measured.unit, Some(TimeUnit::Us));
}

#[test]
fn counts_must_add_up_to_something() {
    let counts =
        |counts: [u64; 2]| Histogram::new(counts.map(|count| Bucket { value: span(count), count }));
    assert_eq!(counts([0, 0]).unwrap_err(), DistributionError::NothingCounted);
    assert_eq!(counts([1, u64::MAX]).unwrap_err(), DistributionError::TooManyCounted);
    assert_eq!(counts([0, u64::MAX]).unwrap().buckets().len(), 1);
    let twice = [span(5), span(3), span(5)].map(|value| Bucket { value, count: 2 });
    let expected = [Bucket { value: span(3), count: 2 }, Bucket { value: span(5), count: 4 }];
    assert_eq!(Histogram::new(twice).unwrap().buckets(), expected);
}

fn any() -> impl Strategy<Value = Distribution> {
    // Up to a few months, each with a unit of its own.
    let ns = (0..55_u32).prop_flat_map(|bits| 0..=1_u64 << bits);
    let bucket = (ns.clone(), 0..=1_u64 << 40);
    let buckets = prop::collection::vec(bucket, 1..40);
    prop_oneof![
        ns.clone().prop_map(|ns| Distribution::Constant(span(ns))),
        (ns.clone(), ns.clone()).prop_map(|(one, other)| {
            let (min, max) = (span(one.min(other)), span(one.max(other)));
            Distribution::Uniform(Uniform::new(min, max).unwrap())
        }),
        (prop::array::uniform4(ns), prop::bool::ANY, prop::bool::ANY).prop_map(
            |(mut ns, floor, cap)| {
                ns.sort_unstable();
                let [floor_at, median, p99, cap_at] = ns.map(|ns| span(ns.max(1)));
                let shape = LogNormal::new(median, p99).unwrap();
                let shape = shape.within(floor.then_some(floor_at), cap.then_some(cap_at)).unwrap();
                Distribution::LogNormal(shape)
            }
        ),
        (buckets, prop::bool::ANY).prop_filter_map("counts nothing", |(buckets, of_file)| {
            let buckets = buckets.into_iter().map(|(ns, count)| (span(ns), count).into());
            let histogram = Histogram::new(buckets).ok()?;
            let measured = Measured { file: "rtt.csv".to_owned(), ..Measured::default() };
            let found = if of_file { histogram.found_in(measured) } else { histogram };
            Some(Distribution::Histogram(found))
        }),
    ]
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Holder {
    it: Distribution,
}

proptest! {
    #[test]
    fn a_higher_choice_is_never_shorter(it in any(), one: u32, other: u32, near in 0..200_u32) {
        let sampler = it.sampler();
        for (low, high) in [
            (one.min(other), one.max(other)),
            (one, one.saturating_add(near)),
            (0, one),
            (near, near + 1),
            (!near - 1, !near),
            ((1 << 31) - 1, 1 << 31),
        ] {
            prop_assert!(sampler.at(low) <= sampler.at(high), "{it}: {low} and {high}");
        }
        prop_assert!(sampler.at(u32::MAX) <= picklock::time::span_ns(crate::span::MOST));
    }

    #[test]
    fn what_is_stretched_takes_so_many_times_as_long(it in any(), choice: u32) {
        let sampler = it.sampler();
        let most = picklock::time::span_ns(crate::span::MOST);
        // Nothing takes longer than a year, whatever its shape is.
        prop_assume!(sampler.at(u32::MAX / 100 * 99) <= most / 4);
        let (once, twice) = (sampler.at(choice), it.stretched(2.0).sampler().at(choice));
        // Tables are of whole nanoseconds.
        prop_assert!(twice.abs_diff((once * 2).min(most)) <= 4 + once / 1_000, "{once} {twice}");
    }

    #[test]
    fn what_is_written_reads_back(it in any()) {
        let holder = Holder { it };
        let json = serde_json::to_value(&holder).unwrap();
        prop_assert_eq!(&serde_json::from_value::<Holder>(json).unwrap(), &holder);
        let table = toml::Table::try_from(&holder).unwrap();
        prop_assert_eq!(&table.try_into::<Holder>().unwrap(), &holder);
        if !matches!(holder.it, Distribution::Histogram(_)) {
            prop_assert_eq!(holder.it.to_string().parse(), Ok(holder.it));
        }
    }
}
