//! Distributions of durations: how long messages travel, how long work takes, how long pauses last.
//!
//! Invariant: a [`Distribution`] that exists can be drawn from, but for a measured one whose file
//! has not been read yet ([`Distribution::read`]). Deliberately absent: where the choice comes from;
//! a [`Sampler`] turns a number that somebody else has drawn into a duration, so one type serves
//! every world.

mod csv;
mod error;
mod form;
mod histogram;
mod hlog;
mod log_normal;
mod measured;
mod portable;
mod sampler;
mod steps;
mod table;
mod tail;
mod text;

use std::path::Path;

use picklock::time::span_ns;

use crate::span::Span;

pub use error::{DistributionError, FileError, LineError};
pub use histogram::Histogram;
pub use log_normal::LogNormal;
pub use measured::{Bucket, Measured, TimeUnit};
pub use sampler::Sampler;
pub use tail::Tail;

/// How durations are distributed.
///
/// In TOML and JSON it is a table: `{ constant = "1ms" }`, `{ min = "200us", max = "2ms" }`,
/// `{ median = "5ms", p99 = "80ms" }` with a `floor` or a `cap` if wanted,
/// `{ histogram = [["1ms", 900], ["20ms", 7]] }` or `{ file = "rtt.hlog" }`. As a text, there and on
/// the command line, it is `1ms`, `constant:1ms`, `uniform:200us..2ms`, `lognormal:5ms,p99=80ms` or
/// `file:rtt.hlog`.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(Span),
    /// Everything between two bounds alike.
    Uniform(Uniform),
    /// Mostly near the median, with a long tail.
    LogNormal(LogNormal),
    /// As it was measured.
    Histogram(Histogram),
}

/// Two bounds, both of which are drawn; the shortest comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uniform {
    min: Span,
    max: Span,
}

impl Uniform {
    /// Between these, both included.
    ///
    /// # Errors
    /// [`DistributionError::Reversed`] where `min` is longer than `max`.
    pub fn new(min: Span, max: Span) -> Result<Self, DistributionError> {
        if min > max {
            return Err(DistributionError::Reversed(min, max));
        }
        Ok(Self { min, max })
    }
}

impl Distribution {
    /// Reads the file of a measured distribution that has not been read yet; a relative path counts
    /// from `base`. Any other distribution stays as it is.
    ///
    /// # Errors
    /// [`FileError`] where the file cannot be read or says nothing that could be drawn.
    pub fn read(&mut self, base: &Path) -> Result<(), FileError> {
        match self {
            Self::Histogram(histogram) => histogram.read(base),
            _ => Ok(()),
        }
    }

    /// The file that is still to be read.
    pub fn unread(&self) -> Option<&Measured> {
        match self {
            Self::Histogram(histogram) if histogram.buckets().is_empty() => histogram.measured(),
            _ => None,
        }
    }

    /// The same with everything so many times as long.
    ///
    /// # Panics
    /// Where its file has not been [read](Self::read), and as [`Span::stretched`].
    #[must_use]
    pub fn stretched(&self, by: f64) -> Self {
        match self {
            Self::Constant(span) => Self::Constant(span.stretched(by)),
            Self::Uniform(Uniform { min, max }) => {
                Self::Uniform(Uniform { min: min.stretched(by), max: max.stretched(by) })
            }
            Self::LogNormal(shape) => Self::LogNormal(shape.stretched(by)),
            Self::Histogram(histogram) => Self::Histogram(histogram.stretched(by)),
        }
    }

    /// Prepares it for drawing. That takes a fraction of a millisecond, and a draw a few nanoseconds.
    ///
    /// # Panics
    /// Where its file has not been [read](Self::read).
    pub fn sampler(&self) -> Sampler {
        match self {
            Self::Constant(span) => Sampler::constant(span_ns(span.0)),
            Self::Uniform(Uniform { min, max }) => Sampler::uniform(span_ns(min.0), span_ns(max.0)),
            Self::LogNormal(shape) => shape.sampler(),
            Self::Histogram(histogram) => histogram.sampler(),
        }
    }
}

impl Default for Distribution {
    /// Nothing at all: uniform from 0 to 0, so that either bound can be set by itself.
    fn default() -> Self {
        Self::Uniform(Uniform::default())
    }
}

#[cfg(test)]
mod tests;
