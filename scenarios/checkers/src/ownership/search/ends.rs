//! How a hold may have ended by itself, or by what nobody is blamed for.
//!
//! Invariant: every way is given that harms nobody, and what has surely not ended by itself has no such way.

use history::Touch;
use smallvec::{SmallVec, smallvec};

use super::Search;
use super::reading::{HoldLife, Reading, ReadingKey, ReadingList};
use crate::ownership::Op;

impl Search<'_> {
    /// The same, the hold that this command meets being over with nobody harmed. A value that is still there
    /// has not expired; but where it says itself when the hold is over, that time may have passed.
    pub(super) fn over(&self, reading: &Reading, op: &Op, now_ns: u64) -> ReadingList {
        let ReadingKey::Held { since_ns, .. } = reading.state else {
            return ReadingList::new();
        };
        if self.found(op).is_none() {
            let mut over = self.gone(reading, now_ns);
            over.extend(self.left(reading, now_ns));
            return over;
        }
        if self.is_lost(since_ns, now_ns) {
            return smallvec![reading.clone().is(ReadingKey::Nobodys)];
        }
        self.passed(reading, now_ns).into_iter().collect()
    }

    /// The same, a key that stays having been left behind when its stamp, or another that its owner has put there, had
    /// passed.
    pub(super) fn left(&self, reading: &Reading, now_ns: u64) -> impl Iterator<Item = Reading> {
        let left = self.stays.then(|| {
            self.passed(reading, now_ns).into_iter().chain(self.shortened(reading, now_ns))
        });
        left.into_iter().flatten().map(|it| it.is(ReadingKey::Nobodys))
    }

    /// The same, the key having been made by another's without an answer and left behind: a stamp counts from the sending,
    /// however late the command was carried out.
    pub(super) fn left_by_another<'b>(
        &'b self,
        reading: &'b Reading,
        place: u32,
        now_ns: u64,
    ) -> impl Iterator<Item = Reading> + 'b {
        let of = move |found| {
            let creators = self.creators_but(reading, self.op(place).acquisition);
            creators.filter(move |it| self.is_found(*it) == found)
        };
        // What somebody has found may yet have to be there.
        let creators = || of(false).chain(of(true));
        let creators = self.known.stamped.then(creators).into_iter().flatten();
        let passed = move |creator: u32| {
            let (Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns)) = self.op(creator).touch else {
                return None;
            };
            let end_ns = self.lives(self.op(creator).sent_ns, ttl_ns?);
            let passed = || self.using(reading, creator).is(ReadingKey::Nobodys);
            (end_ns <= now_ns).then(|| passed().not_before(end_ns))
        };
        creators.filter_map(passed)
    }

    /// The same, what was left behind having been deleted, or overwritten by one who has deleted its own.
    pub(super) fn removed(&self, reading: &Reading) -> ReadingList {
        let unused = |it: &u32| !reading.has_used(*it);
        let deletes = self.deletes.iter().copied().filter(unused);
        let mut removed: ReadingList = deletes.map(|it| self.using(reading, it)).collect();
        for it in self.overwrites.iter().copied().filter(unused) {
            let overwritten = self.using(reading, it);
            let own = self.open_of(self.op(it).acquisition, reading);
            let deletes = own.filter(|&own| self.op(own).touch == Touch::Delete);
            removed.extend(deletes.map(|own| self.using(&overwritten, own)));
        }
        removed
    }

    /// The same, its owner having cut the life of the key short, which is over.
    pub(super) fn shortened(&self, reading: &Reading, now_ns: u64) -> ReadingList {
        let ReadingKey::Held { owner, life, .. } = reading.state else {
            return ReadingList::new();
        };
        let ends = |it| Some((self.short_life(it, life.from_ns)?, it));
        let over = self.unlike(self.open_of(owner.0, reading)).into_iter().filter_map(ends);
        let over = over.filter(|(end_ns, _)| *end_ns <= now_ns);
        over.map(|(end_ns, it)| self.using(reading, it).not_before(end_ns)).collect()
    }

    /// The same, the time of a stamp having passed, which leaves the key behind.
    pub(super) fn passed(&self, reading: &Reading, now_ns: u64) -> Option<Reading> {
        let ReadingKey::Held { life: HoldLife { may_end_ns, .. }, .. } = reading.state else {
            return None;
        };
        let passed = || reading.clone().is(ReadingKey::Nobodys).not_before(may_end_ns);
        (self.known.stamped && may_end_ns <= now_ns).then(passed)
    }

    /// When the life is over that this command sets to a key that is there since then, if it sets one.
    pub(super) fn short_life(&self, place: u32, since_ns: u64) -> Option<u64> {
        match self.op(place).touch {
            Touch::Overwrite(Some(ttl_ns)) if self.known.stamped => {
                Some(self.lives(self.op(place).sent_ns, ttl_ns))
            }
            Touch::Extend(ttl_ns) | Touch::Overwrite(Some(ttl_ns)) => {
                Some(self.lives(since_ns.max(self.op(place).sent_ns), ttl_ns))
            }
            _ => None,
        }
    }

    pub(super) fn lives(&self, from_ns: u64, ttl_ns: u64) -> u64 {
        from_ns.saturating_add(ttl_ns).saturating_sub(self.known.margin_ns)
    }

    /// Until when a key lasts that was given this life by then.
    pub(super) fn lasts(&self, by_ns: u64, ttl_ns: u64) -> u64 {
        if self.known.stamped {
            return u64::MAX;
        }
        by_ns.saturating_add(ttl_ns).saturating_add(self.known.margin_ns)
    }

    /// Whether the hold has surely ended by itself before this command was carried out. A jump of the server's clock
    /// may have prolonged it, and so may each extension without an answer, one after the other.
    pub(super) fn is_over(&self, reading: &Reading, op: &Op, now_ns: u64) -> bool {
        let ReadingKey::Held { owner, since_ns, life, .. } = reading.state else { return false };
        let mut end_ns = life.must_end_ns;
        let later = reading.at_ns > end_ns && self.found(op).is_none();
        if !later || self.has_jumped(since_ns, now_ns) {
            return false;
        }
        let own = self.open_of(owner.0, reading).filter(|&it| self.op(it).compares);
        let others = self.extends.iter().copied().filter(|&it| !reading.has_used(it));
        let mut open: SmallVec<[u32; 4]> = own.chain(others).collect();
        open.sort_unstable();
        for it in open {
            let Op { sent_ns, touch: Touch::Extend(ttl_ns), .. } = *self.op(it) else { continue };
            if sent_ns > end_ns || end_ns >= reading.at_ns {
                break;
            }
            end_ns = end_ns.max(self.lasts(end_ns, ttl_ns));
        }
        reading.at_ns > end_ns
    }

    /// The same, the key being gone with nobody harmed: the ways in which that can be. It may have expired,
    /// which takes no command and has its time, or have been ended by one, perhaps earlier.
    pub(super) fn gone(&self, reading: &Reading, now_ns: u64) -> ReadingList {
        let ReadingKey::Held { owner, since_ns, life, .. } = reading.state else {
            return smallvec![reading.clone().is(ReadingKey::Free)];
        };
        let HoldLife { may_end_ns, .. } = life;
        if self.is_lost(since_ns, now_ns) || self.has_jumped(since_ns, now_ns) {
            return smallvec![reading.clone().is(ReadingKey::Free)];
        }
        let has_expired = !self.stays && now_ns >= may_end_ns;
        if has_expired && may_end_ns <= reading.at_ns {
            return smallvec![reading.clone().is(ReadingKey::Free)];
        }
        let open = self.open_of(owner.0, reading);
        let deletes = open.filter(|&it| self.op(it).touch == Touch::Delete);
        let deletes = self.unlike(deletes);
        let unknown = self.unknown_of(owner.0, reading);
        // A shorter life, too, ends it: before a deletion was sent, or where that is needed once more.
        let first = deletes.first().map(|&it| self.op(it).sent_ns.max(reading.at_ns));
        let deleted_ns = first.unwrap_or(u64::MAX);
        let spares = |it: &Reading| it.at_ns < deleted_ns || self.again.contains(&owner.0);
        let mut shortened = self.shortened(reading, now_ns);
        shortened.retain(|it| !self.stays && spares(it));
        let others = deletes.is_empty() && unknown.is_none() && shortened.is_empty();
        let unknown_one = if others { self.unknown_one(reading) } else { None };
        let mut ways = shortened;
        ways.extend(has_expired.then(|| reading.clone().not_before(may_end_ns)));
        ways.extend(self.left(reading, now_ns).flat_map(|it| self.removed(&it)));
        // With a deletion, one of which nobody knows what it does is left for later; but that may have been sent earlier.
        let ends = deletes.into_iter().chain(unknown).chain(unknown_one);
        ways.extend(ends.map(|it| self.using(reading, it)));
        ways.iter_mut().for_each(|it| it.state = ReadingKey::Free);
        ways
    }

    /// Whether the server's clock has jumped since then.
    pub(super) fn has_jumped(&self, since_ns: u64, now_ns: u64) -> bool {
        self.known.jumps.iter().any(|at_ns| (since_ns..=now_ns).contains(at_ns))
    }

    /// Whether a server has lost what it had at some time since then.
    pub(super) fn is_lost(&self, since_ns: u64, now_ns: u64) -> bool {
        self.known.losses.iter().any(|loss| loss.from_ns <= now_ns && loss.until_ns >= since_ns)
    }
}
