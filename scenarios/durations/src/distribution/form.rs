//! Distributions in TOML and JSON: a table whose fields say which it is, or a text.
//!
//! Invariant: what is written reads back as the same distribution, values of a file included, so a
//! manifest needs no file; and a table of one distribution has no field of another.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::error::DistributionError;
use super::histogram::Histogram;
use super::log_normal::LogNormal;
use super::measured::{Bucket, Measured, TimeUnit};
use super::{Distribution, Uniform};
use crate::span::Span;

/// Every field there is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a distribution")]
struct DistributionForm {
    constant: Option<Span>,
    min: Option<Span>,
    max: Option<Span>,
    median: Option<Span>,
    p99: Option<Span>,
    floor: Option<Span>,
    cap: Option<Span>,
    file: Option<String>,
    tag: Option<String>,
    unit: Option<TimeUnit>,
    histogram: Option<Vec<Bucket>>,
}

impl DistributionForm {
    /// The fields that are there, each with the kind of distribution to which it belongs.
    fn given(&self) -> Vec<(&'static str, &'static str)> {
        let all = [
            ("constant", "constant", self.constant.is_some()),
            ("uniform", "min", self.min.is_some()),
            ("uniform", "max", self.max.is_some()),
            ("log-normal", "median", self.median.is_some()),
            ("log-normal", "p99", self.p99.is_some()),
            ("log-normal", "floor", self.floor.is_some()),
            ("log-normal", "cap", self.cap.is_some()),
            ("measured", "file", self.file.is_some()),
            ("measured", "histogram", self.histogram.is_some()),
            ("measured", "tag", self.tag.is_some()),
            ("measured", "unit", self.unit.is_some()),
        ];
        all.into_iter().filter_map(|(form, part, is)| is.then_some((form, part))).collect()
    }
}

impl TryFrom<DistributionForm> for Distribution {
    type Error = DistributionError;

    fn try_from(table: DistributionForm) -> Result<Self, DistributionError> {
        let given = table.given();
        // The first field that is there decides.
        let (form, _) = *given.first().ok_or(DistributionError::Empty)?;
        if let Some((_, part)) = given.iter().find(|it| it.0 != form) {
            return Err(DistributionError::Foreign { form, part: (*part).to_owned() });
        }
        let part = |value: Option<Span>, part: &'static str| {
            value.ok_or(DistributionError::Missing { form, part })
        };
        match form {
            "constant" => Ok(Self::Constant(part(table.constant, "constant")?)),
            "uniform" => {
                let (min, max) = (part(table.min, "min")?, part(table.max, "max")?);
                Ok(Self::Uniform(Uniform::new(min, max)?))
            }
            "log-normal" => {
                let shape = LogNormal::new(part(table.median, "median")?, part(table.p99, "p99")?)?;
                Ok(Self::LogNormal(shape.within(table.floor, table.cap)?))
            }
            _ => {
                let DistributionForm { file, tag, unit, histogram, .. } = table;
                let histogram = histogram.map(Histogram::new).transpose()?;
                let measured = file.map(|file| Measured { file, tag, unit });
                match (measured, histogram) {
                    (Some(measured), Some(histogram)) => {
                        Ok(Self::Histogram(histogram.found_in(measured)))
                    }
                    (Some(measured), None) => Ok(Self::Histogram(Histogram::of_file(measured))),
                    (None, Some(histogram)) if given == [(form, "histogram")] => {
                        Ok(Self::Histogram(histogram))
                    }
                    // A tag or a unit, of no file.
                    (None, _) => Err(DistributionError::Missing { form, part: "file" }),
                }
            }
        }
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serializer.serialize_map(None)?;
        match self {
            Self::Constant(span) => table.serialize_entry("constant", span)?,
            Self::Uniform(Uniform { min, max }) => {
                table.serialize_entry("min", min)?;
                table.serialize_entry("max", max)?;
            }
            Self::LogNormal(shape) => {
                table.serialize_entry("median", &shape.median)?;
                table.serialize_entry("p99", &shape.p99)?;
                for (part, bound) in [("floor", shape.floor), ("cap", shape.cap)] {
                    bound.map_or(Ok(()), |bound| table.serialize_entry(part, &bound))?;
                }
            }
            Self::Histogram(histogram) => {
                if let Some(Measured { file, tag, unit }) = histogram.measured() {
                    table.serialize_entry("file", file)?;
                    tag.iter().try_for_each(|tag| table.serialize_entry("tag", tag))?;
                    unit.iter().try_for_each(|unit| table.serialize_entry("unit", unit))?;
                }
                if !histogram.buckets().is_empty() {
                    table.serialize_entry("histogram", histogram.buckets())?;
                }
            }
        }
        table.end()
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TableOrText;
        impl<'de> Visitor<'de> for TableOrText {
            type Value = Distribution;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a distribution such as { min = \"200us\", max = \"2ms\" } or \
                     \"lognormal:5ms,p99=80ms\"",
                )
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Distribution, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Distribution, M::Error> {
                let table = DistributionForm::deserialize(MapAccessDeserializer::new(map))?;
                Distribution::try_from(table).map_err(Error::custom)
            }
        }
        deserializer.deserialize_any(TableOrText)
    }
}
