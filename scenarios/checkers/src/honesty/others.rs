//! What all acquisitions have done to the lock's key, as far as it may have been the key of another.
//!
//! Invariant: what may have ended another's key, or kept it, in any reading, is never left out. Commands that do not ask
//! whose key it is may have met any; those that compare values, only one that shares the value, where they cannot have met
//! their own. Plain deletions and overwrites are none of this: from the first on, nothing is surely there.

use history::{CommandOp, Event, Recent, Touch};

use super::{Statements, extends, makes, may_make};

/// What an acquisition has made, and what it has done to what was there.
#[derive(Clone, Copy, Debug, Default)]
struct Maker {
    /// Requests without an answer: they may do so at any time.
    open: u32,
    last_ns: Option<u64>,
    /// When the last that was answered with yes had been sent.
    sent_ns: Option<u64>,
    compared: Option<Compared>,
}

/// What an acquisition has deleted or extended, by commands that compare values. Where acquisitions share a value, this
/// may have been the key of another.
#[derive(Clone, Copy, Debug)]
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
    /// By acquisition, also those that have ended.
    makers: Recent<Maker>,
    /// In the order of their sending, but for those that have found no key. Hardly any recipe sends one.
    plain_extensions: Vec<PlainExtension>,
}

impl Others {
    pub(super) fn sends(&mut self, op: u32, command: &CommandOp) {
        let CommandOp { acquisition, node, invoke_ns: sent_ns, intent, .. } = *command;
        let maker = self.makers.entry(acquisition);
        maker.open += u32::from(may_make(intent.touch));
        if let Touch::Extend(ttl_ns @ 1..) = intent.touch
            && !intent.compares
        {
            let sent = PlainExtension { acquisition, node, op, ttl_ns, sent_ns, done_ns: None };
            self.plain_extensions.push(sent);
        }
    }

    /// A command was answered, and has done this.
    pub(super) fn ends(&mut self, event: &Event, command: &CommandOp, touch: Touch) {
        let intent = command.intent;
        let maker = self.makers.entry(command.acquisition);
        if may_make(intent.touch) && touch != Touch::Unknown {
            maker.open -= 1;
            if makes(touch) {
                maker.last_ns = Some(event.at_ns);
                maker.sent_ns = Some(command.invoke_ns);
            }
        }
        match touch {
            Touch::Delete | Touch::Extend(_) if intent.compares => {
                maker.compares(event, command, touch);
            }
            _ if extends(intent.touch) && !intent.compares => self.extends_plainly(event, touch),
            _ => {}
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
        it: &'a Statements,
    ) -> impl Iterator<Item = &'a PlainExtension> {
        self.plain_extensions.iter().filter(move |sent| {
            sent.acquisition != acquisition
                && Some(sent.node) == it.node
                && sent.done_ns.is_none_or(|done_ns| Some(done_ns) >= it.asked_ns)
        })
    }

    /// What others have done that may have been done to its key, if they share its value.
    fn compared<'a>(
        &'a self,
        acquisition: u32,
        it: &'a Statements,
    ) -> impl Iterator<Item = Compared> + 'a {
        let others = self.makers.iter().filter(move |(number, _)| *number != acquisition);
        others.filter_map(move |(_, maker)| maker.compared_with(it))
    }

    /// Whether another may have ended its key by now.
    pub(super) fn ended(&self, acquisition: u32, it: &Statements, now_ns: u64) -> bool {
        self.extended(acquisition, it).any(|sent| sent.ends_ns() <= now_ns)
            || self.compared(acquisition, it).any(|done| done.ends_ns <= now_ns)
    }

    /// Whether others may have let its key live on until something was sent to delete it.
    pub(super) fn prolonged(&self, acquisition: u32, it: &Statements, margin_ns: u64) -> bool {
        let late_ns = |until_ns: u64| until_ns.saturating_add(margin_ns);
        let until_ns = self.extended(acquisition, it).fold(it.gone_ns, |until_ns, sent| {
            match sent.sent_ns <= late_ns(until_ns) {
                true => until_ns.max(sent.until_ns()),
                false => until_ns,
            }
        });
        let deletes_ns = it.release.first_ns.filter(|_| !it.release.mixed).unwrap_or(0);
        until_ns > it.gone_ns && deletes_ns <= late_ns(until_ns)
            || self.compared(acquisition, it).next().is_some()
    }

    /// Whether any other acquisition may have made the key since this one first asked.
    pub(super) fn made(&self, acquisition: u32, it: &Statements) -> bool {
        let mut others = self.makers.iter().filter(|(number, _)| *number != acquisition);
        others.any(|(_, maker)| {
            maker.open > 0 || maker.last_ns.is_some() && maker.last_ns >= it.asked_ns
        })
    }
}

impl Maker {
    /// A command of it that compares values has done this.
    fn compares(&mut self, event: &Event, command: &CommandOp, touch: Touch) {
        let ttl_ns = if let Touch::Extend(ttl_ns) = touch { ttl_ns } else { 0 };
        let (sent_ns, done_ns) = (command.invoke_ns, event.at_ns);
        let before_ns = self.compared.map_or(u64::MAX, |it| it.ends_ns);
        let ends_ns = before_ns.min(sent_ns.saturating_add(ttl_ns));
        self.compared = Some(Compared { sent_ns, done_ns, ends_ns });
    }

    /// What of this may have been done to this key of another: it has made none itself, or only one that had gone before.
    fn compared_with(&self, key: &Statements) -> Option<Compared> {
        let made_none = self.sent_ns.is_none() && self.open == 0;
        let made_before = self.sent_ns < key.granted_ns;
        self.compared.filter(|it| {
            made_none && Some(it.done_ns) >= key.asked_ns
                || made_before && Some(it.sent_ns) > key.granted_ns
        })
    }
}
