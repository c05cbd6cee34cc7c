//! The log's file: records as lines of JSON, written by a thread that nobody waits for.
//!
//! Invariant: lines stand in the order of their numbers, and whoever reads the file while it grows
//! sees whole lines soon. Deliberately absent: rotation.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use crate::failure::Failure;
use fault_proxy::Record;
use fault_proxy::switchboard::Names;

/// Records on their way to the file. A disk that is slower for longer loses some, which are missed in
/// the numbers.
const UNDER_WAY: usize = 1 << 16;

/// A file that records are written to.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    sender: SyncSender<Record>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl LogFile {
    /// Creates the file, or empties it; what is no regular file is written to.
    pub(super) fn create(path: &Path, names: &Names) -> Result<Self, Failure> {
        let failed = |error| cannot(path, &error);
        let file = reports::file::open(path).map_err(failed)?;
        let (sender, records) = sync_channel(UNDER_WAY);
        let names = Names::clone(names);
        let thread = std::thread::Builder::new()
            .name("picklock-log".into())
            .spawn(move || write(BufWriter::new(file), &records, &names))
            .map_err(failed)?;
        Ok(Self { path: path.to_owned(), sender, thread })
    }

    /// Where records go.
    pub(super) fn sender(&self) -> SyncSender<Record> {
        self.sender.clone()
    }

    /// Writes what is left, once every other sender is gone.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Self { path, sender, thread } = self;
        drop(sender);
        match thread.join() {
            Ok(written) => written.map_err(|error| cannot(&path, &error)),
            Err(_) => Err(Failure::internal("the thread that writes the log has panicked")),
        }
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::unavailable_text(
        format!("the log cannot be written to {}: {error}", path.display()),
        "name a file in a directory that is there and has room",
    )
}

fn write(
    mut file: BufWriter<File>,
    records: &Receiver<Record>,
    names: &Names,
) -> std::io::Result<()> {
    loop {
        let record = match records.try_recv() {
            Ok(record) => record,
            Err(TryRecvError::Disconnected) => return file.flush(),
            Err(TryRecvError::Empty) => {
                file.flush()?;
                let Ok(record) = records.recv() else { return Ok(()) };
                record
            }
        };
        let names = names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(&record.node).map_or("", String::as_str);
        writeln!(file, "{}", record.to_json(name))?;
    }
}
