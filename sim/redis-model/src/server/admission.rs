//! What a request meets before it is carried out: lookup, arity, authentication, faults, MULTI.
//!
//! Invariant: the checks come in the order of redis-server's `processCommand`, because the first one that
//! fails decides the answer. Which commands a replica or a full server refuses follows from their flags.
//! Not modelled: ACL, client pauses. The checks of clusters are in `slots`.

use resp::{ErrorReply, ProtocolVersion, Reply, blob, until_nul};

use super::table::{CommandSpec, Execution, Lookup, flag};
use super::{Request, Server, slots};

/// How much of an unknown command's arguments its error repeats.
const ECHO_MAX_BYTES: usize = 128;

/// Why a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteRefusal {
    /// It is a replica: commands flagged `write` are refused.
    ReadOnly,
    /// It is over `maxmemory`, and there is nothing to evict: commands flagged `denyoom` are refused.
    OutOfMemory,
}

impl WriteRefusal {
    /// What it answers.
    pub(crate) const fn error(self) -> ErrorReply {
        ErrorReply::new(match self {
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
        })
    }
}

impl Server {
    /// The command to carry out, or the answer: an error, or QUEUED.
    pub(crate) fn admit(&mut self, request: &Request<'_>) -> Result<u16, Reply> {
        // Most clients send the same command again.
        let last = self.sessions[request.session as usize].last_command;
        let again = last.filter(|&last| self.table.is_named(last, request.args));
        let found = again.map_or_else(
            || self.table.find_for(self.options.software, request.args),
            Lookup::Command,
        );
        self.session(request).last_command = match found {
            Lookup::Command(command) => Some(command),
            Lookup::UnknownSubcommand | Lookup::Unknown => None,
        };
        let command = match found {
            Lookup::Command(command) => command,
            Lookup::UnknownSubcommand => {
                return Err(self.reject(request, None, unknown_subcommand(request.args)));
            }
            Lookup::Unknown => {
                return Err(self.reject(request, None, unknown_command(request.args)));
            }
        };
        let spec = self.table.spec(command);
        if !spec.takes(request.args.len()) {
            let fail = ErrorReply::arity(&self.table.line(command).full_name);
            return Err(self.reject(request, Some(command), fail));
        }
        if !spec.has(flag::NO_AUTH) && !self.is_permitted(request.session) {
            let fail = ErrorReply::new("NOAUTH Authentication required.");
            return Err(self.reject(request, Some(command), fail));
        }
        if self.options.cluster
            && let Some(fail) = slots::refusal(request, spec)
        {
            return Err(self.reject(request, Some(command), fail));
        }
        if self.max_memory_bytes > 0 || self.out_of_memory {
            self.evict_to_limit();
        }
        if let Some(fail) = self.refusal(request, spec) {
            return Err(self.reject(request, Some(command), fail));
        }
        let session = &self.sessions[request.session as usize];
        let subscribed = session.protocol == ProtocolVersion::Resp2 && session.is_subscribed();
        if subscribed && !runs_while_subscribed(spec) {
            let text = format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                self.table.line(command).full_name
            );
            return Err(self.reject(request, Some(command), ErrorReply::of(text)));
        }
        // A monitor is a kind of replica there.
        if session.monitors && spec.has(flag::WRITE | flag::READONLY | flag::MAY_REPLICATE) {
            let fail = ErrorReply::new("ERR Replica can't interact with the keyspace");
            return Err(self.reject(request, Some(command), fail));
        }
        match &mut self.sessions[request.session as usize].queue {
            Some(queue) if !runs_inside_multi(spec) => {
                let args = request.args.iter().map(|arg| blob(arg)).collect();
                queue.commands.push((command, args));
                queue.flags |= spec.flags;
                Err(Reply::status("QUEUED"))
            }
            _ => Ok(command),
        }
    }

    /// Whether a session need not authenticate, or has.
    pub(crate) fn is_permitted(&self, session: u32) -> bool {
        self.sessions[session as usize].authenticated || self.parameters.password().is_none()
    }

    /// The state in which it refuses commands; a replica refuses writes.
    pub(crate) fn refusing(&self) -> Option<WriteRefusal> {
        match () {
            () if self.is_replica() => Some(WriteRefusal::ReadOnly),
            () => self.out_of_memory.then_some(WriteRefusal::OutOfMemory),
        }
    }

    /// Why the server's state forbids this command.
    fn refusal(&self, request: &Request<'_>, spec: &CommandSpec) -> Option<ErrorReply> {
        let refusal = self.refusing()?;
        let queue = self.sessions[request.session as usize].queue.as_ref();
        // EXEC is judged by what it will carry out.
        let is_exec = matches!(spec.run, Execution::Exec);
        let queued = if is_exec { queue.map_or(0, |queue| queue.flags) } else { 0 };
        let flags = spec.flags | queued;
        let refuses = match refusal {
            // What is queued takes memory too, whatever it is.
            WriteRefusal::OutOfMemory => {
                let leaves = is_exec || matches!(spec.name, "discard" | "quit" | "reset");
                flags & flag::DENYOOM != 0 || (queue.is_some() && !leaves)
            }
            WriteRefusal::ReadOnly => flags & flag::WRITE != 0,
        };
        refuses.then(|| refusal.error())
    }

    fn reject(&mut self, request: &Request<'_>, command: Option<u16>, fail: ErrorReply) -> Reply {
        self.stats.rejected(command, &fail);
        if let Some(queue) = &mut self.session(request).queue {
            queue.refused = true;
        }
        if command.is_some_and(|command| matches!(self.table.spec(command).run, Execution::Exec)) {
            self.discard(request.session);
            let why = fail.text().strip_prefix(b"ERR ").unwrap_or(fail.text());
            let text = [b"EXECABORT Transaction discarded because of: ", why].concat();
            return Reply::Error(ErrorReply::of(text));
        }
        Reply::Error(fail)
    }
}

fn runs_while_subscribed(spec: &CommandSpec) -> bool {
    matches!(spec.name, "ping" | "quit" | "reset") || spec.name.ends_with("subscribe")
}

fn runs_inside_multi(spec: &CommandSpec) -> bool {
    matches!(spec.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

/// The text as C prints it: up to a NUL, and no more than `limit` bytes.
fn printed(bytes: &[u8], limit: usize) -> &[u8] {
    let bytes = until_nul(bytes);
    &bytes[..bytes.len().min(limit)]
}

fn unknown_command(args: &[&[u8]]) -> ErrorReply {
    let name = args.first().copied().unwrap_or_default();
    let mut echoed: Vec<u8> = Vec::new();
    for arg in args.iter().skip(1) {
        if echoed.len() >= ECHO_MAX_BYTES {
            break;
        }
        let left = ECHO_MAX_BYTES - echoed.len();
        echoed.push(b'\'');
        echoed.extend_from_slice(printed(arg, left));
        echoed.extend_from_slice(b"' ");
    }
    let name = printed(name, ECHO_MAX_BYTES);
    let text = b"', with args beginning with: ";
    ErrorReply::of([b"ERR unknown command '", name, text, &echoed].concat())
}

fn unknown_subcommand(args: &[&[u8]]) -> ErrorReply {
    let (sub, container) = (printed(args[1], ECHO_MAX_BYTES), args[0].to_ascii_uppercase());
    let text = b"ERR unknown subcommand '";
    ErrorReply::of([text, sub, b"'. Try ", &container, b" HELP."].concat())
}
