//! Reading `history.jsonl`, from its first line to its last.
//!
//! Invariant: an event that is handed out could have happened where it stands, by all that
//! docs/history.md says, and memory is bounded by what is under way and not by the length of the
//! file (see `read/order.rs` and [`Texts::bounded`]). After the first line that is wrong nothing is
//! handed out. What a line says by itself is found block by block, which can be done on many threads;
//! what lines have to do with each other is then looked at in their order. Deliberately absent:
//! repairs; nothing is guessed.

mod blocks;
mod order;

use std::io::{self, Read};
use std::vec;

use serde_json::{Map, Value};

use super::History;
use super::event::Event;
use super::flaw::{Flaw, HeadFlaw, LINE_MOST, Quoted, ReadError};
use super::head::{FORMAT, Head};
use super::text::{Renumbering, Texts};
use blocks::BLOCK_BYTES;
pub use blocks::{Block, Blocks, Stretch};
use order::EventOrder;

/// What the texts of a history that is read as a stream may take, in bytes.
const TEXTS_BYTES: usize = 16 * 1024 * 1024;

/// Reads a history, all of it.
///
/// # Errors
/// See [`ReadError`].
pub fn read(input: impl Read) -> Result<History, ReadError> {
    let (head, blocks) = open(input)?;
    let stretches = blocks.map(|block| block.map(|block| block.parse()));
    let mut reader = Reader { texts: Texts::default(), ..Reader::new(head, stretches) };
    let mut events = Vec::new();
    while let Some(event) = reader.read_event()? {
        events.push(event);
    }
    Ok(History { head: reader.head, texts: reader.texts, events })
}

/// Reads the head of a history; what follows it, for a [`Reader`] once its blocks are parsed.
///
/// # Errors
/// What is wrong with the file or its head.
pub fn open<R: Read>(input: R) -> Result<(Head, Blocks<R>), ReadError> {
    open_by(input, BLOCK_BYTES)
}

/// The same, in blocks of so many bytes.
fn open_by<R: Read>(input: R, size: usize) -> Result<(Head, Blocks<R>), ReadError> {
    let mut blocks = Blocks::new(input, size);
    match blocks.first_line()? {
        None => Err(ReadError::Empty),
        Some((line, _)) if line.len() > LINE_MOST => Err(ReadError::Head(Flaw::TooLong.into())),
        Some((line, ended)) => Ok((head(&line, ended)?, blocks)),
    }
}

/// A history that is read event by event, from stretches in their order.
#[derive(Debug)]
pub struct Reader<S> {
    stretches: S,
    head: Head,
    texts: Texts,
    order: EventOrder,
    line: u64,
    /// What has not been handed out of the stretch that was taken last.
    events: vec::IntoIter<Event>,
    flaw: Option<Flaw>,
    /// The texts of that stretch, and their numbers here.
    theirs: Texts,
    numbers: Renumbering,
}

impl<S: Iterator<Item = io::Result<Stretch>>> Reader<S> {
    /// Reads the stretches that follow this head.
    pub fn new(head: Head, stretches: S) -> Self {
        let texts = Texts::bounded(TEXTS_BYTES, &head.lock_key);
        let order = EventOrder::new(&head);
        Self {
            stretches,
            head,
            texts,
            order,
            line: 1,
            events: Vec::new().into_iter(),
            flaw: None,
            theirs: Texts::default(),
            numbers: Renumbering::default(),
        }
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
        self.line
    }

    /// Reads the next event; `None` at the end of the history.
    ///
    /// # Errors
    /// What is wrong with the file or the line.
    pub fn read_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            if let Some(event) = self.events.next() {
                self.line += 1;
                let what = event
                    .what
                    .renumbered(|text| self.numbers.of(text, &self.theirs, &mut self.texts));
                let event = Event { what, ..event };
                let seen = self.order.see(&event).map(|()| event);
                return seen.map(Some).map_err(|flaw| ReadError::Line { line: self.line, flaw });
            }
            if let Some(flaw) = self.flaw.take() {
                self.line += 1;
                return Err(ReadError::Line { line: self.line, flaw });
            }
            let Some(stretch) = self.stretches.next() else { return Ok(None) };
            let Stretch { events, texts, flaw } = stretch?;
            (self.events, self.theirs, self.flaw) = (events.into_iter(), texts, flaw);
            self.numbers = Renumbering::default();
        }
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
        Head { clients, .. } if clients > order::CLIENTS_MOST => {
            HeadFlaw::TooManyClients { clients, most: order::CLIENTS_MOST }
        }
        Head { nodes: Some(0), .. } => HeadFlaw::NoNodes,
        Head { ttl_ns: 0, .. } => HeadFlaw::NoTtl,
        Head { locks: true, ref lock_key, .. } if lock_key.is_empty() => HeadFlaw::NoKey,
        Head { prizes: Some(prizes), .. } if prizes < 0 => HeadFlaw::Prizes(prizes),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
