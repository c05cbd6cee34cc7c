//! What an acquisition has asked for, and what it was answered.

use history::{CommandOp, Event, Head, Touch};

use super::super::interface::{EventView, makes};
use super::release::NodeSet;
use super::{extends, is_script};

/// Its requests for the lock, and what else it has sent that may tell it of the lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LockRequests {
    /// The server that it asked; none before it asked any.
    pub(super) node: Option<u16>,
    /// The lock is on several servers, or it asked several, so one key says nothing of the lock.
    pub(super) several: bool,
    /// Requests to make the key that have no answer, and those that were answered with yes.
    pub(super) unknown: u32,
    pub(super) made: u32,
    /// One was answered with yes because its own key was there already.
    pub(super) found_own: bool,
    /// Scripts that nobody knows, of which no answer has told what they have done: they may have made the key.
    scripts: u32,
    /// The servers that said yes.
    pub(super) granted: NodeSet,
    /// When it first asked for the lock, and when it was first granted.
    pub(super) asked_ns: Option<u64>,
    pub(super) granted_ns: Option<u64>,
    /// Whether the last request that was answered was granted. A script that nobody knows counts as a request.
    got_last: Option<bool>,
    /// It has sent something that leaves the lock's key alone, and perhaps asks for it all the same.
    looked: bool,
    /// It has sent something like this that may be a request, such as one for a place in line.
    asked_elsewhere: bool,
    /// It has sent what only looks at the lock's key.
    pub(super) read: bool,
    /// All commands that may do something to the key, and those of them that have no answer, or had none.
    sent: u32,
    unanswered: u32,
}

impl LockRequests {
    pub(super) fn sends(&mut self, command: &CommandOp, head: &Head) {
        let makes_key = makes(command.intent.touch);
        self.sent += 1;
        self.unanswered += 1;
        if makes_key {
            self.unknown += 1;
            self.asked_ns.get_or_insert(command.invoke_ns);
        }
        let is_script = is_script(command.intent);
        self.scripts += u32::from(is_script);
        if makes_key || is_script {
            let on_several = head.nodes.is_some_and(|nodes| nodes > 1);
            let first = *self.node.get_or_insert(command.node);
            self.several |= on_several || first != command.node;
        }
    }

    /// It sends a command that leaves the lock's key alone.
    pub(super) fn looks(&mut self, seen: &EventView<'_>, node: u16, name: &str) {
        self.looked = true;
        self.asked_elsewhere |=
            !seen.sends_on_key && !seen.head.is_resource(node) && !asks_nothing(name);
        self.read |= seen.sends_on_key;
    }

    /// A command has ended, and has done this.
    pub(super) fn ends(&mut self, event: &Event, command: &CommandOp, touch: Touch, refused: bool) {
        let (makes_key, is_script) = (makes(command.intent.touch), is_script(command.intent));
        let made = makes(touch);
        let found_own = makes_key && extends(touch);
        self.unanswered -= 1;
        self.unknown -= u32::from(makes_key);
        self.scripts -= u32::from(is_script && touch != Touch::Unknown);
        self.found_own |= found_own;
        if made {
            self.granted_ns.get_or_insert(event.at_ns);
        }
        if !makes_key && !is_script {
            return;
        }
        if made {
            self.made += 1;
            self.granted.insert(command.node);
        }
        if !refused {
            self.got_last = Some(made || found_own);
        }
    }

    /// Whether it has surely made the one key of its hold.
    pub(super) fn has_one_key(&self) -> bool {
        self.made == 1 && self.unknown == 0 && self.scripts == 0 && !self.several
    }

    /// Whether it has asked for the lock, and every request was surely answered with no. What becomes of requests elsewhere
    /// is not seen here.
    pub(super) fn surely_got_nothing(&self) -> bool {
        let perhaps = self.scripts > 0 || self.asked_elsewhere || self.found_own;
        self.asked_ns.is_some() && self.unanswered == 0 && self.made == 0 && !perhaps
    }

    /// What contradicts it where it says that another has the lock, if anything does.
    pub(super) fn against_held(&self) -> Option<&'static str> {
        match self.got_last {
            None if self.sent == 0 && !self.looked => Some("it had asked no server"),
            None if self.asked_ns.is_some() && !self.asked_elsewhere && !self.read => {
                Some("no server had said so")
            }
            Some(true) if !self.several => Some("its last request had been granted"),
            _ => None,
        }
    }
}

/// Whether a command of this name only reads, or has to do with messages, replicas or the connection.
fn asks_nothing(name: &str) -> bool {
    let reads =
        matches!(name, "GET" | "EXISTS" | "TYPE" | "TTL" | "PTTL" | "TIME" | "INFO" | "ROLE");
    let waits = matches!(name, "SUBSCRIBE" | "SSUBSCRIBE" | "PSUBSCRIBE" | "PUBLISH" | "WAIT");
    reads || waits || matches!(name, "PING" | "HELLO" | "CLIENT" | "CONFIG" | "SCRIPT")
}
