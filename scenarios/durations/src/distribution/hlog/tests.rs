//! Logs as tools write them, and logs that have suffered.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
use picklock::time::span_ns;

use super::*;
use crate::distribution::{Distribution, Histogram as Counted};

fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    values.into_iter().for_each(|value| histogram.record(value).unwrap());
    histogram
}

fn log(serializer: &mut impl Serializer, all: &[(Option<&str>, Histogram<u64>)]) -> String {
    let mut out = Vec::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(SystemTime::UNIX_EPOCH)
        .begin_log_with(&mut out, serializer)
        .unwrap();
    for (tag, histogram) in all {
        let second = Duration::from_secs(1);
        log.write_histogram(histogram, second, second, tag.and_then(Tag::new)).unwrap();
    }
    String::from_utf8(out).unwrap()
}

fn read(text: &str, tag: Option<&str>, unit: Option<TimeUnit>) -> Result<Vec<Bucket>, FileError> {
    let measured = Measured { file: "rtt.hlog".to_owned(), tag: tag.map(str::to_owned), unit };
    parse(Path::new("rtt.hlog"), text.as_bytes(), &measured)
}

/// The square numbers, in microseconds.
fn squares() -> Histogram<u64> {
    histogram((1..=1000_u64).map(|n| n * n * 1_000))
}

#[test]
fn draws_have_the_quantiles_of_the_log() {
    let squares = squares();
    let text = log(&mut V2DeflateSerializer::new(), &[(None, squares.clone())]);
    let buckets = read(&text, None, None).unwrap();
    let sampler = Distribution::Histogram(Counted::new(buckets).unwrap()).sampler();
    for per_mille in (5_u32..1000).step_by(10) {
        let quantile = f64::from(per_mille) / 1000.0;
        let choice = u32::try_from((u64::from(per_mille) << 32) / 1000).unwrap();
        // A nudge down: a quantile that lies on an edge belongs to the value below it.
        let expected_ns = squares.value_at_quantile(quantile);
        assert_eq!(sampler.at(choice - 10), expected_ns, "{quantile}");
    }
}

#[test]
fn intervals_are_added_up_and_tags_told_apart() {
    let of = |tag, value| (tag, histogram([value, value]));
    let all = [of(Some("GET"), 5), of(Some("SET"), 7), of(Some("GET"), 9)];
    let text = log(&mut V2Serializer::new(), &all);
    let get = read(&text, Some("GET"), Some(TimeUnit::Us)).unwrap();
    let get: Vec<_> = get.iter().map(|it| (span_ns(it.value.0), it.count)).collect();
    assert_eq!(get, [(5_000, 2), (9_000, 2)]);
    let error = read(&text, None, None).unwrap_err().to_string();
    assert!(error.ends_with("say which with `tag`; there are \"GET\", \"SET\""), "{error}");
    let error = read(&text, Some("DEL"), None).unwrap_err().to_string();
    assert!(error.contains("nothing with the tag \"DEL\"; there are \"GET\""), "{error}");
    let same = log(&mut V2Serializer::new(), &[of(None, 5), of(None, 5)]);
    assert_eq!(read(&same, None, None).unwrap()[0].count, 4);
}

#[test]
fn what_is_damaged_is_named_with_its_line() {
    let refusal = |text: &str| match read(text, None, None) {
        Err(FileError::Line(_, line, why)) => (line, why),
        other => panic!("{other:?}"),
    };
    let text = log(&mut V2DeflateSerializer::new(), &[(None, squares())]);
    let last = text.lines().count();
    let (line, why) = refusal(&text[..text.len() - 20]);
    assert!(line == last && matches!(why, LineError::Damaged(_)), "{line}: {why}");
    assert_eq!(refusal(&format!("{text}\nnonsense\n")), (last + 2, LineError::Log));
    let cut = text.replace("HISTFAAA", "HISTFAA!");
    assert_ne!(cut, text);
    assert!(matches!(refusal(&cut), (line, LineError::Damaged(_)) if line == last));
    let year = log(&mut V2Serializer::new(), &[(None, histogram([u64::MAX / 4]))]);
    assert!(matches!(refusal(&year), (_, LineError::TooLong(_))));
    assert_eq!(read("#[Histogram log format version 1.3]\n", None, None).unwrap(), []);
}

/// Every byte of a log changed, one at a time: an answer or an error, at no great cost.
#[test]
fn no_damage_is_worse_than_an_error() {
    let mut few = Histogram::new_with_bounds(1, 1_000, 2).unwrap();
    [3, 5, 5, 700].into_iter().for_each(|value| few.record(value).unwrap());
    let mut plain = Vec::new();
    V2Serializer::new().serialize(&few, &mut plain).unwrap();
    let mut errors = 0;
    for place in 0..plain.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = plain.clone();
            damaged[place] ^= flip;
            let line = format!("0.0,1.0,2.0,{}", STANDARD.encode(damaged));
            errors += u32::from(read(&line, None, None).is_err());
        }
    }
    assert!(errors > 60, "the head at least is checked: {errors}");
    let text = log(&mut V2DeflateSerializer::new(), &[(None, few)]);
    let begins = text.find("HIST").unwrap();
    for place in begins..text.len() - 1 {
        let mut damaged = text.clone();
        damaged.replace_range(place..=place, "~");
        assert!(read(&damaged, None, None).is_err());
    }
}
