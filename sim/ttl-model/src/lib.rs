//! What TTL to set: the trade-off between a lease that is too short and one that is too long.

pub mod advice;
mod bound;
pub mod closed;
pub mod counted;
pub mod law;
mod lease;
pub mod played;
pub mod presets;
mod rare;
mod rate;
pub mod stat;
pub mod study;
mod traffic;

pub use lease::{Conditions, Setting};
pub use rate::{Rate, RateError};
pub use study::{Study, Watched};
pub use traffic::Traffic;
