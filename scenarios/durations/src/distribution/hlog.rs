//! HdrHistogram logs, as `latency.hlog` of a run and many tools write them.
//!
//! Invariant: all intervals that are meant are added up, and a line that cannot be read is an error; a
//! damaged one takes no more memory than an intact one could.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::error::{FileError, LineError};
use super::measured::{Bucket, Measured, TimeUnit, at, lines};
use crate::span::{MOST, Span};

/// The first bytes of a histogram that is compressed, and of one that is not.
const COMPRESSED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
const PLAIN: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
/// What stands before the counts.
const HEAD_BYTES: usize = 40;
/// More than the finest histogram of 64 bits takes.
const COUNTS_MOST_BYTES: u64 = 64 << 20;

/// What was counted with the wanted tag.
pub(super) fn parse(
    path: &Path,
    bytes: &[u8],
    measured: &Measured,
) -> Result<Vec<Bucket>, FileError> {
    let unit_ns = u64::from(measured.unit.unwrap_or(TimeUnit::Ns).in_ns());
    let mut by_tag: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
    for (number, line) in lines(bytes) {
        let line = line.map_err(|why| at(path, number, why))?;
        // Alone, so that the line of a mistake is known.
        let line = format!("{line}\n");
        let Some(entry) = IntervalLogIterator::new(line.as_bytes()).next() else { continue };
        let entry = entry.map_err(|_| at(path, number, LineError::Log))?;
        let LogEntry::Interval(interval) = entry else { continue };
        let tag = interval.tag().map_or("", |tag| tag.as_str()).to_owned();
        let counts = by_tag.entry(tag.clone()).or_default();
        if measured.tag.as_ref().is_some_and(|wanted| *wanted != tag) {
            continue;
        }
        let damaged = |why: String| at(path, number, LineError::Damaged(why));
        let histogram = decode(interval.encoded_histogram()).map_err(damaged)?;
        for it in histogram.iter_recorded() {
            let value = it.value_iterated_to();
            let value_ns = value.saturating_mul(unit_ns);
            if value_ns > u64::try_from(MOST.as_nanos()).unwrap_or(u64::MAX) {
                return Err(at(path, number, LineError::TooLong(value.to_string())));
            }
            let count = counts.entry(value_ns).or_default();
            *count = count.saturating_add(it.count_since_last_iteration());
        }
    }
    let counts = chosen(path, by_tag, measured.tag.as_deref())?;
    let bucket = |(ns, count)| Bucket { value: Span(Duration::from_nanos(ns)), count };
    Ok(counts.into_iter().map(bucket).collect())
}

/// The counts of one tag; without a wish there must be only one.
fn chosen(
    path: &Path,
    mut by_tag: BTreeMap<String, BTreeMap<u64, u64>>,
    tag: Option<&str>,
) -> Result<BTreeMap<u64, u64>, FileError> {
    let path = path.to_owned();
    let tags = by_tag.keys().map(|tag| format!("{tag:?}")).collect();
    match tag {
        Some(tag) => {
            by_tag.remove(tag).ok_or(FileError::NoSuchTag { path, tag: tag.to_owned(), tags })
        }
        None if by_tag.len() > 1 => Err(FileError::WhichTag(path, tags)),
        None => Ok(by_tag.into_values().next().unwrap_or_default()),
    }
}

/// The histogram of a line; or what is wrong with it.
fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    // Unpacked here and not by the library, which takes the memory that a damaged head asks for.
    let plain = match bytes.split_first_chunk::<4>() {
        Some((&COMPRESSED, rest)) => {
            let mut plain = Vec::new();
            let packed = rest.get(4..).unwrap_or_default();
            let unpacked = ZlibDecoder::new(packed).take(COUNTS_MOST_BYTES).read_to_end(&mut plain);
            unpacked.map_err(|error| error.to_string())?;
            plain
        }
        _ => bytes,
    };
    let length = plain.get(4..8).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    let (Some(length), true) = (length, plain.starts_with(&PLAIN)) else {
        return Err("it does not begin as a histogram of version 2 does".to_owned());
    };
    let counts = plain.len().saturating_sub(HEAD_BYTES);
    if length as usize != counts {
        return Err(format!("{counts} bytes of counts, and {length} were announced"));
    }
    Deserializer::new().deserialize(&mut &plain[..]).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
