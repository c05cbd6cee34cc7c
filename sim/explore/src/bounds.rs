//! The sizes of worlds, and the order in which they are tried.
//!
//! Invariant: a size comes after every size with no more clients and no more rounds. So the first violation is found in
//! the smallest world.

use std::fmt;

use scenarios::format::plural;
use serde::{Deserialize, Serialize};

/// How large a world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Size {
    /// How many clients contend.
    pub clients: u32,
    /// How many acquisitions each of them makes.
    pub rounds: u32,
}

/// How far the search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// How many clients at most; two at least contend.
    pub clients: u32,
    /// How many acquisitions of each client at most.
    pub rounds: u32,
    /// How many faults in one schedule at most.
    pub faults: usize,
}

impl Bounds {
    /// Every size within these bounds, the smallest first: by the number of acquisitions, and then of clients.
    pub fn sizes(self) -> Vec<Size> {
        let rounds = |clients| (1..=self.rounds).map(move |rounds| Size { clients, rounds });
        let mut sizes: Vec<Size> = (2..=self.clients).flat_map(rounds).collect();
        sizes.sort_by_key(|size| (size.clients * size.rounds, size.clients));
        sizes
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clients, rounds } = self;
        write!(f, "{clients} clients, {rounds} {}", plural(u64::from(*rounds), "round"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_within_the_bounds_comes_once_and_the_smallest_first() {
        let sizes = |clients, rounds| {
            let sizes = Bounds { clients, rounds, faults: 0 }.sizes();
            sizes.into_iter().map(|it| (it.clients, it.rounds)).collect::<Vec<_>>()
        };
        assert_eq!(sizes(3, 2), [(2, 1), (3, 1), (2, 2), (3, 2)]);
        assert_eq!(sizes(2, 1), [(2, 1)]);
        assert_eq!(sizes(4, 1), [(2, 1), (3, 1), (4, 1)]);
        assert_eq!(sizes(1, 5), [], "one client contends with nobody");
    }
}
