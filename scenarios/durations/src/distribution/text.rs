//! Distributions as text: `uniform:200us..2ms`, `lognormal:5ms,p99=80ms`, `constant:1ms`, `1ms`,
//! `file:rtt.hlog,tag=GET,unit=us`.
//!
//! Invariant: what is printed reads back as the same distribution, but for a histogram that came from no
//! file, which a line cannot hold.

use std::fmt;
use std::str::FromStr;

use super::error::DistributionError;
use super::histogram::Histogram;
use super::log_normal::LogNormal;
use super::measured::Measured;
use super::{Distribution, Uniform};
use crate::span::Span;

const UNIFORM: &str = "uniform";
const LOG_NORMAL: &str = "lognormal";
const FILE: &str = "file";

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Self, DistributionError> {
        let text = text.trim();
        let (form, rest) = text.split_once(':').unwrap_or(("", text));
        match form.trim() {
            "constant" => Ok(Self::Constant(span(rest)?)),
            UNIFORM => {
                let missing = DistributionError::Missing { form: UNIFORM, part: "max" };
                let (min, max) = rest.split_once("..").ok_or(missing)?;
                Ok(Self::Uniform(Uniform::new(span(min)?, span(max)?)?))
            }
            LOG_NORMAL => log_normal(rest),
            FILE => file(rest),
            // A bare duration is always itself.
            "" if !rest.starts_with(char::is_alphabetic) => Ok(Self::Constant(span(rest)?)),
            _ => Err(DistributionError::Unknown(text.to_owned())),
        }
    }
}

fn span(text: &str) -> Result<Span, DistributionError> {
    let text = text.trim();
    text.parse().map_err(|why| DistributionError::Span(text.to_owned(), why))
}

fn log_normal(rest: &str) -> Result<Distribution, DistributionError> {
    let mut parts = rest.split(',');
    let median = span(parts.next().unwrap_or_default())?;
    let (mut p99, mut floor, mut cap) = (None, None, None);
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let place = match name.trim() {
            "p99" => &mut p99,
            "floor" => &mut floor,
            "cap" => &mut cap,
            other => {
                let part = other.to_owned();
                return Err(DistributionError::Foreign { form: LOG_NORMAL, part });
            }
        };
        if place.replace(span(value)?).is_some() {
            return Err(DistributionError::Twice(name.trim().to_owned()));
        }
    }
    let p99 = p99.ok_or(DistributionError::Missing { form: LOG_NORMAL, part: "p99" })?;
    Ok(Distribution::LogNormal(LogNormal::new(median, p99)?.within(floor, cap)?))
}

fn file(rest: &str) -> Result<Distribution, DistributionError> {
    let mut measured = Measured { file: rest.trim().to_owned(), ..Measured::default() };
    // From the end, for a path may hold a comma.
    while let Some((path, last)) = measured.file.rsplit_once(',') {
        let twice = |part: &str| DistributionError::Twice(part.to_owned());
        match last.split_once('=') {
            Some(("tag", tag)) if measured.tag.is_none() => measured.tag = Some(tag.to_owned()),
            Some(("unit", unit)) if measured.unit.is_none() => measured.unit = Some(unit.parse()?),
            Some((part @ ("tag" | "unit"), _)) => return Err(twice(part)),
            _ => break,
        }
        measured.file = path.to_owned();
    }
    if measured.file.is_empty() {
        return Err(DistributionError::Missing { form: FILE, part: FILE });
    }
    Ok(Distribution::Histogram(Histogram::of_file(measured)))
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => write!(f, "constant:{span}"),
            Self::Uniform(uniform) => write!(f, "{UNIFORM}:{}..{}", uniform.min, uniform.max),
            Self::LogNormal(shape) => {
                write!(f, "{LOG_NORMAL}:{},p99={}", shape.median, shape.p99)?;
                if let Some(floor) = shape.floor {
                    write!(f, ",floor={floor}")?;
                }
                shape.cap.map_or(Ok(()), |cap| write!(f, ",cap={cap}"))
            }
            Self::Histogram(histogram) => match (histogram.measured(), histogram.buckets()) {
                (Some(Measured { file, tag, unit }), _) => {
                    write!(f, "{FILE}:{file}")?;
                    if let Some(tag) = tag {
                        write!(f, ",tag={tag}")?;
                    }
                    unit.map_or(Ok(()), |unit| write!(f, ",unit={unit}"))
                }
                (None, [first, .., last]) => {
                    let count = histogram.count();
                    write!(f, "a histogram of {count} from {} to {}", first.value, last.value)
                }
                (None, [only]) => write!(f, "a histogram of {}", only.value),
                (None, []) => f.write_str("an empty histogram"),
            },
        }
    }
}
