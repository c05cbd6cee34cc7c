//! The whole catalogue, run: every recipe in every scenario shows what is expected, and the page says so.

use std::sync::Arc;

use harness::matrix;
use harness::sweep::BatchProgress;
use history::verdict::Outcome::{Inconclusive, NotApplicable};
use scenarios::catalog;
use scenarios::matrix::{Matrix, Pair, Totals, locks};
use virtual_world::{VirtualWorld, WORLD};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/catalogue.md");

#[test]
fn the_page_shows_what_is_found_and_all_of_it_is_expected() {
    let scenarios: Vec<_> = catalog::ALL
        .iter()
        .flat_map(|(name, _)| {
            locks().map(move |lock| Arc::new(Pair::scenario(name, lock).unwrap()))
        })
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let progress = BatchProgress::default();
    let found = matrix::pairs(VirtualWorld::default, &scenarios, None, threads, &progress).unwrap();
    let found = Matrix::new(WORLD, None, found, false);
    let page = reports::matrix::markdown(std::slice::from_ref(&found), &catalog::all().unwrap());
    assert!(found.is_as_expected(), "{page}");
    // What is not claimed is counted, so that none is given up without a word.
    let Totals { unclaimed, not_run, .. } = found.totals;
    assert_eq!((unclaimed, not_run), (UNCLAIMED, 0));
    // Of what is staged, each run shows it: a few may be vacuous elsewhere, and none here.
    let staged = found.pairs.iter().filter(|it| !it.searched).flat_map(|it| &it.cells);
    let decided = staged.filter(|it| !matches!(it.expected, NotApplicable | Inconclusive));
    assert_eq!(decided.filter(|it| it.runs.vacuous > 0).count(), 0);
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        page == written,
        "docs/catalogue.md is not what is found; write it anew:\n    \
         cargo run --release -p sim -- matrix --format markdown=docs/catalogue.md"
    );
}

/// How many cells of the catalogue nothing is claimed of.
const UNCLAIMED: u64 = 1_989;
