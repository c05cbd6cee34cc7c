//! What all acquisitions have done to the lock's key, as far as it may have been the key of another.
//!
//! Invariant: what may have ended another's key, or kept it, in any reading, is never left out. Commands that do not ask
//! whose key it is may have met any; those that compare values, only one that shares the value, where they cannot have met
//! their own. Plain deletions and overwrites are none of this: from the first on, nothing is surely there.

use history::{CommandOp, Event, Recent, Touch};

use super::requests::LockRequests;
use super::{Claimant, extends, makes, may_make};

/// What an acquisition has made, and what it has done to what was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Maker {
    /// Requests without an answer: they may do so at any time.
    open: u32,
    last_ns: Option<u64>,
    /// When the last that was answered with yes had been sent.
    sent_ns: Option<u64>,
    compared: Option<Compared>,
}

/// What an acquisition has deleted or extended, by commands that compare values. Where acquisitions share a value, this
/// may have been the key of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compared {
    /// The last time.
    sent_ns: u64,
    done_ns: u64,
    /// No such key may have lived longer than until then.
    ends_ns: u64,
}

/// A command that lets whosever key is there live so long, and is answered then, if ever.
#[derive(Clone, Copy, Debug)]
struct PlainExtension {
    acquisition: u32,
    node: u16,
    op: u32,
    ttl_ns: u64,
    sent_ns: u64,
    done_ns: Option<u64>,
}

impl PlainExtension {
    /// When the key ends by it at the earliest, and at the latest.
    fn ends_ns(self) -> u64 {
        self.sent_ns.saturating_add(self.ttl_ns)
    }

    fn until_ns(self) -> u64 {
        self.done_ns.map_or(u64::MAX, |done_ns| done_ns.saturating_add(self.ttl_ns))
    }
}

/// What was done to the key, and by whom.
#[derive(Default)]
pub(super) struct Others {
    /// By acquisition: those that say nothing more that is judged.
    makers: Recent<Maker>,
    /// In the order of their sending, but for those that have found no key. Hardly any recipe sends one.
    plain_extensions: Vec<PlainExtension>,
}

impl Others {
    /// What this acquisition has done, which says nothing that is judged.
    pub(super) fn maker(&mut self, acquisition: u32) -> &mut Maker {
        self.makers.entry(acquisition)
    }

    /// Remembers what it has done; nothing more that it says is judged.
    pub(super) fn keep(&mut self, acquisition: u32, maker: Maker) {
        if maker != Maker::default() {
            self.makers.insert(acquisition, maker);
        }
    }

    /// A command is sent.
    pub(super) fn sends(&mut self, op: u32, command: &CommandOp) {
        let CommandOp { acquisition, node, invoke_ns: sent_ns, intent, .. } = *command;
        if let Touch::Extend(ttl_ns @ 1..) = intent.touch
            && !intent.compares
        {
            let sent = PlainExtension { acquisition, node, op, ttl_ns, sent_ns, done_ns: None };
            self.plain_extensions.push(sent);
        }
    }

    /// A command has ended, and has done this.
    pub(super) fn ends(&mut self, event: &Event, command: &CommandOp, touch: Touch) {
        if extends(command.intent.touch) && !command.intent.compares {
            self.extends_plainly(event, touch);
        }
    }

    /// An extension that does not ask whose key it is has been answered.
    fn extends_plainly(&mut self, event: &Event, touch: Touch) {
        let Some(place) = self.plain_extensions.iter().rposition(|it| it.op == event.op) else {
            return;
        };
        if touch == Touch::None {
            self.plain_extensions.remove(place);
        } else {
            self.plain_extensions[place].done_ns = Some(event.at_ns);
        }
    }

    /// What others have sent that may have set an end to its key.
    fn extended<'a>(
        &'a self,
        acquisition: u32,
        it: &'a Claimant,
    ) -> impl Iterator<Item = &'a PlainExtension> {
        self.plain_extensions.iter().filter(move |sent| {
            sent.acquisition != acquisition
                && Some(sent.node) == it.requests.node
                && sent.done_ns.is_none_or(|done_ns| Some(done_ns) >= it.requests.asked_ns)
        })
    }

    /// What others have done that may have been done to its key, if they share its value.
    fn compared<'a>(
        &'a self,
        open: &'a Recent<Claimant>,
        acquisition: u32,
        it: &'a Claimant,
    ) -> impl Iterator<Item = Compared> + 'a {
        self.others_of(open, acquisition).filter_map(move |maker| maker.compared_with(it))
    }

    /// What other acquisitions have done, those included that are `open`.
    fn others_of<'a>(
        &'a self,
        open: &'a Recent<Claimant>,
        acquisition: u32,
    ) -> impl Iterator<Item = &'a Maker> {
        let all = open.iter().map(|(number, it)| (number, &it.maker)).chain(self.makers.iter());
        all.filter(move |(number, _)| *number != acquisition).map(|(_, maker)| maker)
    }

    /// Whether another may have ended its key by now.
    pub(super) fn ended(
        &self,
        open: &Recent<Claimant>,
        acquisition: u32,
        it: &Claimant,
        now_ns: u64,
    ) -> bool {
        self.extended(acquisition, it).any(|sent| sent.ends_ns() <= now_ns)
            || self.compared(open, acquisition, it).any(|done| done.ends_ns <= now_ns)
    }

    /// Whether others may have let its key live on until something was sent to delete it.
    pub(super) fn prolonged(
        &self,
        open: &Recent<Claimant>,
        acquisition: u32,
        it: &Claimant,
        margin_ns: u64,
    ) -> bool {
        let late_ns = |until_ns: u64| until_ns.saturating_add(margin_ns);
        let until_ns = self.extended(acquisition, it).fold(it.key.gone_ns, |until_ns, sent| {
            match sent.sent_ns <= late_ns(until_ns) {
                true => until_ns.max(sent.until_ns()),
                false => until_ns,
            }
        });
        let deletes_ns = it.release.first_ns.filter(|_| !it.release.mixed).unwrap_or(0);
        until_ns > it.key.gone_ns && deletes_ns <= late_ns(until_ns)
            || self.compared(open, acquisition, it).next().is_some()
    }

    /// Whether any other acquisition may have made the key since this one first asked.
    pub(super) fn made(&self, open: &Recent<Claimant>, acquisition: u32, it: &Claimant) -> bool {
        self.others_of(open, acquisition).any(|maker| {
            maker.open > 0 || maker.last_ns.is_some() && maker.last_ns >= it.requests.asked_ns
        })
    }
}

impl Maker {
    pub(super) fn sends(&mut self, command: &CommandOp) {
        self.open += u32::from(may_make(command.intent.touch));
    }

    /// A command has ended, and has done this.
    pub(super) fn ends(&mut self, event: &Event, command: &CommandOp, touch: Touch) {
        let intent = command.intent;
        if may_make(intent.touch) && touch != Touch::Unknown {
            self.open -= 1;
            if makes(touch) {
                self.last_ns = Some(event.at_ns);
                self.sent_ns = Some(command.invoke_ns);
            }
        }
        if intent.compares && matches!(touch, Touch::Delete | Touch::Extend(_)) {
            self.compares(event, command, touch);
        }
    }

    /// A command of it that compares values has done this.
    fn compares(&mut self, event: &Event, command: &CommandOp, touch: Touch) {
        let ttl_ns = if let Touch::Extend(ttl_ns) = touch { ttl_ns } else { 0 };
        let (sent_ns, done_ns) = (command.invoke_ns, event.at_ns);
        let before_ns = self.compared.map_or(u64::MAX, |it| it.ends_ns);
        let ends_ns = before_ns.min(sent_ns.saturating_add(ttl_ns));
        self.compared = Some(Compared { sent_ns, done_ns, ends_ns });
    }

    /// What of this may have been done to this key of another: it has made none itself, or only one that had gone before.
    fn compared_with(&self, it: &Claimant) -> Option<Compared> {
        let made_none = self.sent_ns.is_none() && self.open == 0;
        let LockRequests { asked_ns, granted_ns, .. } = it.requests;
        let made_before = self.sent_ns < granted_ns;
        self.compared.filter(|done| {
            made_none && Some(done.done_ns) >= asked_ns
                || made_before && Some(done.sent_ns) > granted_ns
        })
    }
}
