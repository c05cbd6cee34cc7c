//! What was measured: values, and how often each came.
//!
//! Invariant: buckets rise, each counts something, and all counts together fit into 64 bits; only a
//! histogram whose file has not been read yet has none. The file is read once, when the scenario is; what was
//! in it stays with the scenario, so nothing that is run or replayed depends on the file. Deliberately absent:
//! values between two buckets (a wide bucket is given by its upper bound, so nothing measured is drawn too
//! short), and guessing what a number counts or which measurement of several is meant.

use std::io::Read;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use super::error::{DistributionError, FileError};
use super::measured::{Bucket, Measured, at};
use super::sampler::Sampler;
use super::steps::Steps;
use super::{csv, hlog};

/// A longer file holds no distribution.
const FILE_MOST_BYTES: u64 = 64 << 20;
/// How an HdrHistogram log begins, with or without its comments.
const LOG_BEGINS: [&[u8]; 2] = [b"#[", b"\"StartTimestamp\""];

/// A measured distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    measured: Option<Measured>,
    buckets: Vec<Bucket>,
}

impl Histogram {
    /// The histogram of these counts, in any order; what was counted 0 times is left out.
    ///
    /// # Errors
    /// [`DistributionError::NothingCounted`] and [`DistributionError::TooManyCounted`].
    pub fn new(counts: impl IntoIterator<Item = Bucket>) -> Result<Self, DistributionError> {
        Ok(Self { measured: None, buckets: sorted(counts)? })
    }

    /// What is in this file, once it has been [read](super::Distribution::read).
    pub fn of_file(measured: Measured) -> Self {
        Self { measured: Some(measured), buckets: Vec::new() }
    }

    /// The same with the file in which it was found.
    #[must_use]
    pub fn found_in(self, measured: Measured) -> Self {
        Self { measured: Some(measured), ..self }
    }

    /// Where it was measured.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// The values in rising order.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }

    pub(super) fn read(&mut self, base: &Path) -> Result<(), FileError> {
        if let (Some(measured), true) = (&self.measured, self.buckets.is_empty()) {
            let path = base.join(&measured.file);
            let counts = read(&path, measured)?;
            self.buckets = sorted(counts).map_err(|why| FileError::Whole(path, why))?;
        }
        Ok(())
    }

    /// Every value so many times as long.
    pub(super) fn stretched(&self, by: f64) -> Self {
        assert!(!self.buckets.is_empty(), "a histogram is read before it is stretched");
        let stretched = |it: &Bucket| Bucket { value: it.value.stretched(by), count: it.count };
        let buckets = sorted(self.buckets.iter().map(stretched));
        Self {
            measured: self.measured.clone(),
            buckets: buckets.expect("as many as before are counted"),
        }
    }

    pub(super) fn sampler(&self) -> Sampler {
        match &self.buckets[..] {
            [] => panic!("a histogram is read before it is drawn from: {:?}", self.measured),
            [only] => Sampler::constant(picklock::time::span_ns(only.value.0)),
            buckets => Sampler::steps(Steps::new(buckets)),
        }
    }
}

/// What was counted in this file: an HdrHistogram log, or CSV.
fn read(path: &Path, measured: &Measured) -> Result<Vec<Bucket>, FileError> {
    let io = |source| FileError::Io(path.to_owned(), source);
    let mut bytes = Vec::new();
    // Nobody may ever write to a pipe.
    if std::fs::metadata(path).map_err(io)?.file_type().is_fifo() {
        return Err(io(std::io::Error::other("it is a pipe: copy it into a file")));
    }
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(FILE_MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > FILE_MOST_BYTES {
        return Err(FileError::TooLong(path.to_owned(), FILE_MOST_BYTES));
    }
    let is_log = path.extension().is_some_and(|it| it == "hlog")
        || LOG_BEGINS.iter().any(|begins| bytes.starts_with(begins));
    if is_log {
        return hlog::parse(path, &bytes, measured);
    }
    csv::parse(&bytes, measured.unit).map_err(|(line, why)| at(path, line, why))
}

/// The buckets in order, each value once.
fn sorted(counts: impl IntoIterator<Item = Bucket>) -> Result<Vec<Bucket>, DistributionError> {
    let mut all: Vec<Bucket> = counts.into_iter().filter(|it| it.count > 0).collect();
    all.sort_unstable();
    let total = all.iter().try_fold(0_u64, |sum, it| sum.checked_add(it.count));
    match total {
        None => return Err(DistributionError::TooManyCounted),
        Some(0) => return Err(DistributionError::NothingCounted),
        Some(_) => {}
    }
    all.dedup_by(|later, kept| {
        let same = later.value == kept.value;
        kept.count += if same { later.count } else { 0 };
        same
    });
    Ok(all)
}
