//! Where one RESP frame ends, found without decoding it.
//!
//! Invariant: a [`Scanner`] looks at each byte of a stream a bounded number of times however the
//! stream is cut into reads, and no input makes it panic, recurse or allocate in proportion to a
//! number the peer merely claims. Deliberately absent: values. Who wants to know what a frame says
//! reads the few bytes that matter through [`Request`] and [`head`].

mod view;

pub use view::{Name, Request, head};

/// How much a peer may ask for before the stream counts as hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Aggregates inside one another.
    pub depth: usize,
    /// Elements in one frame, at all depths together.
    pub elements: u64,
    /// Bytes of one bulk string. Redis itself takes 512 MiB (`proto-max-bulk-len`).
    pub bulk: usize,
    /// Bytes of one line: an inline command, a simple string, an error.
    pub line: usize,
    /// Bytes of one frame.
    pub frame: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 128,
            elements: 1 << 24,
            bulk: 512 << 20,
            line: 64 << 10,
            frame: (512 << 20) + (1 << 20),
        }
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
    /// More elements than [`Limits::elements`].
    #[error("more than {0} elements in one frame")]
    TooMany(u64),
    /// A line, bulk string or frame beyond its limit.
    #[error("a line, bulk string or frame is longer than {0} bytes")]
    TooLong(usize),
}

/// What a complete frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
    pub kind: Kind,
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
    elements: u64,
    kind: Option<Kind>,
}

/// The longest length or count: a sign, nineteen digits, and room for leading zeros.
const NUMBER_LINE: usize = 32;

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
        Self { requests, limits, pos: 0, line_start: None, open, elements: 0, kind: None }
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
            if self.pos > self.limits.frame {
                return Err(FrameError::TooLong(self.limits.frame));
            }
        }
        let end = self.pos;
        self.check_bulk_end(buf, end)?;
        let frame = Frame { len: end, kind: self.kind.unwrap_or(Kind::Value) };
        self.pos = 0;
        self.elements = 0;
        self.kind = None;
        Ok(Some(frame))
    }

    /// How many bytes of `buf` are known to be missing before the frame can be complete.
    pub fn missing(&self, buf: &[u8]) -> usize {
        self.pos.saturating_sub(buf.len())
    }

    /// Every element but an empty aggregate ends in CR LF; a bulk string was skipped unseen.
    fn check_bulk_end(&self, buf: &[u8], end: usize) -> Result<(), FrameError> {
        let inline = matches!(self.kind, Some(Kind::Inline | Kind::Empty));
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
            self.kind = Some(if blank { Kind::Empty } else { Kind::Inline });
            return Ok(true);
        }
        let Some(text) = line.strip_suffix(b"\r\n") else { return Err(FrameError::MissingCrLf) };
        let number = if numbered { Some(length(&text[1..])?) } else { None };
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
                    b'>' => Kind::Push,
                    b'-' | b'!' => Kind::Error,
                    _ if self.requests => match number {
                        Some(Some(1..)) => Kind::Command,
                        _ => Kind::Empty,
                    },
                    _ => Kind::Value,
                });
            }
        }
        let count = number.flatten().unwrap_or(0);
        match type_byte {
            b'$' | b'!' | b'=' if number != Some(None) => {
                let len = usize::try_from(count).map_err(|_| FrameError::BadNumber)?;
                if len > self.limits.bulk {
                    return Err(FrameError::TooLong(self.limits.bulk));
                }
                self.pos = self.pos.checked_add(len + 2).ok_or(FrameError::BadNumber)?;
            }
            b'$' if self.requests => return Err(FrameError::BadNumber),
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
        self.elements = self.elements.checked_add(count).ok_or(FrameError::BadNumber)?;
        if self.elements > self.limits.elements {
            return Err(FrameError::TooMany(self.limits.elements));
        }
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(mut scanner: Scanner, stream: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        let mut rest = stream;
        while let Some(frame) = scanner.scan(rest)? {
            frames.push(frame);
            rest = &rest[frame.len..];
        }
        assert!(rest.is_empty(), "{} bytes left over", rest.len());
        Ok(frames)
    }

    fn reply(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        all(Scanner::replies(Limits::default()), bytes)
    }

    fn request(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        all(Scanner::requests(Limits::default()), bytes)
    }

    #[test]
    fn every_type_of_resp2_and_resp3_is_one_frame() {
        let frames: [&[u8]; 19] = [
            b"+OK\r\n",
            b":-12\r\n",
            b"$3\r\na\r\n\r\n",
            b"$0\r\n\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            b"_\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b"(12345678901234567890\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"%1\r\n+k\r\n*1\r\n:1\r\n",
            b"%0\r\n",
            b"~2\r\n:1\r\n:2\r\n",
            b"|1\r\n+ttl\r\n:3600\r\n:7\r\n",
            b"*1\r\n|1\r\n+a\r\n+b\r\n:1\r\n",
            b"|0\r\n+x\r\n",
        ];
        for bytes in frames {
            let whole = Frame { len: bytes.len(), kind: Kind::Value };
            assert_eq!(reply(bytes), Ok(vec![whole]), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        let kind = |bytes: &[u8]| reply(bytes).unwrap()[0].kind;
        assert_eq!(kind(b"-ERR no\r\n"), Kind::Error);
        assert_eq!(kind(b"!5\r\nERR n\r\n"), Kind::Error);
        assert_eq!(kind(b">2\r\n+a\r\n-b\r\n"), Kind::Push);
        assert_eq!(kind(b"|1\r\n+a\r\n+b\r\n>1\r\n+a\r\n"), Kind::Push);
        let kind = |bytes: &[u8]| request(bytes).unwrap()[0].kind;
        assert_eq!(kind(b"*1\r\n$4\r\nPING\r\n"), Kind::Command);
        assert_eq!(kind(b"PING\n"), Kind::Inline);
        assert_eq!(kind(b"\r\n"), Kind::Empty);
        assert_eq!(kind(b"*0\r\n"), Kind::Empty);
        assert_eq!(kind(b"*-1\r\n"), Kind::Empty);
    }

    #[test]
    fn hostile_numbers_are_refused() {
        assert_eq!(reply(b"$99999999999999999999\r\n"), Err(FrameError::BadNumber));
        assert_eq!(reply(b"*18446744073709551615\r\n"), Err(FrameError::TooMany(1 << 24)));
        assert_eq!(reply(b"%18446744073709551615\r\n"), Err(FrameError::BadNumber));
        assert_eq!(reply(b"$536870913\r\n"), Err(FrameError::TooLong(512 << 20)));
        assert_eq!(reply(b"*?\r\n"), Err(FrameError::Streamed));
        assert_eq!(reply(b"$?\r\n"), Err(FrameError::Streamed));
        assert_eq!(reply(b"$-2\r\n"), Err(FrameError::BadNumber));
        assert_eq!(reply(b"$\r\n"), Err(FrameError::BadNumber));
        assert_eq!(reply(b"$1\r\nabc"), Err(FrameError::MissingCrLf));
        assert_eq!(reply(b"+OK\n"), Err(FrameError::MissingCrLf));
        assert_eq!(reply(b"hello"), Err(FrameError::UnknownType(b'h')));
        assert_eq!(request(b"*1\r\n:1\r\n"), Err(FrameError::NotBulk(b':')));
        assert_eq!(request(b"*1\r\n$-1\r\n"), Err(FrameError::BadNumber));
        assert_eq!(request(&[b'x'; 70_000]), Err(FrameError::TooLong(64 << 10)));
        assert_eq!(reply(&[b'*'; 100]), Err(FrameError::TooLong(NUMBER_LINE)));
    }

    #[test]
    fn nesting_is_allowed_up_to_the_limit_and_no_further() {
        let nested = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
        assert_eq!(reply(&nested(128)).unwrap().len(), 1);
        assert_eq!(reply(&nested(129)), Err(FrameError::TooDeep(128)));
    }

    #[test]
    fn a_frame_is_no_longer_than_its_limit() {
        let limits = Limits { frame: 20, ..Limits::default() };
        let scan = |bytes: &[u8]| Scanner::replies(limits).scan(bytes);
        assert!(scan(b"$14\r\n").is_err());
        assert_eq!(scan(b"$13\r\n"), Ok(None));
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            "[a-z ]{0,9}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"_\r\n".to_vec()),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| bulk(&bytes)),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..5);
            let pairs = prop::collection::vec((inner.clone(), inner), 0..3);
            prop_oneof![
                list.prop_map(|items| [head_of('*', items.len()), items.concat()].concat()),
                pairs.prop_map(|pairs| {
                    let body: Vec<u8> =
                        pairs.iter().flat_map(|(k, v)| [&k[..], v].concat()).collect();
                    [head_of('%', pairs.len()), body].concat()
                }),
            ]
        })
    }

    fn head_of(type_char: char, count: usize) -> Vec<u8> {
        format!("{type_char}{count}\r\n").into_bytes()
    }

    fn bulk(bytes: &[u8]) -> Vec<u8> {
        [head_of('$', bytes.len()), bytes.to_vec(), b"\r\n".to_vec()].concat()
    }

    fn command() -> impl Strategy<Value = Vec<u8>> {
        let args = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 1..6);
        prop_oneof![
            args.prop_map(|args| {
                let body: Vec<u8> = args.iter().flat_map(|arg| bulk(arg)).collect();
                [head_of('*', args.len()), body].concat()
            }),
            "[A-Z]{1,9}( [a-z]{1,5}){0,3}\r?\n".prop_map(String::into_bytes),
        ]
    }

    /// Feeds `stream` in pieces of the given sizes, as reads would bring it.
    fn in_pieces(mut scanner: Scanner, stream: &[u8], sizes: &[usize]) -> Vec<usize> {
        let mut lens = Vec::new();
        let (mut start, mut end) = (0, 0);
        let mut sizes = sizes.iter().copied().cycle();
        while end < stream.len() {
            end = (end + sizes.next().unwrap_or(1)).min(stream.len());
            while let Some(frame) = scanner.scan(&stream[start..end]).unwrap() {
                lens.push(frame.len);
                start += frame.len;
            }
        }
        lens
    }

    proptest! {
        #[test]
        fn any_split_of_replies_gives_the_same_frames(
            values in prop::collection::vec(value(), 1..8),
            sizes in prop::collection::vec(1_usize..20, 1..20),
        ) {
            let expected: Vec<usize> = values.iter().map(Vec::len).collect();
            let scanner = Scanner::replies(Limits::default());
            prop_assert_eq!(in_pieces(scanner, &values.concat(), &sizes), expected);
        }

        #[test]
        fn any_split_of_requests_gives_the_same_frames(
            commands in prop::collection::vec(command(), 1..8),
            sizes in prop::collection::vec(1_usize..20, 1..20),
        ) {
            let expected: Vec<usize> = commands.iter().map(Vec::len).collect();
            let scanner = Scanner::requests(Limits::default());
            prop_assert_eq!(in_pieces(scanner, &commands.concat(), &sizes), expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(&b"*$%>|?-19\r\n"[..])], 0..200),
            requests: bool,
        ) {
            let limits = Limits::default();
            let mut scanner =
                if requests { Scanner::requests(limits) } else { Scanner::replies(limits) };
            let (mut start, mut end) = (0, 0);
            while end < bytes.len() {
                end += 1;
                match scanner.scan(&bytes[start..end]) {
                    Ok(Some(frame)) => {
                        let whole = &bytes[start..start + frame.len];
                        let _ = (head(whole), Request::new(whole).first_key());
                        prop_assert!(frame.len > 0);
                        start += frame.len;
                    }
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
        }
    }
}
