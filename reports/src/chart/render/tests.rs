//! Pictures come out for every shape of data, and say what they should.

use history::Head;

use super::*;
use crate::chart::LatencyChart;
use crate::latency::{Latencies, Operation};
use crate::support;

fn drawn(latencies: &Latencies, head: &Head) -> String {
    svg(&LatencyChart::wide(latencies, head)).unwrap()
}

/// Acquisitions that took so long.
fn of(samples: &[u64]) -> Latencies {
    let mut latencies = Latencies::default();
    for &ns in samples {
        latencies.record(Operation::Acquire, ns);
    }
    latencies
}

/// The texts of an SVG.
fn texts(svg: &str) -> Vec<&str> {
    let all = svg.split("<text").skip(1).filter_map(|rest| rest.split_once('>'));
    all.filter_map(|(_, rest)| rest.split_once("</text>")).map(|(text, _)| text.trim()).collect()
}

#[test]
fn a_run_of_a_hundred_clients_has_a_line_for_each_operation() {
    let history = support::bonus_pool();
    let svg = drawn(&Latencies::of(&history), &history.head);
    let texts = texts(&svg);
    for name in ["acquire", "hold", "release", "handoff", "SET", "GET", "EVALSHA", "50%", "99%"] {
        assert!(texts.contains(&name), "{name}: {texts:?}");
    }
    let title = "Latency by percentile — bonus-pool, single, 100 clients, redis";
    assert_eq!(texts[0], title);
    assert!(svg.contains(&format!("<title>{title}</title>")));
    assert!(texts[1].starts_with("95 acquisitions, 5 refusals, 95 releases, "), "{}", texts[1]);
    assert!(svg.ends_with("</svg>\n"));
}

#[test]
fn a_picture_of_nothing_says_so() {
    let svg = drawn(&Latencies::default(), &Head::default());
    assert!(texts(&svg).contains(&"No operation was completed."));
}

#[test]
fn every_shape_of_data_is_drawn_inside_the_picture() {
    let wide: Vec<u64> = (0..40).map(|power| 1 << power).chain([600_000_000_000]).collect();
    for samples in [&[1_500_000][..], &[0], &[0; 5], &[2_000_000; 500], &wide, &[u64::MAX, 1]] {
        let svg = drawn(&of(samples), &Head::default());
        assert!(texts(&svg).contains(&"acquire"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let limit = f64::from(SIZE.0 * SVG_SCALE);
        for points in svg.split("points=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            for number in points.split([' ', ',']).filter(|it| !it.is_empty()) {
                let number: f64 = number.parse().unwrap();
                assert!((0.0..=limit).contains(&number), "{number} for {samples:?}");
            }
        }
    }
}

#[test]
fn more_commands_than_colours_show_the_most_frequent() {
    let mut latencies = of(&[5]);
    for number in 1..=12 {
        for _ in 0..number {
            latencies.record(Operation::Command(format!("C{number}")), 100);
        }
    }
    let svg = drawn(&latencies, &Head::default());
    let texts = texts(&svg);
    assert!(texts.contains(&"acquire") && texts.contains(&"C12") && texts.contains(&"C7"));
    assert!(!texts.contains(&"C6"));
}

#[test]
fn a_narrow_picture_says_the_same_within_its_width() {
    let history = support::bonus_pool();
    let latencies = Latencies::of(&history);
    let wide = drawn(&latencies, &history.head);
    let narrow = LatencyChart::narrow(&latencies, &history.head);
    let limit = f64::from(narrow.size().0 * SVG_SCALE);
    let narrow = svg(&narrow).unwrap();
    let names = |svg: &str| -> Vec<String> {
        let texts = texts(svg);
        latencies
            .iter()
            .map(|(it, _)| it.to_string())
            .filter(|it| texts.contains(&it.as_str()))
            .collect()
    };
    assert_eq!(names(&narrow), names(&wide));
    for x in narrow.split(" x=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!((0.0..=limit).contains(&x.parse::<f64>().unwrap()), "{x}");
    }
}

#[test]
fn every_colour_of_a_picture_has_one_for_the_night() {
    let history = support::bonus_pool();
    let svg = drawn(&Latencies::of(&history), &history.head);
    let (_, body) = svg.split_once("</style>").unwrap();
    for attribute in ["fill", "stroke"] {
        for colour in body.split(&format!(" {attribute}=\"#")).skip(1).filter_map(|it| it.get(..6))
        {
            let rule = format!("svg [{attribute}=\"#{colour}\"]");
            assert!(svg.contains(&rule), "{rule}");
        }
    }
}

#[test]
fn markup_in_a_name_stays_text() {
    let head = Head { scenario: "<script>&\u{1b}".to_owned(), ..Head::default() };
    let svg = drawn(&of(&[5]), &head);
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}'));
    assert!(svg.contains("&lt;script&gt;&amp;"));
}

#[test]
fn the_png_is_whole_and_the_same_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let history = support::bonus_pool();
    let latencies = Latencies::of(&history);
    let chart = LatencyChart::wide(&latencies, &history.head);
    let paths = ["a.png", "b.png"].map(|name| dir.path().join(name));
    for path in &paths {
        png(&chart, path).unwrap();
    }
    let [a, b] = paths.map(|path| std::fs::read(path).unwrap());
    assert!(a.starts_with(b"\x89PNG") && a.ends_with(PNG_END));
    assert_eq!(a, b);
}

#[test]
fn a_png_that_cannot_be_written_is_an_error() {
    let missing = Path::new("no such directory/chart.png");
    let (none, head) = (Latencies::default(), Head::default());
    assert!(png(&LatencyChart::wide(&none, &head), missing).is_err());
}
