//! What TTL to set: the trade-off between a lease that is too short and one that is too long.

pub mod advice;
mod bound;
#[cfg(test)]
mod closed_form;
pub mod format;
mod importance_sampling;
pub mod law;
mod lease;
pub mod monte_carlo;
mod polling;
pub mod presets;
mod proposal;
mod rate;
pub mod stat;
pub mod study;
#[cfg(test)]
mod testing;
mod traffic;
pub mod tuning;
pub mod validate;

pub use lease::{Conditions, Setting};
pub use rate::{Rate, RateError};
pub use study::{Study, StudyError, StudyProgress};
pub use traffic::Traffic;
