//! What convicts an error: the nearest invariant that it violates and a sound lock does not.
//!
//! Invariant: only *violated* convicts, and only where the catalogue expects something else of a recipe without a
//! known flaw.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::PlantedError;

/// What an error did in one recipe.
pub(super) struct ErrorTrial<'a> {
    pub(super) error: &'a PlantedError,
    pub(super) recipe: &'a str,
    pub(super) found: Option<Conviction>,
    /// The scenarios that did not end, or not in time.
    pub(super) endless: BTreeSet<String>,
    pub(super) took: Duration,
}

/// The nearest that convicts an error: by level, then by seeds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Conviction {
    /// Its place among the four.
    level: usize,
    /// How many seeds it took.
    pub(super) seeds: u64,
    pub(super) scenario: String,
    pub(super) form: MatrixForm,
}

/// Which matrix was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatrixForm {
    /// What is staged, in virtual time.
    Staged,
    /// The searched forms.
    Searched,
    /// What is staged, on real sockets.
    Embedded,
}

impl MatrixForm {
    /// What tells it from what is staged.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Staged => "",
            Self::Searched => ", searched",
            Self::Embedded => ", embedded",
        }
    }

    /// What `picklock matrix` is told. Against the 100 seeds of the matrix a searched form has 400: what is searched for
    /// is rare.
    pub(super) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Staged => &[],
            Self::Searched => &["--searched", "--seeds", "0..400"],
            Self::Embedded => &["--world", "embedded"],
        }
    }
}

/// What `picklock matrix` writes, as far as it is read.
#[derive(Default, Deserialize)]
pub(super) struct FoundMatrix {
    pairs: Vec<FoundPair>,
}

#[derive(Deserialize)]
pub(super) struct FoundPair {
    scenario: String,
    sound: bool,
    cells: Vec<FoundCell>,
}

#[derive(Deserialize)]
struct FoundCell {
    level: String,
    expected: String,
    found: String,
    standing: String,
    runs: FoundRuns,
}

#[derive(Deserialize)]
struct FoundRuns {
    first_violated: Option<u64>,
}

const LEVELS: [&str; 4] = ["key", "belief", "effect", "progress"];

impl Conviction {
    pub(super) fn level(&self) -> &'static str {
        LEVELS[self.level]
    }

    /// What of the matrix convicts, if anything.
    pub(super) fn of(matrix: &FoundMatrix, form: MatrixForm) -> Option<Self> {
        let sound = matrix.pairs.iter().filter(|pair| pair.sound);
        let cells = sound.flat_map(|pair| pair.cells.iter().map(move |cell| (pair, cell)));
        // Expected and now and then missed is no conviction.
        let convicts = cells.filter(|(_, it)| {
            it.found == "violated" && it.standing == "different" && it.expected != "violated"
        });
        let all = convicts.filter_map(|(pair, cell)| {
            let level = LEVELS.iter().position(|it| *it == cell.level)?;
            let seeds = cell.runs.first_violated?.saturating_add(1);
            Some(Self { level, seeds, scenario: pair.scenario.clone(), form })
        });
        all.min()
    }
}
