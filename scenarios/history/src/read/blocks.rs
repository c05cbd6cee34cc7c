//! A file in blocks of whole lines, each of which is parsed by itself, on any thread.
//!
//! Invariant: a block ends where a line does, or in a line that is too long, of which no more is read than what shows it.
//! What was read before a failure to read comes before the failure.

use std::io::{self, Read};

use super::{cut_off, text};
use crate::event::Event;
use crate::flaw::{Flaw, LINE_MOST};
use crate::jsonl;
use crate::text::Texts;

/// So much is read for a block, in bytes, or what one line takes.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

/// The usual length of a line: a block reserves room for its events by it.
const LINE_BYTES: usize = 96;

/// The lines of a history behind its head.
#[derive(Debug)]
pub struct Blocks<R> {
    input: R,
    /// So much is read at a time, in bytes.
    size: usize,
    /// The block that comes first, in bytes, once the head has been read from it.
    first: Option<Vec<u8>>,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Not even the end of a terminal is asked for twice.
    has_ended: bool,
    failure: Option<io::Error>,
}

/// Some lines of a history.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
}

/// What the lines of a block say, each by itself.
#[derive(Debug, Default)]
pub struct Stretch {
    pub(super) events: Vec<Event>,
    /// The texts that these events name.
    pub(super) texts: Texts,
    /// What is wrong with the line behind them; nothing behind that one is parsed.
    pub(super) flaw: Option<Flaw>,
}

impl<R: Read> Blocks<R> {
    pub(super) fn new(input: R, size: usize) -> Self {
        Self { input, size, first: None, rest: Vec::new(), has_ended: false, failure: None }
    }

    /// The first line without its line break, and whether it had one.
    pub(super) fn first_line(&mut self) -> io::Result<Option<(Vec<u8>, bool)>> {
        let Some(block) = self.next() else { return Ok(None) };
        let Block { mut bytes } = block?;
        let Some(end) = memchr::memchr(b'\n', &bytes) else { return Ok(Some((bytes, false))) };
        self.first = Some(bytes.split_off(end + 1));
        bytes.pop();
        Ok(Some((bytes, true)))
    }
}

impl<R: Read> Iterator for Blocks<R> {
    type Item = io::Result<Block>;

    fn next(&mut self) -> Option<io::Result<Block>> {
        if let Some(bytes) = self.first.take() {
            return Some(Ok(Block { bytes }));
        }
        let mut bytes = std::mem::take(&mut self.rest);
        while !self.has_ended {
            let from = bytes.len();
            bytes.reserve(self.size);
            match self.input.by_ref().take(self.size as u64).read_to_end(&mut bytes) {
                Ok(length) => self.has_ended = length < self.size,
                Err(error) => (self.has_ended, self.failure) = (true, Some(error)),
            }
            let end = memchr::memrchr(b'\n', &bytes[from..]).map_or(0, |end| from + end + 1);
            if self.failure.is_some() {
                bytes.truncate(end);
            } else if end > 0 && !self.has_ended {
                self.rest = bytes.split_off(end);
                break;
            } else if bytes.len() > LINE_MOST {
                break;
            }
        }
        if bytes.is_empty() { self.failure.take().map(Err) } else { Some(Ok(Block { bytes })) }
    }
}

impl Block {
    /// What its lines say.
    pub fn parse(&self) -> Stretch {
        let mut stretch = Stretch::default();
        stretch.events.reserve(self.bytes.len() / LINE_BYTES);
        let mut rest = &self.bytes[..];
        while !rest.is_empty() && stretch.flaw.is_none() {
            let end = memchr::memchr(b'\n', rest);
            let line = &rest[..end.unwrap_or(rest.len())];
            rest = end.map_or(&[], |end| &rest[end + 1..]);
            match event(line, end.is_some(), &mut stretch.texts) {
                Ok(event) => stretch.events.push(event),
                Err(flaw) => stretch.flaw = Some(flaw),
            }
        }
        stretch
    }
}

fn event(line: &[u8], ended: bool, texts: &mut Texts) -> Result<Event, Flaw> {
    if line.len() > LINE_MOST {
        return Err(Flaw::TooLong);
    }
    if let Some(event) = jsonl::canonical::event(line, texts) {
        return Ok(event);
    }
    let event = text(line, ended).and_then(|text| jsonl::event(text, texts));
    event.map_err(|flaw| if ended { flaw } else { cut_off(flaw) })
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn blocks(input: impl Read, size: usize) -> Vec<Vec<u8>> {
        Blocks::new(input, size).map(|block| block.unwrap().bytes).collect()
    }

    #[test]
    fn blocks_are_the_file_and_end_where_lines_do() {
        let text = b"one\n\ntwo and three\n\xff\nlast";
        for size in 1..30 {
            let found = blocks(&text[..], size);
            assert_eq!(found.concat(), text, "{size} bytes at a time");
            let (_, whole) = found.split_last().unwrap();
            assert!(whole.iter().all(|block| block.ends_with(b"\n")), "{found:?}");
        }
        assert!(blocks(&b""[..], 2).is_empty());
        let mut lines = Blocks::new(&b"one\ntwo"[..], 100);
        assert_eq!(lines.first_line().unwrap(), Some((b"one".to_vec(), true)));
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"two");
        assert!(lines.next().is_none());
    }

    /// Whatever is read of it is counted.
    struct Counted(u64);

    impl Read for Counted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'x');
            self.0 += buffer.len() as u64;
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_line_without_end_is_given_up_soon() {
        let mut endless = Counted(0);
        let block = Blocks::new(&mut endless, 4096).next().unwrap().unwrap();
        assert_eq!(block.parse().flaw, Some(Flaw::TooLong));
        assert!(endless.0 <= LINE_MOST as u64 + 4096, "{} bytes were read", endless.0);
    }

    #[test]
    fn the_longest_line_is_taken_and_one_byte_more_is_not() {
        let mut bytes = vec![b'x'; LINE_MOST];
        bytes.push(b'\n');
        let flaw = |bytes: &[u8]| Block { bytes: bytes.to_vec() }.parse().flaw.unwrap();
        assert_ne!(flaw(&bytes), Flaw::TooLong);
        bytes.insert(0, b'x');
        assert_eq!(flaw(&bytes), Flaw::TooLong);
        for size in [1000, 4 * LINE_MOST] {
            assert_eq!(blocks(&bytes[..], size).concat(), bytes);
        }
    }

    #[test]
    fn an_interrupted_read_is_tried_again_and_a_failure_comes_last() {
        struct Nervous(u8);
        impl Read for Nervous {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    1 | 3 => Err(ErrorKind::Interrupted.into()),
                    2 => (&b"one\ntw"[..]).read(buffer),
                    4 => (&b"o\nthr"[..]).read(buffer),
                    _ => Err(io::Error::other("broken")),
                }
            }
        }
        let mut found = Blocks::new(Nervous(0), 1000);
        assert_eq!(found.next().unwrap().unwrap().bytes, b"one\ntwo\n");
        assert_eq!(found.next().unwrap().unwrap_err().to_string(), "broken");
        assert!(found.next().is_none());
    }
}
