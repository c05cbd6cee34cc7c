//! Why there is no chart.

use std::fmt;

/// Why there is no chart.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the chart: {0}")]
pub struct ChartError(String);

impl ChartError {
    pub(crate) fn from_display(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}
