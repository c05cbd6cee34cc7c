//! The log as a file of lines.
//!
//! Invariant: whole lines, in order. Once one cannot be written, nothing more is, not even when there is room again.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::Record;

/// A file that records are written to, as long as that is possible.
#[derive(Debug)]
pub struct LogFile(Option<BufWriter<File>>);

impl LogFile {
    /// Nothing is written yet.
    pub fn new(file: File) -> Self {
        Self(Some(BufWriter::new(file)))
    }

    /// Writes a record of the link with this name; a reader sees it after [`flush`](Self::flush).
    ///
    /// # Errors
    /// The first error of the file. Later records are lost without one.
    pub fn write(&mut self, record: &Record, link: &str) -> io::Result<()> {
        self.with(|file| writeln!(file, "{}", record.to_json(link)))
    }

    /// Lets a reader see what has been written.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn flush(&mut self) -> io::Result<()> {
        self.with(BufWriter::flush)
    }

    /// Whether nothing has been lost.
    pub fn is_whole(&self) -> bool {
        self.0.is_some()
    }

    fn with(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let written = write(file);
        if written.is_err()
            && let Some(file) = self.0.take()
        {
            // Dropped as it is, it would write the rest.
            drop(file.into_parts());
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LinkConnection;
    use crate::{ClientId, Detail, ProxyEvent, ProxyLog};
    use picklock::env::Node;

    #[test]
    fn the_first_error_is_the_only_one_and_the_log_is_no_longer_whole() {
        let log = ProxyLog::new(Detail::Faults, 1);
        let place = LinkConnection { client: ClientId(0), node: Node(0), connection: 1 };
        log.note(place, ProxyEvent::ResetAll);
        let record = &log.records()[0];
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut file = LogFile::new(full);
        file.write(record, "redis").unwrap();
        assert!(file.is_whole(), "it is only kept");
        assert_eq!(file.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(!file.is_whole());
        file.write(record, "redis").unwrap();
        file.flush().unwrap();
    }
}
