//! Checkers: what a history says of each invariant.
//!
//! Invariant: a checker calls a history *violated* only where no reading of what is unknown in it
//! (an operation without an answer, the moment at which a command was carried out) would excuse it.
//! A run in which nobody ever contended shows nothing, and is called inconclusive. Events are seen
//! once, in order, and what is kept of them is what is still open. Checkers know neither recipes nor
//! worlds. `docs/verdicts.md` names each invariant.

mod attempts;
mod availability;
mod contention;
mod deadline;
mod deadlock_freedom;
mod deletion_tries;
pub mod efficiency;
mod exposure;
mod fail_fast;
mod fairness;
mod fence_gate;
mod fencing;
mod foreign_key;
mod given_back;
mod honesty;
mod interface;
mod judge;
mod last_requests;
mod late_write;
mod lease_validity;
mod mutual_exclusion;
mod needs;
mod one_slot;
mod overstay;
mod ownership;
mod perseverance;
mod pool;
mod quorum_told;
mod refusal;
mod register;
mod renewal;
pub mod story;
mod struck;
mod vacuity;
mod wake_up;
mod work_told;

pub use judge::{Checkers, check, judge};
pub use needs::{Needs, needs};

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod random;
#[cfg(test)]
mod testing;
