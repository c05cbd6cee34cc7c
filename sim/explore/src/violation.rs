//! What a schedule violates, so that two schedules can be compared.
//!
//! Invariant: two violations are equal only if the same invariant is violated at the same level by clients in the same
//! roles.

use history::fault::{Staged, Whom};
use history::verdict::{Finding, Level, Verdict, Witness};

/// What a schedule violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// Its level.
    pub level: Level,
    /// The clients concerned, in the order in which the witness names them.
    roles: Vec<Role>,
}

/// The role of a client in a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Role {
    /// Which of the clients concerned it is, in the order in which they come up.
    nth: usize,
    /// Whether a fault is staged on it.
    struck: bool,
}

impl Violation {
    /// The violations among these findings under these faults, ordered by level.
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

    /// Whether it is of the same invariant, and in both a client harms another, or in both a client harms itself. The
    /// rest is not compared: in a drawn schedule a witness may name more clients, and other faults may strike.
    pub fn is_like(&self, other: &Self) -> bool {
        let harm = |it: &Self| it.roles.iter().take(2).map(|role| role.nth).collect::<Vec<_>>();
        self.is_of(other) && harm(self) == harm(other)
    }

    /// Whether it is the same, and no client is struck in it that is not struck in the other.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let within =
            |(one, other): (&Role, &Role)| one.nth == other.nth && one.struck <= other.struck;
        self.is_of(other)
            && self.roles.len() == other.roles.len()
            && self.roles.iter().zip(&other.roles).all(within)
    }

    /// Whether it is of the same invariant and level, whichever clients are concerned.
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

#[cfg(test)]
mod tests {
    use history::fault::{Fault, Trigger};

    use super::super::candidate::bare;
    use super::*;

    fn finding(level: Level, clients: &[u32]) -> Finding {
        let witness = Witness { clients: clients.to_vec(), ..Witness::default() };
        Finding::new("ownership", level, Verdict::Violated(witness))
    }

    fn crash(client: u32) -> Staged {
        bare(Fault::Crash, Some(Whom::Client(client)), Trigger::default())
    }

    fn one(clients: &[u32], faults: &[Staged]) -> Violation {
        Violation::all(&[finding(Level::Key, clients)], faults).remove(0)
    }

    #[test]
    fn roles_are_the_same_whatever_the_clients_are_called() {
        assert_eq!(one(&[1, 2], &[crash(1)]), one(&[3, 1], &[crash(3)]));
        assert_ne!(one(&[1, 2], &[crash(1)]), one(&[1, 2], &[crash(2)]), "another is struck");
        assert_ne!(one(&[1, 2], &[]), one(&[1, 1], &[]), "one client does it to itself");
        assert_ne!(one(&[1, 2], &[]), one(&[1, 2, 3], &[]));
        assert!(one(&[1, 2], &[]).is_of(&one(&[1, 1], &[crash(1)])), "it is the same invariant");
        assert!(one(&[1, 2], &[]).is_like(&one(&[3, 1, 3, 4], &[crash(1)])));
        assert!(!one(&[1, 2], &[]).is_like(&one(&[1, 1], &[])), "one client does it to itself");
    }

    #[test]
    fn a_violation_with_fewer_clients_struck_is_within_one_with_more() {
        let both = [crash(1), crash(2)];
        assert!(one(&[1, 2], &both[..1]).is_within(&one(&[3, 1], &[crash(1), crash(3)])));
        assert!(one(&[1, 2], &both).is_within(&one(&[1, 2], &both)));
        assert!(!one(&[1, 2], &both).is_within(&one(&[1, 2], &both[..1])), "one more is struck");
        assert!(
            !one(&[1, 2], &both[1..]).is_within(&one(&[1, 2], &both[..1])),
            "another is struck"
        );
        assert!(!one(&[1, 1], &[]).is_within(&one(&[1, 2], &both)), "one client does it to itself");
        assert!(!one(&[1], &[]).is_within(&one(&[1, 2], &both)));
    }

    #[test]
    fn only_what_is_violated_convicts_and_the_nearest_level_comes_first() {
        let held = Finding::new("ownership", Level::Key, Verdict::Held);
        let all = [finding(Level::Effect, &[1]), held, finding(Level::Belief, &[1])];
        let levels: Vec<Level> = Violation::all(&all, &[]).iter().map(|it| it.level).collect();
        assert_eq!(levels, [Level::Belief, Level::Effect]);
    }
}
