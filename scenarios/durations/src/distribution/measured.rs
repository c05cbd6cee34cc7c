//! What was measured: which file, how often each value came, and the lines that say so.
//!
//! Invariant: a line is counted from 1, empty ones included, so an error names the line an editor shows.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::{DistributionError, FileError, LineError};
use crate::span::Span;

/// How often a value came. In TOML and JSON a pair: `["1ms", 900]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(Span, u64)", into = "(Span, u64)")]
pub struct Bucket {
    /// The value; of a range of values, the upper bound.
    pub value: Span,
    /// How often it came.
    pub count: u64,
}

impl From<(Span, u64)> for Bucket {
    fn from((value, count): (Span, u64)) -> Self {
        Self { value, count }
    }
}

impl From<Bucket> for (Span, u64) {
    fn from(bucket: Bucket) -> Self {
        (bucket.value, bucket.count)
    }
}

/// A file that was, or is to be, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Its path, as given: an HdrHistogram log, or CSV.
    pub file: String,
    /// Which of the measurements of a log.
    pub tag: Option<String>,
    /// What its bare numbers count. Without it, those of a log are nanoseconds.
    pub unit: Option<TimeUnit>,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// How many nanoseconds it is.
    pub fn in_ns(self) -> u32 {
        match self {
            Self::Ns => 1,
            Self::Us => 1_000,
            Self::Ms => 1_000_000,
            Self::S => 1_000_000_000,
        }
    }
}

impl FromStr for TimeUnit {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Self, DistributionError> {
        Ok(match text {
            "ns" => Self::Ns,
            "us" => Self::Us,
            "ms" => Self::Ms,
            "s" => Self::S,
            _ => return Err(DistributionError::Unit(text.to_owned())),
        })
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ns => "ns",
            Self::Us => "us",
            Self::Ms => "ms",
            Self::S => "s",
        })
    }
}

/// An error in this line, from 1.
pub(super) fn at(path: &Path, line: usize, why: LineError) -> FileError {
    FileError::Line(path.to_owned(), line, why)
}

/// The lines of a file with their numbers; empty ones are left out.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, Result<&str, LineError>)> {
    (1..).zip(bytes.split(|byte| *byte == b'\n')).filter_map(|(number, line)| {
        let line = str::from_utf8(line).map(str::trim).map_err(|_| LineError::Text);
        (line != Ok("")).then_some((number, line))
    })
}
