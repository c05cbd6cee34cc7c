//! A file, line by line, in bounded memory.
//!
//! Invariant: a line is handed out once it is known to be whole and not too long, and of one that is
//! too long no more is read than what shows that it is. A line that lies within the reader's buffer
//! is not copied.

use std::io::{self, BufRead, ErrorKind};

use super::super::flaw::LINE_MOST;

/// The lines of a file.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    input: R,
    /// A line that lay across the end of the buffer.
    spill: Vec<u8>,
    /// What of the buffer has been handed out.
    taken: usize,
    number: u64,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineRead<'a> {
    /// Without its line break, and whether it had one.
    Line(&'a [u8], bool),
    /// One that is too long.
    TooLong,
    /// There is none.
    End,
}

impl<R: BufRead> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, spill: Vec::new(), taken: 0, number: 0 }
    }

    /// The number of the line that was handed out last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line.
    pub(super) fn take(&mut self) -> io::Result<LineRead<'_>> {
        self.input.consume(std::mem::take(&mut self.taken));
        self.number += 1;
        self.spill.clear();
        loop {
            let buffer = fill(&mut self.input)?;
            let room = LINE_MOST + 1 - self.spill.len();
            let within = &buffer[..buffer.len().min(room)];
            match memchr::memchr(b'\n', within) {
                Some(end) if self.spill.is_empty() => {
                    self.taken = end + 1;
                    // The same buffer again, which is not empty and so is not read anew.
                    return Ok(LineRead::Line(&self.input.fill_buf()?[..end], true));
                }
                Some(end) => {
                    self.spill.extend_from_slice(&within[..end]);
                    self.input.consume(end + 1);
                    return Ok(LineRead::Line(&self.spill, true));
                }
                None if within.len() == room => return Ok(LineRead::TooLong),
                None if buffer.is_empty() && self.spill.is_empty() => {
                    self.number -= 1;
                    return Ok(LineRead::End);
                }
                None if buffer.is_empty() => return Ok(LineRead::Line(&self.spill, false)),
                None => {
                    let length = buffer.len();
                    self.spill.extend_from_slice(buffer);
                    self.input.consume(length);
                }
            }
        }
    }
}

fn fill(input: &mut impl BufRead) -> io::Result<&[u8]> {
    // Asked twice, because what is borrowed from the first answer could not be given up again.
    loop {
        match input.fill_buf() {
            // Nor is the end of a terminal asked for twice.
            Ok([]) => return Ok(&[]),
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    input.fill_buf()
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    fn all(bytes: &[u8], capacity: usize) -> Vec<(Vec<u8>, bool)> {
        let mut lines = LineReader::new(BufReader::with_capacity(capacity, bytes));
        let mut found = Vec::new();
        loop {
            match lines.take().unwrap() {
                LineRead::Line(line, ended) => found.push((line.to_vec(), ended)),
                LineRead::TooLong => panic!("no line is too long"),
                LineRead::End => break,
            }
            assert_eq!(lines.number(), found.len() as u64);
        }
        assert_eq!(lines.number(), found.len() as u64, "the end is no line");
        found
    }

    #[test]
    fn lines_are_the_same_whatever_the_buffer() {
        let text = b"one\n\ntwo and three\n\xff\nlast";
        let split: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        for capacity in 1..30 {
            let found = all(text, capacity);
            let lines: Vec<&[u8]> = found.iter().map(|(line, _)| &line[..]).collect();
            assert_eq!(lines, split, "with a buffer of {capacity}");
            let ended: Vec<bool> = found.iter().map(|(_, ended)| *ended).collect();
            assert_eq!(ended, [true, true, true, true, false]);
        }
        assert_eq!(all(b"one\n", 2), [(b"one".to_vec(), true)]);
        assert_eq!(all(b"", 2), []);
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
        let mut lines = LineReader::new(BufReader::with_capacity(4096, &mut endless));
        assert_eq!(lines.take().unwrap(), LineRead::TooLong);
        drop(lines);
        assert!(endless.0 <= LINE_MOST as u64 + 2 * 4096, "{} bytes were read", endless.0);
    }

    #[test]
    fn the_longest_line_is_taken_and_one_byte_more_is_not() {
        for capacity in [1000, 4 * LINE_MOST] {
            let mut bytes = vec![b'x'; LINE_MOST];
            bytes.push(b'\n');
            assert_eq!(all(&bytes, capacity)[0].0.len(), LINE_MOST);
            bytes.insert(0, b'x');
            let mut lines = LineReader::new(BufReader::with_capacity(capacity, &bytes[..]));
            assert_eq!(lines.take().unwrap(), LineRead::TooLong);
        }
    }

    #[test]
    fn an_interrupted_read_is_tried_again() {
        struct Nervous(bool);
        impl Read for Nervous {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 = !self.0;
                if self.0 {
                    return Err(ErrorKind::Interrupted.into());
                }
                buffer[0] = b'\n';
                Ok(1)
            }
        }
        let mut lines = LineReader::new(BufReader::new(Nervous(false)));
        assert_eq!(lines.take().unwrap(), LineRead::Line(b"", true));
    }
}
