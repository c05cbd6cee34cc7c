//! Where a history comes from, so that it can be read a second time.
//!
//! Invariant: both times the same bytes are read. What comes from a pipe is kept in a file without a
//! name, which is gone when picklock is, however it ends. Deliberately absent: keeping it in memory,
//! however short it is.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use super::super::failure::Failure;
use super::ahead::Ahead;

/// Where a history comes from.
pub(super) struct Source {
    name: String,
    from: From,
}

enum From {
    File(File),
    Pipe { input: Option<Box<dyn Read + Send>>, kept: File },
}

impl Source {
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
                "name a history, such as picklock-out/<scenario>/latest/history.jsonl, or - for stdin",
            )
        };
        let meta = std::fs::metadata(path).map_err(unopened)?;
        if meta.is_dir() {
            let within = path.join("history.jsonl");
            let help = match within.is_file() {
                true => format!("name the history in it: {}", within.display()),
                false => "name a history, such as picklock-out/<scenario>/latest/history.jsonl"
                    .to_owned(),
            };
            return Err(Failure::usage_text(format!("{name} is a directory"), help));
        }
        let file = File::open(path).map_err(unopened)?;
        let from = match meta.is_file() {
            true => From::File(file),
            false => From::Pipe { input: Some(Box::new(file)), kept: spool()? },
        };
        Ok(Self { name, from })
    }

    /// What it is called in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The bytes for the first time.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn first(&mut self) -> io::Result<Ahead> {
        match &mut self.from {
            From::File(file) => Ahead::of(file.try_clone()?),
            From::Pipe { input, kept } => {
                let input = input.take().expect("a pipe is read once");
                Ahead::of(Keeping { input, kept: kept.try_clone()? })
            }
        }
    }

    /// The same bytes again, all of which have been read before.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn again(&mut self) -> io::Result<Ahead> {
        let (From::File(file) | From::Pipe { kept: file, .. }) = &mut self.from;
        file.rewind()?;
        Ahead::of(file.try_clone()?)
    }
}

fn spool() -> Result<File, Failure> {
    tempfile::tempfile().map_err(|error| {
        let place = std::env::temp_dir();
        Failure::unavailable_text(
            format!("cannot keep what comes from a pipe in {}: {error}", place.display()),
            "set TMPDIR to a directory that can be written, or give the history as a file",
        )
    })
}

/// Reads, and keeps what was read.
struct Keeping {
    input: Box<dyn Read + Send>,
    kept: File,
}

impl Read for Keeping {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.kept.write_all(&buffer[..length]).map_err(|error| {
            let place = std::env::temp_dir();
            let place = place.display();
            io::Error::other(format!("what comes from a pipe cannot be kept in {place}: {error}"))
        })?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ahead::AT_A_TIME;
    use super::*;

    fn read(mut from: Ahead) -> String {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_file_and_a_pipe_are_read_twice_alike() {
        let text = "a line\n".repeat(AT_A_TIME / 3);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, &text).unwrap();
        let pipe = From::Pipe {
            input: Some(Box::new(io::Cursor::new(text.clone().into_bytes()))),
            kept: spool().unwrap(),
        };
        for mut source in
            [Source::open(file.path()).unwrap(), Source { name: "pipe".to_owned(), from: pipe }]
        {
            assert_eq!(read(source.first().unwrap()), text);
            assert_eq!(read(source.again().unwrap()), text);
            assert_eq!(read(source.again().unwrap()), text);
        }
    }
}
