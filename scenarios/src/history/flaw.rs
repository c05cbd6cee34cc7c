//! What can be wrong with a history, in words that say where and what to do.
//!
//! Invariant: nothing that is wrong is repaired or passed over, and whatever is quoted of the file is
//! quoted in part and without control characters, so that a message stays a message.

use std::fmt;
use std::io;

use super::head::FORMAT;

/// The longest line that is taken, in bytes.
pub const LINE_MOST: usize = 1024 * 1024;

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

/// What is wrong with the first line.
#[derive(Debug, thiserror::Error)]
pub enum HeadFlaw {
    /// It is not a line of text.
    #[error(transparent)]
    Line(#[from] Flaw),
    /// It is not an object with the fields of a head.
    #[error("{0}")]
    Json(Box<str>),
    /// A field is there and says nothing.
    #[error("the field {0} is null: leave out a field that has nothing to say")]
    Null(Quoted),
    /// It is an event.
    #[error("it is an event: the head is missing, or the lines are out of order")]
    Event,
    /// Nobody took part.
    #[error("`clients` is 0: say how many took part")]
    NoClients,
    /// More than can be told apart.
    #[error("`clients` is {0}, which is more than picklock tells apart")]
    TooManyClients(u32),
    /// A lock that does not last.
    #[error("`ttl_ns` is 0: say how long the lock's key lives, in nanoseconds")]
    NoTtl,
    /// Recipes that lock have a key.
    #[error("`lock_key` is empty: name the key the lock is kept under")]
    NoKey,
    /// A pool that holds less than nothing.
    #[error("`prizes` is {0}: a pool cannot begin below zero")]
    Prizes(i64),
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It goes on and on.
    #[error("it is longer than {LINE_MOST} bytes, which no event is")]
    TooLong,
    /// It is no text.
    #[error("it is no UTF-8 text (byte {byte} is wrong): a history is text, a JSON object a line")]
    NotUtf8 {
        /// Where, from 1.
        byte: usize,
    },
    /// There is nothing in it.
    #[error("it is empty: remove it")]
    Blank,
    /// It ends with the file, too early.
    #[error(
        "the file ends in the middle of it, so the end of the history is missing: \
         copy it again, or remove this line to judge what there is"
    )]
    Truncated,
    /// It is no JSON object.
    #[error("it is no JSON object: {expected} is expected at column {column}")]
    NotJson {
        /// Where, in bytes from 1.
        column: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// It is over before it should be.
    #[error("it ends in the middle of the JSON object: an event has one line, and it is whole")]
    Unfinished,
    /// A field that histories have not.
    #[error("there is no field {field}{}", meant(.nearest))]
    UnknownField {
        /// Its name.
        field: Quoted,
        /// The field that was perhaps meant.
        nearest: Option<&'static str>,
    },
    /// A field twice.
    #[error("the field `{0}` is there twice")]
    DuplicateField(&'static str),
    /// A field is not there.
    #[error("the field `{0}` is missing")]
    MissingField(&'static str),
    /// A field has no place in such an event.
    #[error("the field `{field}` does not belong to {kind} {stage}, or not with what else it says")]
    MisplacedField {
        /// Which.
        field: &'static str,
        /// What happened.
        kind: &'static str,
        /// And how far it has come.
        stage: &'static str,
    },
    /// A value of another kind.
    #[error("the field `{field}` must be {expected}")]
    WrongType {
        /// Of which field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A name that histories have not.
    #[error("{found} is no `{field}`{}", meant(.nearest))]
    UnknownName {
        /// Of which field.
        field: &'static str,
        /// The name.
        found: Quoted,
        /// The name that was perhaps meant.
        nearest: Option<&'static str>,
    },
    /// Things that do not go together.
    #[error("`{kind}` has no stage `{stage}`")]
    WrongStage {
        /// What happened.
        kind: &'static str,
        /// Which it does not come to.
        stage: &'static str,
    },
    /// A time before the last.
    #[error(
        "time falls from {before_ns} to {at_ns}: all events are stamped by one clock and stand in \
         its order; the line is out of place, or its time was changed"
    )]
    TimeFalls {
        /// The time of the line before.
        before_ns: u64,
        /// This line's.
        at_ns: u64,
    },
    /// A client that did not take part.
    #[error("client {client} takes part, and the head says that there are {clients}")]
    UnknownClient {
        /// Who.
        client: u32,
        /// How many there are.
        clients: u32,
    },
    /// The run itself does not lock.
    #[error("client 0 is the run itself and does not {0}: number clients from 1")]
    ClientZero(&'static str),
    /// A staged fault that the head does not know.
    #[error("it is the staged fault {staged}, and the head stages {known}, counted from 0")]
    UnknownStaged {
        /// Which.
        staged: u16,
        /// How many there are.
        known: usize,
    },
    /// A staged fault of another kind.
    #[error("the staged fault {staged} is `{known}` in the head, and `{fault}` here")]
    OtherStaged {
        /// Which.
        staged: u16,
        /// Its kind, by the head.
        known: &'static str,
        /// Its kind, by this line.
        fault: &'static str,
    },
    /// An operation without a number.
    #[error("an operation needs its number, from 1: the field `op` is missing or 0")]
    NoOp,
    /// A note with a number.
    #[error("a note is no operation, and has no `op` (here {0})")]
    OpOfNote(u32),
    /// An operation that has begun already.
    #[error("operation {0} has begun already: every operation has a number of its own")]
    BegunTwice(u32),
    /// A number too small.
    #[error(
        "operation {op} begins after operation {after}: operations are numbered in the order in which \
         they begin; the line is there twice or out of place"
    )]
    NotRising {
        /// Its number.
        op: u32,
        /// The greatest before.
        after: u32,
    },
    /// An end without a beginning.
    #[error(
        "operation {0} ends and has not begun: its `invoke` is missing, or stands further down"
    )]
    NotBegun(u32),
    /// A second end.
    #[error("operation {0} ends a second time: it has one end at most")]
    EndedTwice(u32),
    /// An end without a beginning, or a second one: numbers were left out.
    #[error("operation {0} ends, and is not under way: it never began, or has ended already")]
    NotUnderWay(u32),
    /// An end of something else.
    #[error("operation {op} began as `{began}` and ends as `{ends}`")]
    OtherKind {
        /// Which.
        op: u32,
        /// What began.
        began: &'static str,
        /// What ends.
        ends: &'static str,
    },
    /// Somebody else's end.
    #[error("operation {op} was begun by client {began} and is ended by client {ends}")]
    OtherClient {
        /// Which.
        op: u32,
        /// Who began it.
        began: u32,
        /// Who ends it.
        ends: u32,
    },
    /// An end in another acquisition; 0 for none.
    #[error("operation {op} was begun in acquisition {began} and is ended in {ends} (0: in none)")]
    OtherAcquisition {
        /// Which.
        op: u32,
        /// Where it began.
        began: u32,
        /// Where it ends.
        ends: u32,
    },
    /// A value that no command had written.
    #[error(
        "operation {op} found what operation {found} had written, which is itself or has not begun: \
         `found` is the number of an earlier command"
    )]
    FoundUnwritten {
        /// Which.
        op: u32,
        /// What it says.
        found: u32,
    },
    /// What belongs to an acquisition stands for itself.
    #[error("`{0}` belongs to an acquisition: the field `acquisition` is missing or 0")]
    NoAcquisition(&'static str),
    /// An acquisition that is not known.
    #[error(
        "acquisition {0} has not begun: its `acquire` `invoke` is missing, or stands further down"
    )]
    UnknownAcquisition(u32),
    /// An acquisition that has begun.
    #[error("acquisition {0} has begun already: every `acquire` begins an acquisition of its own")]
    AcquiredTwice(u32),
    /// Two clients, one acquisition.
    #[error("acquisition {acquisition} is client {owner}'s, and client {client} uses it")]
    SharedAcquisition {
        /// Which.
        acquisition: u32,
        /// Whose it is.
        owner: u32,
        /// Who uses it, too.
        client: u32,
    },
    /// A second release.
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

    pub(in super::super) fn new(text: &str) -> Self {
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
