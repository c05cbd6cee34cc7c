//! The history of a run: what every client asked and what it was told, in order of time, the faults that struck it, and
//! verdicts on it.
//!
//! Invariant: events stand in the order in which they were written down, their times never fall, and
//! nothing but an event can change what a checker sees. From here on nothing knows which world the run
//! was made in.

mod event;
pub mod exchange;
pub mod fault;
mod flaw;
mod head;
mod history;
mod journal;
mod jsonl;
pub mod nearest;
mod read;
mod recent;
pub mod tenure;
mod text;
mod timeline;
mod values;
pub mod verdict;
pub mod words;

pub use event::{Answer, Event, FOR_EVER, GONE, Intent, Stage, Touch, Update, What};
pub use flaw::ReadError;
pub use head::{Declared, FORMAT, Head, Promise};
pub use history::History;
pub use journal::Journal;
pub use jsonl::write;
pub use read::{Block, Blocks, Reader, Stretch, open, read};
pub use recent::Recent;
pub use text::{Text, Texts};
pub use timeline::{AcquireEnd, Acquisition, CommandOp, ReleaseEnd, Timeline, UpdateEnd, UpdateOp};
pub use values::{Content, KeyDigest};
