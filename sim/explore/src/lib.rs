//! Finds counterexamples: tries small worlds in order of size, shrinks what it finds, and confirms it in another world.

mod alphabet;
mod base;
mod bounds;
mod candidate;
mod confirm;
mod counterexample;
mod explain;
mod limits;
mod place;
mod search;
mod shrink_drawn;
mod shrink_staged;
mod staging;
mod text;
mod violation;

pub use base::{Base, BaseError, SEED};
pub use bounds::{Bounds, Size};
pub use candidate::Candidate;
pub use confirm::{Reproduction, compare};
pub use counterexample::Counterexample;
pub use explain::{DRAWN, explain};
pub use search::{
    Explored, FoundSchedule, LastFound, LastNumber, LastPart, SearchEnd, SearchFrontier,
    SearchPlan, SearchStage, search,
};
pub use shrink_drawn::{DrawnSchedule, shrink_drawn};
pub use shrink_staged::shrink_staged;
pub use staging::staged;
pub use violation::Violation;
