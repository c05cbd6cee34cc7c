//! What a checker is, and what it is shown.
//!
//! Invariant: a checker is shown every event of the kinds it looks at once, in order. A command on the lock's
//! key comes with the event that sends it and with the one that ends it, so no checker has to keep it in
//! between.

use history::fault::{ErrorAnswer, Fault};
use history::verdict::{Finding, Verdict, Witness};
use history::words::{PROTECTED, STOPPED, UNPROTECTED};
use history::{CommandOp, Event, Head, History, Recent, Text, Texts, Touch, What};
use picklock::env::Phase;

/// The command by which a client listens for a release.
pub(super) const SUBSCRIBE: &str = "SUBSCRIBE";

/// Kinds of events, a bit each.
pub(super) type Kinds = u32;
/// The sending of a command that may do something to the lock's key.
pub(super) const KEY_SENT: Kinds = 1;
/// Its end, unless it is answered that it did nothing.
pub(super) const KEY_ENDED: Kinds = 2;
/// It is answered that it did nothing. Where many clients ask for the lock, most events are of this kind.
const KEY_IDLE: Kinds = 4;
/// The sending and the end of a command that may do something to the lock's key.
pub(super) const LOCK_COMMANDS: Kinds = KEY_SENT | KEY_ENDED | KEY_IDLE;
/// The sending of another command.
pub(super) const OTHERS_SENT: Kinds = 8;
/// The end of another command.
pub(super) const OTHERS_ENDED: Kinds = 16;
/// Whatever is neither a command nor a phase.
pub(super) const OTHERS: Kinds = 32;
const FIRST_PHASE: u32 = 6;
/// How many kinds there are.
pub(super) const KINDS: usize = FIRST_PHASE as usize + Phase::ALL.len();
/// Every phase.
pub(super) const PHASES: Kinds = ((1 << Phase::ALL.len()) - 1) << FIRST_PHASE;

/// The checker says nothing of a history in which no server answered with an error that passes.
pub(super) const IF_ERROR_PASSES: Kinds = 1 << 28;
/// The same without an error that does not pass.
pub(super) const IF_ERROR_LASTS: Kinds = 1 << 29;
/// The same if no fencing token was handed out.
pub(super) const IF_FENCED: Kinds = 1 << 30;
/// The same if nobody was told what had become of work that was given to the lock.
pub(super) const IF_WORK_TOLD: Kinds = 1 << 31;
// The bits of conditions follow those of kinds.
const _: () = assert!(1 << KINDS <= IF_ERROR_PASSES, "too many phases: widen `Kinds`");
/// All conditions. A checker with several says nothing only if none is met.
pub(super) const CONDITIONS: Kinds = IF_ERROR_PASSES | IF_ERROR_LASTS | IF_FENCED | IF_WORK_TOLD;

/// A client comes to this phase.
pub(super) const fn at(phase: Phase) -> Kinds {
    1 << (FIRST_PHASE + phase as u32)
}

/// Which conditions a history meets.
pub(super) fn conditions(history: &History) -> Kinds {
    let text = |text| history.texts.get(text);
    let when = |met, condition| if met { condition } else { 0 };
    let met = history.events.iter().map(|event| match event.what {
        What::Fence(_) => IF_FENCED,
        What::Refused(why) => {
            when(passing(text(why)).is_some(), IF_ERROR_PASSES)
                | when(lasting(text(why)).is_some(), IF_ERROR_LASTS)
        }
        What::Released(told) => when(text(told) == PROTECTED, IF_WORK_TOLD),
        What::ReleaseUnknown(why) => when(is_of_work(text(why)), IF_WORK_TOLD),
        _ => 0,
    });
    met.fold(0, |all, met| all | met)
}

/// Whether this tells somebody of its work, and not only of a release with an unknown outcome.
fn is_of_work(told: &str) -> bool {
    told == STOPPED || told.starts_with(UNPROTECTED)
}

/// The error that passes, if this is one. NOSCRIPT is none: the client sends the text of the script at once.
pub(super) fn passing(answer: &str) -> Option<ErrorAnswer> {
    ErrorAnswer::of(answer).filter(|it| *it != ErrorAnswer::Noscript && !it.is_final())
}

/// The error that time does not change, if this is one.
pub(super) fn lasting(answer: &str) -> Option<ErrorAnswer> {
    ErrorAnswer::of(answer).filter(|it| it.is_final())
}

/// Whether a checker of these kinds may say something where these conditions are met.
pub(super) const fn may_speak(kinds: Kinds, met: Kinds) -> bool {
    kinds & CONDITIONS == 0 || kinds & CONDITIONS & met != 0
}

/// The verdict of a checker that blames clients: *violated* if there is a witness, *held* if anything was tested, and
/// otherwise *n/a* with the reason why nothing was.
pub(super) fn verdict(first: Option<Witness>, tested: bool, untested: &str) -> Verdict {
    match first {
        Some(witness) => Verdict::Violated(witness),
        None if tested => Verdict::Held,
        None => Verdict::NotApplicable(untested.to_owned()),
    }
}

/// Whether a command that would do this may end the hold of whoever has the key.
pub(super) fn frees(touch: Touch) -> bool {
    matches!(touch, Touch::Delete | Touch::Unknown | Touch::Extend(0))
}

/// Whether a key may be gone by it sooner than its TTL says.
pub(super) fn may_take_key(fault: Fault) -> bool {
    fault.loses_keys() || matches!(fault, Fault::Drift | Fault::ClockStep)
}

/// Whether a client that this strikes may be unable to send anything.
pub(super) fn keeps_from_sending(fault: Fault) -> bool {
    !matches!(fault, Fault::LoseRequest | Fault::LoseReply | Fault::Delay | Fault::Refuse)
}

/// Until when a fault that begins at `at_ns` lasts: for all that is known, for ever, where a client is cut off until something
/// else happens.
pub(super) fn lasts_until_ns(fault: Fault, at_ns: u64, for_ns: u64) -> u64 {
    match (fault, for_ns) {
        (Fault::Partition, 0) => u64::MAX,
        _ => at_ns.saturating_add(for_ns),
    }
}

/// How many servers the lock is on, where that is known: they come before that of the resource.
pub(super) fn servers(head: &Head) -> Option<u16> {
    head.nodes.or(head.resource)
}

/// The bit of a server in a set of them; those from the 64th on share one.
pub(super) fn bit(node: u16) -> u64 {
    1 << node.min(63)
}

/// Whether this makes the key, or would.
pub(super) fn makes(touch: Touch) -> bool {
    matches!(touch, Touch::Create(_) | Touch::Overwrite(_))
}

/// One invariant, or a family of them.
pub(super) trait Checker {
    /// Shows it the next event.
    fn see(&mut self, seen: &EventView<'_>);

    /// What it has found, without the steps of witnesses.
    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding>;

    /// Adds to what others have found what only this one knows, such as who had left the key.
    fn explain(&self, _findings: &mut [Finding]) {}
}

/// The next event, and what belongs to it.
pub(super) struct EventView<'a> {
    pub(super) event: &'a Event,
    pub(super) head: &'a Head,
    pub(super) texts: &'a Texts,
    /// The command that this event sends or ends, if it may do something to the lock's key.
    pub(super) command: Option<&'a CommandOp>,
    /// It sends a command on the lock's key, be it one that only reads.
    pub(super) sends_on_key: bool,
    /// The last command sent by then that may do something to the lock's key; 0 if there is none.
    pub(super) last_sent: u32,
}

impl EventView<'_> {
    /// Which kind of event it is.
    pub(super) fn kind(&self) -> Kinds {
        match self.event.what {
            _ if self.command.is_some() => match self.event.what {
                What::Command { .. } => KEY_SENT,
                What::Answered { touch: Touch::None, .. } => KEY_IDLE,
                _ => KEY_ENDED,
            },
            What::Phase(phase) => at(phase),
            What::Command { .. } => OTHERS_SENT,
            What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => OTHERS_ENDED,
            _ => OTHERS,
        }
    }
}

/// The end of a history.
pub(super) struct HistoryEnd<'a> {
    pub(super) head: &'a Head,
    pub(super) texts: &'a Texts,
    /// A command was sent that may have done something to the lock's key.
    pub(super) touched: bool,
    /// When the last event was.
    pub(super) last_ns: u64,
    /// The commands that never ended, by operation, if they may do something to the lock's key.
    pub(super) unended: Vec<(u32, CommandOp)>,
}

/// The commands on the lock's key that have been sent and not ended.
pub(super) struct LockCommands<'a> {
    head: &'a Head,
    key: Option<Text>,
    touched: bool,
    last_ns: u64,
    last_sent: u32,
    open: Recent<CommandOp>,
    /// The operation that the last event has ended: it is shown once more, and then forgotten.
    ended: u32,
}

impl<'a> LockCommands<'a> {
    pub(super) fn new(head: &'a Head) -> Self {
        let open = Recent::default();
        Self { head, key: None, touched: false, last_ns: 0, last_sent: 0, open, ended: 0 }
    }

    /// The next event with its command.
    pub(super) fn next<'e>(&'e mut self, event: &'e Event, texts: &'e Texts) -> EventView<'e> {
        self.forget_ended();
        self.last_ns = event.at_ns;
        let mut sends_on_key = false;
        let may_touch = match event.what {
            What::Command { node, key, intent, .. } => {
                sends_on_key = !self.head.is_resource(node) && self.is_lock_key(key, texts);
                let touches = sends_on_key && intent.touch != Touch::None;
                self.touched |= touches;
                if let Some(command) = CommandOp::sent(event).filter(|_| touches) {
                    self.open.insert(event.op, command);
                    self.last_sent = event.op;
                }
                touches
            }
            What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
                self.ended = event.op;
                true
            }
            _ => false,
        };
        let command = if may_touch { self.open.get(event.op) } else { None };
        let last_sent = self.last_sent;
        EventView { event, head: self.head, texts, command, sends_on_key, last_sent }
    }

    fn forget_ended(&mut self) {
        if self.ended != 0 {
            self.open.remove(self.ended);
            self.ended = 0;
        }
    }

    pub(super) fn end(mut self, texts: &'a Texts) -> HistoryEnd<'a> {
        self.forget_ended();
        let Self { head, touched, last_ns, .. } = self;
        HistoryEnd { head, texts, touched, last_ns, unended: self.open.into_sorted() }
    }

    /// Texts are compared until the key has come up; from then on, numbers.
    fn is_lock_key(&mut self, key: Text, texts: &Texts) -> bool {
        match self.key {
            Some(lock) => lock == key,
            None if texts.get(key) == self.head.lock_key => {
                self.key = Some(key);
                true
            }
            None => false,
        }
    }
}
