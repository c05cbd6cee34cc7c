//! How often something happens, as people write it: `1/year`, `3/day`, `0.5/hour`.
//!
//! Invariant: a rate is a number from 0 up; what was written is kept for the report.

use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, f64); 7] = [
    ("second", 1.0),
    ("minute", 60.0),
    ("hour", 3_600.0),
    ("day", 86_400.0),
    ("week", 604_800.0),
    ("month", 2_629_800.0),
    ("year", 31_557_600.0),
];
const DAY_S: f64 = 86_400.0;

/// How often something happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    text: String,
    per_second: f64,
}

/// Why a text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// There is no number in front, or none that can be.
    #[error("{0:?} is no number from 0 up: write a rate as 1/year or 3/day")]
    Number(String),
    /// There is no unit behind.
    #[error("a rate needs a unit, as in 1/year, 3/day, 0.5/hour or 6/minute")]
    Unit,
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (number, unit) = text.split_once('/').ok_or(RateError::Unit)?;
        let (number, unit) = (number.trim(), unit.trim());
        let one = |unit: &str| UNITS.iter().find(|(name, _)| *name == unit);
        let short = || {
            UNITS.iter().find(|(name, _)| matches!(unit, "s" | "h" | "d") && name.starts_with(unit))
        };
        let unit = one(unit).or_else(|| one(unit.strip_suffix('s')?)).or_else(short);
        let (_, seconds) = unit.ok_or(RateError::Unit)?;
        let times: f64 = number.parse().map_err(|_| RateError::Number(number.to_owned()))?;
        if !times.is_finite() || times < 0.0 {
            return Err(RateError::Number(number.to_owned()));
        }
        Ok(Self { text: text.trim().to_owned(), per_second: times / seconds })
    }
}

impl Rate {
    /// In a second.
    pub fn per_second(&self) -> f64 {
        self.per_second
    }

    /// In a day.
    pub fn per_day(&self) -> f64 {
        self.per_second * DAY_S
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        let per_day = |text: &str| text.parse::<Rate>().map(|it| it.per_day());
        assert_eq!(per_day("3/day"), Ok(3.0));
        assert_eq!(per_day(" 1 / hours "), Ok(24.0));
        assert_eq!(per_day("1/s"), Ok(86_400.0));
        assert!((per_day("1/year").unwrap_or_default() * 365.25 - 1.0).abs() < 1e-12);
        assert_eq!(per_day("0/day"), Ok(0.0));
        assert_eq!("1/year".parse::<Rate>().map(|it| it.to_string()), Ok("1/year".to_owned()));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in ["1", "1/", "1/m", "1/fortnight", "/day", "NaN/day", "-1/day", "inf/day"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
