//! What a person sees at the end of a run: verdicts, stories, figures, remarks.
//!
//! Invariant: every verdict is a word; colour only repeats it, and without colour no escape byte is
//! written, whatever the result holds.

mod colour;
mod compared;
mod figures;
mod matrix;
mod soak;
mod story;
mod summary;
mod sweep;
mod table;
mod verdicts;

pub use compared::compared;
pub use matrix::matrix;
pub use soak::soak;
pub use story::story;
pub(crate) use summary::INTERRUPTED;
pub use summary::{footer, summary};
pub use sweep::{Swept, sweep};
pub(crate) use table::table;

/// How the summary is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether colour may be used.
    pub colour: bool,
    /// How many columns there are; long lines are not broken where this is not known.
    pub width: Option<usize>,
    /// How much is said.
    pub verbosity: Verbosity,
}

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// What was run, what did not hold, and the verdict.
    Quiet,
    /// Every verdict, the stories and the figures.
    #[default]
    Normal,
    /// Also the commands, and more of the figures.
    Verbose,
}
