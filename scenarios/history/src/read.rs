//! Reading `history.jsonl`, from its first line to its last.
//!
//! Invariant: an event that is handed out could have happened where it stands, by all that
//! docs/history.md says, and memory is bounded by what is under way and not by the length of the
//! file (see `read/order.rs` and [`Texts::bounded`]). After the first line that is wrong nothing is
//! read. Deliberately absent: repairs; nothing is guessed.

mod lines;
mod order;

use std::io::BufRead;

use serde_json::{Map, Value};

use super::History;
use super::event::Event;
use super::flaw::{Flaw, HeadFlaw, Quoted, ReadError};
use super::head::{FORMAT, Head};
use super::jsonl;
use super::text::Texts;
use lines::{LineRead, LineReader};
use order::EventOrder;

/// What the texts of a history that is read as a stream may take, in bytes.
const TEXTS_BYTES: usize = 16 * 1024 * 1024;

/// Reads a history, all of it.
///
/// # Errors
/// See [`ReadError`].
pub fn read(input: impl BufRead) -> Result<History, ReadError> {
    let mut reader = Reader::open(input, |_| Texts::default())?;
    let mut events = Vec::new();
    while let Some(event) = reader.read_event()? {
        events.push(event);
    }
    Ok(History { head: reader.head, texts: reader.texts, events })
}

/// A history that is read event by event.
#[derive(Debug)]
pub struct Reader<R> {
    lines: LineReader<R>,
    head: Head,
    texts: Texts,
    order: EventOrder,
}

impl<R: BufRead> Reader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// What is wrong with the file or its head.
    pub fn new(input: R) -> Result<Self, ReadError> {
        Self::open(input, |head| Texts::bounded(TEXTS_BYTES, &head.lock_key))
    }

    fn open(input: R, texts: impl FnOnce(&Head) -> Texts) -> Result<Self, ReadError> {
        let mut lines = LineReader::new(input);
        let head = match lines.take()? {
            LineRead::End => return Err(ReadError::Empty),
            LineRead::TooLong => return Err(ReadError::Head(Flaw::TooLong.into())),
            LineRead::Line(line, ended) => head(line, ended)?,
        };
        let (texts, order) = (texts(&head), EventOrder::new(&head));
        Ok(Self { lines, head, texts, order })
    }

    /// What kind of run it was.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The texts that the event read last names. That of the lock's key is known for ever, and so are
    /// all others of a history that says less than some hundred thousand different things; where it
    /// says more, texts that are new by then are known for as long as their event is the last.
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// The number of the line read last; the head's is 1.
    pub fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Reads the next event; `None` at the end of the history.
    ///
    /// # Errors
    /// What is wrong with the file or the line.
    pub fn read_event(&mut self) -> Result<Option<Event>, ReadError> {
        let event = match self.lines.take()? {
            LineRead::End => return Ok(None),
            LineRead::TooLong => Err(Flaw::TooLong),
            LineRead::Line(line, ended) => text(line, ended)
                .and_then(|text| jsonl::event(text, &mut self.texts))
                .map_err(|flaw| if ended { flaw } else { cut_off(flaw) }),
        };
        let event = event.and_then(|event| self.order.see(&event).map(|()| event));
        event.map(Some).map_err(|flaw| ReadError::Line { line: self.lines.number(), flaw })
    }
}

/// The text of a line.
fn text(line: &[u8], ended: bool) -> Result<&str, Flaw> {
    std::str::from_utf8(line).map_err(|error| match error.error_len() {
        // A letter of several bytes that the file ends in.
        None if !ended => Flaw::Truncated,
        _ => Flaw::NotUtf8 { byte: error.valid_up_to() + 1 },
    })
}

/// What is wrong with a last line without line break, of which that was found.
fn cut_off(flaw: Flaw) -> Flaw {
    match flaw {
        Flaw::Unfinished => Flaw::Truncated,
        other => other,
    }
}

/// How compressed files begin.
const COMPRESSED: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ", "xz"),
    (b"BZh", "bzip2"),
    (b"PK\x03\x04", "zip"),
];

fn head(line: &[u8], ended: bool) -> Result<Head, ReadError> {
    if let Some((_, how)) = COMPRESSED.iter().find(|(begin, _)| line.starts_with(begin)) {
        return Err(ReadError::Compressed(how));
    }
    let text = text(line, ended).map_err(|flaw| ReadError::Head(flaw.into()))?;
    // Some systems begin every text with this mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Err(ReadError::Head(Flaw::Blank.into()));
    }
    let broken = |error: serde_json::Error| {
        ReadError::Head(match error.is_eof() {
            true if ended => Flaw::Unfinished.into(),
            true => Flaw::Truncated.into(),
            // It knows of one line only.
            false => {
                HeadFlaw::Json(error.to_string().replace(" at line 1 column", " at column").into())
            }
        })
    };
    let fields: Map<String, Value> = serde_json::from_str(text).map_err(broken)?;
    match fields.get("format").and_then(Value::as_str) {
        Some(FORMAT) => {}
        Some(other) => return Err(ReadError::Format { found: Quoted::new(other) }),
        None if fields.contains_key("at_ns") => return Err(ReadError::Head(HeadFlaw::Event)),
        None => {}
    }
    if let Some((name, _)) = fields.iter().find(|(_, value)| value.is_null()) {
        return Err(ReadError::Head(HeadFlaw::Null(Quoted::new(name))));
    }
    let head: Head = serde_json::from_str(text).map_err(broken)?;
    match senseless(&head) {
        Some(flaw) => Err(ReadError::Head(flaw)),
        None => Ok(head),
    }
}

/// What no run can have been.
fn senseless(head: &Head) -> Option<HeadFlaw> {
    Some(match *head {
        Head { clients: 0, .. } => HeadFlaw::NoClients,
        Head { clients, .. } if clients > order::CLIENTS_MOST => HeadFlaw::TooManyClients(clients),
        Head { ttl_ns: 0, .. } => HeadFlaw::NoTtl,
        Head { locks: true, ref lock_key, .. } if lock_key.is_empty() => HeadFlaw::NoKey,
        Head { prizes: Some(prizes), .. } if prizes < 0 => HeadFlaw::Prizes(prizes),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
