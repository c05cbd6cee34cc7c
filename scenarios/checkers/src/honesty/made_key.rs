//! How long the key lives that an acquisition has made, as far as its own requests say.

use history::{CommandOp, Event, Touch};

use super::super::interface::makes;
use super::extends;

/// The key that an acquisition has made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MadeKey {
    /// It lives at least until then, by a clock that runs as fast as the one of events, unless somebody deletes it.
    pub(super) lives_until_ns: u64,
    /// The same of the key that its last request may make, as far as what it has sent since may cut that short.
    next_until_ns: u64,
    /// It has surely gone by then, as far as requests say that were answered; 0 where none has made or extended it.
    pub(super) gone_ns: u64,
    /// Until when the acquisition has said to rely on it.
    pub(super) until_ns: u64,
    /// The last command that anybody had sent when it was last known to have been made.
    made_by: u32,
    /// Renewals without an answer.
    pub(super) extending: u32,
}

impl MadeKey {
    /// A command is sent. `waits` where a request for the key has no answer yet.
    pub(super) fn sends(&mut self, command: &CommandOp, waits: bool) {
        match command.intent.touch {
            Touch::Extend(ttl_ns) => {
                let until_ns = command.invoke_ns.saturating_add(ttl_ns);
                self.lives_until_ns = self.lives_until_ns.min(until_ns);
                self.next_until_ns = self.next_until_ns.min(until_ns);
                self.extending += u32::from(ttl_ns > 0);
            }
            // What is under way may still do something to the key that this one makes.
            touch if makes(touch) && !waits && self.extending == 0 => self.next_until_ns = u64::MAX,
            _ => {}
        }
    }

    /// A command is answered, and has done this; `last_op` is the last that anybody has sent. Keys that are `stamped` stay.
    pub(super) fn ends(
        &mut self,
        event: &Event,
        command: &CommandOp,
        touch: Touch,
        (last_op, stamped): (u32, bool),
    ) {
        self.extending -= u32::from(extends(command.intent.touch));
        match touch {
            Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => {
                let lasts_ns = ttl_ns.filter(|_| !stamped).unwrap_or(u64::MAX);
                self.gone_ns = self.gone_ns.max(event.at_ns.saturating_add(lasts_ns));
                self.made_by = last_op;
                let until_ns = ttl_ns.map_or(u64::MAX, |it| command.invoke_ns.saturating_add(it));
                self.lives_until_ns = match touch {
                    Touch::Create(_) => self.next_until_ns.min(until_ns),
                    // It may have met any key.
                    _ => 0,
                };
            }
            Touch::Extend(ttl_ns) => {
                // What was sent after a key without a TTL had been made has surely given it one.
                let has_none = self.gone_ns == u64::MAX && event.op > self.made_by;
                let before_ns = if has_none { 0 } else { self.gone_ns };
                self.gone_ns = before_ns.max(event.at_ns.saturating_add(ttl_ns));
            }
            _ => {}
        }
    }

    /// Whether it has surely gone at this time, by the server's clock.
    pub(super) fn is_gone(&self, now_ns: u64, margin_ns: u64) -> bool {
        self.extending == 0 && now_ns > self.gone_ns.saturating_add(margin_ns)
    }
}
