//! `latency.hlog`: the distributions in HdrHistogram's interval log format.
//!
//! Invariant: standard HdrHistogram tools read it: each kind of operation is one tagged interval
//! that spans the run, its histogram in the compressed second encoding. Deliberately absent: the
//! time of day; times count from the beginning of the run, so the same run gives the same bytes.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use crate::latency::Latencies;

/// Values are nanoseconds; the readable maximum of a line is in milliseconds, as in other logs.
const NS_PER_MS: f64 = 1e6;

/// Writes the log of a run that lasted so long.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(latencies: &Latencies, duration_ns: u64, out: &mut impl Write) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("Values are nanoseconds; times are seconds since the run began.")
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(out, &mut serializer)?;
    for (operation, distribution) in latencies.iter() {
        let name = tag(&operation.to_string());
        let length = Duration::from_nanos(duration_ns);
        log.write_histogram(distribution.histogram(), Duration::ZERO, length, Tag::new(&name))
            .map_err(|error| match error {
                IntervalLogWriterError::IoError(error) => error,
                IntervalLogWriterError::SerializeError(error) => io::Error::other(error),
            })?;
    }
    Ok(())
}

/// The name of an operation as a tag, which holds neither blank nor comma.
fn tag(operation: &str) -> String {
    let unfit = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    operation.chars().map(|c| if unfit(c) { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Operation;
    use crate::support;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn read(log: &[u8]) -> Vec<(String, Duration, Histogram<u64>)> {
        let mut all = Vec::new();
        for entry in IntervalLogIterator::new(log) {
            let LogEntry::Interval(interval) = entry.unwrap() else { continue };
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let histogram = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            let name = interval.tag().unwrap().as_str().to_owned();
            all.push((name, interval.duration(), histogram));
        }
        all
    }

    #[test]
    fn the_log_reads_back_with_the_same_counts_and_quantiles() {
        let history = support::bonus_pool();
        let latencies = Latencies::of(&history);
        let mut log = Vec::new();
        write(&latencies, 1_500_000_000, &mut log).unwrap();
        let back = read(&log);
        assert_eq!(back.len(), latencies.iter().count());
        for ((name, length, histogram), (operation, distribution)) in
            back.iter().zip(latencies.iter())
        {
            assert_eq!(*name, operation.to_string().replace(' ', "-"));
            assert_eq!(*length, Duration::from_millis(1500));
            assert_eq!(histogram.len(), distribution.count());
            for quantile in [0.0, 0.5, 0.9, 0.99, 1.0] {
                let expected = distribution.histogram().value_at_quantile(quantile);
                assert_eq!(histogram.value_at_quantile(quantile), expected, "{name} {quantile}");
            }
        }
    }

    #[test]
    fn a_log_of_nothing_is_still_a_log() {
        let mut log = Vec::new();
        write(&Latencies::default(), 0, &mut log).unwrap();
        assert!(log.starts_with(b"#[Histogram log format version 1.3]\n"));
        assert!(read(&log).is_empty());
    }

    #[test]
    fn an_odd_name_becomes_a_tag() {
        let mut latencies = Latencies::default();
        latencies.record(Operation::Command("CLIENT SETINFO,\n".to_owned()), 5);
        let mut log = Vec::new();
        write(&latencies, 10, &mut log).unwrap();
        assert_eq!(read(&log)[0].0, "CLIENT-SETINFO--");
    }
}
