//! What a schedule violates, so that another can be asked whether it violates the same.
//!
//! Invariant: two convictions are equal only where the same invariant is violated at the same level by clients in the same
//! roles.

use history::fault::{Staged, Whom};
use history::verdict::{Finding, Level, Verdict, Witness};

/// What a schedule violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conviction {
    /// The invariant.
    pub invariant: &'static str,
    /// Its level.
    pub level: Level,
    /// The clients concerned, in the order in which the witness names them.
    roles: Vec<Role>,
}

/// What a client is in a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Role {
    /// Which of the clients concerned it is, in the order in which they come up.
    nth: usize,
    /// Whether a fault is staged on it.
    struck: bool,
}

impl Conviction {
    /// What these findings convict the lock of under these faults, the nearest level first.
    pub fn all(findings: &[Finding], faults: &[Staged]) -> Vec<Self> {
        let of = |finding: &Finding| match &finding.verdict {
            Verdict::Violated(witness) => Some(Self {
                invariant: finding.name,
                level: finding.level,
                roles: roles(witness, faults),
            }),
            _ => None,
        };
        let mut all: Vec<Self> = findings.iter().filter_map(of).collect();
        all.sort_by_key(|it| it.level);
        all
    }

    /// Whether it is of the same invariant, whoever is concerned.
    pub fn is_of(&self, other: &Self) -> bool {
        (self.invariant, self.level) == (other.invariant, other.level)
    }
}

fn roles(witness: &Witness, faults: &[Staged]) -> Vec<Role> {
    let mut known: Vec<u32> = Vec::new();
    let role = |client: &u32| {
        let nth = known.iter().position(|it| it == client).unwrap_or_else(|| {
            known.push(*client);
            known.len() - 1
        });
        let struck = faults.iter().any(|it| it.on == Some(Whom::Client(*client)));
        Role { nth, struck }
    };
    witness.clients.iter().map(role).collect()
}
