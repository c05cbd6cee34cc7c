//! The input of `check`, readable a second time.
//!
//! Invariant: both reads give the same bytes. A pipe is spooled to an unnamed temporary file, which vanishes with the
//! process however it ends; memory is not used, because a history may be larger.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use crate::failure::Failure;
use crate::print;

pub(super) struct HistorySource {
    pub(super) name: String,
    from: From,
}

enum From {
    File(File),
    Pipe { input: Option<Box<dyn Read + Send>>, kept: File },
}

impl HistorySource {
    /// The file of this path, or `-` for stdin.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            let from = From::Pipe { input: Some(Box::new(io::stdin())), kept: spool()? };
            return Ok(Self { name: "stdin".to_owned(), from });
        }
        let name = path.display().to_string();
        let unopened = |error: io::Error| {
            Failure::usage_text(
                format!("cannot read {name}: {error}"),
                "give a history, such as picklock-out/<scenario>/latest/history.jsonl, or - for stdin",
            )
        };
        let meta = std::fs::metadata(path).map_err(unopened)?;
        if meta.is_dir() {
            let within = path.join("history.jsonl");
            let help = match within.is_file() {
                true => format!("give the history in it: {}", within.display()),
                false => "give a history, such as picklock-out/<scenario>/latest/history.jsonl"
                    .to_owned(),
            };
            return Err(Failure::usage_text(format!("{name} is a directory"), help));
        }
        print::note_pipe(path);
        let file = File::open(path).map_err(unopened)?;
        let from = match meta.is_file() {
            true => From::File(file),
            false => From::Pipe { input: Some(Box::new(file)), kept: spool()? },
        };
        Ok(Self { name, from })
    }

    pub(super) fn first(&mut self) -> io::Result<Box<dyn Read + Send>> {
        match &mut self.from {
            From::File(file) => Ok(Box::new(file.try_clone()?)),
            From::Pipe { input, kept } => {
                let input = input.take().expect("a pipe is read once");
                Ok(Box::new(Tee { input, kept: kept.try_clone()? }))
            }
        }
    }

    /// Reads the same bytes again; the first read must be complete.
    pub(super) fn again(&mut self) -> io::Result<File> {
        let (From::File(file) | From::Pipe { kept: file, .. }) = &mut self.from;
        file.rewind()?;
        file.try_clone()
    }
}

fn spool() -> Result<File, Failure> {
    tempfile::tempfile().map_err(|error| {
        let place = std::env::temp_dir();
        Failure::unavailable_text(
            format!("cannot spool stdin to {}: {error}", place.display()),
            "set TMPDIR to a writable directory, or give the history as a file",
        )
    })
}

/// Copies everything that is read to a file.
struct Tee {
    input: Box<dyn Read + Send>,
    kept: File,
}

impl Read for Tee {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.kept.write_all(&buffer[..length]).map_err(|error| {
            let place = std::env::temp_dir();
            let place = place.display();
            io::Error::other(format!("cannot spool the pipe to {place}: {error}"))
        })?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut from: impl Read) -> String {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_file_and_a_pipe_are_read_twice_alike() {
        let text = "a line\n".repeat(100_000);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, &text).unwrap();
        let pipe = From::Pipe {
            input: Some(Box::new(io::Cursor::new(text.clone().into_bytes()))),
            kept: spool().unwrap(),
        };
        for mut source in [
            HistorySource::open(file.path()).unwrap(),
            HistorySource { name: "pipe".to_owned(), from: pipe },
        ] {
            assert_eq!(read(source.first().unwrap()), text);
            assert_eq!(read(source.again().unwrap()), text);
            assert_eq!(read(source.again().unwrap()), text);
        }
    }
}
