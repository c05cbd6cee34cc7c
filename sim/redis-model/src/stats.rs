//! What INFO counts.
//!
//! Invariant: counted where redis-server counts: commands inside scripts and transactions too, a refused
//! command as rejected, and one error once, however many calls it passes through. Microseconds are always
//! 0, for the model takes no time.

use std::collections::BTreeMap;

use resp::{ErrorReply, Reply};

/// The counters of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandCounters {
    pub(crate) calls: u64,
    pub(crate) rejected_calls: u64,
    pub(crate) failed_calls: u64,
}

/// The errors in a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorCount {
    /// The codes of those that are not counted yet.
    fresh: Vec<Vec<u8>>,
    /// Counted where a command inside a script failed, and handed on by the script. Each of them still
    /// counts as a failed call of the script.
    handed_on: u64,
}

impl ErrorCount {
    /// Of these texts, and whether each has been counted already.
    pub(crate) fn of(errors: &[(Vec<u8>, bool)]) -> Self {
        let mut count = Self::default();
        errors.iter().for_each(|(text, counted)| count.add(text, *counted));
        count
    }

    /// One more, counted already or not.
    pub(crate) fn add(&mut self, text: &[u8], counted: bool) {
        if counted { self.handed_on += 1 } else { self.fresh.push(code_of(text)) }
    }
}

impl From<&Reply> for ErrorCount {
    /// None, or the one that the reply is.
    fn from(reply: &Reply) -> Self {
        let mut count = Self::default();
        if let Reply::Error(fail) = reply {
            count.add(fail.text(), false);
        }
        count
    }
}

/// The first word; `ERR` where no space comes soon.
fn code_of(text: &[u8]) -> Vec<u8> {
    const LONGEST: usize = 31;
    let head = &text[..text.len().min(LONGEST)];
    let end = head.iter().position(|&byte| byte == b' ');
    end.map_or(&b"ERR"[..], |end| &head[..end]).to_vec()
}

/// The counters of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerStats {
    /// By the place in the command table.
    pub(crate) commands: Vec<CommandCounters>,
    pub(crate) processed: u64,
    pub(crate) connections: u64,
    pub(crate) expired_keys: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: u64,
    /// Of them, how many had which code.
    pub(crate) by_code: BTreeMap<Vec<u8>, u64>,
    pub(crate) evicted_keys: u64,
    /// What `errors` was when the last command ended: only errors since then are the next one's.
    errors_seen: u64,
}

impl ServerStats {
    pub(crate) fn new(commands: usize) -> Self {
        Self { commands: vec![CommandCounters::default(); commands], ..Self::default() }
    }

    /// Everything at zero, the memory kept.
    pub(crate) fn reset(&mut self) {
        self.commands.fill(CommandCounters::default());
        let commands = std::mem::take(&mut self.commands);
        *self = Self { commands, ..Self::default() };
    }

    /// A command has been refused with an error.
    pub(crate) fn rejected(&mut self, command: Option<u16>, fail: &ErrorReply) {
        if let Some(command) = command {
            self.commands[usize::from(command)].rejected_calls += 1;
        }
        self.count(code_of(fail.text()));
        self.errors_seen = self.errors;
    }

    /// A command that was counted when it began to wait has ended with an error.
    pub(crate) fn failed(&mut self, command: u16, fail: &ErrorReply) {
        self.commands[usize::from(command)].failed_calls += 1;
        self.count(code_of(fail.text()));
        self.errors_seen = self.errors;
    }

    fn count(&mut self, code: Vec<u8>) {
        self.errors += 1;
        *self.by_code.entry(code).or_default() += 1;
    }

    /// A command has been carried out, with these errors in its reply.
    pub(crate) fn called(&mut self, command: u16, errors: ErrorCount) {
        errors.fresh.into_iter().for_each(|code| self.count(code));
        let stats = &mut self.commands[usize::from(command)];
        stats.calls += 1;
        stats.failed_calls += u64::from(self.errors > self.errors_seen) + errors.handed_on;
        self.errors_seen = self.errors;
        self.processed += 1;
    }
}
