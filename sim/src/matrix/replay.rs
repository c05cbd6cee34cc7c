//! The lines that run pairs of a matrix again.
//!
//! Invariant: a line runs the pair as it was run: in its world, and with the seed that showed a violation, if one did.

use scenarios::matrix::{Conformance, Matrix, Pair};

use super::Asked;
use crate::args::{MatrixArgs, Seeds, World};
use crate::line::Line;

/// How many pairs that are not as expected are printed with their replay lines; the files have all.
const REPLAYS_MOST: usize = 5;

impl Asked {
    /// The line that runs a pair again: with the seed that violated what was expected to hold, if there is
    /// one, otherwise with all seeds.
    pub(super) fn replay(&self, args: &MatrixArgs, pair: &Pair) -> String {
        self.line(args, pair, pair.first_unexpected())
    }

    /// The replay lines of the first pairs that are not as expected.
    pub(super) fn replays(
        &self,
        args: &MatrixArgs,
        found: &[Matrix],
    ) -> impl Iterator<Item = String> {
        let surprises = [Some(Conformance::Different), Some(Conformance::Vacuous)];
        let pairs = found.iter().flat_map(|it| &it.pairs);
        let pairs = pairs.filter(move |it| surprises.contains(&it.standing())).take(REPLAYS_MOST);
        pairs.map(|pair| format!("replay: {}\n", self.replay(args, pair)))
    }

    /// The line that runs a pair again, with this seed alone if there is one.
    pub(super) fn line(&self, args: &MatrixArgs, pair: &Pair, seed: Option<u64>) -> String {
        let scenario = self.files.get(&pair.scenario).unwrap_or(&pair.scenario);
        let seeds = match (seed, &args.seeds) {
            // The live worlds have one seed, and no option for it.
            (Some(seed), _) if args.world == World::Virtual => {
                Some(format!("{seed}..{}", u128::from(seed) + 1))
            }
            (_, seeds) => seeds.as_ref().map(Seeds::to_string),
        };
        Line::new()
            .word("matrix")
            .option("--world", args.world.name())
            .option("--scenario", scenario)
            .option("--lock", &pair.lock)
            .server(&args.server, args.server.redis.is_none())
            .options("--seeds", seeds)
            .switch("--searched", args.searched)
            .switch("--lua", args.lua)
            .text()
    }
}
