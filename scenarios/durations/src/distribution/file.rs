//! A measured distribution in a file: an HdrHistogram log, or CSV.
//!
//! Invariant: the file is read once, when the scenario is; what was in it stays with the scenario, so
//! nothing that is run or replayed depends on the file. Deliberately absent: guessing. What a number
//! counts, and which measurement of several is meant, is said or refused.

use std::io::Read;
use std::path::Path;

use super::error::FileError;
use super::measured::{Bucket, Measured, at};
use super::{csv, hlog};

/// A longer file holds no distribution.
const FILE_MOST_BYTES: u64 = 64 << 20;
/// How an HdrHistogram log begins, with or without its comments.
const LOG_BEGINS: [&[u8]; 2] = [b"#[", b"\"StartTimestamp\""];

/// What was counted in this file.
pub(super) fn read(path: &Path, measured: &Measured) -> Result<Vec<Bucket>, FileError> {
    let io = |source| FileError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(FILE_MOST_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > FILE_MOST_BYTES {
        return Err(FileError::TooLong { path: path.to_owned(), most_bytes: FILE_MOST_BYTES });
    }
    let is_log = path.extension().is_some_and(|it| it == "hlog")
        || LOG_BEGINS.iter().any(|begins| bytes.starts_with(begins));
    if is_log {
        return hlog::parse(path, &bytes, measured);
    }
    csv::parse(&bytes, measured.unit).map_err(|(line, why)| at(path, line, why))
}
