//! Parsing ahead: one thread reads, several parse, and the results are taken in order.
//!
//! Invariant: stretches and errors arrive in order, and only a few are in flight. A blocked read is not
//! cancelled: its thread ends after it, or with the process.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use history::{Block, Blocks, Stretch};

use crate::args::cpus;

/// More threads would parse faster than one thread can judge.
const PARSERS_MOST: usize = 4;

/// A block to be parsed, and where to send the result.
type ParseJob = (Block, SyncSender<Stretch>);

pub(super) struct ParsedAhead {
    /// In the order of the blocks: the receiver of each parsed block.
    next: Receiver<io::Result<Receiver<Stretch>>>,
}

impl ParsedAhead {
    pub(super) fn of(blocks: Blocks<impl Read + Send + 'static>) -> io::Result<Self> {
        let parsers = cpus().min(PARSERS_MOST);
        let (order, next) = sync_channel(2 * parsers);
        let (give, jobs) = sync_channel(parsers);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..parsers {
            let jobs = Arc::clone(&jobs);
            spawn("parse", move || parse(&jobs))?;
        }
        spawn("read-ahead", move || read_ahead(blocks, &order, &give))?;
        Ok(Self { next })
    }
}

impl Iterator for ParsedAhead {
    type Item = io::Result<Stretch>;

    fn next(&mut self) -> Option<io::Result<Stretch>> {
        // The sender is gone after the last block.
        let stretch = self.next.recv().ok()?;
        Some(stretch.map(|stretch| stretch.recv().expect("a block that is read is parsed")))
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Hands every block to a parser, until the file ends or nobody takes the results any more.
fn read_ahead(
    blocks: Blocks<impl Read>,
    order: &SyncSender<io::Result<Receiver<Stretch>>>,
    give: &SyncSender<ParseJob>,
) {
    for block in blocks {
        let (parsed, stretch) = sync_channel(1);
        let sent = match block {
            Ok(block) => order.send(Ok(stretch)).is_ok() && give.send((block, parsed)).is_ok(),
            Err(error) => order.send(Err(error)).is_ok(),
        };
        if !sent {
            break;
        }
    }
}

fn parse(jobs: &Mutex<Receiver<ParseJob>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((block, parsed)) = job else { break };
        // Fails if nobody takes it any more.
        let _ = parsed.send(block.parse());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use history::{Event, FORMAT, Head, History, Reader, What, open};

    use super::*;

    /// A history of some megabytes, and its file.
    fn long() -> (History, Vec<u8>) {
        let (format, lock_key) = (FORMAT.into(), "k".into());
        let (clients, ttl_ns, locks) = (1, 1, true);
        let head = Head { format, clients, ttl_ns, locks, lock_key, ..Head::default() };
        let mut history = History::new(head);
        for op in 1..20_000 {
            let (client, acquisition) = (1, op);
            let why = history.texts.intern(&format!("for the reason {}", op % 1000));
            for what in [What::Acquire, What::NotAcquired(why)] {
                history.events.push(Event { at_ns: op.into(), client, acquisition, op, what });
            }
        }
        let mut bytes = Vec::new();
        history::write(&history, &mut bytes).unwrap();
        (history, bytes)
    }

    /// What it is read as, and why no further.
    fn found(bytes: impl Read + Send + 'static) -> (Vec<Event>, Option<String>) {
        let (head, blocks) = open(bytes).unwrap();
        let mut reader = Reader::new(head, ParsedAhead::of(blocks).unwrap());
        let mut events = Vec::new();
        loop {
            match reader.read_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (events, None),
                Err(error) => return (events, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn everything_comes_in_order() {
        let (history, bytes) = long();
        let (events, error) = found(io::Cursor::new(bytes.clone()));
        assert_eq!(error, None);
        assert!(events == history.events, "with the same numbers of texts");
        let wrong = [&bytes[..], b"{}\n", &bytes[..]].concat();
        let (events, error) = found(io::Cursor::new(wrong));
        let line = history.events.len() + 2;
        assert!(error.unwrap().starts_with(&format!("line {line} of the history")));
        assert!(events == history.events, "what stands before it comes");
    }

    #[test]
    fn what_was_read_before_a_failure_comes_before_it() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let (history, bytes) = long();
        let (events, error) = found(io::Cursor::new(bytes).chain(Broken));
        assert!(error.unwrap().contains("broken"));
        assert!(events == history.events);
    }

    #[test]
    fn no_more_than_a_few_blocks_are_read_ahead() {
        /// Empty lines, and how many bytes of them were read.
        struct Endless(Arc<AtomicUsize>);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(b'\n');
                self.0.fetch_add(buffer.len(), Ordering::SeqCst);
                Ok(buffer.len())
            }
        }
        let (_, bytes) = long();
        let read = Arc::new(AtomicUsize::new(0));
        let (_, blocks) = open(io::Cursor::new(bytes).chain(Endless(Arc::clone(&read)))).unwrap();
        let mut ahead = ParsedAhead::of(blocks).unwrap();
        (0..20).for_each(|_| drop(ahead.next().unwrap().unwrap()));
        drop(ahead);
        // 20 blocks of a quarter of a megabyte, and those in flight.
        assert!(read.load(Ordering::SeqCst) <= (20 + 2 * PARSERS_MOST + 2) << 18);
    }
}
