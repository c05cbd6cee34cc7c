//! The stream of writes that goes to replicas and into the append-only file.
//!
//! Invariant: bytes and offsets are those of redis-server: RESP requests, a SELECT if the database
//! changes, and MULTI and EXEC around the writes of one command if it made several. A stream is cut only
//! between two such groups, so no replica applies half a transaction. Not modelled: the PINGs of an idle
//! primary, which advance its offset.

use resp::encode_request;

/// The stream of one server.
#[derive(Debug, Default)]
pub(crate) struct WriteJournal {
    /// Whether there is a replica or a file; without one, a write costs nothing here.
    pub(crate) on: bool,
    /// The offset of the first byte kept.
    start: u64,
    bytes: Vec<u8>,
    /// The offset after each group.
    cuts: Vec<u64>,
    /// What the command under way has written so far.
    pending: Vec<u8>,
    pending_ops: usize,
    selected: Option<u16>,
}

impl WriteJournal {
    /// As a new one, the memory kept.
    pub(crate) fn reset(&mut self) {
        self.restart_at(0);
        self.on = false;
    }

    /// Empty, its next byte having this offset.
    pub(crate) fn restart_at(&mut self, offset: u64) {
        self.start = offset;
        self.bytes.clear();
        self.cuts.clear();
        self.pending.clear();
        self.pending_ops = 0;
        self.selected = None;
    }

    /// The offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether the command under way has written something.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending_ops > 0
    }

    /// One write of the command under way.
    pub(crate) fn write(&mut self, db: u16, args: &[&[u8]]) {
        if self.selected != Some(db) {
            self.selected = Some(db);
            let number = resp::integer(i64::from(db));
            encode_request(&[b"SELECT", &number], &mut self.pending);
        }
        encode_request(args, &mut self.pending);
        self.pending_ops += 1;
    }

    /// The command under way has ended: its writes go out together.
    pub(crate) fn commit(&mut self) {
        match self.pending_ops {
            0 => return,
            1 => self.bytes.extend_from_slice(&self.pending),
            _ => {
                self.bytes.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
                self.bytes.extend_from_slice(&self.pending);
                self.bytes.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
            }
        }
        self.pending.clear();
        self.pending_ops = 0;
        self.cuts.push(self.end());
    }

    /// The next write names its database, whatever the last one's was.
    pub(crate) fn forget_database(&mut self) {
        self.selected = None;
    }

    /// Cuts off what comes after the offset.
    pub(crate) fn truncate(&mut self, to: u64) {
        let bytes = usize::try_from(to.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.bytes.truncate(bytes);
        self.cuts.retain(|&cut| cut <= to);
        self.selected = None;
    }

    /// Takes over groups of another server's stream.
    pub(crate) fn relay(&mut self, groups: &[u8]) {
        if self.on {
            self.bytes.extend_from_slice(groups);
            self.cuts.push(self.end());
        } else {
            self.start += groups.len() as u64;
        }
    }

    /// The bytes between two offsets; none where they are no longer kept.
    pub(crate) fn between(&self, from: u64, to: u64) -> Option<&[u8]> {
        let place = |offset: u64| usize::try_from(offset.checked_sub(self.start)?).ok();
        self.bytes.get(place(from)?..place(to)?)
    }

    /// The end of the first group that ends after the offset.
    pub(crate) fn next_cut(&self, after: u64) -> Option<u64> {
        let place = self.cuts.partition_point(|&cut| cut <= after);
        self.cuts.get(place).copied()
    }

    /// Forgets what ends at or before the offset.
    pub(crate) fn forget(&mut self, before: u64) {
        let kept = self.cuts.partition_point(|&cut| cut <= before);
        let Some(&cut) = self.cuts[..kept].last() else { return };
        let bytes = usize::try_from(cut - self.start).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes.drain(..bytes);
        self.cuts.drain(..kept);
        self.start = cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_one_command_go_out_together_and_a_cut_never_parts_them() {
        let mut journal = WriteJournal { on: true, ..WriteJournal::default() };
        journal.write(0, &[b"DEL", b"k"]);
        journal.commit();
        let first = journal.end();
        journal.write(3, &[b"DEL", b"a"]);
        journal.write(3, &[b"DEL", b"b"]);
        journal.commit();
        assert_eq!(journal.next_cut(0), Some(first));
        assert_eq!(journal.next_cut(first), Some(journal.end()));
        assert_eq!(journal.next_cut(journal.end()), None);
        let text = |from, to| journal.between(from, to).unwrap().escape_ascii().to_string();
        let one =
            "*2\\r\\n$6\\r\\nSELECT\\r\\n$1\\r\\n0\\r\\n*2\\r\\n$3\\r\\nDEL\\r\\n$1\\r\\nk\\r\\n";
        assert_eq!(text(0, first), one);
        let two = text(first, journal.end());
        assert!(two.starts_with("*1\\r\\n$5\\r\\nMULTI\\r\\n*2\\r\\n$6\\r\\nSELECT"), "{two}");
        assert!(two.ends_with("EXEC\\r\\n"), "{two}");
        journal.forget(first + 1);
        assert_eq!(journal.between(0, first), None);
        assert!(journal.between(first, journal.end()).is_some());
    }
}
