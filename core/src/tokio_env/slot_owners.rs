//! Which node of a cluster owns which slots, as far as is known.
//!
//! Invariant: a redirection that came after the last list of slots takes precedence over that list.

use std::collections::{BTreeMap, BTreeSet};

use super::addr::Addr;
use crate::reply::Reply;

/// The owner of each slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotOwners {
    /// By the last slot of a range: its first slot, and its owner.
    ranges: BTreeMap<u16, (u16, Addr)>,
    /// Slots that have moved since.
    pub(super) moved: BTreeMap<u16, Addr>,
}

impl SlotOwners {
    /// The owner of this slot.
    pub(super) fn of(&self, slot: u16) -> Option<&Addr> {
        self.moved.get(&slot).or_else(|| {
            let (_, (first, owner)) = self.ranges.range(slot..).next()?;
            (*first <= slot).then_some(owner)
        })
    }

    /// Every node that owns a slot.
    pub(super) fn nodes(&self) -> BTreeSet<&Addr> {
        self.ranges.values().map(|(_, owner)| owner).chain(self.moved.values()).collect()
    }

    /// Reads the answer to CLUSTER SLOTS of the node at `asked`; none where it has another shape.
    pub(super) fn read(reply: &Reply, asked: &Addr) -> Option<Self> {
        let Reply::Array(rows) = reply else { return None };
        let mut ranges = BTreeMap::new();
        for row in rows {
            let Reply::Array(row) = row else { return None };
            let [first, last, Reply::Array(owner), ..] = &row[..] else { return None };
            let [host, port, ..] = &owner[..] else { return None };
            let slot = |reply: &Reply| u16::try_from(reply.as_int()?).ok();
            // A node that does not know its own address sends none: it is where we have reached it.
            let host = host.as_bytes().and_then(|host| std::str::from_utf8(host).ok());
            let host = host.filter(|host| !matches!(*host, "" | "?")).unwrap_or(&asked.host);
            ranges.insert(slot(last)?, (slot(first)?, Addr::new(host, slot(port)?)));
        }
        Some(Self { ranges, moved: BTreeMap::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: i64, last: i64, host: Reply, port: i64) -> Reply {
        let owner = Reply::Array(vec![host, Reply::Int(port), Reply::bulk(b"id")]);
        Reply::Array(vec![Reply::Int(first), Reply::Int(last), owner])
    }

    #[test]
    fn a_slot_is_in_a_range_at_both_its_ends_and_not_beyond() {
        let asked = Addr::new("seed", 1);
        let rows = vec![
            row(10, 19, Reply::bulk(b"a"), 1),
            row(30, 30, Reply::Nil, 2),
            row(31, 40, Reply::bulk(b""), 3),
        ];
        let mut owners = SlotOwners::read(&Reply::Array(rows), &asked).unwrap();
        let of = |owners: &SlotOwners, slot| owners.of(slot).map(ToString::to_string);
        let found = [9, 10, 19, 20, 29, 30, 31, 40, 41].map(|slot| of(&owners, slot));
        let [a, two, three] = ["a:1", "seed:2", "seed:3"].map(|addr| Some(addr.to_owned()));
        let (from, to) = (a.clone(), three.clone());
        assert_eq!(found, [None, from, a, None, None, two, three, to, None]);
        owners.moved.insert(10, Addr::new("b", 9));
        assert_eq!(of(&owners, 10).as_deref(), Some("b:9"));
        assert_eq!(of(&owners, 11).as_deref(), Some("a:1"));
        let nodes: Vec<String> = owners.nodes().into_iter().map(ToString::to_string).collect();
        assert_eq!(nodes, ["a:1", "b:9", "seed:2", "seed:3"]);
    }

    #[test]
    fn what_is_no_list_of_slots_is_not_taken_for_one() {
        let asked = Addr::new("seed", 1);
        assert_eq!(SlotOwners::read(&Reply::Array(vec![]), &asked), Some(SlotOwners::default()));
        for strange in [
            Reply::Ok,
            Reply::Array(vec![Reply::Int(1)]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(1)])]),
            Reply::Array(vec![row(0, 70_000, Reply::Nil, 1)]),
            Reply::Array(vec![row(0, 1, Reply::Nil, -1)]),
        ] {
            assert_eq!(SlotOwners::read(&strange, &asked), None, "{strange:?}");
        }
    }
}
