//! What can be wrong with a history, in words that say where and what to do.
//!
//! Invariant: nothing that is wrong is repaired or passed over, and whatever is quoted of the file is
//! quoted in part and without control characters, so that a message stays a message.

use std::fmt;
use std::io;

use super::head::FORMAT;

/// The longest line that is taken, in bytes.
pub(super) const LINE_MOST: usize = 1024 * 1024;

/// Why a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("the history cannot be read: {0}")]
    Io(#[from] io::Error),
    /// There is nothing in it.
    #[error(
        "the history is empty: its first line must be the head, as docs/history.md describes it"
    )]
    Empty,
    /// It is compressed.
    #[error("the history is compressed with {0}: unpack it first")]
    Compressed(&'static str),
    /// It is of another version.
    #[error(
        "the history is in the format {found}, and this picklock reads {FORMAT:?}: \
         take the picklock that wrote it, or write it anew"
    )]
    Format {
        /// What the file says.
        found: Quoted,
    },
    /// The first line is not a head.
    #[error("line 1 of the history is no head: {0}")]
    Head(HeadFlaw),
    /// Another line is not an event that could have happened there.
    #[error("line {line} of the history: {flaw}")]
    Line {
        /// Which, from 1.
        line: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
}

/// What is wrong with the first line; see the messages.
#[derive(Debug, thiserror::Error)]
pub enum HeadFlaw {
    #[error(transparent)]
    Line(#[from] Flaw),
    #[error("{0}")]
    Json(Box<str>),
    #[error("the field {0} is null: leave out a field that has nothing to say")]
    Null(Quoted),
    #[error("it is an event: the head is missing, or the lines are out of order")]
    Event,
    #[error("`clients` is 0: say how many took part")]
    NoClients,
    #[error(
        "`clients` is {clients}, and picklock tells {most} apart at most: say how many took part, and number them from 1"
    )]
    TooManyClients { clients: u32, most: u32 },
    #[error("`nodes` is 0: say on how many servers the lock is kept, or leave it out")]
    NoNodes,
    #[error("`ttl_ns` is 0: say how long the lock's key lives, in nanoseconds")]
    NoTtl,
    #[error("`lock_key` is empty: name the key the lock is kept under")]
    NoKey,
    #[error("`prizes` is {0}: a pool cannot begin below zero")]
    Prizes(i64),
}

/// What is wrong with a line; see the messages. Columns and bytes are counted from 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    #[error("it is longer than {LINE_MOST} bytes, which no event is")]
    TooLong,
    #[error("it is no UTF-8 text (byte {byte} is wrong): a history is text, a JSON object a line")]
    NotUtf8 { byte: usize },
    #[error("it is empty: remove it")]
    Blank,
    #[error(
        "the file ends in the middle of it, so the end of the history is missing: \
         copy it again, or remove this line to judge what there is"
    )]
    Truncated,
    #[error("it is no JSON object: {expected} is expected at column {column}")]
    NotJson { column: usize, expected: &'static str },
    #[error("it ends in the middle of the JSON object: an event has one line, and it is whole")]
    Unfinished,
    #[error("there is no field {field}{}", meant(.nearest))]
    UnknownField { field: Quoted, nearest: Option<&'static str> },
    #[error("the field `{0}` is there twice")]
    DuplicateField(&'static str),
    #[error("the field `{0}` is missing")]
    MissingField(&'static str),
    #[error("the field `{field}` does not belong to {kind} {stage}, or not with what else it says")]
    MisplacedField { field: &'static str, kind: &'static str, stage: &'static str },
    #[error("the field `{field}` must be {expected}")]
    WrongType { field: &'static str, expected: &'static str },
    #[error("{found} is no `{field}`{}", meant(.nearest))]
    UnknownName { field: &'static str, found: Quoted, nearest: Option<&'static str> },
    #[error("`{kind}` has no stage `{stage}`")]
    WrongStage { kind: &'static str, stage: &'static str },
    #[error(
        "time falls from {before_ns} to {at_ns}: all events are stamped by one clock and stand in \
         its order; the line is out of place, or its time was changed"
    )]
    TimeFalls { before_ns: u64, at_ns: u64 },
    #[error("client {client} takes part, and the head says that there are {clients}")]
    UnknownClient { client: u32, clients: u32 },
    #[error("client 0 is the run itself and does not {0}: number clients from 1")]
    ClientZero(&'static str),
    #[error("it is the staged fault {staged}, and the head stages {known}, counted from 0")]
    UnknownStaged { staged: u16, known: usize },
    #[error("the staged fault {staged} is `{known}` in the head, and `{fault}` here")]
    OtherStaged { staged: u16, known: &'static str, fault: &'static str },
    #[error("an operation needs its number, from 1: the field `op` is missing or 0")]
    NoOp,
    #[error("a note is no operation, and has no `op` (here {0})")]
    OpOfNote(u32),
    #[error("operation {0} has begun already: every operation has a number of its own")]
    BegunTwice(u32),
    #[error(
        "operation {op} begins after operation {after}: operations are numbered in the order in which \
         they begin; the line is there twice or out of place"
    )]
    NotRising { op: u32, after: u32 },
    #[error(
        "operation {0} ends and has not begun: its `invoke` is missing, or stands further down"
    )]
    NotBegun(u32),
    #[error("operation {0} ends a second time: it has one end at most")]
    EndedTwice(u32),
    /// Numbers were left out, so nobody knows which of the two.
    #[error("operation {0} ends, and is not under way: it never began, or has ended already")]
    NotUnderWay(u32),
    #[error("operation {op} began as `{began}` and ends as `{ends}`")]
    OtherKind { op: u32, began: &'static str, ends: &'static str },
    #[error("operation {op} was begun by client {began} and is ended by client {ends}")]
    OtherClient { op: u32, began: u32, ends: u32 },
    #[error("operation {op} was begun in acquisition {began} and is ended in {ends} (0: in none)")]
    OtherAcquisition { op: u32, began: u32, ends: u32 },
    #[error(
        "operation {op} found what operation {found} had written, which is itself or has not begun: \
         `found` is the number of an earlier command"
    )]
    FoundUnwritten { op: u32, found: u32 },
    #[error("`{0}` belongs to an acquisition: the field `acquisition` is missing or 0")]
    NoAcquisition(&'static str),
    #[error(
        "acquisition {0} has not begun: its `acquire` `invoke` is missing, or stands further down"
    )]
    UnknownAcquisition(u32),
    #[error("acquisition {0} has begun already: every `acquire` begins an acquisition of its own")]
    AcquiredTwice(u32),
    #[error("acquisition {acquisition} is client {owner}'s, and client {client} uses it")]
    SharedAcquisition { acquisition: u32, owner: u32, client: u32 },
    #[error(
        "acquisition {0} is released a second time: tries of one release are commands, not releases"
    )]
    ReleasedTwice(u32),
}

fn meant(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Words of the file, as a message can show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted(Box<str>);

impl Quoted {
    /// How many characters are shown.
    const MOST: usize = 60;

    pub(super) fn new(text: &str) -> Self {
        let mut shown: String = text.chars().take(Self::MOST).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Self(shown.into())
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
