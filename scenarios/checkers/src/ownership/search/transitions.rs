//! What may come of carrying a command out, in one reading.
//!
//! Invariant: every way is given in which the command can have met what the reading holds, the ones that harm
//! nobody first; an effect that nobody knows leaves the key nobody's, which can only excuse.

use history::Touch;
use smallvec::{SmallVec, smallvec};

use super::Search;
use super::reading::{HARMS_MOST, Harmed, HoldLife, Reading, ReadingKey, ReadingList, ValueWriter};
use crate::interface::makes;
use crate::ownership::Op;

impl Search<'_> {
    /// What may come of carrying this command out.
    pub(super) fn carry_out(&self, mut reading: Reading, place: u32, now_ns: u64) -> ReadingList {
        let op = self.op(place);
        if reading.state == ReadingKey::Free && self.is_lost(reading.at_ns, now_ns) {
            // The server may have come back with a key.
            reading = reading.is(ReadingKey::Nobodys);
        }
        let reading = reading.not_before(op.sent_ns);
        if op.is_of_run() {
            let left = match op.touch {
                Touch::Delete => ReadingKey::Free,
                _ => ReadingKey::Nobodys,
            };
            return smallvec![reading.is(left)];
        }
        let Some(writer) = self.found(op) else {
            return self.carry_out_on(reading, place, now_ns);
        };
        let shown = self.showing(reading, writer, now_ns);
        shown.into_iter().flat_map(|it| self.carry_out_on(it, place, now_ns)).collect()
    }

    /// Which command had written what this one found, where that is known.
    pub(super) fn found(&self, op: &Op) -> Option<u32> {
        match self.writers.get(&op.found) {
            Some(ValueWriter::Command(writer)) => Some(*writer),
            _ => None,
        }
    }

    /// The readings in which the key has the value that this command has written.
    fn showing(&self, reading: Reading, writer: u32, now_ns: u64) -> ReadingList {
        if self.is_to_come(writer) {
            return ReadingList::new();
        }
        let is_open = self.open_of(self.op(writer).acquisition, &reading).any(|it| it == writer);
        let since_ns = match reading.state {
            ReadingKey::Nobodys if !is_open => return smallvec![reading],
            ReadingKey::Nobodys if self.may_be_left(writer, now_ns) => {
                return smallvec![self.using(&reading, writer)];
            }
            ReadingKey::Held { by, .. }
                if [ValueWriter::Command(writer), ValueWriter::Unknown].contains(&by) =>
            {
                return smallvec![reading];
            }
            ReadingKey::Held { since_ns, .. } => since_ns,
            ReadingKey::Free | ReadingKey::Nobodys => 0,
        };
        // What was lost before this command was sent was not its.
        if self.is_lost(since_ns.max(self.op(writer).sent_ns), now_ns) {
            // A server has come back with it.
            return smallvec![reading.is(ReadingKey::Nobodys)];
        }
        if is_open {
            return self.carry_out(self.using(&reading, writer), writer, now_ns);
        }
        let unknown = self.unknown_one(&reading);
        unknown.into_iter().map(|it| self.using(&reading, it).is(ReadingKey::Nobodys)).collect()
    }

    /// Whether a key can be nobody's that this command has made.
    fn may_be_left(&self, writer: u32, now_ns: u64) -> bool {
        let unknown = |op: &Op| op.touch == Touch::Unknown || op.is_of_run();
        let mut sent = self.known.ops[..self.sent as usize].iter();
        self.is_lost(self.op(writer).sent_ns, now_ns) || sent.any(unknown)
    }

    /// Whether this command has not been sent yet, or has and will be answered but has not been carried out.
    fn is_to_come(&self, place: u32) -> bool {
        place >= self.sent || self.under_way.contains(&place)
    }

    fn carry_out_on(&self, reading: Reading, place: u32, now_ns: u64) -> ReadingList {
        let op = self.op(place);
        // What is carried out later lives longer: the earliest moment leaves the most to the others.
        let held = |mut before: ReadingList, ttl_ns: Option<u64>| {
            for it in &mut before {
                let owner = (op.acquisition, op.client);
                let lives_from_ns = if self.known.stamped { op.sent_ns } else { it.at_ns };
                let may_end_ns =
                    ttl_ns.map_or(u64::MAX, |ttl_ns| self.lives(lives_from_ns, ttl_ns));
                let must_end_ns = ttl_ns.map_or(u64::MAX, |ttl_ns| self.lasts(now_ns, ttl_ns));
                let life = HoldLife { from_ns: it.at_ns, may_end_ns, must_end_ns };
                it.state = ReadingKey::of(owner, self.by(op), op.sent_ns, life);
            }
            before
        };
        match op.touch {
            Touch::None => smallvec![reading],
            Touch::Create(ttl_ns) => {
                let gone = self.gone(&reading, now_ns);
                held(self.vacated(&reading, gone, now_ns), ttl_ns)
            }
            Touch::Overwrite(ttl_ns) => held(self.overwritten(reading, place, now_ns), ttl_ns),
            Touch::Delete => {
                let mut deleted = self.found_key(reading, place, now_ns);
                deleted.iter_mut().for_each(|it| it.state = ReadingKey::Free);
                deleted
            }
            Touch::Extend(ttl_ns) => {
                let extended = |it: Reading| {
                    let from_ns = it.at_ns;
                    let may_end_ns = self.lives(from_ns, ttl_ns);
                    let must_end_ns = self.lasts(now_ns, ttl_ns);
                    it.lives(HoldLife { from_ns, may_end_ns, must_end_ns })
                };
                self.found_key(reading, place, now_ns).into_iter().map(extended).collect()
            }
            // It may have left the key as it was, or free, or to anybody: where it is nobody's, whatever
            // can follow each of these can follow, and harms nobody.
            Touch::Unknown => smallvec![reading.is(ReadingKey::Nobodys)],
        }
    }

    /// Who has written the value, where this command has made the key.
    fn by(&self, op: &Op) -> ValueWriter {
        match op.touch {
            Touch::Unknown => ValueWriter::Unknown,
            _ if op.is_of_run() => ValueWriter::Unknown,
            _ => self.writers.get(&op.number).copied().unwrap_or(ValueWriter::Another),
        }
    }

    /// This command has harmed the hold of this acquisition, which was made by what was sent then.
    fn harm(&self, victim: (u32, u32), since_ns: u64, culprit: u32) -> Harmed {
        let at_ns = self.op(culprit).sent_ns.max(since_ns);
        Harmed { doubtful: false, at_ns, victim, culprit }
    }

    /// A command overwrites whatever is there: the readings before that.
    fn overwritten(&self, reading: Reading, place: u32, now_ns: u64) -> ReadingList {
        let op = self.op(place);
        let (owner, since_ns) = match reading.state {
            ReadingKey::Held { owner, since_ns, .. } if owner.0 != op.acquisition => {
                (owner, since_ns)
            }
            _ => return smallvec![reading],
        };
        // Where somebody was harmed before, nothing is to be excused: whatever else can have been comes to this.
        if reading.is_surely_harmful() {
            return smallvec![reading];
        }
        let harm = |culprit| self.harm(owner, since_ns, culprit);
        let (mut before, may_be_over);
        if self.found(op).is_some() {
            before = self.over(&reading, op, now_ns);
            may_be_over = !before.is_empty();
        } else {
            let gone = self.gone(&reading, now_ns);
            let left: ReadingList = self.left(&reading, now_ns).collect();
            may_be_over = !gone.is_empty() || !left.is_empty();
            // Another may have deleted it before, or this one have overwritten it before.
            before = self.vacated(&reading, gone, now_ns);
            before.extend(left);
            let own = self.open_of(op.acquisition, &reading);
            let overwrote = own.filter(|&it| matches!(self.op(it).touch, Touch::Overwrite(_)));
            before.extend(overwrote.map(|it| self.using(&reading, it).harmed(harm(it))));
        }
        before.push(match may_be_over {
            true => reading.perhaps_harmed(harm(place)),
            false => reading.harmed(harm(place)),
        });
        before
    }

    /// The same, the key being gone, at the cost of its holder if need be; or in one of these ways, which cost nobody
    /// anything.
    fn vacated(&self, reading: &Reading, gone: ReadingList, now_ns: u64) -> ReadingList {
        let mut all = gone;
        let ReadingKey::Held { owner, since_ns, .. } = reading.state else { return all };
        // What takes nothing makes every other way superfluous.
        if let [it] = &all[..]
            && it.at_ns == reading.at_ns
            && it.used == reading.used
        {
            return all;
        }
        let harm = |culprit| self.harm(owner, since_ns, culprit);
        let foreign = |it: &&u32| self.op(**it).acquisition != owner.0 && !reading.has_used(**it);
        let mut deletes = self.deletes.iter().rev().filter(foreign);
        if let Some(&culprit) = deletes.next() {
            // One of them was, and nobody knows which.
            let mut deleted =
                self.using(reading, culprit).harmed(harm(culprit)).is(ReadingKey::Free);
            if !reading.is_harmful() {
                deletes.take(HARMS_MOST).for_each(|&other| deleted.may_be(harm(other)));
            }
            all.push(deleted);
        }
        // Or another has cut its life short, and that is over.
        let shortened = self.overwrites.iter().chain(&self.extends).filter(foreign);
        let shortened = shortened.filter_map(|&it| {
            let end_ns = self.short_life(it, since_ns)?;
            (end_ns <= now_ns).then_some((end_ns, it))
        });
        let mut shortened: SmallVec<[(u64, u32); 2]> = shortened.collect();
        shortened.sort_unstable();
        for (end_ns, culprit) in shortened {
            all.push(
                self.using(reading, culprit)
                    .harmed(harm(culprit))
                    .is(ReadingKey::Free)
                    .not_before(end_ns),
            );
        }
        // Or it was overwritten, and who did that has ended its own.
        let ended = |culprit: u32| {
            let ends = |it: u32| match self.op(it).touch {
                Touch::Delete => Some((self.op(it).sent_ns, it)),
                _ => Some((self.short_life(it, since_ns)?, it)),
            };
            let own = self.open_of(self.op(culprit).acquisition, reading);
            let own = self.unlike(own.filter(|it| *it != culprit)).into_iter();
            own.filter_map(ends).filter(|(end_ns, _)| *end_ns <= now_ns)
        };
        let overwrites = self.overwrites.iter().filter(foreign).copied();
        let ended_its_own = overwrites.filter(|it| ended(*it).next().is_some());
        for culprit in self.any_of(ended_its_own) {
            let overwritten = self.using(reading, culprit).harmed(harm(culprit));
            let both = ended(culprit).map(|(end_ns, it)| {
                self.using(&overwritten, it).is(ReadingKey::Free).not_before(end_ns)
            });
            all.extend(both);
        }
        all
    }

    /// Of commands of which any will do, one; and each whose value somebody has found, for it matters which of
    /// these was carried out.
    fn any_of(&self, all: impl Iterator<Item = u32>) -> SmallVec<[u32; 2]> {
        let mut any = SmallVec::new();
        let mut plain = false;
        for place in all {
            let is_found = self.is_found(place);
            if is_found || !plain {
                any.push(place);
            }
            plain |= !is_found;
        }
        any
    }

    /// Of commands of one acquisition that do the same, the first, which leaves the most to the others; and each whose value
    /// somebody has found.
    pub(super) fn unlike(&self, all: impl Iterator<Item = u32>) -> SmallVec<[u32; 2]> {
        let mut unlike: SmallVec<[u32; 2]> = SmallVec::new();
        for place in all {
            let does = |it: u32| (self.op(it).touch, self.op(it).compares, self.is_found(it));
            if self.is_found(place) || unlike.iter().all(|&it| does(it) != does(place)) {
                unlike.push(place);
            }
        }
        unlike
    }

    /// Whether somebody has found the value that this command wrote.
    pub(super) fn is_found(&self, place: u32) -> bool {
        self.writers.contains_key(&self.op(place).number)
    }

    /// A command has found a key and changed it: the readings before the change.
    fn found_key(&self, reading: Reading, place: u32, now_ns: u64) -> ReadingList {
        let op = self.op(place);
        let is_creation = |it: &u32| makes(self.op(*it).touch);
        let is_own = |it: u32| self.op(it).acquisition == op.acquisition;
        let own = |reading: &Reading| -> ReadingList {
            let made = self.open_of(op.acquisition, reading).filter(is_creation);
            // Of those that stay, the times when they are over differ.
            let mut own = if self.stays { made.collect() } else { self.unlike(made) };
            own.extend(self.unknown_of(op.acquisition, reading));
            if own.is_empty() {
                own.extend(self.unknown_one(reading));
            }
            // What was made without an acquisition is nobody's.
            if op.acquisition != 0 {
                own.extend(self.any_of(self.open_of(0, reading).filter(is_creation)));
            }
            let held = |&used: &u32| {
                let maker = self.op(used);
                let made = match maker.touch {
                    Touch::Unknown => ReadingKey::Nobodys,
                    _ => ReadingKey::of(
                        (maker.acquisition, maker.client),
                        self.by(maker),
                        op.sent_ns,
                        HoldLife::default(),
                    ),
                };
                self.using(reading, used).is(made)
            };
            own.iter().map(held).collect()
        };
        match reading.state {
            ReadingKey::Nobodys => smallvec![reading],
            ReadingKey::Held { owner, .. } if owner.0 == op.acquisition => {
                // It may be a later one: its own, which matters where somebody has found that; or another's, if that was
                // found or its own has surely expired.
                let found_own = self.found_creations(&reading).any(is_own);
                let found_others = self.found_creations(&reading).any(|it| !is_own(it));
                let others = !op.compares && (found_others || self.is_over(&reading, op, now_ns));
                let mut gone = ReadingList::new();
                if found_own || others {
                    gone = self.gone(&reading, now_ns);
                }
                let mut all: ReadingList = smallvec![reading.clone()];
                if found_own {
                    all.extend(gone.iter().flat_map(own));
                }
                if others {
                    all.extend(gone.iter().flat_map(|it| self.anothers(it, place, now_ns)));
                }
                all
            }
            ReadingKey::Held { owner, since_ns, .. } => {
                if self.is_lost(since_ns, now_ns) {
                    // What has come back in its place is nobody's rightful hold.
                    return smallvec![reading.is(ReadingKey::Nobodys)];
                }
                let mut over = self.over(&reading, op, now_ns);
                // A hold that is over by its own word leaves its key behind, which is nobody's.
                let mut left = ReadingList::new();
                if self.stays {
                    over.retain(|it| it.state != ReadingKey::Nobodys);
                    left.extend(self.left(&reading, now_ns));
                    let takes_nothing =
                        |it: &&Reading| it.at_ns == reading.at_ns && it.used == reading.used;
                    if let Some(it) = left.iter().find(takes_nothing) {
                        return smallvec![it.clone()];
                    }
                    // Or that one was gone, and it is another's that was left behind.
                    left.extend(over.iter().flat_map(|it| self.anothers(it, place, now_ns)));
                } else if self.known.stamped && !over.is_empty() {
                    over.iter_mut().for_each(|it| it.state = ReadingKey::Nobodys);
                    return over;
                }
                if !self.stays && !op.compares {
                    left.extend(over.iter().flat_map(|it| self.found_anothers(it, place)));
                }
                let its_own = over.iter().flat_map(own);
                // What ended that hold may have handed the key to this one at once.
                let handed_over = self
                    .unknown_one(&reading)
                    .map(|it| self.using(&reading, it).is(ReadingKey::Nobodys));
                if self.is_over(&reading, op, now_ns) {
                    // What it has met was made since then.
                    let made_since =
                        self.found_key(reading.clone().is(ReadingKey::Free), place, now_ns);
                    return handed_over.into_iter().chain(made_since).collect();
                }
                // It may have met what an overwrite of its own had left, and that overwrite did the harm; certainly so if
                // it compares, for then it has found its own value.
                let is_overwrite = |it: &u32| matches!(self.op(*it).touch, Touch::Overwrite(_));
                let mut overwrote = self.open_of(op.acquisition, &reading).filter(is_overwrite);
                let culprit = if op.compares { overwrote.next() } else { None }.unwrap_or(place);
                let mut harmed = reading.clone().harmed(self.harm(owner, since_ns, culprit));
                if !op.compares && !reading.is_harmful() {
                    overwrote.for_each(|it| harmed.may_be(self.harm(owner, since_ns, it)));
                }
                left.into_iter().chain(its_own).chain(handed_over).chain([harmed]).collect()
            }
            ReadingKey::Free => {
                let mut own = own(&reading);
                // Its own that somebody has found may be there still, and what it has met is another's.
                let is_found = |it: &Reading| {
                    matches!(it.state, ReadingKey::Held { by: ValueWriter::Command(_), .. })
                };
                let may_be_there = own.iter().all(is_found);
                if may_be_there && self.is_lost(0, now_ns) {
                    return smallvec![reading.is(ReadingKey::Nobodys)];
                }
                if may_be_there {
                    own.extend(self.anothers(&reading, place, now_ns));
                    return own;
                }
                // A key that another has left behind serves as well, and spares its own.
                own.extend(self.left_by_another(&reading, place, now_ns).next());
                if !op.compares {
                    own.extend(self.made_by_another(&reading, place));
                }
                own
            }
        }
    }

    /// The same, the key that this command has found having been made by another's without an answer.
    fn anothers(&self, reading: &Reading, place: u32, now_ns: u64) -> ReadingList {
        let made = self.made_by_another(reading, place);
        self.left_by_another(reading, place, now_ns).chain(made).collect()
    }

    /// The same, but it was not left behind: of those that may have made it any will do, but for those whose value somebody
    /// has found.
    fn made_by_another<'b>(
        &'b self,
        reading: &'b Reading,
        place: u32,
    ) -> impl Iterator<Item = Reading> + 'b {
        let mut creators = self.creators_but(reading, self.op(place).acquisition);
        let any = creators.find(|it| !self.is_found(*it)).into_iter().collect();
        self.found_anothers(reading, place).chain(self.made_by(reading, place, any))
    }

    /// The same, it having been made by one whose value somebody has found.
    fn found_anothers<'b>(
        &'b self,
        reading: &'b Reading,
        place: u32,
    ) -> impl Iterator<Item = Reading> + 'b {
        let foreign = |it: &u32| self.op(*it).acquisition != self.op(place).acquisition;
        self.made_by(reading, place, self.found_creations(reading).filter(foreign).collect())
    }

    /// The same, it having been made by one of these: a reading for each.
    fn made_by<'b>(
        &'b self,
        reading: &'b Reading,
        place: u32,
        creators: SmallVec<[u32; 2]>,
    ) -> impl Iterator<Item = Reading> + 'b {
        let harm = move |creator: u32| {
            let it = self.op(creator);
            self.harm((it.acquisition, it.client), it.sent_ns, place)
        };
        creators.into_iter().map(move |creator| {
            let it = self.op(creator);
            let owner = (it.acquisition, it.client);
            let its = ReadingKey::of(owner, self.by(it), it.sent_ns, HoldLife::default());
            let mut harmed = self.using(reading, creator).harmed(harm(creator)).is(its);
            if !reading.is_harmful() {
                let others = self.creators_but(reading, self.op(place).acquisition);
                others.take(HARMS_MOST).for_each(|other| harmed.may_be(harm(other)));
            }
            harmed
        })
    }

    /// Commands without an answer that would make the key, and whose value somebody has found.
    fn found_creations<'b>(&'b self, reading: &'b Reading) -> impl Iterator<Item = u32> + 'b {
        self.found_creates.iter().copied().filter(|&it| !reading.has_used(it))
    }

    /// Commands without an answer that would make the key, of others than this acquisition.
    pub(super) fn creators_but<'b>(
        &'b self,
        reading: &'b Reading,
        acquisition: u32,
    ) -> impl Iterator<Item = u32> + 'b {
        let foreign = move |it: &u32| {
            ![0, acquisition].contains(&self.op(*it).acquisition) && !reading.has_used(*it)
        };
        self.creates.iter().copied().filter(foreign)
    }

    /// The same, a command without an answer having been carried out.
    pub(super) fn using(&self, reading: &Reading, place: u32) -> Reading {
        reading.clone().uses(place).not_before(self.op(place).sent_ns)
    }

    /// Commands of an acquisition that may yet be carried out, in the order of their sending.
    pub(super) fn open_of<'b>(
        &'b self,
        acquisition: u32,
        reading: &'b Reading,
    ) -> impl Iterator<Item = u32> + 'b {
        let all = self.open.get(&acquisition).into_iter().flatten().copied();
        all.filter(|&it| !reading.has_used(it))
    }

    /// A command of this acquisition of which nobody knows what it does, and that may yet be carried out.
    pub(super) fn unknown_of(&self, acquisition: u32, reading: &Reading) -> Option<u32> {
        let mut all = self.unknown.iter().copied();
        all.find(|&it| self.op(it).acquisition == acquisition && !reading.has_used(it))
    }

    pub(super) fn unknown_one(&self, reading: &Reading) -> Option<u32> {
        self.unknown.iter().copied().find(|&it| !reading.has_used(it))
    }
}
