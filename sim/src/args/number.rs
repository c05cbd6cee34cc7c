//! Numbers on the command line.
//!
//! Invariant: a refusal of what is no number, or too large a one, says which numbers are accepted.

use std::ops::RangeInclusive;

use clap::builder::{StringValueParser, TypedValueParser};
use scenarios::scenario::TASKS_MOST;

/// Parses a whole number in this range.
pub(super) fn whole<T>(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    StringValueParser::new().try_map(move |text| {
        let number = text.parse().ok().filter(|it| range.contains(it));
        let number = number.and_then(|it| T::try_from(it).ok());
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("use a whole number from {least} to {most}"))
    })
}

/// Parses a number of clients; the scenario says which it allows.
pub(super) fn clients(text: &str) -> Result<u32, String> {
    let shape = || format!("use a whole number of clients, such as 100; {TASKS_MOST} is the most");
    text.parse().map_err(|_| shape())
}

/// Parses a seed.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}
