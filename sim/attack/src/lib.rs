//! `picklock attack`: other people's locks, in their own programs, under our faults.

mod arena;
mod assessment;
mod board;
mod campaign;
mod client;
mod clock;
mod error;
mod judgement;
mod junit;
mod monitor;
mod page;
mod plan;
mod protocol;
mod recorder;
mod report;
mod seen;
mod server;
mod stage;
mod table;
mod tenure;
mod transcript;
mod worker;

pub use arena::Attack;
pub use campaign::{Campaign, Learnt, learn};
pub use error::AttackError;
pub use judgement::{AttackFinding, Severity};
pub use junit::junit;
pub use page::page;
pub use plan::{AttackFault, AttackPlan, Boundary, LockStep, Target};
pub use protocol::{PROTOCOL, Promises};
pub use report::{ATTACK_SCHEMA, AttackReport, NO_FAULT, PlanOutcome, PlanReport, schema};
pub use table::{human, markdown};
pub use worker::WorkerError;
