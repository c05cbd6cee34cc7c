//! The page of memory that picklock shares with a process that it has started: by how much the clocks of the process
//! are off, and how much of each of its files is certainly on the disk.
//!
//! Invariant: the layout is that of `native/preload.c`, byte for byte. It is not mapped here: reads and writes of the
//! file reach the same memory without `unsafe`. Only the server's answers show whether it has loaded the library.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// The library, as the build has made it; empty on a system that has none.
pub(crate) const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// How long a page is.
pub(crate) const PAGE_BYTES: u64 = FILES_AT + FILES * FILE_BYTES;

const VERSION_AT: u64 = 0;
const STEP_AT: u64 = 8;
const ASKED_AT: u64 = 40;
const FILES_AT: u64 = 64;
const FILES: u64 = 62;
const FILE_BYTES: u64 = 16;

/// A server's page.
#[derive(Debug)]
pub(crate) struct Page {
    file: File,
    /// How far the server's clocks are off the machine's.
    off: Off,
    version: u64,
}

/// How far all clocks of a server are off, and how far its wall clock is off in addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Off {
    step_ns: i64,
    since_ns: i64,
    extra_ns: i64,
    ppm: i64,
}

impl Page {
    /// The page in this file, which has been made for a server.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self { file, off: Off::default(), version: 0 })
    }

    /// The server's wall clock jumps.
    pub(crate) fn step_wall(&mut self, by_ns: i64) -> io::Result<()> {
        self.off.step_ns = self.off.step_ns.saturating_add(by_ns);
        self.write_clock()
    }

    /// From now on the server's clocks run at this rate.
    pub(crate) fn set_drift(&mut self, ppm: i32) -> io::Result<()> {
        self.off = self.off.with_drift(monotonic_ns(), ppm);
        self.write_clock()
    }

    /// Whether the process has read the time since its start in a way that its page can change.
    pub(crate) fn has_asked(&self) -> io::Result<bool> {
        Ok(self.number(ASKED_AT)? != 0)
    }

    /// How many bytes of the file with this inode are certainly on the disk.
    pub(crate) fn synced(&self, inode: u64) -> io::Result<u64> {
        for place in 0..FILES {
            let at = FILES_AT + place * FILE_BYTES;
            match self.number(at)? {
                0 => break,
                known if known == inode => return self.number(at + 8),
                _ => {}
            }
        }
        Ok(0)
    }

    /// Forgets what has been synced so far: a new file may have the inode of a file that is gone.
    pub(crate) fn forget_synced(&self) -> io::Result<()> {
        for place in 0..FILES {
            self.file.write_all_at(&[0; 16], FILES_AT + place * FILE_BYTES)?;
        }
        Ok(())
    }

    /// Writes the clock. Its version is odd meanwhile, so that a concurrent reader reads again.
    fn write_clock(&mut self) -> io::Result<()> {
        let Off { step_ns, since_ns, extra_ns, ppm } = self.off;
        self.file.write_all_at(&(self.version + 1).to_ne_bytes(), VERSION_AT)?;
        for (at, number) in (STEP_AT..).step_by(8).zip([step_ns, since_ns, extra_ns, ppm]) {
            self.file.write_all_at(&number.to_ne_bytes(), at)?;
        }
        self.version += 2;
        self.file.write_all_at(&self.version.to_ne_bytes(), VERSION_AT)
    }

    fn number(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

impl Off {
    /// The same up to now, and at this rate from then on.
    fn with_drift(self, now_ns: i64, ppm: i32) -> Self {
        let extra_ns = self.extra_ns.saturating_add(self.gained_ns(now_ns));
        Self { since_ns: now_ns, extra_ns, ppm: i64::from(ppm), ..self }
    }

    /// What the clocks have gained since the rate was set.
    fn gained_ns(self, now_ns: i64) -> i64 {
        let past = i128::from(now_ns.saturating_sub(self.since_ns));
        let gained = past * i128::from(self.ppm) / 1_000_000;
        i64::try_from(gained).unwrap_or(i64::MAX)
    }
}

/// The machine's monotonic clock, as the library reads it.
fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(TimeSpec::new(0, 0));
    now.tv_sec().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> (tempfile::NamedTempFile, Page) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(PAGE_BYTES).unwrap();
        let page = Page::open(file.path()).unwrap();
        (file, page)
    }

    #[test]
    fn rates_add_up_over_time() {
        let off = Off::default().with_drift(1_000_000, 100);
        assert_eq!((off.gained_ns(2_000_000), off.extra_ns), (100, 0));
        let off = off.with_drift(2_000_000, -200);
        assert_eq!((off.gained_ns(3_000_000), off.extra_ns), (-200, 100));
        let fast = Off::default().with_drift(0, i32::MAX);
        assert!(fast.gained_ns(i64::MAX / 2) > 0, "no overflow");
    }

    #[test]
    fn what_has_not_been_synced_is_not_on_the_disk() {
        let (_file, page) = page();
        assert_eq!(page.synced(7).unwrap(), 0);
        let second = FILES_AT + FILE_BYTES;
        for (at, number) in [(FILES_AT, 5_u64), (FILES_AT + 8, 50), (second, 7), (second + 8, 70)] {
            page.file.write_all_at(&number.to_ne_bytes(), at).unwrap();
        }
        assert_eq!((page.synced(5).unwrap(), page.synced(7).unwrap()), (50, 70));
        page.forget_synced().unwrap();
        assert_eq!((page.synced(5).unwrap(), page.synced(7).unwrap()), (0, 0));
    }

    #[test]
    fn a_reader_of_a_clock_that_is_being_written_can_tell() {
        let (_file, mut page) = page();
        page.step_wall(-5).unwrap();
        page.step_wall(15).unwrap();
        assert_eq!(page.number(VERSION_AT).unwrap(), 4, "even, and another");
        assert_eq!(page.number(STEP_AT).unwrap(), 10);
    }
}
