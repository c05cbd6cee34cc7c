//! Why something is no distribution, or a file holds none.
//!
//! Invariant: every error says what is wrong with which part, and where it can, what to write
//! instead; an error in a file names its line.

use std::path::PathBuf;

use crate::span::{Span, SpanError};

/// Why there is no such distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistributionError {
    /// The shortest is longer than the longest.
    #[error("the shortest ({0}) is longer than the longest ({1})")]
    Reversed(Span, Span),
    /// A log-normal distribution has no median of 0.
    #[error("the median is 0: a log-normal distribution has a positive one")]
    MedianZero,
    /// Half of all values lie below the median, so its p99 cannot.
    #[error("the p99 ({0}) is below the median ({1})")]
    P99BelowMedian(Span, Span),
    /// With such a floor the median would be another.
    #[error("the floor ({0}) is above the median ({1})")]
    FloorAboveMedian(Span, Span),
    /// With such a cap the p99 would be another.
    #[error("the cap ({0}) is below the p99 ({1})")]
    CapBelowP99(Span, Span),
    /// There is no value that was counted.
    #[error("the histogram is empty: no value has a count above 0")]
    NothingCounted,
    /// The counts do not add up to a number of 64 bits.
    #[error("the counts of the histogram are too large to be added up")]
    TooManyCounted,
    /// It begins with no name of a distribution.
    #[error(
        "{0:?} is no distribution: write it as in `1ms`, `uniform:200us..2ms`, \
         `lognormal:5ms,p99=80ms` or `file:rtt.hlog`"
    )]
    Unknown(String),
    /// A duration in it is none.
    #[error("{0:?}: {1}")]
    Span(String, SpanError),
    /// A part is not there.
    #[error("missing field `{part}` of a {form} distribution")]
    Missing {
        /// Which distribution.
        form: &'static str,
        /// Which part.
        part: &'static str,
    },
    /// A part belongs to another distribution, or to none.
    #[error("a {form} distribution has no `{part}`")]
    Foreign {
        /// Which distribution.
        form: &'static str,
        /// Which part.
        part: String,
    },
    /// A part is there twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// A unit that is none.
    #[error("{0:?} is no unit: `ns`, `us`, `ms` and `s` are")]
    Unit(String),
    /// A table without a single part.
    #[error(
        "an empty table is no distribution: write it as in `{{ min = \"200us\", max = \"2ms\" }}`"
    )]
    Empty,
}

/// Why a file gives no distribution: which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] std::io::Error),
    /// It is longer than so many bytes, and than anything that was measured.
    #[error("{} is longer than {} bytes", .0.display(), .1)]
    TooLong(PathBuf, u64),
    /// A line of it, counted from 1, cannot be understood.
    #[error("line {} of {}: {}", .1, .0.display(), .2)]
    Line(PathBuf, usize, LineError),
    /// All in all it gives no distribution.
    #[error("{}: {}", .0.display(), .1)]
    Whole(PathBuf, DistributionError),
    /// It holds several measurements, with these tags.
    #[error(
        "{} holds several measurements: say which with `tag`; there are {}",
        .0.display(), .1.join(", ")
    )]
    WhichTag(PathBuf, Vec<String>),
    /// It holds no measurement with the wanted tag.
    #[error("{} holds nothing with the tag {tag:?}; there are {}", path.display(), tags.join(", "))]
    NoSuchTag {
        /// Which file.
        path: PathBuf,
        /// Which was wanted.
        tag: String,
        /// What there is.
        tags: Vec<String>,
    },
}

/// Why a line of a file cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is not text.
    #[error("this is no UTF-8 text")]
    Text,
    /// It is no line of an HdrHistogram log.
    #[error("this is no line of an HdrHistogram log")]
    Log,
    /// The histogram in it cannot be decoded.
    #[error("the histogram is truncated or damaged ({0})")]
    Damaged(String),
    /// A line of a CSV file has a value, and perhaps a count.
    #[error("{0} columns: a value and its count are expected, or a value alone")]
    Columns(usize),
    /// The names of columns have none for a count.
    #[error(
        "two columns, but only the first has a name: name the second, as in `value_ms,count`; with a decimal comma, write \
         a point instead"
    )]
    Unnamed,
    /// The value is no number and no duration.
    #[error("{0:?} is no duration")]
    Value(String),
    /// The value is below 0.
    #[error("{0:?}: a duration cannot be negative")]
    Negative(String),
    /// The value is beyond all use.
    #[error("{0:?} is too long: a year is the most")]
    TooLong(String),
    /// The value is a bare number, and nothing says of what.
    #[error(
        "the unit of {0:?} is missing: write `1.5ms`, or call the column `value_us`, or say `unit`"
    )]
    UnitMissing(String),
    /// The count is none.
    #[error("{0:?} is no count: a whole number is expected")]
    Count(String),
}
