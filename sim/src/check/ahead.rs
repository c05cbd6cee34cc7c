//! Read-ahead: one thread reads while another parses.
//!
//! Invariant: bytes and errors arrive in order, and only a few buffers are in flight. A blocked read is not
//! cancelled: the thread ends after it, or with the process.

use std::io::{self, BufRead, ErrorKind, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Size of a buffer, in bytes.
pub(super) const AT_A_TIME: usize = 256 * 1024;
const BUFFERS: usize = 4;

pub(super) struct Ahead {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: SyncSender<Vec<u8>>,
    /// The current buffer, and how much of it is consumed.
    buffer: Vec<u8>,
    taken: usize,
}

impl Ahead {
    pub(super) fn of(mut input: impl Read + Send + 'static) -> io::Result<Self> {
        let (give, full) = sync_channel(BUFFERS);
        let (empty, take) = sync_channel(BUFFERS);
        for _ in 1..BUFFERS {
            // The channel holds them all.
            let _ = empty.send(Vec::new());
        }
        let read_on = move || {
            while let Ok(mut buffer) = take.recv() {
                let read = fill(&mut input, &mut buffer);
                let is_last = !matches!(read, Ok(1..));
                if give.send(read.map(|_| buffer)).is_err() || is_last {
                    break;
                }
            }
        };
        thread::Builder::new().name("read-ahead".to_owned()).spawn(read_on)?;
        Ok(Self { full, empty, buffer: Vec::new(), taken: 0 })
    }
}

fn fill(input: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<usize> {
    buffer.resize(AT_A_TIME, 0);
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => {
                buffer.truncate(*read.as_ref().unwrap_or(&0));
                return read;
            }
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.buffer.len()
            // After the last buffer the sender is gone, and the input has ended.
            && let Ok(next) = self.full.recv()
        {
            let used = std::mem::replace(&mut self.buffer, next?);
            self.taken = 0;
            // Fails only if the thread has ended, which needs no more buffers.
            let _ = self.empty.send(used);
        }
        Ok(&self.buffer[self.taken..])
    }

    fn consume(&mut self, amount: usize) {
        self.taken = (self.taken + amount).min(self.buffer.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives as many bytes at a time as its steps say, then fails or ends.
    struct Steps(Vec<usize>, bool);

    impl Read for Steps {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(step) = self.0.pop() else {
                return if self.1 { Err(io::Error::other("broken")) } else { Ok(0) };
            };
            if step == 0 {
                return Err(ErrorKind::Interrupted.into());
            }
            buffer[..step].fill(u8::try_from(step % 251).unwrap());
            Ok(step)
        }
    }

    #[test]
    fn everything_comes_in_order() {
        let steps = vec![AT_A_TIME, 1, 7, 0, 3, AT_A_TIME, AT_A_TIME - 1, 0, 0, 5, 6, 2];
        let mut expected = Vec::new();
        for step in steps.iter().rev() {
            expected.extend(vec![u8::try_from(step % 251).unwrap(); *step]);
        }
        let mut ahead = Ahead::of(Steps(steps.clone(), false)).unwrap();
        let mut found = Vec::new();
        ahead.read_to_end(&mut found).unwrap();
        assert!(found == expected);
        assert!(ahead.fill_buf().unwrap().is_empty(), "and again it is the end");

        let mut broken = Ahead::of(Steps(steps, true)).unwrap();
        found.clear();
        assert_eq!(broken.read_to_end(&mut found).unwrap_err().to_string(), "broken");
        assert!(found == expected, "what came before the failure came");
    }

    #[test]
    fn no_more_than_a_few_buffers_are_read_ahead() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        struct Endless(Arc<AtomicUsize>);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.fetch_add(1, Ordering::SeqCst);
                Ok(buffer.len())
            }
        }
        let reads = Arc::new(AtomicUsize::new(0));
        let mut ahead = Ahead::of(Endless(reads.clone())).unwrap();
        for _ in 0..10 {
            let length = ahead.fill_buf().unwrap().len();
            ahead.consume(length);
        }
        drop(ahead);
        assert!(reads.load(Ordering::SeqCst) <= 10 + BUFFERS);
    }
}
