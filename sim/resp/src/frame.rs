//! Where one RESP frame ends, found without decoding it.
//!
//! Invariant: a [`Scanner`] looks at each byte of a stream a bounded number of times however the stream is
//! cut into reads, and no input makes it panic, recurse or allocate in proportion to a number the peer
//! merely claims. What a frame says is read through [`RequestFrame`] and [`head`], or from its [`tree`].

pub mod tree;
mod view;

pub use view::{CommandName, RequestFrame, head};

/// How much a peer may ask for before the stream counts as hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Aggregates inside one another.
    pub depth: usize,
    /// Bytes of one argument of a request. Redis itself takes 512 MiB (`proto-max-bulk-len`).
    pub bulk: usize,
    /// Bytes of one line: an inline command, a simple string, an error.
    pub line: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 128, bulk: 512 << 20, line: 64 << 10 }
    }
}

/// Why a stream cannot be RESP, or is not RESP one would want to read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A reply begins with a byte that no type has.
    #[error("unknown RESP type byte 0x{0:02x}")]
    UnknownType(u8),
    /// An argument of a request is not a bulk string.
    #[error("a request holds type byte 0x{0:02x} where a bulk string ($) belongs")]
    NotBulk(u8),
    /// A length or count is not a decimal number, or does not fit.
    #[error("a length or count is not a number that fits")]
    BadNumber,
    /// A line or bulk string does not end in CR LF.
    #[error("a line or bulk string does not end in CR LF")]
    MissingCrLf,
    /// A RESP3 streamed string or aggregate (`$?`, `*?`), which no Redis server sends.
    #[error("streamed strings and aggregates (such as *?) are not supported")]
    Streamed,
    /// Aggregates nested deeper than [`Limits::depth`].
    #[error("aggregates are nested deeper than {0}")]
    TooDeep(usize),
    /// A line, or an argument of a request, beyond its limit.
    #[error("a line or argument is longer than {0} bytes")]
    TooLong(usize),
}

/// What a complete frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A request as an array of bulk strings.
    Command,
    /// A request as one line of text.
    Inline,
    /// A request that holds nothing and gets no reply: an empty array or an empty line.
    Empty,
    /// A reply.
    Value,
    /// A reply that is an error.
    Error,
    /// A RESP3 push, which answers no request.
    Push,
}

/// A complete frame: how long, and of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes, line ends included.
    pub len: usize,
    /// What it is; a leading attribute does not count.
    pub kind: FrameKind,
}

/// Finds the ends of frames, going on where it stopped.
#[derive(Clone, Debug)]
pub struct Scanner {
    requests: bool,
    limits: Limits,
    /// Where in the frame the next byte to look at stands.
    pos: usize,
    /// Where the line being read begins, while one is incomplete.
    line_start: Option<usize>,
    /// Elements still missing, one entry for each open aggregate.
    open: Vec<u64>,
    kind: Option<FrameKind>,
}

/// The longest length or count: a sign, nineteen digits, and room for leading zeros.
const NUMBER_LINE: usize = 32;
/// redis-server takes no request with more arguments.
const ARGUMENTS_MOST: u64 = i32::MAX as u64;

impl Scanner {
    /// A scanner for what clients send.
    pub fn requests(limits: Limits) -> Self {
        Self::new(true, limits)
    }

    /// A scanner for what servers send.
    pub fn replies(limits: Limits) -> Self {
        Self::new(false, limits)
    }

    fn new(requests: bool, limits: Limits) -> Self {
        let open = Vec::new();
        Self { requests, limits, pos: 0, line_start: None, open, kind: None }
    }

    /// Looks on in `buf`, which begins with the frame's first byte and holds at least what it held
    /// at the last call. Gives the frame once it is complete, and is then ready for the next one.
    ///
    /// # Errors
    /// Any [`FrameError`]; the stream cannot be scanned after it.
    pub fn scan(&mut self, buf: &[u8]) -> Result<Option<Frame>, FrameError> {
        while !(self.kind.is_some() && self.open.is_empty()) || self.pos > buf.len() {
            if self.pos >= buf.len() {
                return Ok(None);
            }
            if !self.element(buf)? {
                return Ok(None);
            }
        }
        let end = self.pos;
        self.check_bulk_end(buf, end)?;
        let frame = Frame { len: end, kind: self.kind.unwrap_or(FrameKind::Value) };
        self.pos = 0;
        self.kind = None;
        Ok(Some(frame))
    }

    /// The kind of the frame that is not complete yet, once its first bytes have told it.
    pub fn kind(&self) -> Option<FrameKind> {
        self.kind
    }

    /// Gives up the beginning of a frame that is not complete yet: the caller takes this many bytes from the front of
    /// `buf`, and the length of the frame will be that of the rest. `buf` is what the last call of [`scan`](Self::scan)
    /// looked at.
    pub fn let_go(&mut self, buf: &[u8]) -> usize {
        // The line end before the next element is looked at once more.
        let seen = self.line_start.unwrap_or(self.pos).saturating_sub(2).min(buf.len());
        self.pos -= seen;
        self.line_start = self.line_start.map(|start| start - seen);
        seen
    }

    /// How many bytes of `buf` are known to be missing before the frame can be complete.
    pub fn missing(&self, buf: &[u8]) -> usize {
        self.pos.saturating_sub(buf.len())
    }

    /// Every element but an empty aggregate ends in CR LF; a bulk string was skipped unseen.
    fn check_bulk_end(&self, buf: &[u8], end: usize) -> Result<(), FrameError> {
        let inline = matches!(self.kind, Some(FrameKind::Inline | FrameKind::Empty));
        if inline || end < 2 || buf[end - 2..end] == *b"\r\n" {
            return Ok(());
        }
        Err(FrameError::MissingCrLf)
    }

    /// Reads one element, or an aggregate's head. False where `buf` ends first.
    fn element(&mut self, buf: &[u8]) -> Result<bool, FrameError> {
        let start = self.pos;
        if self.line_start.is_none() && start > 0 {
            self.check_bulk_end(buf, start)?;
        }
        let at = self.line_start.unwrap_or(start);
        let type_byte = buf[at];
        let numbered = match type_byte {
            b'*' | b'$' => true,
            b'%' | b'~' | b'>' | b'|' | b'!' | b'=' => !self.requests,
            _ => false,
        };
        if self.requests && !self.open.is_empty() && type_byte != b'$' {
            return Err(FrameError::NotBulk(type_byte));
        }
        let inline = self.requests && self.open.is_empty() && type_byte != b'*';
        if !self.requests && !b"*$%~>|!=+-:_#,(".contains(&type_byte) {
            return Err(FrameError::UnknownType(type_byte));
        }
        let limit = if numbered && !inline { NUMBER_LINE } else { self.limits.line };
        let Some(line) = self.line(buf, at, limit)? else { return Ok(false) };
        if inline {
            let blank = line.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0);
            self.kind = Some(if blank { FrameKind::Empty } else { FrameKind::Inline });
            return Ok(true);
        }
        let Some(text) = line.strip_suffix(b"\r\n") else { return Err(FrameError::MissingCrLf) };
        let number = match &text[1..] {
            // redis-server ignores an empty request, whatever negative number says so.
            [b'-', digits @ ..] if self.requests && type_byte == b'*' => {
                length(digits).map(|_| Some(None))
            }
            number if numbered => length(number).map(Some),
            _ => Ok(None),
        }?;
        self.take(type_byte, number)?;
        Ok(true)
    }

    /// The line that begins at `at`, its end included; moves behind it.
    fn line<'a>(
        &mut self,
        buf: &'a [u8],
        at: usize,
        limit: usize,
    ) -> Result<Option<&'a [u8]>, FrameError> {
        let end = buf.len().min(at + limit + 1);
        match buf[self.pos..end].iter().position(|byte| *byte == b'\n') {
            Some(offset) => {
                self.pos += offset + 1;
                self.line_start = None;
                Ok(Some(&buf[at..self.pos]))
            }
            None if end > at + limit => Err(FrameError::TooLong(limit)),
            None => {
                self.pos = end;
                self.line_start = Some(at);
                Ok(None)
            }
        }
    }

    /// Accounts for an element whose head has been read.
    fn take(&mut self, type_byte: u8, number: Option<Option<u64>>) -> Result<(), FrameError> {
        let top = self.open.is_empty() && self.kind.is_none();
        let attribute = type_byte == b'|';
        if !attribute {
            if let Some(rest) = self.open.last_mut() {
                *rest -= 1;
            } else if top {
                self.kind = Some(match type_byte {
                    b'>' => FrameKind::Push,
                    b'-' | b'!' => FrameKind::Error,
                    _ if self.requests => match number {
                        Some(Some(1..)) => FrameKind::Command,
                        _ => FrameKind::Empty,
                    },
                    _ => FrameKind::Value,
                });
            }
        }
        let count = number.flatten().unwrap_or(0);
        match type_byte {
            b'$' | b'!' | b'=' if number != Some(None) => {
                let len = usize::try_from(count).map_err(|_| FrameError::BadNumber)?;
                if self.requests && len > self.limits.bulk {
                    return Err(FrameError::TooLong(self.limits.bulk));
                }
                let end = self.pos.checked_add(len).and_then(|end| end.checked_add(2));
                self.pos = end.ok_or(FrameError::BadNumber)?;
            }
            b'$' if self.requests => return Err(FrameError::BadNumber),
            b'*' if self.requests && count > ARGUMENTS_MOST => return Err(FrameError::BadNumber),
            b'*' | b'~' | b'>' => self.descend(count)?,
            b'%' | b'|' => self.descend(count.checked_mul(2).ok_or(FrameError::BadNumber)?)?,
            _ => {}
        }
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
        Ok(())
    }

    fn descend(&mut self, count: u64) -> Result<(), FrameError> {
        if count > 0 {
            if self.open.len() >= self.limits.depth {
                return Err(FrameError::TooDeep(self.limits.depth));
            }
            self.open.push(count);
        }
        Ok(())
    }
}

/// A length or count: `None` for the null of RESP2 (-1).
fn length(text: &[u8]) -> Result<Option<u64>, FrameError> {
    match text {
        b"-1" => Ok(None),
        b"?" => Err(FrameError::Streamed),
        digits if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            let fold =
                |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
            digits.iter().try_fold(0, fold).map(Some).ok_or(FrameError::BadNumber)
        }
        _ => Err(FrameError::BadNumber),
    }
}

#[cfg(test)]
mod tests;
