//! Which reply belongs to which request, for one connection; no sockets, no time.
//!
//! Invariant: replies come in the order of requests, so a reply belongs to the oldest request that expects one. Pushes
//! and published messages belong to none, and CLIENT REPLY may suppress replies. The protocol version is not tracked:
//! pushes are known by their type byte, RESP2's messages by their first word while the connection has subscriptions.
//! Requests whose replies just pass take no room, however many are sent before the first reply is read.

use std::collections::VecDeque;

use resp::frame::{CommandName, FrameKind, Limits, RequestFrame, Scanner, head};

use super::rewrite::AddressQuery;
use super::rule::Action;

/// A request that expects something from the server, or several in a row whose replies just pass.
#[derive(Debug)]
struct Expected {
    /// The first.
    frame: u64,
    /// The last.
    until: u64,
    what: ExpectedReply,
    /// What the reply may name.
    asked: AddressQuery,
    fate: Option<Action>,
}

impl Expected {
    /// Whether its reply passes unread.
    fn is_plain(&self) -> bool {
        let Self { what, asked, fate, .. } = self;
        *what == ExpectedReply::Reply && *asked == AddressQuery::Other && fate.is_none()
    }

    /// How much there is to keep.
    fn weight(&self) -> usize {
        match &self.asked {
            AddressQuery::Exec(queued) => 1 + queued.len(),
            _ => 1,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ExpectedReply {
    Reply,
    /// The reply to RESET, after which nothing is subscribed.
    Reset,
    /// The reply to EXEC of a transaction with subscriptions, whose confirmations are elements of it.
    Subscribed,
    /// This many confirmations of this verb.
    Confirmations(CommandName, usize),
    /// The request was lost: nothing from here on reaches the client.
    Never,
}

/// Whether the server answers at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReplyMode {
    #[default]
    On,
    Off,
    /// Not the next request.
    Skip,
}

/// What happens to a frame from the server.
#[derive(Clone, Debug)]
pub(super) enum Passage {
    /// On to the client.
    Deliver,
    /// Lost, and so is everything behind it; the request that it answered.
    Lose(u64),
    /// Lost because the request was; not logged again.
    Silence,
    /// A delay, a gate or a reset.
    Apply(Action),
}

#[derive(Debug, Default)]
pub(super) struct ProxySession {
    /// Whether addresses in replies are rewritten: only then it matters what was asked.
    rewrites: bool,
    frames: u64,
    outstanding: VecDeque<Expected>,
    /// Of all that is outstanding.
    weight: usize,
    reply_mode: ReplyMode,
    in_multi: bool,
    queued: Vec<AddressQuery>,
    /// A subscription has been queued.
    queued_subscription: bool,
    /// RESP2 subscriptions: of channels and patterns, and of shard channels.
    subscribed: [i64; 2],
}

/// The reply of a longer transaction is too big to be inspected.
const QUEUED_MOST: usize = 1 << 18;

/// When so much is outstanding, no further request is read until replies have come.
pub(super) const OUTSTANDING_MOST: usize = 1 << 18;

/// Requests after which the connection is no longer requests and replies.
const STREAMS: [&[u8]; 3] = [b"MONITOR", b"SYNC", b"PSYNC"];

/// Whether the arguments of this command have a say in what its reply is, or how many there are.
pub(super) fn depends_on_arguments(name: CommandName) -> bool {
    let name = name.as_bytes();
    matches!(name, b"CLIENT" | b"CLUSTER" | b"SENTINEL")
        || STREAMS.contains(&name)
        || is_subscription(name)
}

impl ProxySession {
    pub(super) fn new(rewrites: bool) -> Self {
        Self { rewrites, ..Self::default() }
    }

    /// Whether no further request may be sent before a reply has come. What just passes can never fill it: a client may
    /// send any number of requests before it reads the first reply.
    pub(super) fn is_full(&self) -> bool {
        self.weight >= OUTSTANDING_MOST
    }

    /// Nothing from the server reaches the client any more, so nothing needs to be matched.
    pub(super) fn forget(&mut self) {
        self.outstanding.clear();
        self.weight = 0;
    }

    fn expect(
        &mut self,
        frame: u64,
        what: ExpectedReply,
        asked: AddressQuery,
        fate: Option<Action>,
    ) {
        let anew = Expected { frame, until: frame, what, asked, fate };
        match self.outstanding.back_mut() {
            Some(last) if last.is_plain() && anew.is_plain() && last.until + 1 == frame => {
                last.until = frame;
            }
            _ => {
                self.weight += anew.weight();
                self.outstanding.push_back(anew);
            }
        }
    }

    /// The oldest request, which has its reply now.
    fn take_oldest(&mut self) -> Option<Expected> {
        let first = self.outstanding.front_mut()?;
        if first.frame < first.until {
            let frame = first.frame;
            first.frame += 1;
            let (what, asked) = (ExpectedReply::Reply, AddressQuery::Other);
            return Some(Expected { frame, until: frame, what, asked, fate: None });
        }
        self.weight -= first.weight();
        self.outstanding.pop_front()
    }

    /// The number of the next request, from 1.
    pub(super) fn next_frame(&mut self) -> u64 {
        self.frames += 1;
        self.frames
    }

    /// Remembers a request that goes to the server. An error says why replies can no longer be
    /// matched with requests.
    pub(super) fn sent(
        &mut self,
        frame: u64,
        name: CommandName,
        request: RequestFrame<'_>,
        fate: Option<Action>,
    ) -> Result<(), &'static str> {
        let bytes = name.as_bytes();
        if STREAMS.contains(&bytes) {
            return Err("the connection is now a stream (MONITOR, SYNC or PSYNC)");
        }
        if is_subscription(bytes) {
            // Confirmations come even under CLIENT REPLY OFF and SKIP. Without arguments (UNSUBSCRIBE from
            // everything) their number is the server's to know: the first one counts, and the
            // others are known by their verb.
            let count = request.args().skip(1).count().max(1);
            self.queued_subscription |= self.in_multi;
            if self.reply_mode == ReplyMode::Skip {
                self.reply_mode = ReplyMode::On;
            }
            let (what, asked) =
                (ExpectedReply::Confirmations(name, count), self.asked(name, request));
            self.expect(frame, what, asked, fate);
            return Ok(());
        }
        let asked = self.asked(name, request);
        match bytes {
            b"MULTI" => self.in_multi = true,
            b"EXEC" | b"DISCARD" => self.in_multi = false,
            b"CLIENT" if request.arg(1).is_some_and(|arg| arg.eq_ignore_ascii_case(b"REPLY")) => {
                if self.in_multi {
                    return Err("CLIENT REPLY inside MULTI: replies cannot be matched");
                }
                if self.client_reply(request) {
                    return Ok(());
                }
            }
            _ => {}
        }
        let answered = match self.reply_mode {
            ReplyMode::On => true,
            ReplyMode::Off => bytes == b"RESET",
            ReplyMode::Skip => {
                self.reply_mode = ReplyMode::On;
                false
            }
        };
        let what = match bytes {
            b"RESET" => {
                (self.reply_mode, self.in_multi) = (ReplyMode::On, false);
                ExpectedReply::Reset
            }
            b"EXEC" if self.queued_subscription => ExpectedReply::Subscribed,
            _ => ExpectedReply::Reply,
        };
        self.queued_subscription &= self.in_multi;
        if answered {
            self.expect(frame, what, asked, fate);
        } else if matches!(fate, Some(Action::Drop(_))) {
            self.lost(frame);
        }
        Ok(())
    }

    /// What a request asks; EXEC asks what has been queued. If the server refused MULTI, nothing is
    /// queued, so the query of a request in a transaction is also kept for its own reply.
    fn asked(&mut self, name: CommandName, request: RequestFrame<'_>) -> AddressQuery {
        if !self.rewrites {
            return AddressQuery::Other;
        }
        match name.as_bytes() {
            b"EXEC" => return AddressQuery::Exec(std::mem::take(&mut self.queued)),
            b"DISCARD" | b"RESET" => self.queued.clear(),
            b"MULTI" if self.in_multi => {}
            b"MULTI" => self.queued.clear(),
            // These are carried out, or refused, at once.
            b"WATCH" | b"QUIT" => {}
            _ => {
                let asked = AddressQuery::of(name, request);
                if self.in_multi && self.queued.len() < QUEUED_MOST {
                    self.queued.push(asked.clone());
                }
                return asked;
            }
        }
        AddressQuery::Other
    }

    /// Remembers that a request was lost: replies up to here are the last the client gets.
    pub(super) fn lost(&mut self, frame: u64) {
        self.expect(frame, ExpectedReply::Never, AddressQuery::Other, None);
    }

    /// CLIENT REPLY: true if it has no answer itself.
    fn client_reply(&mut self, request: RequestFrame<'_>) -> bool {
        if request.arg(3).is_some() {
            return false;
        }
        match request.arg(2).map(<[u8]>::to_ascii_uppercase).as_deref() {
            Some(b"ON") => self.reply_mode = ReplyMode::On,
            Some(b"OFF") => {
                self.reply_mode = ReplyMode::Off;
                return true;
            }
            Some(b"SKIP") => {
                if self.reply_mode != ReplyMode::Off {
                    self.reply_mode = ReplyMode::Skip;
                }
                return true;
            }
            _ => {}
        }
        false
    }

    /// True if the client gets nothing more, even if the server sends something.
    pub(super) fn silent(&self) -> bool {
        self.outstanding.front().is_some_and(|expected| expected.what == ExpectedReply::Never)
    }

    /// True if a reply that is still to come must not reach the client.
    pub(super) fn owes_silence(&self) -> bool {
        let lost = |expected: &Expected| {
            expected.what == ExpectedReply::Never || matches!(expected.fate, Some(Action::Drop(_)))
        };
        self.outstanding.iter().any(lost)
    }

    /// Which request the next frame from the server answers, if it is plainly a reply.
    pub(super) fn answered(&self, kind: FrameKind) -> Option<u64> {
        let first = self.outstanding.front().filter(|_| kind != FrameKind::Push)?;
        let is_reply =
            !matches!(first.what, ExpectedReply::Confirmations(..) | ExpectedReply::Never);
        is_reply.then_some(first.frame)
    }

    /// What happens to this frame from the server, and the query it answers.
    pub(super) fn received(&mut self, kind: FrameKind, bytes: &[u8]) -> (Passage, AddressQuery) {
        let unasked = |passage| (passage, AddressQuery::Other);
        if self.silent() {
            return unasked(Passage::Silence);
        }
        let resp2_subscriber = self.subscribed.iter().any(|count| *count > 0);
        let confirming = matches!(
            self.outstanding.front(),
            Some(Expected { what: ExpectedReply::Confirmations(..), .. })
        );
        if kind == FrameKind::Push || resp2_subscriber || (confirming && kind == FrameKind::Value) {
            match head(bytes) {
                Some((word, count)) if is_subscription(&upper(word)) => {
                    let verb = CommandName::new(word);
                    return unasked(self.confirmed(kind, verb, count.unwrap_or(0)));
                }
                Some((b"message" | b"pmessage" | b"smessage", _)) => {
                    return (Passage::Deliver, AddressQuery::Message);
                }
                _ if kind == FrameKind::Push => return unasked(Passage::Deliver),
                _ => {}
            }
        }
        // A frame that answers no request: the server closes the connection (-ERR max number of clients reached).
        let Some(expected) = self.take_oldest() else {
            return unasked(Passage::Deliver);
        };
        match expected.what {
            ExpectedReply::Reset if kind != FrameKind::Error => self.subscribed = [0; 2],
            ExpectedReply::Subscribed => self.confirmed_within(bytes),
            _ => {}
        }
        (apply(expected.frame, expected.fate), expected.asked)
    }

    /// What happens to a frame from the server that is not complete yet, if its bytes have no say in it.
    pub(super) fn receiving(&self, kind: FrameKind) -> Option<Passage> {
        let is_subscriber = self.subscribed.iter().any(|count| *count > 0);
        if kind != FrameKind::Value || is_subscriber || self.silent() {
            return None;
        }
        let Some(Expected { frame, what, asked, fate, .. }) = self.outstanding.front() else {
            return Some(Passage::Deliver);
        };
        let is_plain = matches!(what, ExpectedReply::Reply | ExpectedReply::Reset);
        (is_plain && *asked == AddressQuery::Other).then(|| apply(*frame, fate.clone()))
    }

    fn confirmed(&mut self, kind: FrameKind, verb: CommandName, count: i64) -> Passage {
        if kind != FrameKind::Push {
            self.count_subscriptions(verb, count);
        }
        match self.outstanding.front_mut() {
            Some(Expected { what: ExpectedReply::Confirmations(wanted, left), .. })
                if *wanted == verb =>
            {
                *left -= 1;
                if *left > 0 {
                    return Passage::Deliver;
                }
            }
            _ => return Passage::Deliver,
        }
        let last = self.take_oldest();
        last.map_or(Passage::Deliver, |expected| apply(expected.frame, expected.fate))
    }

    /// Counts what the elements of a reply to EXEC confirm, however many there are. A subscription of several channels has
    /// its further confirmations behind the reply, and they are known by their verb.
    fn confirmed_within(&mut self, exec: &[u8]) {
        let behind_head =
            exec.iter().position(|byte| *byte == b'\n').map_or(exec.len(), |at| at + 1);
        let (mut rest, mut scanner) = (&exec[behind_head..], Scanner::replies(Limits::default()));
        while let Ok(Some(frame)) = scanner.scan(rest) {
            let (part, behind) = rest.split_at(frame.len);
            rest = behind;
            // In RESP3 they are pushes.
            if part.starts_with(b"*")
                && let Some((word, Some(count))) = head(part)
                && is_subscription(&upper(word))
            {
                self.count_subscriptions(CommandName::new(word), count);
            }
        }
    }

    fn count_subscriptions(&mut self, verb: CommandName, count: i64) {
        let shard = matches!(verb.as_bytes(), b"SSUBSCRIBE" | b"SUNSUBSCRIBE");
        self.subscribed[usize::from(shard)] = count;
    }
}

fn apply(frame: u64, fate: Option<Action>) -> Passage {
    match fate {
        None => Passage::Deliver,
        Some(Action::Drop(_)) => Passage::Lose(frame),
        Some(action) => Passage::Apply(action),
    }
}

fn upper(word: &[u8]) -> [u8; 12] {
    let mut bytes = [0; 12];
    let len = word.len().min(12);
    bytes[..len].copy_from_slice(&word[..len]);
    bytes.make_ascii_uppercase();
    bytes
}

fn is_subscription(name: &[u8]) -> bool {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    matches!(
        &name[..end],
        b"SUBSCRIBE"
            | b"PSUBSCRIBE"
            | b"SSUBSCRIBE"
            | b"UNSUBSCRIBE"
            | b"PUNSUBSCRIBE"
            | b"SUNSUBSCRIBE"
    )
}

#[cfg(test)]
mod tests;
