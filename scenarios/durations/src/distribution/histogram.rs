//! What was measured: values, and how often each came.
//!
//! Invariant: buckets rise, each counts something, and all counts together fit into 64 bits; only a
//! histogram whose file has not been read yet has none. Deliberately absent: values between two
//! buckets. A wide bucket is given by its upper bound, so nothing measured is drawn too short.

use std::path::Path;

use super::error::{DistributionError, FileError};
use super::file;
use super::measured::{Bucket, Measured};
use super::sampler::Sampler;
use super::steps::Steps;

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
            let counts = file::read(&path, measured)?;
            self.buckets = sorted(counts).map_err(|why| FileError::Whole { path, why })?;
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
